"""A folder or file as a pack: the same tree gives the same bytes, whatever the locale or the disk's order."""

import hashlib
import stat
from pathlib import Path

from delegation.errors import NotFoundError, UsageError
from delegation.reading.packing.decoding import Decoded, decoded, looks_like_utf16
from delegation.reading.packing.exclusions import Exclusions
from delegation.reading.packing.leaks import Leak, findings, leaks_in, without
from delegation.reading.packing.limits import FileWalker
from delegation.reading.packing.listing import Listing, error_name, listed
from delegation.reading.packing.manifest import Manifest, Pack, PackedFile, Skip, SkipReason
from delegation.reading.packing.naming import shown
from delegation.reading.packing.rendering import block_tokens, fence_for, line_count
from delegation.reading.packing.tree import Tree

_MARGIN = 8192  # read beyond the cut, so that a secret is seen whole before half of it is sent


def pack(source: Path, walker: FileWalker | None = None) -> Pack:
    """Read a folder, or one file. Holds at most `max_total_bytes` of it in memory; changes nothing.

    Raises NotFoundError when there is nothing of that name, and UsageError when it cannot be read or is no place to
    pack. What cannot be packed inside it is listed, never raised.
    """
    walker = walker or FileWalker()
    exclusions = Exclusions(walker.exclude_glob)
    place = _place(source)
    try:
        if place.is_dir():
            with Tree(place) as tree:
                return _packed(tree, listed(place, tree, exclusions), walker)
        with Tree(place.parent) as tree:
            return _packed(tree, _single(place, source, exclusions), walker)
    except OSError as error:
        raise UsageError(
            f"cannot read {str(source)!r} ({error_name(error)}): name a folder that you may read"
        ) from error


def _place(source: Path) -> Path:
    try:
        place = source.resolve(strict=True)
    except FileNotFoundError:
        raise NotFoundError(f"there is no folder or file {str(source)!r}") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"cannot use {str(source)!r} as the folder to read: {error}") from error
    if ".git" in (part.lower() for part in place.parts):
        raise UsageError(f"{str(source)!r} lies inside a `.git` folder, which is never read: name the working files")
    return place


def _single(place: Path, named: Path, exclusions: Exclusions) -> Listing:
    listing = Listing()
    path = place.name.encode("utf-8", "surrogateescape")
    if exclusions.hit(place.name) or exclusions.hit(named.name):
        listing.skip(path, "excluded")
    else:
        listing.paths.add(path)
    return listing


def _packed(tree: Tree, listing: Listing, walker: FileWalker) -> Pack:
    packer = _Packer(tree, walker, listing)
    for path in sorted(listing.paths, key=lambda path: path.split(b"/")):
        packer.take(path)
    return packer.result()


class _Packer:
    """Takes one path after the other and keeps the account."""

    def __init__(self, tree: Tree, walker: FileWalker, listing: Listing) -> None:
        self._tree = tree
        self._walker = walker
        self._listing = listing
        self._left = walker.max_total_bytes
        self._files: list[PackedFile] = []
        self._texts: list[str] = []
        self._skipped = listing.skipped

    def take(self, path: bytes) -> None:
        try:
            known = self._tree.stat(path)
        except OSError as error:
            if path not in self._listing.sparse:
                self._skip(path, "stat-failed", error_name(error))
            return
        mode = known.st_mode
        if stat.S_ISLNK(mode):
            self._skip_link(path)
        elif stat.S_ISDIR(mode):
            self._skip(path + b"/", "nested-repo")
        elif not stat.S_ISREG(mode):
            self._skip(path, "special", _kind_of(mode))
        elif min(known.st_size, self._walker.max_file_bytes) > self._left:
            self._skip_for_cap(path, known.st_size)
        else:
            self._read(path, known.st_size)

    def result(self) -> Pack:
        digest = hashlib.sha256()
        for file, text in zip(self._files, self._texts, strict=True):
            for part in (file.path.encode("utf-8", "surrogateescape"), text.encode("utf-8", "surrogateescape")):
                digest.update(len(part).to_bytes(8, "big") + part)
        manifest = Manifest(
            files=tuple(self._files),
            skipped=tuple(self._skipped[path] for path in sorted(self._skipped, key=lambda path: path.split(b"/"))),
            sha256=digest.hexdigest(),
            fence=fence_for(digest.hexdigest(), self._texts),
            tokens=sum(file.tokens for file in self._files),
        )
        return Pack(manifest, tuple(self._texts))

    def _read(self, path: bytes, size: int) -> None:
        limit = self._walker.max_file_bytes
        try:
            raw = self._tree.read(path, limit + _MARGIN)
        except OSError as error:
            self._skip(path, "read-failed", error_name(error), size)
            return
        size = max(size, len(raw)) if len(raw) > limit else len(raw)  # it may have been written to since
        if min(len(raw), limit) > self._left:
            self._skip_for_cap(path, size)
            return
        whole = decoded(raw, cut=len(raw) > limit)
        if whole is None:
            hint = "perhaps UTF-16 without a byte order mark" if looks_like_utf16(raw) else ""
            self._skip(path, "binary", hint, size)
            return
        name = shown(path)
        leaks = leaks_in(whole.text, name)
        if any(leak.hidden or (leak.certain and self._walker.on_secret == "skip") for leak in leaks):
            certain = [leak for leak in leaks if leak.certain]
            self._skip_secret(path, size, whole.text, certain)
            return
        self._keep(name, size, raw, whole, leaks)

    def _keep(self, name: str, size: int, raw: bytes, whole: Decoded, leaks: tuple[Leak, ...]) -> None:
        limit = self._walker.max_file_bytes
        truncated = len(raw) > limit
        text = without(whole.text, leaks, end=_cut_at(raw[:limit]) if truncated else None)
        self._left -= min(len(raw), limit)
        self._texts.append(text)
        self._files.append(
            PackedFile(
                path=name,
                size=size,
                lines=line_count(text),
                tokens=block_tokens(name, text),
                sha256=hashlib.sha256(raw[:limit]).hexdigest(),
                encoding=whole.encoding,
                truncated=truncated,
                masked=findings(whole.text, leaks) if leaks else (),
            )
        )

    def _skip(self, path: bytes, reason: SkipReason, detail: str = "", size: int | None = None) -> None:
        self._skipped[path] = Skip(path=shown(path), reason=reason, detail=detail, size=size)

    def _skip_for_cap(self, path: bytes, size: int) -> None:
        self._skip(path, "total-cap-hit", f"{self._left} of {self._walker.max_total_bytes} bytes left", size)

    def _skip_secret(self, path: bytes, size: int, text: str, leaks: list[Leak]) -> None:
        found = findings(text, leaks)
        said = "; ".join(f"line {finding.line}: {finding.rule}" for finding in found[:5])
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        self._skipped[path] = Skip(path=shown(path), reason="secret", detail=said + more, size=size, findings=found)

    def _skip_link(self, path: bytes) -> None:
        try:
            target = self._tree.target(path)
        except OSError as error:
            self._skip(path, "stat-failed", error_name(error))
            return
        if _leaves(path, target):
            self._skip(path, "symlink-outside", "a link to outside the folder")
        else:
            self._skip(path, "special", f"a link to {shown(target)}")


def _cut_at(kept: bytes) -> int:
    """How many characters the bytes up to the cap make."""
    part = decoded(kept, cut=True)
    return len(part.text) if part is not None else 0


def _leaves(path: bytes, target: bytes) -> bool:
    """Whether a link's words alone lead out of the folder. It is followed in neither case."""
    if target.startswith(b"/") or b":" in target[:3]:
        return True
    depth = path.count(b"/")
    for part in target.replace(b"\\", b"/").split(b"/"):
        depth += -1 if part == b".." else 0 if part in (b"", b".") else 1
        if depth < 0:
            return True
    return False


def _kind_of(mode: int) -> str:
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    return kinds.get(stat.S_IFMT(mode), "no regular file")
