"""Which verify command a card ends up with: its own, a detected one where somebody allowed that, or a proposal only."""

import shlex
from pathlib import Path

from delegation.card import Card
from delegation.errors import UsageError

AUTO = "auto"
NO_VERIFY = "no verify command was given"


def with_verify(card: Card, folder: Path, *, runs_detected: bool) -> tuple[Card, tuple[str, ...]]:
    """The card with the command that will judge it, and what has to be said about it.

    A command that was detected in the files of `folder` is run only where the card says 'auto' or `runs_detected` (the
    setting) allows it; otherwise a card that wants a change is told what to give. Nothing is run here. Raises
    UsageError for 'auto' where no file suggests a command, and for wanted tests that no command would run.
    """
    if card.verify == AUTO or (card.verify is None and card.expects == "change"):
        card, said = _with_detected(card, folder, allowed=runs_detected or card.verify == AUTO)
    else:
        said = ()
    if card.wants and card.verify is None:
        raise UsageError(
            "; ".join(("wants names tests, but there is no verify command to run them: give verify", *said))
        )
    return card, said


def _with_detected(card: Card, folder: Path, *, allowed: bool) -> tuple[Card, tuple[str, ...]]:
    from delegation.verdict.detection import detected  # the front door rarely needs it

    found = next(iter(detected(folder)), None)
    if found is None:
        if card.verify == AUTO:
            raise UsageError(
                f"verify is 'auto', and nothing in {str(folder)!r} says how it is tested: give the command itself"
            )
        return card, ()
    if allowed:
        detected_card = card.model_copy(update={"verify": found.command})
        return detected_card, (f"the verify command is the one that {found.source} suggests: {found.command}",)
    return card, (f"{NO_VERIFY}; {found.source} suggests --verify {shlex.quote(found.command)} (or --verify auto)",)
