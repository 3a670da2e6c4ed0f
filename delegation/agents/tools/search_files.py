"""search_files: lines that fit a regular expression, by ripgrep where there is one, else by our own search program."""

import json
import shlex
import sys
from pathlib import Path

from pydantic import Field

from delegation.agents.tools.answer import ToolAnswer, ToolProblem
from delegation.agents.tools.run_bash import Shell
from delegation.agents.tools.tree import Tree
from delegation.process import Limit
from delegation.process import run as run_process
from delegation.values import Value

DESCRIPTION = (
    "Search file contents for a regular expression. Gives 'path:line:text', at most 200 lines. "
    "Ignored files are skipped."
)
_LINES = 200
_CHARACTERS = 20_000
_SECONDS = 60.0
_RIPGREP = (
    "rg --no-config --line-number --no-heading --with-filename --color=never --sort=path --hidden --glob='!.git' "
    "--max-columns=300 --max-columns-preview --max-count=100"
)


class Arguments(Value):
    """What search_files takes."""

    pattern: str = Field(min_length=1, description="Regular expression, as in grep -E.")
    path: str = Field(".", description="File or folder to search, relative to the working folder.")
    glob: str | None = Field(None, min_length=1, description="Only files that fit, such as '*.py'.")


def run(arguments: Arguments, tree: Tree, shell: Shell | None) -> ToolAnswer:
    """The fitting lines. Raises ToolProblem for a bad expression or a missing path."""
    place = tree.real_path(arguments.path)
    found = _by_ripgrep(arguments, place, tree, shell) if shell else None
    if found is None:
        found = _by_our_own(arguments, place, tree)
    about = f"search_files {arguments.pattern!r} in {arguments.path!r}"
    if not found.strip():
        return ToolAnswer(f"nothing in {arguments.path!r} fits {arguments.pattern!r}", about=about)
    return ToolAnswer(_bounded(found), about=about)


def _by_ripgrep(arguments: Arguments, place: str, tree: Tree, shell: Shell) -> str | None:
    """The lines, or None where the shell has no ripgrep. It runs inside the shell's walls."""
    only = f"--glob={shlex.quote(arguments.glob)} " if arguments.glob else ""
    folder = shlex.quote(str(tree.root / tree.start))
    finished = shell(
        f"command -v rg >/dev/null 2>&1 || exit 127; cd {folder} && "
        f"{_RIPGREP} {only}-e {shlex.quote(arguments.pattern)} -- {shlex.quote(place)} | head -c {2 * _CHARACTERS}",
        _SECONDS,
    )
    if finished.exit_code == 127:
        return None
    if finished.timed_out:
        raise ToolProblem(f"the search took longer than {_SECONDS:.0f} s: give a deeper path or a glob")
    if finished.stderr.text.strip() and not finished.stdout.text.strip():
        raise ToolProblem(f"the search failed: {finished.stderr.text.strip()[:1000]}")
    return finished.stdout.text


def _by_our_own(arguments: Arguments, place: str, tree: Tree) -> str:
    """The lines from a process of its own: an expression that never ends costs its time limit and nothing more."""
    asked = {"pattern": arguments.pattern, "path": place, "glob": arguments.glob, "lines": _LINES + 1}
    finished = run_process(
        [sys.executable, "-I", str(Path(__file__).with_name("search_program.py"))],
        cwd=tree.root / tree.start,
        env={"PYTHONIOENCODING": "utf-8"},
        timeout_seconds=_SECONDS,
        stdout_limit=Limit(head=2 * _CHARACTERS, tail=0),
        stdin=json.dumps(asked).encode("utf-8"),
    )
    if finished.timed_out:
        raise ToolProblem(f"the search took longer than {_SECONDS:.0f} s: give a simpler expression or a deeper path")
    if finished.exit_code != 0:
        raise ToolProblem(f"the search failed: {finished.stderr.text.strip()[-1000:]}")
    return finished.stdout.text


def _bounded(found: str) -> str:
    lines = [line.removeprefix("./") for line in found.rstrip("\n").split("\n")]
    shown, used = list[str](), 0
    for line in lines[:_LINES]:
        used += len(line) + 1
        if used > _CHARACTERS:
            break
        shown.append(line)
    if len(shown) < len(lines):
        shown.append("[... more lines fit: narrow the expression, the path or the glob ...]")
    return "\n".join(shown)
