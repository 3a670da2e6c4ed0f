"""Wilson's interval against figures worked out by hand, and ranks that say no more than the intervals do."""

import pytest

from delegation.comparison.intervals import LEAST_TO_TELL_APART, overlap, ranks, wilson


@pytest.mark.parametrize(
    ("passed", "trials", "low", "high"),
    [
        # p = 3/4, n = 4, z² = 3.84146: middle 0.75 + 3.84146/8 = 1.23018,
        # reach 1.95996 * sqrt(0.75*0.25/4 + 3.84146/64) = 1.95996 * 0.32695 = 0.64081, both over 1 + 3.84146/4
        (3, 4, 0.30064, 0.95441),
        (0, 4, 0.0, 0.48989),  # 3.84146 / (4 + 3.84146)
        (4, 4, 0.51011, 1.0),  # 4 / (4 + 3.84146)
        (1, 2, 0.09453, 0.90547),  # middle is 1/2; half of it is 1.95996 * sqrt(0.125 + 0.24009) / 2.92073
        (45, 50, 0.78640, 0.95652),
    ],
)
def test_the_interval_is_wilsons(passed: int, trials: int, low: float, high: float):
    assert wilson(passed, trials) == pytest.approx((low, high), abs=5e-5)


def test_nothing_is_known_without_trials():
    assert wilson(0, 0) is None


def test_from_four_trials_on_all_against_none_is_told_apart():
    for trials, told in ((LEAST_TO_TELL_APART - 1, False), (LEAST_TO_TELL_APART, True)):
        none, all_ = wilson(0, trials), wilson(trials, trials)
        assert none
        assert all_
        assert overlap(none, all_) is not told


def test_a_rank_is_a_range_where_it_cannot_be_told():
    """b is told apart from neither, though a and c are from each other."""
    found = ranks({"a": (0.8, 1.0), "b": (0.5, 0.85), "c": (0.1, 0.6)})
    assert {name: (rank.text, rank.not_told_apart) for name, rank in found.items()} == {
        "a": ("1-2", ("b",)),
        "b": ("1-3", ("a", "c")),
        "c": ("2-3", ("b",)),
    }
    assert [rank.text for rank in ranks({"a": (0.8, 1.0), "b": (0.1, 0.2)}).values()] == ["1", "2"]
