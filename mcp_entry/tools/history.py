"""Tools that read what has been kept: the list, a change, what an agent did."""

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, Field

from delegation.card import Lane
from mcp_entry.mcp_server.tool_host import Tool, ToolHost, expected
from mcp_entry.mcp_server.views import clipped
from mcp_entry.tools.delegations import Id
from mcp_entry.verbs.listed import Line, line_of
from mcp_entry.verbs.service import Service

GROUP = "history"
_PAGE = 24_000
_ENTRY = 3_000


class Listed(BaseModel):
    """Newest first."""

    delegations: list[Line]


class PatchPage(BaseModel):
    """A part of a change, and the file that has it whole."""

    delegation_id: str
    path: str
    sha256: str
    files: int
    insertions: int
    deletions: int
    total_bytes: int
    offset: int
    next_offset: int | None
    text: str


class TranscriptEntry(BaseModel):
    index: int
    heading: str
    text: str


class TranscriptPage(BaseModel):
    """Some entries of what the agent did, and the file that has all."""

    delegation_id: str
    path: str
    total: int
    next_offset: int | None
    entries: list[TranscriptEntry]


def tools(host: ToolHost) -> Iterable[Tool]:
    """All of the group, served by this host."""
    yield Tool("list_recent_delegations", "List delegations", _list(host), read_only=True)
    yield Tool("get_delegation_patch", "Read its change", _patch(host), read_only=True)
    yield Tool("get_delegation_transcript", "Read what the agent did", _transcript(host), read_only=True)


def _list(host: ToolHost) -> Any:
    @expected
    async def list_recent_delegations(
        limit: Annotated[int, Field(ge=1, le=50)] = 20,
        repo: Annotated[str | None, Field(description="Path of a repository, a folder inside it, or its name.")] = None,
        model: Annotated[str | None, Field(description="Alias; * and ? stand for anything.")] = None,
        outcome: Annotated[
            list[str] | None, Field(description="Outcomes, or 'unfinished': one of them; none means all.")
        ] = None,
        since: Annotated[str | None, Field(description="90min, 2h, 3d, today, or an ISO date.")] = None,
        until: Annotated[str | None, Field(description="Likewise.")] = None,
        agent: Annotated[str | None, Field(description="Its name; * and ? stand for anything.")] = None,
        lane: Lane | None = None,
        tag: Annotated[str | None, Field(description="Of its run in the UI, such as bucket:qwen.")] = None,
        parent: Annotated[Id | None, Field(description="Made from that one by a rerun.")] = None,
        night: Annotated[str | None, Field(description="Id of a night shift.")] = None,
        text: Annotated[str | None, Field(description="Stands in task, answer or claim.")] = None,
    ) -> Listed:
        """Delegations of this user that fit all that is given, newest first, from whichever session.

        Works while the stack is down. A record that cannot be read is listed with its `problem`.
        """
        words = {
            "repo": repo, "model": model, "outcome": outcome, "since": since, "until": until, "agent": agent,
            "lane": lane, "tag": tag, "night": night, "text": text,
        }  # fmt: skip

        def listed(verbs: Service) -> list[Line]:
            return [line_of(each) for each in verbs.past.summaries(verbs.past.filter(parent=parent, **words), limit)]

        return Listed(delegations=await host.call(listed))

    return list_recent_delegations


def _patch(host: ToolHost) -> Any:
    @expected
    async def get_delegation_patch(
        delegation_id: Id, offset: Annotated[int, Field(ge=0, description="First byte to read.")] = 0
    ) -> PatchPage:
        """The change as a unified diff, in parts; `path` is the file with all of it."""
        return await host.call(lambda verbs: _patch_page(verbs, delegation_id, offset))

    return get_delegation_patch


def _patch_page(verbs: Service, text: str, offset: int) -> PatchPage:
    found = verbs.patch(text)
    content = found.path.read_bytes()
    part = _whole_characters(content[offset : offset + _PAGE])
    end = offset + len(part)
    return PatchPage(
        delegation_id=found.id,
        path=str(found.path),
        sha256=found.sha256,
        files=found.files,
        insertions=found.insertions,
        deletions=found.deletions,
        total_bytes=len(content),
        offset=offset,
        next_offset=end if end < len(content) else None,
        text=part.decode("utf-8", errors="replace"),
    )


def _whole_characters(part: bytes) -> bytes:
    """The part without a character cut at its end, so that the next one begins with it."""
    for cut in range(min(4, len(part))):
        try:
            part[: len(part) - cut].decode("utf-8")
        except UnicodeDecodeError:
            continue
        return part[: len(part) - cut]
    return part


def _transcript(host: ToolHost) -> Any:
    @expected
    async def get_delegation_transcript(
        delegation_id: Id,
        offset: Annotated[int, Field(ge=0, description="First entry to read.")] = 0,
        limit: Annotated[int, Field(ge=1, le=200)] = 50,
    ) -> TranscriptPage:
        """What the agent said and did, entry by entry, also while it works. `path` has all of it."""
        return await host.call(lambda verbs: _transcript_page(verbs, delegation_id, offset, limit))

    return get_delegation_transcript


def _transcript_page(verbs: Service, text: str, offset: int, limit: int) -> TranscriptPage:
    from delegation.agents.transcript import entries_of

    path = verbs.transcript_path(text)
    entries, total = entries_of(path, offset=offset, limit=limit)
    shown: list[TranscriptEntry] = []
    room = _PAGE
    for entry in entries:
        short = clipped(entry.text, _ENTRY)
        room -= len(short.encode()) + len(entry.heading)
        if room < 0 and shown:
            break
        shown.append(TranscriptEntry(index=entry.index, heading=entry.heading, text=short))
    end = offset + len(shown)
    return TranscriptPage(
        delegation_id=path.parent.name,
        path=str(path),
        total=total,
        next_offset=end if end < total else None,
        entries=shown,
    )
