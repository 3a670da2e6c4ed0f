"""Agents are Markdown files with front matter; the folder of the work comes first, the person's own folder last."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import frontmatter
import yaml

from delegation.agents.prompt import CODER, CODER_DESCRIPTION, CODER_NAME
from delegation.errors import NotFoundError, UsageError
from delegation.request import Agent

BUILT_IN = "built-in"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_MAX_BYTES = 1024 * 1024
_LISTED = 20
_OURS = {
    "read": "read_file",
    "write": "write_file",
    "edit": "edit_file",
    "multiedit": "edit_file",
    "bash": "run_bash",
    "grep": "search_files",
    "glob": "list_files",
    "ls": "list_files",
}
_TOOLS = ("read_file", "write_file", "edit_file", "list_files", "search_files", "run_bash")


@dataclass(frozen=True)
class AgentFile:
    """One agent found on disk, or the built-in one, with its front matter. `model` is what the file says: a wish."""

    name: str
    source: str
    text: str
    description: str | None
    tools: tuple[str, ...] | None
    model: str | None

    @property
    def agent(self) -> Agent:
        return Agent(
            name=self.name,
            source=self.source,
            system_prompt=self.text,
            tools=self.tools,
            description=self.description,
            model=self.model,
        )


def find_agent(name: str | None, workdir: Path, agents_dir: Path, programs: Iterable[str] = ()) -> Agent:
    """The agent of that name: `<workdir>/.claude/agents`, then `.claude/skills/<name>/SKILL.md`, then `agents_dir`.

    Without a name it is 'coder', which is built in where no file has that name. Raises UsageError for a name that is
    not one, NotFoundError listing up to 20 agents that exist; `programs` are names that stand for one beside them.
    """
    wanted = CODER_NAME if name is None else name
    if not _NAME.fullmatch(wanted) or ".." in wanted:
        raise UsageError(f"{wanted[:100]!r} is not an agent name: use letters, digits, '-', '_' and '.'")
    for path, inside in _candidates(wanted, workdir, agents_dir):
        if _usable(path, inside):
            return _read(wanted, path).agent
    if wanted == CODER_NAME:
        return _built_in().agent
    known = sorted({*(agent.name for agent in list_agents(workdir, agents_dir)), *programs})
    near = difflib.get_close_matches(wanted, known, 1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    raise NotFoundError(
        f"there is no agent {wanted!r} in {str(workdir / '.claude')!r} or {str(agents_dir)!r}"
        f"{': ' if meant else '. '}{meant}There are: {', '.join(known[:_LISTED])}{more}"
    )


def list_agents(workdir: Path | None, agents_dir: Path) -> tuple[AgentFile, ...]:
    """Every agent that `find_agent` would find, by name, the built-in one included."""
    found = dict[str, AgentFile]()
    for name, path, inside in _all_files(workdir, agents_dir):
        if name not in found and _NAME.fullmatch(name) and _usable(path, inside):
            found[name] = _read(name, path)
    found.setdefault(CODER_NAME, _built_in())
    return tuple(found[name] for name in sorted(found))


def _candidates(name: str, workdir: Path, agents_dir: Path) -> Iterator[tuple[Path, Path | None]]:
    """Each place to look, with the folder its file must really lie in (no link to elsewhere)."""
    yield workdir / ".claude" / "agents" / f"{name}.md", workdir
    yield workdir / ".claude" / "skills" / name / "SKILL.md", workdir
    yield agents_dir / f"{name}.md", None


def _all_files(workdir: Path | None, agents_dir: Path) -> Iterator[tuple[str, Path, Path | None]]:
    if workdir is not None:
        for path in sorted((workdir / ".claude" / "agents").glob("*.md")):
            yield path.stem, path, workdir
        for path in sorted((workdir / ".claude" / "skills").glob("*/SKILL.md")):
            yield path.parent.name, path, workdir
    for path in sorted(agents_dir.glob("*.md")):
        yield path.stem, path, None


def _usable(path: Path, inside: Path | None) -> bool:
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return False
        return inside is None or path.resolve().is_relative_to(inside.resolve())
    except OSError:
        return False


def _read(name: str, path: Path) -> AgentFile:
    try:
        text = path.read_bytes().decode("utf-8-sig", "replace").replace("\r\n", "\n")
    except OSError as error:
        raise UsageError(f"cannot read the agent file {str(path)!r}: {error.strerror}") from error
    facts, body = _parts(text)
    if not body.strip():
        raise UsageError(f"the agent file {str(path)!r} has no text below its front matter")
    return AgentFile(
        name=name,
        source=str(path),
        text=body.strip(),
        description=_word(facts.get("description")),
        tools=_tools(facts.get("tools", facts.get("allowed-tools"))),
        model=_word(facts.get("model")),
    )


def _parts(text: str) -> tuple[Mapping[str, object], str]:
    """Front matter and body. Many agent files are not valid YAML (a colon in the description): read by line."""
    try:
        parsed = frontmatter.loads(text)
        return parsed.metadata, parsed.content
    except (yaml.YAMLError, ValueError, TypeError):
        head, _, body = text.removeprefix("---\n").partition("\n---")
        pairs = (line.partition(":") for line in head.splitlines() if re.match(r"[A-Za-z_-]+:", line))
        return {key.strip(): value.strip() for key, _, value in pairs}, body.partition("\n")[2]


def _word(value: object) -> str | None:
    return str(value).strip() or None if isinstance(value, str | int | float) else None


def _tools(value: object) -> tuple[str, ...] | None:
    """Our names of the tools a file asks for, None where it names none (all). Tools that we do not have are left out.

    A restricted tool such as `Bash(git log:*)` is left out too: it must not become the unrestricted one.
    """
    if value is None:
        return None
    words = [str(item) for item in value] if isinstance(value, list) else re.split(r",(?![^(]*\))", str(value))
    names = [word.strip() for word in words if word.strip()]
    if not names or "*" in names:
        return None
    ours = {_OURS.get(name.lower(), name) for name in names}
    return tuple(tool for tool in _TOOLS if tool in ours)


def _built_in() -> AgentFile:
    return AgentFile(CODER_NAME, BUILT_IN, CODER, CODER_DESCRIPTION, None, None)
