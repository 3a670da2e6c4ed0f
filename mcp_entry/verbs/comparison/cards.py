"""Where the card of a comparison comes from: a file of one card, or a delegation that had it."""

from dataclasses import dataclass

from delegation.card import Card
from delegation.cards import read_cards
from delegation.errors import NotFoundError, UsageError
from mcp_entry.verbs.card_file import card_of_fields, fields_in
from mcp_entry.verbs.service import Service


@dataclass(frozen=True)
class CardToCompare:
    """The card, and how often each model is to do it where nobody says so."""

    card: Card
    repeats: int = 1


def card_to_compare(verbs: Service, source: str) -> CardToCompare:
    """Raises NotFoundError where it is neither, UsageError for a file that does not hold exactly one whole card that
    stands alone."""
    path = verbs.settings.path(source)
    if path.is_dir() and not _is_delegation(verbs, source):  # an ending of an id may be a folder's name, too
        raise UsageError(f"{source!r} is a folder: name the file of one card")
    if path.is_dir() or not path.exists():
        return CardToCompare(_of_delegation(verbs, source))
    if path.suffix == ".toml":
        fields = fields_in(path)
        if "repo" not in fields:
            raise UsageError(f"{source!r}: repo is missing: name the folder")
        return CardToCompare(card_of_fields(fields))
    found = read_cards(path, verbs.settings.home.no_repository)
    if found.problems:
        raise UsageError("; ".join(problem.text for problem in found.problems))
    if len(found.cards) != 1:
        raise UsageError(f"{source!r} holds {len(found.cards)} cards: a comparison is of one, so give it its own file")
    fields = found.cards[0].fields
    if fields.depends_on:
        needed = fields.depends_on[0]
        raise UsageError(f"{source!r} depends on {needed!r}: leave out depends_on, a compared card stands alone")
    queue = fields.queue if "queue" in fields.model_fields_set else "now"  # in a file, night is the default
    return CardToCompare(fields.card().model_copy(update={"queue": queue}), fields.attempts)


def _is_delegation(verbs: Service, source: str) -> bool:
    try:
        verbs.identify(source)
    except (NotFoundError, UsageError):
        return False
    return True


def _of_delegation(verbs: Service, source: str) -> Card:
    """From the commit that it began at, whatever its base is by now."""
    try:
        request = verbs.records.request(verbs.identify(source))
    except NotFoundError:
        raise NotFoundError(
            f"there is no file {source!r}, and no delegation of that id: name the file of one card, or an id that "
            "`delegate list` shows; a comparison is shown by its id, which begins with 'cmp-', and without --models"
        ) from None
    base = request.base_commit or request.card.base
    return request.card.model_copy(update={"base": base, "key": None, "model": None, "queue": "now"})
