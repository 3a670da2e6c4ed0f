"""Verify a patch: the same command on the base and on the candidate, and once more with the base's own tests."""

import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from delegation.card import Accept, Confinement
from delegation.confinement import find_confiner
from delegation.receipt import CommandRun, Flag, Verdict, Verification
from delegation.verdict.baselines import keep, kept, key_of
from delegation.verdict.candidate import Candidate
from delegation.verdict.comparison import Comparison, Observed, compare, matches, needs_rerun, only, suspects
from delegation.verdict.conditions import Conditions, described, warnings_of, with_programs
from delegation.verdict.judging import TIMEOUT
from delegation.verdict.logs import write_log
from delegation.verdict.trial import Trial, perform

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

    The base's result comes from `baselines` where it is known. A red result is run once more to tell flaky from
    broken. Where the patch edits tests or what steers them, the command is also run with the base's versions and the
    stricter verdict counts. Without a patch only the base is run and the verdict is 'none'. `base.log` and
    `candidate.log` are left in `record_dir`. When `cancelled` is set the verdict is 'none' with the reason
    'cancelled'. `place` is a folder for this call alone and is gone at its end. `our_home` (the parent of `baselines`
    by default) is hidden from the command. `ignored_files` are paths that the agent left behind and git ignores: a
    candidate that misses one of them is flagged. `environment` is that of whoever asked (this process's by default):
    its PATH is where the command finds its programs.

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
        observed, setup_exit = self._observe("candidate", candidate.apply, base)
        base = self._doubted(base, observed)
        comparison = compare(base, observed, wants=self.wants, accept=self.accept, completely=not candidate.edited)
        comparison = self._with_base_tests(candidate, base, comparison)
        if self._is_cancelled():
            comparison = Comparison("none", "cancelled")
        return self._answer(base, observed, self._explained(comparison, observed), setup_exit)

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
        """The base's result, kept or run; a red one is run twice."""
        key = key_of(self.conditions)
        known = kept(self.baselines, key)
        if known:
            write_log(self.record_dir / "base.log", [f"[kept from an earlier run]\n{known.first.output_tail}"])
            return _logged(known, self.record_dir / "base.log"), None
        trials = [perform(self.conditions, "base")]
        if trials[0].run.verdict == "failed":
            trials.append(perform(self.conditions, "base-again"))
        base = self._recorded("base.log", trials)
        keep(self.baselines, key, base)
        return base, trials[0].setup_exit

    def _observe(
        self, label: str, prepare: Callable[[Path], None], base: Observed, *, restoring: bool = False
    ) -> tuple[Observed, int | None]:
        trials = [perform(self.conditions, label, prepare, go_on_after_errors=restoring)]
        judged = partial(only, names=_known(base)) if restoring else _as_it_is
        if needs_rerun(base, judged(trials[0].run)):
            trials.append(perform(self.conditions, f"{label}-again", prepare, go_on_after_errors=restoring))
        log = "candidate.log" if not restoring else "candidate-base-tests.log"
        return self._recorded(log, [replace(trial, run=judged(trial.run)) for trial in trials]), trials[0].setup_exit

    def _doubted(self, base: Observed, candidate: Observed) -> Observed:
        """Where only the candidate wavered, a second look at the base tells whose the flaky test is."""
        if base.rerun is not None or not suspects(base, candidate):
            return base
        again = perform(self.conditions, "base-again")
        seen = Observed(base.first, again.run)
        keep(self.baselines, key_of(self.conditions), seen)
        return seen

    def _with_base_tests(self, candidate: Candidate, base: Observed, comparison: Comparison) -> Comparison:
        """The stricter of the verdict so far and that with everything that judges taken from the base.

        New tests alone are cause for the second run only where the base was red and something is repaired: a test
        file that repairs the code while it is loaded looks like that.
        """
        flags: tuple[Flag, ...] = ("tests_edited",) if candidate.edited else ()
        marked = replace(comparison, flags=_joined(comparison.flags, flags))
        doubtful = candidate.edited or (candidate.new_tests and comparison.fixed)
        if not doubtful or comparison.verdict == "failed" or base.verdict == "none":
            return marked
        observed, _ = self._observe("restored", candidate.apply_without_edits, base, restoring=True)
        seen = {*(base.first.tests or {}), *(observed.first.tests or {})}
        wants = tuple(want for want in self.wants if any(matches(want, test) for test in seen))
        strict = compare(base, observed, wants=wants, accept=self.accept)
        if _STRICTEST.index(strict.verdict) >= _STRICTEST.index(comparison.verdict):
            return replace(marked, fixed=tuple(sorted({*marked.fixed, *strict.fixed})))
        touched = ", ".join((*candidate.edited, *candidate.new_tests)[:5])
        reason = f"with the base's version of {touched}: {strict.reason}"
        return replace(strict, reason=reason, flags=_joined(marked.flags, ("tests_edited",), strict.flags))

    def _recorded(self, log: str, trials: list[Trial]) -> Observed:
        path = self.record_dir / log
        write_log(path, [trial.log for trial in trials])
        runs = [trial.run for trial in trials]
        return _logged(Observed(runs[0], runs[1] if len(runs) > 1 else None), path)

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


def _known(base: Observed) -> Callable[[str], bool]:
    """Whether the base has that test, or has the file of it in a state that could not be loaded."""
    tests = frozenset(base.first.tests or {})
    return lambda name: not tests or name in tests or name.split("::")[0] in tests


def _as_it_is(run_: CommandRun) -> CommandRun:
    return run_


def _logged(observed: Observed, path: Path) -> Observed:
    place = {"log_path": str(path)}
    rerun = observed.rerun.model_copy(update=place) if observed.rerun else None
    return Observed(observed.first.model_copy(update=place), rerun)


def _joined(*groups: tuple[Flag, ...]) -> tuple[Flag, ...]:
    return tuple(dict.fromkeys(flag for group in groups for flag in group))
