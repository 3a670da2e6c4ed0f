"""The plan of a night as a person sees it in a terminal."""

from collections.abc import Iterator

from rich.text import Text

from delegation.night.plan import NightPlan, PlannedCard
from delegation.records.wording import count
from mcp_entry.terminal.shown.render import err, out, printable, show_table


def show_plan(plan: NightPlan) -> None:
    """The cards in their order and what they would wait for on stdout; what is wrong with others on stderr."""
    console = out()
    show_table(console, ("card", "model", "pool", "tries", "after", "task"), (_row(card) for card in plan.cards))
    console.print()
    for line in _sums(plan):
        console.print(Text(printable(line)))
    for card in plan.cards:
        for warning in card.warnings:
            err().print(Text(printable(f"{card.place}: warning: {warning}"), style="yellow"))
    for file in plan.passed_over:
        err().print(Text(printable(f"passed over: {file}"), style="dim"))
    for problem in plan.problems:
        err().print(Text(printable(problem.text), style="red"))


def _row(card: PlannedCard) -> tuple[str, ...]:
    tries, what = str(card.attempts), card.title
    if card.passed_over:
        tries, what = "-", f"passed over: {card.passed_over}"
    return card.id, card.model, card.bucket, tries, ", ".join(card.depends_on) or "-", what


def _sums(plan: NightPlan) -> Iterator[str]:
    at_work = [card for card in plan.cards if not card.passed_over]
    runs = sum(card.attempts for card in at_work)
    broken = f", {count(len(plan.problems), 'problem')}" if plan.problems else ""
    lost = len(plan.cards) - len(at_work)
    passed = f", {lost} passed over" if lost else ""
    yield f"{count(len(at_work), 'card')}, {count(runs, 'delegation')}{broken}{passed}"
    for pool in plan.pools:
        yield f"  {pool.queue}: {count(pool.delegations, 'delegation')}, {pool.at_a_time} at a time"
    if plan.budget_usd is not None:
        yield f"  budgets of cards: {plan.budget_usd:.2f} USD at most, {plan.without_budget} without one"
    elif plan.cards:
        yield "  no card has a budget of its own"
