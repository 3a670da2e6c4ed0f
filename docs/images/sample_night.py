"""The night of the pictures: a small shop with mistakes, a folder of cards about them, and a scripted model."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from delegation.scripted.endpoint import Call, Request, Turn

_MODULES = {
    "invoice": ("total", "price - quantity", "price * quantity", "assert total(3, 2) == 6"),
    "discount": ("reduced", "price + percent", "price - price * percent / 100", "assert reduced(200, 10) == 180"),
    "stock": ("left", "have + sold", "have - sold", "assert left(9, 4) == 5"),
    "paging": ("pages", "items // size", "-(-items // size)", "assert pages(11, 5) == 3"),
    "margin": ("margin", "price + cost", "price - cost", "assert margin(9, 4) == 5"),
}
_TASKS = {
    "invoice-total": "Multiply price and quantity in invoice.py",
    "discount-percent": "Take the percentage off the price in discount.py",
    "stock-left": "What was sold is no longer in stock, see stock.py",
    "paging-last-page": "Show the last page too: paging.py rounds down",
    "margin-sign": "The margin in margin.py has the wrong sign",
    "release-notes": "What changed for a customer since the last release?",
    "discount-report": "Print the discounts of the week",
}
_CARDS: Mapping[str, Mapping[str, object]] = {
    "invoice-total": {"priority": 5, "review_by": "2026-12-01"},
    "discount-percent": {"attempts": 3, "tags": ["prices"]},
    "stock-left": {},
    "paging-last-page": {},
    "margin-sign": {"depends_on": ["invoice-total"], "tags": ["prices"]},
    "discount-report": {"depends_on": ["paging-last-page"]},
}


def make_shop(folder: Path) -> Path:
    """A git repository whose tests fail."""
    folder.mkdir()
    for module, (name, wrong, _, claim) in _MODULES.items():
        one, two = wrong.replace("//", "+").replace(" - ", " + ").split(" + ")
        (folder / f"{module}.py").write_text(f"def {name}({one}, {two}):\n    return {wrong}\n", encoding="utf-8")
        test = f"from {module} import {name}\n\n\ndef test_{name}():\n    {claim}\n"
        (folder / f"test_{module}.py").write_text(test, encoding="utf-8")
    who = ["-c", "user.name=Demo", "-c", "user.email=demo@example.invalid"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], [*who, "commit", "-q", "-m", "A shop with mistakes"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def make_cards(folder: Path, shop: Path) -> Path:
    """Cards of all kinds; two of them cannot be read."""
    folder.mkdir()
    for card, more in _CARDS.items():
        verify = f"python3 -m pytest -q test_{card.partition('-')[0]}.py"
        fields = {"repo": str(shop), "model": "openai-scripted", "verify": verify, **more}
        head = "\n".join(f"{key}: {json.dumps(value)}" for key, value in fields.items())
        (folder / f"{card}.md").write_text(f"---\n{head}\n---\n{_TASKS[card]}.\n", encoding="utf-8")
    question = {"name": "release-notes", "prompt": _TASKS["release-notes"], "model": "openai-scripted"}
    (folder / "questions.jsonl").write_text(json.dumps(question) + "\n", encoding="utf-8")
    (folder / "coupon.md").write_text(f"---\nrepo: {shop}\nverfy: pytest\n---\nAccept coupons.\n", encoding="utf-8")
    (folder / "tax.yaml").write_text("task: Fix: tax is added twice\n", encoding="utf-8")
    return folder


class Models:
    """Mends what a card asks for; the first try at a discount is wrong, and one gets the pages wrong."""

    def __init__(self) -> None:
        self._discounts = 0

    def __call__(self, request: Request) -> Turn:
        text = json.dumps(request.body)
        card = next(name for name, task in _TASKS.items() if task in text)
        usage = {"input": 2_400, "output": 310}
        if request.turn or card == "release-notes":
            return Turn(text="Prices of several items are right again.", usage=usage, cost_usd=0.0021)
        module = card.partition("-")[0]
        wrong, right = _MODULES[module][1:3]
        return Turn(calls=(self._edit(module, wrong, right),), usage=usage, cost_usd=0.0034)

    def _edit(self, module: str, wrong: str, right: str) -> Call:
        new = right
        if module == "paging":
            new = "items // size + 2"
        if module == "discount":
            self._discounts += 1
            longer = "off = price * percent / 100\n    return price - off"
            new = {1: "price - percent", 2: longer}.get(self._discounts, right)
        old = f"return {wrong}"
        text = new if new.startswith("off") else f"return {new}"
        return Call("edit_file", {"path": f"{module}.py", "old_text": old, "new_text": text})
