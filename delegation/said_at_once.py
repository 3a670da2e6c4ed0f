"""What the one who submits should hear at once. Nothing of it is in the request: the receipt tells by itself what came
of it."""

import re
import shlex
import shutil
from pathlib import Path

from delegation.checkout.user_state import not_in_the_base, uncommitted_at_a_glance
from delegation.errors import WorkFailed
from delegation.request import DelegationRequest

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9_.+-]+")
_WORDS_OF_THE_SHELL = (
    ". : alias break builtin case cd command continue declare do done echo elif else esac eval exec exit export false "
    "fi for function getopts hash if kill let local popd printf pushd pwd read readonly return select set shift shopt "
    "source test then time times trap true type typeset ulimit umask unset until wait while "
)
_OF_THE_SHELL = frozenset(_WORDS_OF_THE_SHELL.split())


def said_at_once(request: DelegationRequest) -> tuple[str, ...]:
    """Sentences about the caller's own repository and machine; empty where there is nothing to say."""
    return (*_uncommitted(request), *missing_tool(request))


def _uncommitted(request: DelegationRequest) -> tuple[str, ...]:
    card = request.card
    if not request.is_git or card.include_dirty or card.isolation != "worktree":
        return ()
    try:
        return not_in_the_base(uncommitted_at_a_glance(Path(request.repo)))
    except WorkFailed:  # too large to look at in passing: the receipt says it
        return ()


def missing_tool(request: DelegationRequest) -> tuple[str, ...]:
    """That the verify command's program is not on the caller's PATH.

    Only a plain first word can be judged, and only where no setup command may bring the program."""
    card = request.card
    word = first_word(card.verify) if card.verify and not card.setup else None
    if word is None or shutil.which(word, path=request.search_path) is not None:
        return ()
    return (f"the verify command begins with {word!r}, which is not on your PATH: without a --setup that brings it, "
            "nothing can be judged",)  # fmt: skip


def first_word(command: str) -> str | None:
    """The program that a shell command starts, or None where that is no plain name (a path, a keyword, a group)."""
    try:
        words = shlex.split(command, comments=True)
    except ValueError:
        return None
    word = next((word for word in words if not _ASSIGNMENT.fullmatch(word)), None)
    return word if word and _PLAIN.fullmatch(word) and word not in _OF_THE_SHELL else None
