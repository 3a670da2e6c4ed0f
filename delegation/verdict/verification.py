"""Verify a patch: the same command on the base and on the candidate, and once more with the base's own tests."""

import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from delegation.card import Accept, Confinement
from delegation.confinement import find_confiner
from delegation.receipt import Flag, Verdict, Verification
from delegation.verdict.baselines import keep, kept, key_of
from delegation.verdict.candidate import Candidate
from delegation.verdict.comparison import Comparison, compare, matches, suspects
from delegation.verdict.conditions import Conditions, described, warnings_of, with_programs
from delegation.verdict.doubts import doubt_about, is_open
from delegation.verdict.judging import TIMEOUT
from delegation.verdict.logs import write_log
from delegation.verdict.observation import Seen, seen_base, seen_candidate, seen_once_more, seen_restored
from delegation.verdict.observed import Observed
from delegation.verdict.trial import perform

_STRICTEST: tuple[Verdict, ...] = ("failed", "none", "passed")


def verify(
    *,
    repo: Path,
    base_commit: str,
    patch_file: Path | None,
    command: str,
    setup: str | None,
    wants: tuple[str, ...],
    accept: Accept,
    place: Path,
    baselines: Path,
    record_dir: Path,
    confinement: Confinement,
    network: bool,
    timeout_seconds: float,
    cancelled: threading.Event | None = None,
    workdir: str = ".",
    our_home: Path | None = None,
    ignored_files: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> Verification:
    """Judge `patch_file` on `base_commit` by `command`, each run in a checkout of its own below `place`.

    The base's result comes from `baselines` where it is known. What is red is run once more, the failing tests alone
    where the runner can, to tell flaky from broken. Where the patch edits tests or what steers them or brings new ones,
    the command is also run with the base's versions and the stricter verdict counts. A pass by test ids is looked at
    once more with tests that must fail (see `doubts.py`). Without a patch only the base is run and the verdict is
    'none'. `base.log` and `candidate.log` are left in `record_dir`. When `cancelled` is set the verdict is 'none' with
    the reason 'cancelled'. `place` is a folder for this call alone and is gone at its end. `our_home` (the parent of
    `baselines` by default) is hidden from the command. `ignored_files` are paths that the agent left behind and git
    ignores: a candidate that misses one of them is flagged. `environment` is that of whoever asked (this process's by
    default): its PATH is where the command finds its programs.

    Raises WorkFailed: "checkout" (no checkout, or the patch does not apply), "confinement", "process".
    """
    conditions = with_programs(
        Conditions(
            repo=repo,
            base_commit=base_commit,
            command=command,
            setup=setup,
            workdir=workdir,
            place=place,
            our_home=our_home or baselines.parent,
            confiner=find_confiner(confinement),
            network=network,
            timeout_seconds=timeout_seconds,
            cancelled=cancelled,
            environment=environment,
        )
    )
    record_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    case = _Case(conditions, baselines, record_dir, wants, accept, ignored_files)
    try:
        return case.judge(patch_file)
    finally:
        shutil.rmtree(place, ignore_errors=True)


@dataclass(frozen=True)
class _Case:
    """One verification on its way."""

    conditions: Conditions
    baselines: Path
    record_dir: Path
    wants: tuple[str, ...]
    accept: Accept
    ignored_files: tuple[str, ...]

    def judge(self, patch_file: Path | None) -> Verification:
        base, base_setup = self._base()
        if patch_file is None or self._is_cancelled():
            reason = "cancelled" if self._is_cancelled() else "no change to judge"
            return self._answer(base, None, Comparison("none", reason), base_setup)
        if str(base.first.reason).startswith(TIMEOUT):
            reason = f"the base gave no verdict: {base.first.reason}"
            return self._answer(base, None, Comparison("none", reason), base_setup)
        candidate = Candidate(patch_file, self.conditions, frozenset(base.first.tests or {}))
        seen = seen_candidate(self.conditions, "candidate", candidate.apply, base)
        base = self._doubted(base, seen.observed)
        if seen.narrowed and suspects(base, seen.observed):
            seen = seen_once_more(self.conditions, candidate.apply, seen)
        observed = self._logged(seen, "candidate.log")
        comparison = compare(base, observed, wants=self.wants, accept=self.accept, completely=not candidate.edited)
        comparison = self._with_base_tests(candidate, base, observed, comparison)
        if comparison.verdict == "passed" and (doubt := doubt_about(self.conditions, candidate, base, seen)):
            comparison = replace(comparison, verdict=doubt.verdict, reason=doubt.reason)
        if self._is_cancelled():
            comparison = Comparison("none", "cancelled")
        return self._answer(base, observed, self._explained(comparison, observed), seen.setup_exit)

    def _is_cancelled(self) -> bool:
        return self.conditions.cancelled is not None and self.conditions.cancelled.is_set()

    def _explained(self, comparison: Comparison, observed: Observed) -> Comparison:
        """Whether the patch is incomplete: the output of a red run speaks of a file that git ignores."""
        missing = [path for path in self.ignored_files if path.rstrip("/") in observed.first.output_tail]
        if comparison.verdict == "passed" or observed.first.verdict == "passed" or not missing:
            return comparison
        reason = f"{comparison.reason}; the patch lacks ignored files it needs: {', '.join(missing[:5])}"
        return replace(comparison, reason=reason, flags=_joined(comparison.flags, ("needs_ignored_file",)))

    def _base(self) -> tuple[Observed, int | None]:
        """The base's result, kept or run."""
        key = key_of(self.conditions)
        known = kept(self.baselines, key)
        if known:
            write_log(self.record_dir / "base.log", [f"[kept from an earlier run]\n{known.first.output_tail}"])
            return _at(known, self.record_dir / "base.log"), None
        seen = seen_base(self.conditions)
        base = self._logged(seen, "base.log")
        keep(self.baselines, key, base)
        return base, seen.setup_exit

    def _doubted(self, base: Observed, candidate: Observed) -> Observed:
        """Where only the candidate wavered, a second look at the base tells whose the flaky test is."""
        if base.rerun is not None or not suspects(base, candidate):
            return base
        again = perform(self.conditions, "base-again")
        seen = Observed(base.first, again.run)
        keep(self.baselines, key_of(self.conditions), seen)
        return seen

    def _with_base_tests(
        self, candidate: Candidate, base: Observed, own: Observed, comparison: Comparison
    ) -> Comparison:
        """The stricter of the verdict so far and that with everything that judges taken from the base.

        New tests alone are cause for the second run too: a test file may repair the code while it is loaded. Where the
        base has no tests, there is nothing to take from it.
        """
        flags: tuple[Flag, ...] = ("tests_edited",) if candidate.edited else ()
        marked = replace(comparison, flags=_joined(comparison.flags, flags))
        doubtful = candidate.edited or candidate.new_tests
        if not doubtful or comparison.verdict == "failed" or base.verdict == "none":
            return marked
        observed = base if candidate.is_only_tests else self._restored(candidate, base)
        seen = {*(base.first.tests or {}), *(observed.first.tests or {})}
        wants = tuple(want for want in self.wants if any(matches(want, test) for test in seen))
        strict = compare(base, observed, wants=wants, accept=self.accept)
        if _STRICTEST.index(strict.verdict) >= _STRICTEST.index(comparison.verdict):
            return replace(marked, fixed=tuple(sorted({*marked.fixed, *strict.fixed})))
        flags = _joined(marked.flags, ("tests_edited",), strict.flags)
        touched = ", ".join((*candidate.edited, *candidate.new_tests)[:5])
        if strict.verdict == "failed" and is_open(candidate, base, own, strict):
            reason = f"the change edits {touched}, and with the base's version of it: {strict.reason}"
            return replace(strict, verdict="none", reason=reason, flags=flags)
        return replace(strict, reason=f"with the base's version of {touched}: {strict.reason}", flags=flags)

    def _restored(self, candidate: Candidate, base: Observed) -> Observed:
        seen = seen_restored(self.conditions, candidate.apply_without_edits, base)
        return self._logged(seen, "candidate-base-tests.log")

    def _logged(self, seen: Seen, log: str) -> Observed:
        path = self.record_dir / log
        write_log(path, [trial.log for trial in seen.trials])
        return _at(seen.observed, path)

    def _answer(
        self, base: Observed, candidate: Observed | None, comparison: Comparison, setup_exit: int | None
    ) -> Verification:
        return Verification(
            command=self.conditions.command,
            verdict=comparison.verdict,
            base=base.first,
            candidate=candidate.first if candidate else None,
            newly_failing=comparison.newly_failing,
            fixed=comparison.fixed,
            still_failing=comparison.still_failing,
            flaky=comparison.flaky,
            missing_wants=comparison.missing_wants,
            environment=described(self.conditions, setup_exit),
            flags=comparison.flags,
            reason=comparison.reason,
            warnings=warnings_of(self.conditions),
        )


def _at(observed: Observed, log: Path) -> Observed:
    place = {"log_path": str(log)}
    rerun = observed.rerun.model_copy(update=place) if observed.rerun else None
    return Observed(observed.first.model_copy(update=place), rerun)


def _joined(*groups: tuple[Flag, ...]) -> tuple[Flag, ...]:
    return tuple(dict.fromkeys(flag for group in groups for flag in group))
