"""Two results beside each other, without a process."""

import pytest

from delegation.receipt import CommandRun, TestStatus
from delegation.verdict.comparison import BY_WANTS_ALONE, Comparison, compare, differing, matches, needs_rerun
from delegation.verdict.observed import CANNOT_IMPORT, Observed, confirmed, only, overlaid

Tests = dict[str, TestStatus]


def ran(tests: Tests | None = None, *, code: int | None = None, **changes: object) -> CommandRun:
    """A run as its tests make it: red when one of them fails."""
    bad = any(status in ("failed", "error") for status in (tests or {}).values())
    exit_code = code if code is not None else int(bad)
    run = CommandRun(
        verdict="failed" if exit_code else "passed", exit_code=exit_code, seconds=1.0, tests=tests, output_tail=""
    )
    return run.model_copy(update=changes)


def silent(reason: str, **changes: object) -> CommandRun:
    return ran(verdict="none", reason=reason, code=1).model_copy(update=changes)


def judged(
    base: CommandRun, *candidate: CommandRun, base_rerun: CommandRun | None = None, **options: object
) -> Comparison:
    return compare(Observed(base, base_rerun), Observed(*candidate), **({"wants": (), "accept": "pass"} | options))


BOTH: Tests = {"a": "passed", "b": "passed"}
B_FAILS: Tests = {"a": "passed", "b": "failed"}


def test_green_on_green_passes():
    assert judged(ran(BOTH), ran(BOTH)) == Comparison("passed")


def test_a_repaired_test_is_fixed_and_passes():
    assert judged(ran(B_FAILS), ran(BOTH)) == Comparison("passed", fixed=("b",), flags=("baseline_red",))


def test_a_test_that_fails_twice_is_newly_failing_and_refutes():
    answer = judged(ran(BOTH), ran(B_FAILS), ran(B_FAILS))
    assert answer == Comparison("failed", "newly failing: b", newly_failing=("b",))


def test_what_failed_before_refutes_by_pass_and_says_so():
    answer = judged(ran(B_FAILS), ran(B_FAILS))
    assert answer == Comparison(
        "failed",
        "failing as before on the base: b",
        still_failing=("b",),
        flags=("baseline_red", "pre_existing_only"),
    )


def test_what_failed_before_passes_by_no_worse():
    answer = judged(ran(B_FAILS), ran(B_FAILS), accept="no_worse")
    assert (answer.verdict, answer.flags) == ("passed", ("baseline_red", "pre_existing_only"))


def test_a_regression_beside_old_failures_refutes_by_no_worse_too():
    answer = judged(ran(B_FAILS), ran({"a": "failed", "b": "failed"}), accept="no_worse")
    assert (answer.verdict, answer.newly_failing, answer.still_failing) == ("failed", ("a",), ("b",))
    assert answer.flags == ("baseline_red",)


def test_no_worse_without_test_ids_has_no_verdict():
    answer = judged(ran(), ran(), accept="no_worse")
    assert answer.verdict == "none"
    assert "needs test ids" in str(answer.reason)


def test_no_worse_is_refuted_when_the_command_breaks_beside_the_tests():
    assert judged(ran(BOTH), ran(BOTH, code=3), accept="no_worse").verdict == "failed"


def test_exit_codes_decide_where_there_are_no_ids():
    assert judged(ran(code=1), ran(code=0)) == Comparison("passed", flags=("baseline_red",))
    assert judged(ran(code=0), ran(code=4)) == Comparison("failed", "the command exits 4")


@pytest.mark.parametrize("why", ["timeout: no end after 5 s", "no tests ran", "killed by signal 9 (SIGKILL)"])
def test_without_a_verdict_of_the_base_there_is_none(why: str):
    answer = judged(silent(why), ran(BOTH))
    assert (answer.verdict, answer.reason) == ("none", f"the base gave no verdict: {why}")


def test_a_candidate_that_was_killed_is_not_judged():
    answer = judged(ran(BOTH), silent("killed by signal 11 (SIGSEGV)", tests=None, exit_code=139))
    assert (answer.verdict, answer.reason) == ("none", "the candidate gave no verdict: killed by signal 11 (SIGSEGV)")


def test_tests_that_disappear_refute():
    answer = judged(ran(BOTH), silent("no tests ran", tests={}, exit_code=5))
    assert (answer.verdict, answer.reason) == ("failed", "the tests disappeared: the base ran 2, the candidate none")


def test_a_green_exit_without_any_report_where_the_base_had_one_refutes():
    assert judged(ran(B_FAILS), ran(None, code=0)).verdict == "failed"


def test_fewer_tests_than_the_base_are_never_a_plain_pass():
    answer = judged(ran(BOTH), ran({"a": "passed"}))
    assert (answer.verdict, answer.reason) == ("none", "1 tests of the base did not run: b")


def test_a_test_that_is_skipped_now_counts_as_not_run():
    assert judged(ran(BOTH), ran({"a": "passed", "b": "skipped"})).verdict == "none"


def test_a_failing_test_that_is_skipped_now_is_not_repaired():
    answer = judged(ran(B_FAILS), ran({"a": "passed", "b": "skipped"}))
    assert (answer.verdict, answer.fixed) == ("none", ())


@pytest.mark.parametrize(
    ("whole", "test"),
    [
        ("t.py", "t.py::x"),
        ("pkg.test_a", "pkg.test_a.T.test_x"),
        ("example.org/x", "example.org/x.TestA"),
        ("a.js", "one"),
    ],
)
def test_a_file_that_loads_now_is_not_missed(whole: str, test: str):
    assert judged(ran({whole: "error"}), ran({test: "passed"})).verdict == "passed"


def test_a_test_that_wavers_on_both_sides_is_flaky_and_passes():
    answer = judged(ran(B_FAILS), ran(B_FAILS), ran(BOTH), base_rerun=ran(BOTH))
    assert (answer.verdict, answer.flaky, answer.flags) == ("passed", ("b",), ("flaky",))


def test_a_test_that_wavers_on_the_candidate_only_has_no_verdict():
    answer = judged(ran(BOTH), ran(B_FAILS), ran(BOTH))
    assert (answer.verdict, answer.flaky, answer.newly_failing) == ("none", ("b",), ())
    assert answer.flags == ("flaky",)


def test_different_tests_failing_in_each_run_is_flaky_not_broken():
    answer = judged(ran(BOTH), ran({"a": "failed", "b": "passed"}), ran(B_FAILS))
    assert (answer.verdict, answer.flaky) == ("none", ("a", "b"))


def test_a_wavering_exit_code_has_no_verdict():
    assert judged(ran(code=0), ran(code=1), ran(code=0)).verdict == "none"
    assert judged(ran(code=1), ran(code=1), ran(code=0), base_rerun=ran(code=0)).verdict == "passed"


def test_a_wanted_test_must_exist_and_pass():
    assert judged(ran(B_FAILS), ran(BOTH), wants=("b",)).verdict == "passed"
    answer = judged(ran(BOTH), ran(BOTH), wants=("c",))
    assert (answer.verdict, answer.reason, answer.missing_wants) == ("failed", "wanted but not passed: c", ("c",))


def test_a_wanted_test_that_wavers_has_no_verdict():
    base = ran(B_FAILS)
    answer = judged(base, ran(B_FAILS), ran(BOTH), base_rerun=ran(BOTH), wants=("b",))
    assert (answer.verdict, answer.missing_wants) == ("none", ("b",))


def test_wanted_tests_cannot_be_granted_without_ids():
    answer = judged(ran(code=1), ran(code=0), wants=("b",))
    assert (answer.verdict, answer.missing_wants) == ("none", ("b",))


def test_a_want_covers_its_parameters_and_its_file():
    assert matches("t.py::x", "t.py::x[1]")
    assert matches("t.py", "t.py::x")
    assert not matches("t.py::x", "t.py::xy")


def test_a_file_that_could_not_load_counts_as_failing_for_each_of_its_tests():
    answer = judged(ran({"t.py": "error"}), ran({"t.py::x": "failed", "t.py::y": "passed"}))
    assert (answer.still_failing, answer.newly_failing, answer.fixed) == (("t.py::x",), (), ("t.py",))


def test_the_same_missing_package_on_both_sides_is_the_environment():
    why = f"{CANNOT_IMPORT}no module named 'requests'"
    broken = ran({"t.py": "error"}, reason=why)
    assert judged(broken, broken).reason == f"base and candidate fail alike: {why}"
    assert judged(broken, broken).verdict == "none"


def test_only_doubtful_reds_are_run_again():
    assert not needs_rerun(Observed(ran(BOTH)), ran(BOTH))
    assert needs_rerun(Observed(ran(BOTH)), ran(B_FAILS))
    assert not needs_rerun(Observed(ran(B_FAILS)), ran(B_FAILS))
    assert needs_rerun(Observed(ran(B_FAILS)), ran({"a": "failed", "b": "passed"}))
    assert needs_rerun(Observed(ran(code=0)), ran(code=1))
    assert not needs_rerun(Observed(ran(code=1)), ran(code=1))


def test_only_the_named_tests_count_when_a_run_is_narrowed():
    mixed = ran({"a": "passed", "new": "failed"})
    assert only(mixed, lambda name: name == "a").verdict == "passed"
    assert only(mixed, lambda name: name == "new").verdict == "failed"
    assert only(mixed, lambda name: False).verdict == "none"
    assert only(ran(BOTH, code=2), lambda name: True).verdict == "failed"


EMPTY = silent("no tests ran")


def test_a_base_without_tests_is_judged_by_the_wanted_tests_alone():
    answer = judged(EMPTY, ran(BOTH), wants=("b",))
    assert (answer.verdict, answer.reason) == ("passed", BY_WANTS_ALONE)
    assert judged(EMPTY, ran(BOTH), wants=("b",), accept="no_worse").verdict == "passed"


@pytest.mark.parametrize(
    ("candidate", "wants", "verdict"),
    [
        ((ran(B_FAILS), ran(B_FAILS)), ("a",), "failed"),
        ((ran(B_FAILS), ran(B_FAILS)), ("b",), "failed"),
        ((ran(BOTH),), ("c",), "failed"),
        ((ran(B_FAILS), ran(BOTH)), ("b",), "none"),
        ((ran(),), ("b",), "none"),
        ((silent("no tests ran"),), ("b",), "none"),
        ((ran(BOTH),), (), "none"),
    ],
)
def test_a_base_without_tests_lets_nothing_else_pass(candidate, wants: tuple[str, ...], verdict: str):
    assert judged(EMPTY, *candidate, wants=wants).verdict == verdict


@pytest.mark.parametrize("why", ["timeout: no end after 5 s", "killed by signal 9 (SIGKILL)", "missing tool: x"])
def test_wanted_tests_do_not_stand_in_for_a_base_that_could_not_run(why: str):
    assert judged(silent(why), ran(BOTH), wants=("b",)).verdict == "none"


def test_a_second_look_at_some_tests_is_laid_over_the_first_run():
    again = overlaid(ran({"a": "passed", "b": "failed"}), ran({"b": "passed"}))
    assert (again.verdict, again.tests, again.reason) == ("passed", BOTH, None)
    assert overlaid(ran(B_FAILS), ran({"b": "failed"})).verdict == "failed"
    assert overlaid(ran({"a": "failed", "b": "failed"}), ran({"b": "passed"})).verdict == "failed"
    assert overlaid(ran(B_FAILS), ran({"b": "passed"}, code=1)).verdict == "failed"


def test_only_what_the_base_did_not_always_fail_is_looked_at_again():
    assert differing(Observed(ran(B_FAILS)), ran({"a": "failed", "b": "failed"})) == {"a"}
    assert differing(None, ran(B_FAILS)) == {"b"}
    assert confirmed(frozenset({"a"}), ran({"a": "failed"}))
    assert not confirmed(frozenset({"a", "b"}), ran({"a": "failed", "b": "passed"}))
