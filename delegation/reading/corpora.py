"""Packs on disk, each under the hash of its content, so that a later question has the files as they were."""

import hashlib
import json
import os
import re
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from delegation.errors import NotFoundError, StackError, UsageError
from delegation.files import publish_bytes
from delegation.reading.packing.manifest import Manifest, Pack

_NAME = re.compile(r"[0-9a-f]{64}")
_ENDING = ".pack"
_YOUNG_SECONDS = 3600.0  # a pack is written before the session that names it


class Corpora:
    """The kept packs of one folder. Equal packs are one file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, pack: Pack) -> str:
        """Write the pack and give the hash it is kept under. Raises StackError when it cannot be written."""
        content = _as_bytes(pack)
        name = hashlib.sha256(content).hexdigest()
        path = self._path(name)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _content(path) == content:
                os.utime(path)  # young again, so that a prune beside us leaves it
            else:
                publish_bytes(path, content)
        except OSError as error:
            raise StackError(
                f"cannot write to {str(self._folder)!r} ({error.strerror}): free space, or set session_dir"
            ) from error
        return name

    def load(self, name: str) -> Pack:
        """The pack that was kept. Raises NotFoundError when it is gone, UsageError when it is not what was written."""
        content = _content(self._path(name))
        if content is None:
            raise NotFoundError("the files of this session are no longer kept: ask again with analyze")
        if hashlib.sha256(content).hexdigest() != name:
            raise UsageError(f"{str(self._path(name))!r} is damaged: ask again with analyze")
        return _from_bytes(content)

    def prune(self, wanted: Collection[str]) -> tuple[int, int]:
        """Remove what no session names, unless it is an hour young. How many, and their bytes."""
        removed = size = 0
        oldest = time.time() - _YOUNG_SECONDS
        for path in sorted(self._folder.glob(f"*{_ENDING}")) if self._folder.is_dir() else []:
            name = path.name.removesuffix(_ENDING)
            try:
                known = path.lstat()
                if _NAME.fullmatch(name) and name not in wanted and known.st_mtime < oldest:
                    path.unlink()
                    removed, size = removed + 1, size + known.st_size
            except FileNotFoundError:
                continue
        return removed, size

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name[:80]!r} names no kept files")
        return self._folder / f"{name}{_ENDING}"


def _as_bytes(pack: Pack) -> bytes:
    """A line of JSON, then the texts one behind the other."""
    texts = [text.encode() for text in pack.texts]
    head = {"lengths": [len(text) for text in texts], "manifest": pack.manifest.model_dump(mode="json")}
    return json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" + b"".join(texts)


def _from_bytes(content: bytes) -> Pack:
    head, _, body = content.partition(b"\n")
    try:
        data: dict[str, Any] = json.loads(head)
        texts: list[str] = []
        at = 0
        for length in data["lengths"]:
            texts.append(body[at : at + length].decode())
            at += length
        return Pack(Manifest.model_validate(data["manifest"]), tuple(texts))
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        raise UsageError("the kept files were written by another version: ask again with analyze") from error


def _content(path: Path) -> bytes | None:
    """Of a plain file; a link in its place is not followed."""
    try:
        return None if path.is_symlink() else path.read_bytes()
    except FileNotFoundError:
        return None
