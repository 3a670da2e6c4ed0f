"""A small package with one bug and a test that shows it."""

from pathlib import Path

from delegation.checkout.git import git

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
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    git("init", "--quiet", "--initial-branch=main", cwd=folder)
    git("add", "--all", cwd=folder)
    identity = ("-c", "user.name=Demo", "-c", "user.email=demo@example.invalid")
    git(*identity, "commit", "--quiet", "--message", "Statistics with a bug", cwd=folder)
    return folder
