"""What can only be seen of all cards together: equal ids, dependencies on nothing, and circles."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from delegation.cards.fields import same_id
from delegation.cards.found import FoundCard, Problem


def sound(cards: Sequence[FoundCard], broken: Collection[str]) -> tuple[tuple[FoundCard, ...], tuple[Problem, ...]]:
    """The cards that may run, with `depends_on` in the words of those it names; and what is wrong with the others.

    A card that depends on a broken one is sound: it is the night that passes it over. `broken` are the ids of those.
    """
    problems = list(_equal_ids(cards))
    doubles = {problem.card for problem in problems}
    left = [card for card in cards if card.id not in doubles]
    names = {same_id(name): name for name in (*broken, *(card.id for card in cards))}
    unknown = list(_unknown(left, names))
    lost = {problem.card for problem in unknown}
    named = [_with_names(card, names) for card in left if card.id not in lost]
    circles = list(_in_circles(named))
    turning = {problem.card for problem in circles}
    return tuple(card for card in named if card.id not in turning), (*problems, *unknown, *circles)


def _equal_ids(cards: Sequence[FoundCard]) -> Iterator[Problem]:
    together: dict[str, list[FoundCard]] = {}
    for card in cards:
        together.setdefault(same_id(card.id), []).append(card)
    for same in together.values():
        for card in same if len(same) > 1 else ():
            others = ", ".join(f"{other.id!r} in {other.place}" for other in same if other is not card)
            said = f"id {card.id!r} cannot be told from {others}: rename one"
            yield card.problem(said, "id")


def _unknown(cards: Sequence[FoundCard], names: Mapping[str, str]) -> Iterator[Problem]:
    for card in cards:
        missing = [name for name in card.fields.depends_on if same_id(name) not in names]
        if missing:
            said = f"depends_on names {', '.join(map(repr, missing))}, and no card is called so"
            yield card.problem(said, "depends_on")


def _with_names(card: FoundCard, names: Mapping[str, str]) -> FoundCard:
    asked = tuple(dict.fromkeys(names[same_id(name)] for name in card.fields.depends_on))
    return card.model_copy(update={"fields": card.fields.model_copy(update={"depends_on": asked})})


def _in_circles(cards: Sequence[FoundCard]) -> Iterator[Problem]:
    wants = {card.id: card.fields.depends_on for card in cards}
    by_id = {card.id: card for card in cards}
    for circle in circles(wants):
        said = f"depends_on goes in a circle: {' -> '.join((*circle, circle[0]))}"
        for name in circle:
            yield by_id[name].problem(said, "depends_on")


def circles(wants: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Each circle once, as the names along it. Without recursion: a chain may be thousands long."""
    done: set[str] = set()
    for start in wants:
        path: list[str] = []
        places: dict[str, int] = {}
        stack = [(start, iter(wants[start]))] if start not in done else []
        if stack:
            path.append(start)
            places[start] = 0
        while stack:
            name, rest = stack[-1]
            following = next((each for each in rest if each in wants and each not in done), None)
            if following is None:
                stack.pop()
                done.add(path.pop())
                del places[name]
            elif following in places:
                yield tuple(path[places[following] :])
            else:
                places[following] = len(path)
                path.append(following)
                stack.append((following, iter(wants[following])))
