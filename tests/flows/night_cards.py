"""A shop with many small mistakes, cards that have them mended, and models that do so on a bad line."""

import json
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from delegation.scripted.endpoint import Call, Request, Turn
from tests.flows.conftest import committed

MODULES = (
    "invoice", "discount", "basket", "customs", "currency", "stock", "shipping", "refund", "tax", "coupon", "loyalty",
    "paging", "ranking", "margin", "payout", "weight", "volume", "deposit", "interest", "rounding", "credit", "debit",
    "balance", "budget", "forecast", "demand", "supply", "reorder", "picking", "packing", "routing", "mileage", "toll",
    "fuel", "wages", "overtime", "holiday", "pension", "bonus", "rent", "heating", "power",
)  # fmt: skip
POOLS = ("openai-scripted", "local-scripted", "deepseek-v4-flash")
FAULTS = ("429", "503", "cut", "cut_before_end", "529")


def shop(folder: Path, modules: int) -> Path:
    """A repository with a wrong function and a test for it in each module."""
    folder.mkdir()
    for name in MODULES[:modules]:
        (folder / f"{name}.py").write_text(f"def {name}_sum(a, b):\n    return a - b\n")
        (folder / f"test_{name}.py").write_text(
            f"from {name} import {name}_sum\n\n\ndef test_{name}_sum():\n    assert {name}_sum(2, 3) == 5\n"
        )
    return committed(folder)


@dataclass
class Cards:
    """Writes cards in every format; `whole` are those that run, by id, with what the report is to say of them."""

    folder: Path
    repo: Path
    whole: dict[str, str] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)

    def fields(self, name: str, **more: object) -> dict[str, object]:
        place = MODULES.index(name)
        return {
            "id": name,
            "repo": str(self.repo),
            "model": POOLS[place % len(POOLS)],
            "verify": f"python -m pytest -q test_{name}.py",
            "task": f"card-{name}: {name}_sum() must add up what it gets",
            **more,
        }

    def markdown(self, name: str, *, saved: str = "utf-8", ends: str = "\n", **more: object) -> None:
        fields = self.fields(name, **more)
        task = fields.pop("task")
        lines = ["---", *(f"{key}: {json.dumps(value)}" for key, value in fields.items()), "---", str(task), ""]
        (self.folder / f"{name}.md").write_bytes(ends.join(lines).encode(saved))
        self.whole[name] = "verified"

    def listed(self, file: str, *names: str) -> None:
        """Several in one file: YAML, JSON or JSON lines, by its ending."""
        cards = [self.fields(name) for name in names]
        lines = file.endswith(".jsonl")
        text = "\n".join(map(json.dumps, cards)) if lines else json.dumps(cards, indent=1)  # JSON is YAML, too
        (self.folder / file).write_text(text + "\n", encoding="utf-8")
        self.whole |= dict.fromkeys(names, "verified")

    def wrong(self, file: str, text: str | bytes, *ids: str) -> None:
        """A file that holds cards which cannot be read, under these ids."""
        (self.folder / file).write_bytes(text.encode() if isinstance(text, str) else text)
        self.broken |= set(ids)


class Models:
    """What each card's model does. A faulty one breaks each card's first request; `done` counts good first replies."""

    def __init__(self, *, faulty: bool = True, gate: threading.Event | None = None) -> None:
        self.done: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self._faulty, self._gate = faulty, gate
        self._seen: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Turn:
        name = json.dumps(request.body).split("card-")[1].split(":")[0]
        if self._gate is not None and request.turn:
            self._gate.wait(120)
        with self._lock:
            fault = self._fault(name, request)
            if fault is not None:
                self.faults[fault] += 1
                return Turn(fault=fault, retry_after="1" if fault == "429" else None)
            if request.turn == 0:
                self.done[name] += 1
            return self._turn(name, request, self.done[name])

    def _fault(self, name: str, request: Request) -> str | None:
        """Once for each card, at its first or its second turn."""
        place = MODULES.index(name) if name in MODULES else 0
        if not self._faulty or name in self._seen or place % 3 == 2 or request.turn != place % 2:
            return None
        self._seen.add(name)
        return FAULTS[place % len(FAULTS)]

    def _turn(self, name: str, request: Request, attempt: int) -> Turn:
        if name == "question" or (name == "power" and request.turn == 0):
            return Turn(text="Nothing to do.")
        if name == "heating":
            return Turn(fault="400")
        if request.turn:
            return Turn(text="Done.", usage={"input": 10, "output": 5})
        return Turn(calls=(Call("edit_file", {"path": f"{name}.py", **_edit(name, attempt)}),))


def _edit(name: str, attempt: int) -> dict[str, str]:
    """`rent` is always wrong; `bonus` is wrong first, then right with many words, then right."""
    new = "return a * b" if name == "rent" or (name == "bonus" and attempt == 1) else "return a + b"
    if name == "bonus" and attempt == 2:
        new = "total = a\n    total = total + b\n    return total"
    return {"old_text": "return a - b", "new_text": new}
