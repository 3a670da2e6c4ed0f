"""What a pack holds and what was left out, file by file and with the reason. Crosses from the flow to the caller."""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from delegation.values import Value

SkipReason = Literal[
    "excluded",
    "binary",
    "total-cap-hit",
    "read-failed",
    "stat-failed",
    "ignored",
    "secret",
    "symlink-outside",
    "special",
    "nested-repo",
]


class Finding(Value):
    """Where a secret was seen. Never the secret itself."""

    rule: str
    line: int


class PackedFile(Value):
    """One file of the pack. `path` is as `naming.shown` writes it; `size` and `sha256` are of what was read on disk."""

    path: str
    size: int
    lines: int
    tokens: int
    sha256: str
    encoding: str = "utf-8"
    truncated: bool = False
    masked: tuple[Finding, ...] = ()


class Skip(Value):
    """One thing that was left out. A folder (its path ends in `/`) stands for everything below it.

    `special` is what is no file of its own: a pipe, a socket, a device, or a link to another place of the tree.
    `findings` say where, for the reason `secret`.
    """

    path: str
    reason: SkipReason
    detail: str = ""
    size: int | None = None
    findings: tuple[Finding, ...] = ()


class Manifest(Value):
    """The whole account, in the order of the pack. `sha256` is the same for the same names and texts."""

    files: tuple[PackedFile, ...]
    skipped: tuple[Skip, ...]
    sha256: str
    fence: str
    tokens: int

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def by_path(self) -> dict[str, PackedFile]:
        return {file.path: file for file in self.files}

    @property
    def skip_counts(self) -> dict[SkipReason, int]:
        """How often each reason occurs, most frequent first."""
        counts: Counter[SkipReason] = Counter(skip.reason for skip in self.skipped)
        return dict(counts.most_common())


@dataclass(frozen=True)
class Pack:
    """The account and, in the same order, the text of each packed file."""

    manifest: Manifest
    texts: tuple[str, ...]
