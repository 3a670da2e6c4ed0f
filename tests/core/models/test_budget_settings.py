"""What may be spent is said in `[budgets]`, and a variable wins over it."""

from collections.abc import Callable

import pytest

from delegation.budgets import BudgetLimits
from delegation.errors import UsageError
from delegation.settings import Settings

TABLE = """
[budgets]
per_day_usd = 5
per_repository_per_day_usd = 2.5
per_night_usd = 0
allow_unknown_cost = true
time_zone = "Europe/Berlin"
"""


def test_the_table_limits_every_delegation_beside_its_own_budget(settings_for: Callable[..., Settings]):
    assert settings_for(TABLE).budget_limits(0.5) == BudgetLimits(
        per_delegation_usd=0.5,
        per_repository_per_day_usd=2.5,
        per_day_usd=5,
        per_night_usd=0,
        allow_unknown_cost=True,
        time_zone="Europe/Berlin",
    )


def test_without_a_table_nothing_is_limited(settings_for: Callable[..., Settings]):
    limits = settings_for("").budget_limits(None)
    assert limits == BudgetLimits()
    assert not limits.is_set


def test_a_variable_wins_over_the_table(settings_for: Callable[..., Settings]):
    settings = settings_for(TABLE, DELEGATE_BUDGET_PER_DAY_USD="7", DELEGATE_BUDGET_ALLOW_UNKNOWN_COST="0")
    limits = settings.budget_limits(None)
    assert (limits.per_day_usd, limits.per_night_usd, limits.allow_unknown_cost) == (7.0, 0.0, False)


def test_the_env_file_of_a_folder_cannot_raise_a_budget(settings_for: Callable[..., Settings]):
    settings = settings_for(TABLE, env_file="DELEGATE_BUDGET_PER_DAY_USD=999\n")
    assert settings.budget_limits(None).per_day_usd == 5
    assert any("DELEGATE_BUDGET_PER_DAY_USD is ignored there" in warning for warning in settings.warnings)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("per_day_usd = -1", "per_day_usd must be a number from 0"),
        ("per_day_usd = nan", "per_day_usd must be a number from 0"),
        ('time_zone = "Mars/Base"', "must be the name of a time zone such as 'Europe/Berlin'"),
        ("per_week_usd = 5", "per_week_usd is an unknown key"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused_with_its_line(
    settings_for: Callable[..., Settings], line: str, said: str
):
    with pytest.raises(UsageError) as refused:
        settings_for(f"[budgets]\n{line}\n")
    assert said in str(refused.value)
    assert "line 2: [budgets]" in str(refused.value)
