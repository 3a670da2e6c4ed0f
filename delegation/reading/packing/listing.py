"""Which files of a folder come into question: git's own answer in a repository, a walk elsewhere."""

import errno
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from delegation.checkout.git import ask_git
from delegation.errors import WorkFailed
from delegation.reading.packing.exclusions import Exclusions
from delegation.reading.packing.ignore_rules import IGNORE_FILE, IgnoreRules
from delegation.reading.packing.manifest import Skip, SkipReason
from delegation.reading.packing.naming import shown
from delegation.reading.packing.tree import Tree

_IGNORE_FILE_BYTES = 1 << 20
_GONE_ON_PURPOSE = b"S"  # git's mark for what a sparse checkout leaves out
_NOT_OPENED = re.compile(rb"could not open directory '(.*?)/?': [A-Z]", re.DOTALL)


@dataclass
class Listing:
    """Paths relative to the folder, and what is known to be left out. Not in any order."""

    paths: set[bytes] = field(default_factory=set[bytes])
    sparse: set[bytes] = field(default_factory=set[bytes])
    skipped: dict[bytes, Skip] = field(default_factory=dict[bytes, Skip])

    def skip(self, path: bytes, reason: SkipReason, detail: str = "") -> None:
        self.skipped.setdefault(path, Skip(path=shown(path), reason=reason, detail=detail))


def listed(root: Path, tree: Tree, exclusions: Exclusions) -> Listing:
    """What lies in a folder. Raises OSError when the folder itself cannot be read."""
    listing = Listing()
    answer = _git_files(root)
    if answer is None:
        _walk(tree, exclusions, listing)
        return listing
    for path in answer.not_opened:
        if not _excluded(path + b"/", exclusions, listing):
            _note_unreadable(path, tree, listing)
    for mark, path in answer.tracked_or_new:
        if not _excluded(path, exclusions, listing):
            if path.endswith(b"/"):
                listing.skip(path, "nested-repo")
                continue
            listing.paths.add(path)
            if mark == _GONE_ON_PURPOSE:
                listing.sparse.add(path)
    for path in sorted(answer.ignored):
        if not _excluded(path, exclusions, listing) and not _below_skipped(path, listing):
            listing.skip(path, "ignored")
    return listing


def error_name(error: OSError) -> str:
    """`EACCES` and the like: the same word in every locale, and no path."""
    return errno.errorcode.get(error.errno or 0, type(error).__name__)


@dataclass(frozen=True)
class _GitFiles:
    """Tracked and new files with their marks, ignored ones, and folders that git only warned about."""

    tracked_or_new: list[tuple[bytes, bytes]]
    ignored: list[bytes]
    not_opened: list[bytes]


def _git_files(root: Path) -> _GitFiles | None:
    """None where git has nothing to say about the folder."""
    try:
        files = ask_git("ls-files", "-z", "-t", "--cached", "--others", "--exclude-standard", cwd=root)
        if files.exit_code != 0:
            return None
        marked = [(entry[:1], entry[2:]) for entry in files.stdout.split(b"\0") if entry]
        if not marked and ask_git("check-ignore", "--quiet", ".", cwd=root).exit_code == 0:
            return None  # the folder as a whole is ignored, and yet somebody asks about it
        flags = ("--others", "--ignored", "--exclude-standard", "--directory")
        ignored = ask_git("ls-files", "-z", *flags, cwd=root)
        return _GitFiles(
            marked, [path for path in ignored.stdout.split(b"\0") if path], _NOT_OPENED.findall(files.stderr)
        )
    except WorkFailed:  # no git here, or it hangs: the walk needs none
        return None


def _note_unreadable(folder: bytes, tree: Tree, listing: Listing) -> None:
    try:
        next(tree.entries(folder), None)
    except OSError as error:
        listing.skip(folder + b"/", "read-failed", error_name(error))


def _excluded(path: bytes, exclusions: Exclusions, listing: Listing) -> bool:
    text = os.fsdecode(path) if os.name == "nt" else path.decode("utf-8", "surrogateescape")
    hit = exclusions.folder_hit(text[:-1]) if text.endswith("/") else exclusions.hit(text)
    if hit is not None:
        listing.skip(hit.encode("utf-8", "surrogateescape"), "excluded")
    return hit is not None


def _below_skipped(path: bytes, listing: Listing) -> bool:
    """git names an ignored folder and, where its parent holds nothing else, that parent as well."""
    parts = path.rstrip(b"/").split(b"/")[:-1]
    return any(b"/".join(parts[:length]) + b"/" in listing.skipped for length in range(1, len(parts) + 1))


def _walk(tree: Tree, exclusions: Exclusions, listing: Listing) -> None:
    waiting: list[tuple[bytes, IgnoreRules]] = [(b"", IgnoreRules())]
    while waiting:
        folder, above = waiting.pop()
        try:
            entries = dict(tree.entries(folder))
        except OSError as error:
            if not folder:
                raise
            listing.skip(folder + b"/", "read-failed", error_name(error))
            continue
        if folder and b".git" in entries:
            listing.skip(folder + b"/", "nested-repo")
            continue
        rules = above.below(folder.decode("utf-8", "surrogateescape"), _ignore_file(tree, folder, entries))
        waiting += [(path, rules) for path in _sorted_out(folder, entries, rules, exclusions, listing)]


def _sorted_out(
    folder: bytes,
    entries: dict[bytes, os.stat_result | OSError],
    rules: IgnoreRules,
    exclusions: Exclusions,
    listing: Listing,
) -> Iterator[bytes]:
    """Notes each entry in the listing and gives the folders to go on with."""
    for name, known in entries.items():
        path = folder + b"/" + name if folder else name
        if isinstance(known, OSError):
            listing.skip(path, "stat-failed", error_name(known))
            continue
        is_folder = stat.S_ISDIR(known.st_mode)
        marked = path + b"/" if is_folder else path
        if _excluded(marked, exclusions, listing):
            continue
        if rules.ignore(path.decode("utf-8", "surrogateescape"), is_folder=is_folder):
            listing.skip(marked, "ignored")
        elif is_folder:
            yield path
        else:
            listing.paths.add(path)


def _ignore_file(tree: Tree, folder: bytes, entries: dict[bytes, os.stat_result | OSError]) -> bytes | None:
    if IGNORE_FILE not in entries:
        return None
    try:
        return tree.read(folder + b"/" + IGNORE_FILE if folder else IGNORE_FILE, _IGNORE_FILE_BYTES)
    except OSError:
        return None
