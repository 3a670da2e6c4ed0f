"""The floor holds in any spelling; the user's globs come on top."""

import pytest

from delegation.errors import UsageError
from delegation.reading.packing.exclusions import Exclusions
from delegation.reading.packing.limits import FileWalker
from delegation.reading.packing.pack import pack
from delegation.reading.packing.rendering import rendered


@pytest.mark.parametrize(
    ("path", "hit"),
    [
        ("node_modules/x/index.js", "node_modules/"),
        ("pkg/Node_Modules/x.js", "pkg/Node_Modules/"),
        ("DIST/app.js", "DIST/"),
        ("a/build/b/c", "a/build/"),
        ("target/debug/x", "target/"),
        (".next/x", ".next/"),
        ("p/__pycache__/m.pyc", "p/__pycache__/"),
        ("Cargo.LOCK", "Cargo.LOCK"),
        (".env", ".env"),
        ("conf/.ENV.production", "conf/.ENV.production"),
        ("server.Pem", "server.Pem"),
        ("tls/server.KEY", "tls/server.KEY"),
        ("id_rsa", "id_rsa"),
        ("keys/ID_ED25519", "keys/ID_ED25519"),
        ("id_ecdsa_sk.pub", "id_ecdsa_sk.pub"),
        ("id_rsa.bak", "id_rsa.bak"),
        ("Secret.TXT", "Secret.TXT"),
        ("my-secrets/a.txt", "my-secrets/"),
    ],
)
def test_the_floor_excludes(path, hit):
    assert Exclusions().hit(path) == hit


@pytest.mark.parametrize(
    "path",
    ["id_utils.py", "src/id_generator.ts", "builder/x.py", "distance.py", "lockfile.py", "environment.py"],
)
def test_the_floor_leaves_other_names_alone(path):
    assert Exclusions().hit(path) is None


def test_a_path_of_two_thousand_parts_is_judged():
    assert Exclusions().hit("a/" * 1000 + "Dist/" + "b/" * 1000 + "c") == "a/" * 1000 + "Dist/"
    assert Exclusions().hit("a/" * 2000 + "c") is None


@pytest.mark.parametrize(
    ("glob", "excluded", "kept"),
    [
        ("*.csv", ["a.csv", "deep/er/b.CSV"], ["a.csv.py"]),
        ("data", ["data", "x/data/y.py"], ["x/database.py"]),
        ("data/raw", ["data/raw", "data/raw/x"], ["x/data/raw/y"]),
        ("/only.txt", ["only.txt"], ["x/only.txt"]),
        ("docs/", ["docs/a.md"], ["x/docs/a.md"]),
        ("docs/*.md", ["docs/a.md"], ["docs/x/a.md", "a.md"]),
        ("docs/**/*.md", ["docs/a.md", "docs/x/y/a.md"], ["x/docs/a.md"]),
        ("!odd", ["!odd"], ["odd"]),
        ("#odd", ["#odd"], ["odd"]),
        ("[ab].txt", ["a.txt", "x/b.txt"], ["c.txt"]),
    ],
)
def test_a_glob_without_a_slash_names_a_part_and_one_with_a_slash_counts_from_the_root(glob, excluded, kept):
    exclusions = Exclusions((glob,))
    assert [path for path in [*excluded, *kept] if exclusions.hit(path)] == excluded


@pytest.mark.parametrize("glob", ["", "/", " ", "a\0b"])
def test_a_glob_that_names_nothing_is_refused(glob):
    with pytest.raises(UsageError, match="exclude_glob"):
        Exclusions((glob,))


def test_a_glob_cannot_take_the_floor_away(write, paths):
    root = write({".env": "A=1", "a.py": "x"})
    assert paths(pack(root, FileWalker(exclude_glob=("!.env", "!*")))) == ["a.py"]


def test_an_excluded_folder_is_one_line_with_and_without_git(repo, git, reasons):
    root = repo({f"dist/{number}/x.js": "x" for number in range(20)} | {"a.py": "x"})
    git(root, "add", "-A")
    assert reasons(pack(root)) == {"dist/": "excluded"}
    (root / ".git").rename(root.parent / "moved.git")
    assert reasons(pack(root)) == {"dist/": "excluded"}


def test_a_floor_file_is_not_sent_though_git_tracks_it(repo, git, reasons):
    root = repo({"Secret.TXT": "token-value-1", "id_utils.py": "x", ".ENV": "A=1"})
    git(root, "add", "-A")
    packed = pack(root)
    assert reasons(packed) == {".ENV": "excluded", "Secret.TXT": "excluded"}
    assert "token-value-1" not in rendered(packed)
