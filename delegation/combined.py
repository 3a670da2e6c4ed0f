"""A set of changes judged together: do they merge, and does what judged each of them accept all of them at once.

The tests run on what is committed plus the changes; uncommitted work of the user's is left aside. Nothing is touched.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from delegation import verdict
from delegation.card import Accept
from delegation.checkout.merging import Piece
from delegation.checkout.patch_set import Plan, plan_of, write_combined
from delegation.errors import UsageError, WorkFailed
from delegation.home import Home
from delegation.receipt import Verdict, Verification
from delegation.request import DelegationRequest
from delegation.steps.agent_sandbox import callers_environment

Say = Callable[[str], None]


@dataclass(frozen=True)
class Member:
    """One change of the set, with the request it came from."""

    piece: Piece
    request: DelegationRequest


@dataclass(frozen=True)
class Check:
    """One verify command on the base with all changes. `culprit` is the change that first brings a failure in."""

    command: str
    verdict: Verdict
    reason: str | None
    newly_failing: tuple[str, ...] = ()
    still_failing: tuple[str, ...] = ()
    culprit: str | None = None


@dataclass(frozen=True)
class SetReport:
    """What the set would be, before anything is touched."""

    repo: str
    plan: Plan
    checks: tuple[Check, ...]

    @property
    def is_accepted(self) -> bool:
        """Whether all go in and every command accepts all of them together."""
        return self.plan.is_whole and all(check.verdict == "passed" for check in self.checks)


def report_of(home: Home, members: Sequence[Member], say: Say = lambda _: None) -> SetReport:
    """Merge all, and judge them together where they merge. Raises UsageError for changes of several repositories."""
    repos = {member.request.repo for member in members}
    if len(repos) != 1:
        raise UsageError(f"the changes are of {len(repos)} repositories: apply those of each by themselves")
    repo = Path(repos.pop())
    plan = plan_of(repo, [member.piece for member in members])
    if not plan.is_whole:
        return SetReport(str(repo), plan, ())
    known = {member.piece.name: member for member in members}
    ordered = [known[name] for name in plan.order]
    return SetReport(str(repo), plan, tuple(_checks(home, repo, ordered, say)))


@dataclass(frozen=True)
class _Judge:
    """What the members that are judged alike have in common."""

    command: str
    setup: str | None
    workdir: str
    accept: Accept


def _checks(home: Home, repo: Path, members: Sequence[Member], say: Say) -> list[Check]:
    judges: dict[_Judge, list[Member]] = {}
    for member in members:
        card = member.request.card
        if card.verify is not None:
            judge = _Judge(card.verify, card.setup, member.request.workdir, card.accept)
            judges.setdefault(judge, []).append(member)
    with TemporaryDirectory(prefix="delegate-together-") as folder:
        return [_Trials(home, repo, members, judge, own, Path(folder), say).check() for judge, own in judges.items()]


@dataclass(frozen=True)
class _Trials:
    """The runs of one command on the first so many changes of the set."""

    home: Home
    repo: Path
    members: Sequence[Member]
    judge: _Judge
    own: Sequence[Member]
    folder: Path
    say: Say

    def check(self) -> Check:
        """All together; where that fails, the change that first brings it in, found by halving."""
        self.say(f"judging {len(self.members)} changes together: {self.judge.command}")
        try:
            whole = self._verified(len(self.members))
            culprit = self._culprit(whole) if whole.verdict == "failed" else None
        except WorkFailed as error:
            return Check(self.judge.command, "none", f"{error.kind}: {error}")
        return Check(self.judge.command, whole.verdict, whole.reason, whole.newly_failing, whole.still_failing, culprit)

    def _culprit(self, whole: Verification) -> str | None:
        """None where what fails was red before, so that no change can be named for it."""
        base_passed = whole.base is not None and whole.base.verdict == "passed"
        if not whole.newly_failing and not base_passed:
            return None
        good, bad = 0, len(self.members)
        while bad - good > 1:
            middle = (good + bad) // 2
            self.say(f"looking for the change that breaks it: the first {middle} of {len(self.members)}")
            good, bad = (good, middle) if self._fails_alike(middle, whole) else (middle, bad)
        return self.members[bad - 1].piece.name

    def _fails_alike(self, count: int, whole: Verification) -> bool:
        found = self._verified(count)
        if whole.newly_failing:
            return not set(whole.newly_failing).isdisjoint(found.newly_failing)
        return found.verdict == "failed"

    def _verified(self, count: int) -> Verification:
        patch = self.folder / f"first-{count}.diff"
        head = write_combined(self.repo, [member.piece for member in self.members[:count]], patch)
        first = self.own[0].request
        included = [member for member in self.members[:count] if member in self.own]
        return verdict.verify(
            repo=self.repo,
            base_commit=head,
            patch_file=patch,
            command=self.judge.command,
            setup=self.judge.setup,
            wants=tuple(dict.fromkeys(want for member in included for want in member.request.card.wants)),
            accept=self.judge.accept,
            place=self.home.worktrees / f"{first.id}.together",
            baselines=self.home.baselines,
            record_dir=self.folder / "logs",
            confinement=first.confinement,
            network=first.network,
            timeout_seconds=first.card.verify_timeout_seconds,
            workdir=self.judge.workdir,
            our_home=self.home.root,
            environment=callers_environment(first),
        )
