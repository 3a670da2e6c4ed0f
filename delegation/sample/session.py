"""What the scripted model does: it reads, runs the tests, edits, runs them again, and says what it did."""

from delegation.scripted.turns import Call, Request, Turn

_BUG = "    return ordered[len(ordered) // 2]\n"
_REPAIR = """    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2
"""

_TURNS = (
    Turn(text="I'll look at the code first.", calls=(Call("read_file", {"path": "statistics_tools.py"}),)),
    Turn(text="Now the tests.", calls=(Call("run_bash", {"command": "python3 -m unittest 2>&1 | tail -12"}),)),
    Turn(
        text="The median of an even count must be the mean of the two middle values.",
        calls=(Call("edit_file", {"path": "statistics_tools.py", "old_text": _BUG, "new_text": _REPAIR}),),
    ),
    Turn(text="Once more.", calls=(Call("run_bash", {"command": "python3 -m unittest 2>&1 | tail -4"}),)),
    Turn(
        text="median() took the upper middle value of an even count. It now returns the mean of both; all tests pass."
    ),
)


def repair(request: Request) -> Turn:
    """The next turn of whatever conversation asks."""
    return _TURNS[min(request.turn, len(_TURNS) - 1)]
