"""Trees on disk, and a parser that knows nothing of the packer but its written form."""

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from delegation.reading.packing.manifest import Pack
from delegation.reading.packing.naming import unshown
from delegation.reading.packing.rendering import rendered

Content = str | bytes


def written(root: Path, files: Mapping[str | bytes, Content]) -> Path:
    """Files below a folder, by relative name."""
    for name, content in files.items():
        path = os.path.join(os.fsencode(root), name if isinstance(name, bytes) else os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(content if isinstance(content, bytes) else content.encode())
    return root


def parsed(text: str) -> dict[bytes, str]:
    """The files of a rendered pack, from the fence alone."""
    fence = re.search(r"^`--- file: PATH ---` and `(\[[0-9a-f]+\]) begin`|`(\[[0-9a-f]+\]) begin`", text, re.MULTILINE)
    assert fence is not None
    mark = fence[1] or fence[2]
    files: dict[bytes, str] = {}
    lines = iter(text.split("\n"))
    previous = ""
    for line in lines:
        if line == f"{mark} begin":
            path = previous.removeprefix("--- file: ").removesuffix(" ---")
            files[unshown(path)] = _body(lines, mark)
        previous = line
    return files


def _body(lines, mark: str) -> str:  # type: ignore[no-untyped-def]
    body: list[str] = []
    for line in lines:
        if line.startswith(f"{mark} end"):
            ending = "" if "no newline" in line or not body else "\n"
            return "\n".join(body) + ending
        number, _, content = line.partition("\t")
        assert number == str(len(body) + 1)
        body.append(content)
    raise AssertionError("a block has no end")


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Mapping[str | bytes, Content]], Path]:
    """Write files into a folder of this test and give the folder."""
    root = tmp_path / "tree"
    root.mkdir()
    return lambda files: written(root, files)


@pytest.fixture
def git() -> Callable[..., bytes]:
    def run(folder: Path, *words: str) -> bytes:
        return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True).stdout

    return run


@pytest.fixture
def repo(write: Callable[..., Path], git: Callable[..., bytes]) -> Callable[[Mapping[str | bytes, Content]], Path]:
    """The same in a fresh repository, nothing committed."""

    def make(files: Mapping[str | bytes, Content]) -> Path:
        root = write(files)
        git(root, "init", "-q", "-b", "main")
        return root

    return make


@pytest.fixture
def files_of() -> Callable[[Pack], dict[bytes, str]]:
    """What a reader of the rendered text can recover."""
    return lambda pack: parsed(rendered(pack))


@pytest.fixture
def reasons() -> Callable[[Pack], dict[str, str]]:
    return lambda pack: {skip.path: skip.reason for skip in pack.manifest.skipped}


@pytest.fixture
def paths() -> Callable[[Pack], list[str]]:
    return lambda pack: [file.path for file in pack.manifest.files]
