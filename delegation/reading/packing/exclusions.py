"""What is never read whatever the ignore files say: a floor that nobody can take away, and the user's own globs.

A name on the floor counts in any case of letters and at any depth. It prevents accidents; it does not replace choosing
the folder with care, since what is packed leaves the machine.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from delegation.errors import UsageError

if TYPE_CHECKING:  # loaded where somebody has globs
    from pathspec import GitIgnoreSpec

_FLOOR = re.compile(
    r"node_modules|\.git|dist|build|target|\.next|__pycache__|.*\.lock|\.env.*|.*\.pem|.*\.key|.*secret.*"
    r"|id_(?:rsa|dsa|ecdsa|ed25519|xmss)(?:_sk)?(?:[._-].*)?",  # private keys by name; `id_utils.py` is none
    re.IGNORECASE | re.DOTALL,
)


class Exclusions:
    """The floor and the user's globs as one question. Answers about folders are remembered."""

    def __init__(self, globs: Sequence[str] = ()) -> None:
        """Raises UsageError for a glob that cannot be read."""
        self._globs = _spec(globs) if globs else None
        self._segments: dict[str, bool] = {}
        self._folders: dict[str, str | None] = {"": None}

    def hit(self, path: str) -> str | None:
        """The topmost part of the path that is excluded (a folder ends in `/`), or None. `path` as text, without `/`
        at either end; bytes that are no UTF-8 as surrogates."""
        folder, _, name = path.rpartition("/")
        above = self.folder_hit(folder)
        if above is not None:
            return above
        return path if self._on_floor(name) or self._globbed(path) else None

    def folder_hit(self, path: str) -> str | None:
        """The same for a folder."""
        known, parts = path, list[str]()
        while known not in self._folders:
            known, _, part = known.rpartition("/")
            parts.append(part)
        for part in reversed(parts):  # a loop and no recursion: a path can have two thousand parts
            above, known = self._folders[known], f"{known}/{part}" if known else part
            here = above is None and (self._on_floor(part) or self._globbed(f"{known}/"))
            self._folders[known] = f"{known}/" if here else above
        return self._folders[path]

    def _on_floor(self, segment: str) -> bool:
        if segment not in self._segments:
            self._segments[segment] = _FLOOR.fullmatch(segment) is not None
        return self._segments[segment]

    def _globbed(self, path: str) -> bool:
        return self._globs is not None and self._globs.match_file(path.lower())


def _spec(globs: Sequence[str]) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines([_as_ignore_rule(glob) for glob in globs])
    except ValueError as error:
        raise UsageError(f"exclude_glob holds a pattern that cannot be read: {error}") from error


def _as_ignore_rule(glob: str) -> str:
    """Without `/` a glob names a part of the path at any depth; with one it counts from the packed folder."""
    if not glob.strip("/ ") or "\0" in glob:
        raise UsageError(f"exclude_glob holds {glob!r}, which names nothing: write for example '*.csv' or 'data/raw'")
    anchored = "/" + glob.strip("/") if "/" in glob else glob
    escaped = f"\\{anchored}" if anchored[0] in "!#" else anchored
    return re.sub(r" +$", lambda spaces: "\\ " * len(spaces[0]), escaped.lower())
