"""A night that goes on, in a few words: its state, and where each of its cards is."""

from dataclasses import dataclass

from delegation.records import RecordStore
from delegation.records.wording import count
from delegation.settings import Settings
from mcp_entry.verbs.night.nights import Standing
from mcp_entry.verbs.progress import state_of


@dataclass(frozen=True)
class CardState:
    """One attempt of a card: the outcome, or the step it is at."""

    card: str
    attempt: int
    delegation_id: str
    state: str


def lines_of(settings: Settings, found: Standing) -> list[CardState]:
    """In the order they began; of one that was begun anew the last."""
    records = RecordStore(settings.home)
    newest = {(child.card, child.number): child for child in found.children}
    return [
        CardState(child.card, child.number, child.delegation_id, state_of(records.summary(child.delegation_id)))
        for child in newest.values()
    ]


def summary_of(found: Standing) -> str:
    """One sentence."""
    if found.run is None:
        return "nobody works on it"
    if found.run.state == "SCHEDULED" and not found.children:
        return "it has not begun"
    state = (found.run.state_name or "running").lower()
    return f"{state}, {count(len({child.card for child in found.children}), 'card')} begun so far"
