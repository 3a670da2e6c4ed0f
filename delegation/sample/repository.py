"""A small package with one bug and a test that shows it."""

from pathlib import Path

from delegation.checkout.git import git
from delegation.errors import WorkFailed

TASK = "The test suite fails. Find the bug in statistics_tools.py, fix it there, and leave the tests as they are."
VERIFY = "python3 -m unittest -v"

_FILES = {
    "statistics_tools.py": '''"""A few statistics over lists of numbers."""


def mean(values):
    return sum(values) / len(values)


def median(values):
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
''',
    "test_statistics_tools.py": """import unittest

from statistics_tools import mean, median


class TestStatistics(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([1, 2, 3]), 2)

    def test_median_of_an_odd_count(self):
        self.assertEqual(median([9, 1, 5]), 5)

    def test_median_of_an_even_count(self):
        self.assertEqual(median([4, 1, 3, 2]), 2.5)


if __name__ == "__main__":
    unittest.main()
""",
    ".gitignore": "__pycache__/\n",
}


def make_repository(folder: Path) -> Path:
    """A git repository in `folder` (made if missing) with one commit. Raises WorkFailed('checkout')."""
    from git import Actor, GitError, Repo

    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    demo = Actor("Demo", "demo@example.invalid")
    git("init", "--quiet", "--initial-branch=main", cwd=folder)  # GitPython's own would obey an inherited GIT_DIR
    try:
        with Repo(folder) as repository:
            repository.index.add(sorted(_FILES))
            repository.index.commit("Statistics with a bug", author=demo, committer=demo, skip_hooks=True)
    except (GitError, OSError) as error:
        raise WorkFailed("checkout", f"cannot make the sample repository in {str(folder)!r}: {error}") from error
    return folder
