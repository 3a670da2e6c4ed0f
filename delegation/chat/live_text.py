"""Text for a reader while the reply still arrives, without the reasoning that a server left in it."""

import re
from collections.abc import Callable

_OPENED = re.compile(r"<(think|thinking|reasoning)>", re.I)
_LONGEST_TAG = len("<reasoning>")


class LiveText:
    """Passes text on as it comes; holds back what may be a think tag and what stands inside one.

    `used` tells that something was passed on, so that a repetition would show it twice.
    """

    def __init__(self, on_text: Callable[[str], None] | None) -> None:
        self._on_text = on_text
        self._held = ""
        self._plain = False
        self.used: bool = False

    def feed(self, text: str) -> None:
        if self._on_text is None or not text:
            return
        self._held += text
        if not self._plain:
            self._plain = self._past_thinking()
        if self._plain and self._held.strip():
            self._pass_on()

    def finish(self) -> None:
        """The reply is complete: pass on what was too short to be told from a tag."""
        if self._on_text is not None and self._held.strip() and not self._held.lstrip().startswith("<"):
            self._pass_on()

    def _pass_on(self) -> None:
        assert self._on_text is not None
        self.used = True
        text, self._held = self._held, ""
        self._on_text(text)

    def _past_thinking(self) -> bool:
        """Whether the rest is answer. A closed block of reasoning is dropped."""
        begin = self._held.lstrip()
        opened = _OPENED.match(begin)
        if opened is None:
            return bool(begin) and not (begin.startswith("<") and len(begin) < _LONGEST_TAG)
        closed = re.compile(rf"</{opened.group(1)}>", re.I).search(begin, opened.end())
        if closed is None:
            return False
        self._held = begin[closed.end() :].lstrip()
        return self._past_thinking()
