"""The verbs of trees: worktrees (list, restore, prune) and enter."""

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, assert_never

from cyclopts import Parameter

from delegation.errors import UsageError
from delegation.records.wording import count
from mcp_entry.terminal.common import AsJson, Id, print_json, print_line, say, service
from mcp_entry.terminal.exits import OK

if TYPE_CHECKING:
    from delegation.checkout.inventory import TreeLine
    from mcp_entry.verbs.service import Service


def worktrees(
    action: Annotated[Literal["list", "restore", "prune"], Parameter(help="What to do.")] = "list",
    which: Annotated[str | None, Parameter(name="ID", help="restore: whose files.")] = None,
    /,
    *,
    to: Annotated[Path | None, Parameter(help="restore: a folder that is not there yet.")] = None,
    older_than: Annotated[
        float | None, Parameter(help="prune: days that failed and cancelled trees stay; none means the setting.")
    ] = None,
    dry_run: Annotated[
        bool, Parameter(name="--dry-run", negative="", show_default=False, help="prune: only say what would go.")
    ] = False,
    branches: Annotated[
        bool,
        Parameter(
            name="--branches",
            negative="",
            show_default=False,
            help="prune: branches delegate/<id> instead, those that are as they were left.",
        ),
    ] = False,
    json: AsJson = False,
) -> int:
    """Trees of delegations: list them, bring one's files back, or remove those that nobody needs."""
    verbs = service()
    match action:
        case "list":
            return _list(verbs, as_json=json)
        case "restore":
            return _restore(verbs, which, to, as_json=json)
        case "prune":
            return _prune(verbs, older_than, branches=branches, dry_run=dry_run, as_json=json)
        case _:
            assert_never(action)


def _list(verbs: "Service", *, as_json: bool) -> int:
    found = verbs.trees()
    if as_json:
        print_json({"worktrees": [vars(line) for line in found]})
        return OK
    from mcp_entry.terminal.shown.render import age, out, show_table

    there = [line for line in found if line.state != "removed"]
    rows = [
        (line.name, line.state, _size(line.size_bytes), _holder(line), age(line.created_at), _kept(line))
        for line in there
    ]
    if there:
        show_table(out(), ("id", "state", "size", "held by", "age", "kept"), rows)
    for line in there:
        if line.detail:
            say(f"{line.name}: {line.detail}")
    if gone := len(found) - len(there):
        say(f"{count(gone, 'tree')} more {'is' if gone == 1 else 'are'} gone; --json says what brings back their work")
    return OK


def _restore(verbs: "Service", which: str | None, to: Path | None, *, as_json: bool) -> int:
    if which is None or to is None:
        raise UsageError("restore what, and where? `delegate worktrees restore ID --to DIR`")
    done = verbs.restore_tree(which, to.expanduser().absolute())
    if as_json:
        print_json({"source": done.source, "to": str(done.to), "detail": done.detail})
    else:
        say(f"restored from its {done.source}: {done.detail}")
        print_line(str(done.to))
    return OK


def _prune(verbs: "Service", older_than: float | None, *, branches: bool, dry_run: bool, as_json: bool) -> int:
    if older_than is not None and older_than < 0:
        raise UsageError(f"--older-than {older_than:g}: give days from 0")
    if branches and older_than is not None:
        raise UsageError("--older-than is about trees: leave it out, or leave out --branches")
    swept = verbs.prune_branches(only_look=dry_run) if branches else verbs.prune_trees(older_than, only_look=dry_run)
    if as_json:
        print_json({"branches" if branches else "trees": [vars(each) for each in swept]})
        return OK
    for each in swept:
        kept = f" (kept: {', '.join(each.saved_refs)})" if each.saved_refs else ""
        print_line(f"{each.action:<10} {each.name}  {each.reason}{kept}")
    return OK


def enter(which: Id) -> int:
    """A shell in the tree of a delegation that has ended, with the environment that its agent had."""
    from delegation.kept_trees import worktree_of

    verbs = service()
    delegation_id = verbs.identify(which)
    tree = worktree_of(verbs.settings.home, delegation_id)
    if tree is None or not Path(tree.workdir).is_dir():
        raise UsageError(
            f"the tree of {delegation_id!r} is gone: `delegate worktrees restore {delegation_id} --to DIR` brings its "
            "files back"
        )
    known = tree.ledger.find(tree.name) is not None
    if known:
        tree.ledger.take(tree.name)  # the sweep leaves it alone, and a working agent keeps us out
    try:
        _shell_in(verbs, delegation_id, Path(tree.workdir))
    finally:
        if known:
            tree.ledger.release(tree.name)
    return OK


def _shell_in(verbs: "Service", delegation_id: str, folder: Path) -> None:
    say(f"you are in the tree of {delegation_id}: {folder}")
    say("`exit` or Ctrl-D leaves; what you change stays in the tree, and is in no patch")
    given = verbs.settings.environ
    program = given.get("SHELL") or ("/bin/sh" if os.name == "posix" else given.get("COMSPEC", "cmd.exe"))
    done = subprocess.run([program], cwd=folder, env=_environment(verbs, delegation_id), check=False)
    say(f"you left the tree of {delegation_id}" + (f" (exit code {done.returncode})" if done.returncode else ""))


def _environment(verbs: "Service", delegation_id: str) -> dict[str, str]:
    """The agent's: private home and temp, no keys, an identity for git. The walls are not put up around a person."""
    from delegation.kept_trees import worktree_of
    from delegation.steps.agent_sandbox import sandbox_of

    request = verbs.records.request(delegation_id).model_copy(update={"confinement": "off"})
    tree = worktree_of(verbs.settings.home, delegation_id)
    assert tree is not None, "it was there a moment ago"
    own: dict[str, Any] = {"TERM": verbs.settings.environ.get("TERM", "dumb"), "DELEGATE_TREE": delegation_id}
    return {**sandbox_of(request, tree, verbs.settings.home).env, **own}


def _kept(line: "TreeLine") -> str:
    """In words; the JSON has the refs and paths."""
    return ", ".join("patch" if name.startswith("/") else name.rpartition("/")[2] for name in line.kept)


def _holder(line: "TreeLine") -> str:
    return "" if line.held_by is None else f"pid {line.held_by}"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
