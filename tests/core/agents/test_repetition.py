"""What counts as going in circles, turn by turn."""

from delegation.agents.repetition import STOP_AFTER, WARN_AFTER, Notice, Repetition
from delegation.agents.tools.answer import ToolAnswer
from delegation.chat.messages import ToolUse

Turn = tuple[str, str, bool]


def notices(*turns: Turn) -> list[Notice]:
    """The notice after each turn of one call: what was asked, what came, whether a file changed."""
    repetition = Repetition()
    return [
        repetition.after_turn([(ToolUse(f"id{number}", "tool", {"ask": ask}), ToolAnswer(text, changed=changed))])
        for number, (ask, text, changed) in enumerate(turns)
    ]


def test_the_same_result_is_warned_about_and_then_ends_the_run():
    found = notices(*[("a", "same", False)] * 8)
    assert found[: WARN_AFTER + 1] == ["none", "none", "none", "warn"]
    assert found.index("stop") == STOP_AFTER


def test_a_result_that_differs_each_time_is_never_repetition():
    assert set(notices(*[("a", str(number), False) for number in range(30)])) == {"none"}


def test_after_a_change_every_earlier_result_counts_as_new():
    tests = [("test", "FAIL", False), ("read", "text", False)]
    turns = [turn for number in range(10) for turn in [*tests, (f"edit {number}", "edited", True)]]
    assert set(notices(*turns)) == {"none"}


def test_results_asked_for_again_without_a_change_do_not_count_as_new():
    turns = [(name, name, False) for name in "abcdef"]
    found = notices(*turns, *turns)
    assert found[6 + WARN_AFTER - 1] == "warn"
    assert found[-1] == "stop"


def test_something_new_in_a_turn_ends_the_streak():
    stale: Turn = ("a", "same", False)
    turns = [stale] * 3 + [("b", "new", False)] + [stale] * 2 + [("c", "new", False)] + [stale] * 2
    assert set(notices(*turns)) == {"none"}


def test_a_model_that_takes_the_warning_and_begins_again_is_ended_the_third_time():
    turns = list[Turn]()
    for number in range(3):
        turns += [(f"new {number}", "new", False), *[("a", "same", False)] * 4]
    found = notices(*turns)
    assert found.count("warn") == 2
    assert "stop" in found


def test_a_change_and_its_undoing_are_caught_by_their_alternation():
    found = notices(*[("there", "edited", True), ("back", "edited", True)] * 6)
    assert found[7] == "warn"
    assert found[9] == "stop"
