"""The verbs that the terminal and the MCP server share. Neither face holds a rule of its own.

Nothing here prints or waits for long; raised errors are `DelegateError`s whose text names the thing and the remedy.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from delegation.card import Card
from delegation.errors import NotFoundError, UsageError
from delegation.ids import COMPARISON_PREFIX
from delegation.places import expanded
from delegation.receipt import Receipt
from delegation.records import RecordStore, Summary
from delegation.records.standing import ended_receipt
from delegation.settings import Settings
from mcp_entry.verbs.rerun.changes import Changes, RerunFrom
from mcp_entry.verbs.results import AppliedBranch, AppliedPatch, AppliedSet, Cancelled, PatchFile, Started

if TYPE_CHECKING:  # httpx and what starts the stack are loaded by the verbs that need them
    from delegation.checkout.inventory import TreeLine
    from delegation.checkout.removal import Swept
    from delegation.combined import SetReport
    from delegation.kept_trees import Restored
    from mcp_entry.stack.access import Connection
    from mcp_entry.verbs.comparison.comparing import Comparing
    from mcp_entry.verbs.history import Past
    from mcp_entry.verbs.reading.reading import Reading
    from mcp_entry.verbs.watching import Watch

Say = Callable[[str], None]


class Service:
    """One user's verbs. Cheap to make: it opens nothing before it is asked."""

    def __init__(self, settings: Settings, say: Say = lambda _: None) -> None:
        self.settings = settings
        self.records = RecordStore(settings.home)
        self._say = say

    def submit(
        self,
        card: Card,
        *,
        tool: str = "run",
        parent_id: str | None = None,
        provider_key: str | None = None,
        added: str | None = None,
        notify: str | None = None,
    ) -> Started:
        """Hand the card to the stack, starting it where none runs; see `submission.submit` for what is raised.

        `notify` is a shell command for its end, in the place of the setting; an empty one is none.
        """
        from mcp_entry.verbs.submission import submit

        return submit(
            self.settings,
            self.records,
            card,
            tool=tool,
            parent_id=parent_id,
            say=self._say,
            provider_key=provider_key,
            added=added,
            notify=notify,
        )

    @cached_property
    def reading(self) -> "Reading":
        """The verbs that answer questions about files, or without any."""
        from mcp_entry.verbs.reading.reading import Reading

        return Reading(self.settings)

    @cached_property
    def past(self) -> "Past":
        """The verbs that look back over many delegations."""
        from mcp_entry.verbs.history import Past

        return Past(self.settings, self.records)

    @cached_property
    def comparing(self) -> "Comparing":
        """The verbs that let several models do one card and compare them."""
        from mcp_entry.verbs.comparison.comparing import Comparing

        return Comparing(self.settings, self._say)

    @property
    def stack_runs(self) -> bool:
        """Whether anybody works on what has not ended. Reads one file and looks at one process."""
        from delegation.stack_state import live_state

        return live_state(self.settings.home) is not None

    def identify(self, text: str) -> str:
        """The id that a person means by an id, a unique prefix or ending of one, or a running number."""
        if not text.strip():
            raise NotFoundError("an empty text names no delegation: `delegate list` shows their ids")
        return self.records.resolve(text.strip())

    def workdir(self, text: str | None) -> str:
        """The absolute folder that a client means; none means its project."""
        project = self.settings.environ.get("CLAUDE_PROJECT_DIR")
        start = Path(project) if project else self.settings.cwd
        return str(expanded(text, self.settings.environ, start).absolute()) if text else str(start)

    def watch(self, delegation_id: str) -> "Watch":
        from mcp_entry.verbs.watching import Watch

        return Watch(self.settings, self.records, delegation_id)

    def summary(self, text: str) -> Summary:
        """One delegation, from the disk alone. A record that cannot be read has a `problem`."""
        return self.records.summary(self.identify(text))

    def receipt(self, text: str) -> Receipt:
        """The receipt of a delegation that has ended. Raises UsageError for one that has not."""
        delegation_id = self.identify(text)
        receipt = ended_receipt(self.records, delegation_id)
        if receipt is None:
            raise UsageError(f"{delegation_id!r} has not ended: `delegate wait {delegation_id}` waits for it")
        return receipt

    def patch(self, text: str) -> PatchFile:
        """Where the change lies. Raises UsageError when there is none, NotFoundError when the file is gone."""
        receipt = self.receipt(text)
        if receipt.patch is None:
            raise UsageError(f"{receipt.id!r} left no patch (outcome {receipt.outcome})")
        path = self.records.folder(receipt.id) / "patch.diff"
        if not path.is_file():
            raise NotFoundError(f"the patch of {receipt.id!r} is gone from {str(path)!r}")
        found = receipt.patch
        return PatchFile(receipt.id, path, found.sha256, found.files, found.insertions, found.deletions)

    def transcript_path(self, text: str) -> Path:
        """Where the agent's log lies, or will lie."""
        return self.records.folder(self.identify(text)) / "trajectory.jsonl"

    def program_log(self, delegation_id: str) -> Path | None:
        """What a command-line agent printed; None where there is none."""
        from delegation.harnesses.polling import LOG_FILE

        path = self.records.folder(delegation_id) / LOG_FILE
        return path if path.is_file() and path.stat().st_size > 0 else None

    def stack_of_failure(self, delegation_id: str) -> str:
        """Where in the worker its agent failed, as a Python stack."""
        path = self.records.folder(delegation_id) / "failure.txt"
        return path.read_text(encoding="utf-8") if path.is_file() else f"no stack was kept in {str(path.parent)!r}"

    def apply(self, text: str, *, any_outcome: bool = False) -> AppliedPatch:
        """Apply the change to the caller's repository: a clean three-way apply, or ConflictError and nothing changed.

        Raises UsageError for a patch that is not accepted unless `any_outcome` says to apply it all the same.
        """
        from mcp_entry.verbs.applying import apply_one

        return apply_one(self, text, any_outcome=any_outcome)

    def apply_as_branch(self, texts: Sequence[str], name: str, *, any_outcome: bool = False) -> AppliedBranch:
        """A new branch from HEAD with one commit for each change; the working tree stays as it is.

        Raises ConflictError when the branch exists or a change does not merge; then there is none.
        """
        from mcp_entry.verbs.applying import apply_as_branch

        return apply_as_branch(self, texts, name, any_outcome=any_outcome)

    def report_together(self, texts: Sequence[str], *, any_outcome: bool = False) -> "SetReport":
        """Whether changes merge with each other and are accepted together. Touches nothing; runs their commands."""
        from mcp_entry.verbs.applying import report_together

        return report_together(self, texts, any_outcome=any_outcome, say=self._say)

    def apply_together(self, report: "SetReport", *, any_outcome: bool = False) -> AppliedSet:
        """Apply all of a set, or nothing. Raises UsageError for one that is not accepted, unless `any_outcome`."""
        from mcp_entry.verbs.applying import apply_together

        return apply_together(self, report, any_outcome=any_outcome)

    def trees(self) -> "tuple[TreeLine, ...]":
        """All trees under this home, oldest first."""
        from delegation.kept_trees import lines

        return lines(self.settings.home)

    def restore_tree(self, text: str, to: Path) -> "Restored":
        """Write what a delegation's agent left into a new folder; raises as `kept_trees.restore`."""
        from delegation.kept_trees import restore

        return restore(self.settings.home, self.identify(text), to)

    def prune_trees(self, older_than_days: float | None = None, *, only_look: bool = False) -> "tuple[Swept, ...]":
        """Remove trees that nobody needs, as the keeper does every few minutes."""
        from delegation.kept_trees import GIB, Policy, prune

        days = self.settings.worktree_keep_days if older_than_days is None else older_than_days
        policy = Policy(keep_days=days, budget_bytes=int(self.settings.worktree_budget_gb * GIB))
        return prune(self.settings.home, policy, only_look=only_look)

    def prune_branches(self, *, only_look: bool = False) -> "tuple[Swept, ...]":
        """Delete the branches of ended delegations that nobody has touched; their commits stay under our refs."""
        from delegation.kept_trees import prune_branches

        return prune_branches(self.settings.home, only_look=only_look)

    def cancel(self, text: str) -> Cancelled:
        """Ask the stack to end a delegation, or a comparison. Raises StackNotRunning when there is none."""
        from mcp_entry.stack.access import connection
        from mcp_entry.verbs.cancelling import end

        try:
            delegation_id = self.identify(text)
        except NotFoundError:
            if text.strip().startswith(COMPARISON_PREFIX) or self.comparing.is_known(text):
                return self.comparing.cancel(text)
            raise
        receipt = ended_receipt(self.records, delegation_id)
        if receipt is not None:
            return Cancelled(delegation_id, receipt.outcome, had_ended=True)
        with connection(self.settings).prefect() as api:
            after = end(self.records, api, delegation_id)
        return Cancelled(delegation_id, (after.state_name if after else None) or "gone", had_ended=False)

    def rerun(
        self,
        text: str,
        *,
        start_at: RerunFrom = "start",
        model: str | None = None,
        prompt_add: str | None = None,
        base: str | None = None,
        verify: str | None = None,
        setup: str | None = None,
        key: str | None = None,
    ) -> Started:
        """Do it again; what the first run left in its record stays.

        "start" makes a new delegation with this one as its parent, from the same commit. "agent" takes a failed or
        cancelled one up where its agent stopped, "verify" judges the stored patch again without a model call; both in
        the same flow run, under the same id. Raises UsageError for a delegation that has not ended, and for changes
        that make no sense there.
        """
        changes = Changes(model, prompt_add, base, verify, setup, key)
        from mcp_entry.verbs.rerun import rerunning

        match start_at:
            case "start":
                return rerunning.from_the_start(self, self.receipt(text), changes)
            case "agent":
                return rerunning.from_the_agent(self, self.receipt(text), changes)
            case "verify":
                return rerunning.from_verify(self, self.receipt(text), changes)
            case _:
                assert_never(start_at)

    def go_on(
        self,
        text: str,
        *,
        added: str | None = None,
        model: str | None = None,
        base: str | None = None,
        verify: str | None = None,
        setup: str | None = None,
        key: str | None = None,
    ) -> Started:
        """A new delegation that goes on with the change and the conversation of one that has ended.

        `added` is said to the model next; without it, why the change was not accepted. Raises UsageError where there
        is neither, for another base, and for work in place.
        """
        changes = Changes(model, added, base, verify, setup, key)
        from mcp_entry.verbs.rerun import rerunning

        return rerunning.go_on(self, self.receipt(text), changes)

    def running_stack(self) -> "Connection":
        """The stack, started where none runs. Raises StackError when it cannot be."""
        from mcp_entry.stack.access import ensure_running

        return ensure_running(self.settings, self._say)
