"""Whatever an agent does to whatever tree: the patch on the base gives its tree, byte for byte."""

import itertools
import os
import shutil
import subprocess
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from delegation.checkout.patch import apply_in, collect
from delegation.checkout.worktree import create, fresh_checkout
from delegation.home import Home
from delegation.ids import new_id

NAMES = st.sampled_from([b"a", b"b.txt", b"c d", b"-e", b"f\n", b"\xc3\xa9", b"g\xff", b"h.bat", b":i", b"j\\", b'"k"'])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)
CONTENT = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [b"", b"\n", b"x\r\ny\r\n", b"x\ny", b"\0\1\2", b"$Id$\n", b"one\n\n \n", b"\xef\xbb\xbfx\n", b"a\nb\nc\n" * 20]
    ),
)
ENTRY = st.one_of(
    st.tuples(st.just("file"), CONTENT),
    st.tuples(st.just("program"), CONTENT),
    st.tuples(st.just("link"), st.sampled_from([b"a", b"../x", b"/etc/passwd", b"./b//c", b"loop"])),
)
TREES = st.dictionaries(PATHS, ENTRY, max_size=8)
ATTRIBUTES = st.sampled_from([None, b"* text=auto\n", b"* text\n", b"*.txt binary\n", b"* -diff\n"])
COUNTER = itertools.count()


def write(root: Path, tree: dict[bytes, tuple[str, bytes]]) -> None:
    for path, (kind, content) in tree.items():
        place = os.path.join(os.fsencode(root), path)
        parents = [place[: -len(path)] + b"/".join(path.split(b"/")[:n]) for n in range(1, path.count(b"/") + 1)]
        for parent in parents:
            if os.path.lexists(parent) and (os.path.islink(parent) or not os.path.isdir(parent)):
                os.unlink(parent)
            os.makedirs(parent, exist_ok=True)
        if os.path.isdir(place) and not os.path.islink(place):
            shutil.rmtree(place)
        elif os.path.lexists(place):
            os.unlink(place)
        if kind == "link":
            os.symlink(content, place)
        else:
            with open(place, "wb") as stream:
                stream.write(content)
            os.chmod(place, 0o755 if kind == "program" else 0o644)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    before=TREES, after=TREES, attributes=ATTRIBUTES, gone=st.sets(st.integers(0, 7), max_size=4), commits=st.booleans()
)
def test_a_random_edit_of_a_random_tree_survives_the_round_trip(
    tmp_path, files, before, after, attributes, gone, commits
):
    place = tmp_path / str(next(COUNTER))
    repo, home = place / "repo", Home(place / "home", place / "config")
    repo.mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=repo, check=True)
    write(repo, before)
    if attributes:
        (repo / ".gitattributes").write_bytes(attributes)
    subprocess.run(["git", "-c", "core.safecrlf=false", "add", "-A"], cwd=repo, check=True, capture_output=True)
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "base"], cwd=repo, check=True)
    id_ = new_id("dg")
    worktree = create(
        delegation_id=id_, repo=repo, base_commit=None, workdir=".", isolation="worktree", include_dirty=False,
        place=home.worktrees / id_, home=home,
    )  # fmt: skip
    root = Path(worktree.root)
    for number, path in enumerate(sorted(before)):
        target = root / os.fsdecode(path)
        if (
            number in gone
            and target.parent.is_dir()
            and os.path.lexists(target)
            and (target.is_symlink() or target.is_file())
        ):
            target.unlink()
    if commits:
        subprocess.run(["git", "add", "-A"], cwd=root, capture_output=True)
        subprocess.run(["git", "commit", "-q", "-m", "mine"], cwd=root, capture_output=True)
    write(root, after)
    patch = collect(worktree, out=place / "patch.diff", message="m")
    wanted = files(root)
    with fresh_checkout(repo, worktree.base_commit, place / "fresh") as checkout:
        if patch:
            apply_in(checkout, Path(patch.path))
        assert files(checkout) == wanted
    shutil.rmtree(place)
