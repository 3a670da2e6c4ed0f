"""The same tree gives the same bytes, however it was made and whoever packs it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from delegation.reading.packing.exclusions import Exclusions
from delegation.reading.packing.pack import pack
from delegation.reading.packing.rendering import rendered

NAMES = ("a-b", "a.b", "Z", "ä", "a/b", "a/c", "b/a", "aa", "B", "a b", "ß", "~", "a/B/é", "İ")
SCRIPT = """
import sys
from pathlib import Path
from delegation.reading.packing.pack import pack
from delegation.reading.packing.rendering import rendered
sys.stdout.buffer.write(rendered(pack(Path(sys.argv[1]))).encode())
"""


def made(root: Path, order: tuple[str, ...]) -> Path:
    for name in order:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name if name not in ("b/a", "Z") else f"password: hunter2{name}\n", encoding="utf-8")
    for name, target in (("link", "a/b"), ("out", "/etc/passwd")):
        (root / name).symlink_to(target)
    return root


def test_bytes_are_equal_under_other_orders_locales_and_hash_seeds(tmp_path, git):  # PK12
    def packed(root: Path, locale: str, seed: str) -> bytes:
        env = {**os.environ, "LC_ALL": locale, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[3])}
        return subprocess.run(
            [sys.executable, "-c", SCRIPT, str(root)], env=env, check=True, capture_output=True, timeout=60
        ).stdout

    one, two = made(tmp_path / "one", NAMES), made(tmp_path / "elsewhere/two", NAMES[::-1])
    plain = packed(one, "C.UTF-8", "1")
    assert packed(two, "C", "2") == plain
    for root in (one, two):
        git(root, "init", "-q")
    assert packed(two, "POSIX", "3") == packed(one, "C.UTF-8", "4") == plain
    assert str(tmp_path).encode() not in plain


_SEGMENT = st.text(st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1, max_size=6).filter(
    lambda text: text not in (".", "..", ".gitignore") and len(text.encode()) < 200
)
_TREES = st.dictionaries(
    st.lists(_SEGMENT, min_size=1, max_size=3).map("/".join), st.text(max_size=60).map(lambda t: t.replace("\0", "")),
    max_size=8,
)  # fmt: skip


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=_TREES)
def test_a_reader_recovers_every_file_of_any_tree(files_of, tree):
    with tempfile.TemporaryDirectory() as folder:
        files: dict[bytes, str] = {}
        for name, content in tree.items():
            path = Path(folder, name)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.encode())
                files[os.fsencode(name)] = content
            except OSError:  # a file where another name wants a folder
                continue
        packed = pack(Path(folder))
        wanted = {
            name: content.removeprefix("\ufeff")
            for name, content in files.items()
            if Exclusions().hit(os.fsdecode(name)) is None
        }
        texts = files_of(packed)
        left_out = {skip.path for skip in packed.manifest.skipped if skip.reason == "binary"}
        assert len(texts) + len(left_out) == len(wanted)
        assert texts.items() <= wanted.items()
        assert rendered(pack(Path(folder))) == rendered(packed)
