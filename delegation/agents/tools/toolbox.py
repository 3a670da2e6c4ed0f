"""The tools of one delegation: bound to one working tree, one shell, and the tools its agent may use."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from delegation.agents.tools import edit_file, list_files, read_file, run_bash, search_files, write_file
from delegation.agents.tools.answer import ToolAnswer, ToolProblem
from delegation.agents.tools.run_bash import Shell
from delegation.agents.tools.text import safe
from delegation.agents.tools.tree import Tree, tree_at
from delegation.chat.messages import ToolSpec, ToolUse
from delegation.errors import WorkFailed
from delegation.values import Value
from delegation.wrong_values import sentence

TOOL_NAMES = ("read_file", "write_file", "edit_file", "list_files", "search_files", "run_bash")
LOCAL_TIMEOUT_SECONDS = 120.0
CLOUD_TIMEOUT_SECONDS = 600.0
_ARGUMENTS: dict[str, tuple[type[Value], str]] = {
    "read_file": (read_file.Arguments, read_file.DESCRIPTION),
    "write_file": (write_file.Arguments, write_file.DESCRIPTION),
    "edit_file": (edit_file.Arguments, edit_file.DESCRIPTION),
    "list_files": (list_files.Arguments, list_files.DESCRIPTION),
    "search_files": (search_files.Arguments, search_files.DESCRIPTION),
    "run_bash": (run_bash.Arguments, run_bash.DESCRIPTION),
}


@dataclass(frozen=True)
class Toolbox:
    """Runs tool calls. `shell` runs commands inside whatever walls the caller chose; none means no run_bash.

    `root` is the working tree, `workdir` the folder below it where relative paths begin; `may_leave` lets the file
    tools out of it, but never below `hidden`. Whatever a model asks for, `call` answers; it raises only `WorkFailed`
    of a kind the model cannot cure (confinement, storage).
    """

    root: Path
    shell: Shell | None
    workdir: str = "."
    bash_timeout_seconds: float = CLOUD_TIMEOUT_SECONDS
    allowed: Sequence[str] | None = None
    may_leave: bool = False
    hidden: Sequence[Path] = ()
    tree: Tree = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tree", tree_at(self.root, self.workdir, may_leave=self.may_leave, hidden=self.hidden))

    @property
    def names(self) -> tuple[str, ...]:
        """The tools this agent has, in our order."""
        return tuple(
            name
            for name in TOOL_NAMES
            if (self.allowed is None or name in self.allowed) and (name != "run_bash" or self.shell is not None)
        )

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told about each tool."""
        return tuple(ToolSpec(name, _ARGUMENTS[name][1], _schema(_ARGUMENTS[name][0])) for name in self.names)

    def call(self, use: ToolUse, seconds_left: float) -> ToolAnswer:
        """Do one call, or say what is wrong with it."""
        if use.name not in self.names:
            return _malformed(f"there is no tool {use.name!r}. The tools are: {', '.join(self.names)}")
        kind = _ARGUMENTS[use.name][0]
        if use.problem is not None:
            return _malformed(f"{use.name}: {use.problem}. {_received(use)} {_required(kind)}")
        try:
            arguments = kind.model_validate(use.input)
        except ValidationError as error:
            return _malformed(f"{use.name}: {sentence(error, kind)}. {_received(use)} {_required(kind)}")
        try:
            return self._run(arguments, seconds_left)
        except ToolProblem as problem:
            return ToolAnswer(safe(f"Error: {problem}"), is_error=True)
        except WorkFailed as failure:
            if failure.kind != "process":
                raise
            return ToolAnswer(safe(f"Error: the command could not be started: {failure}"), is_error=True)

    def _run(self, arguments: Value, seconds_left: float) -> ToolAnswer:
        match arguments:
            case read_file.Arguments():
                return read_file.run(arguments, self.tree)
            case write_file.Arguments():
                return write_file.run(arguments, self.tree)
            case edit_file.Arguments():
                return edit_file.run(arguments, self.tree)
            case list_files.Arguments():
                return list_files.run(arguments, self.tree)
            case search_files.Arguments():
                return search_files.run(arguments, self.tree, self.shell)
            case run_bash.Arguments() if self.shell is not None:
                wanted = arguments.timeout_seconds or self.bash_timeout_seconds
                return run_bash.run(arguments, self.shell, max(0.1, min(wanted, seconds_left)))
            case _:
                raise ToolProblem("this tool is not available here")


def _malformed(text: str) -> ToolAnswer:
    return ToolAnswer(safe(f"Error: {text}"), is_error=True, malformed=True)


def _received(use: ToolUse) -> str:
    received = use.raw if use.raw is not None and use.problem is not None else repr(use.input)
    cut = f"{received[:300]}..." if len(received) > 300 else received
    return f"Received: {cut or 'nothing'}."


def _required(kind: type[Value]) -> str:
    parts = [
        f"{name}{'' if field.is_required() else '?'}: {_type_name(field.annotation)}"
        for name, field in kind.model_fields.items()
    ]
    return f"Required: a JSON object {{{', '.join(parts)}}} ('?' may be left out)."


def _type_name(annotation: object) -> str:
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return {"str": "string", "int": "integer", "bool": "boolean", "float": "number"}.get(
        text.removesuffix(" | None"), text.removesuffix(" | None")
    )


def _schema(kind: type[Value]) -> dict[str, Any]:
    """A plain JSON schema: optional means left out, never null, which small models handle better."""
    full = kind.model_json_schema()
    properties = {name: _property(value) for name, value in full["properties"].items()}
    return {
        "type": "object",
        "properties": properties,
        "required": full.get("required", []),
        "additionalProperties": False,
    }


def _property(value: dict[str, Any]) -> dict[str, Any]:
    kept = {key: item for key, item in value.items() if key not in ("title", "default", "anyOf")}
    plain_kind = next((option for option in value.get("anyOf", []) if option.get("type") != "null"), {})
    return {**plain_kind, **kept}
