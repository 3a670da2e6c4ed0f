"""Pages that say what the code says: the card's fields, the flags, the settings that nothing uses yet, links."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from front import ROOT

from delegation.card import Card
from delegation.records.wording import FLAGS
from delegation.variables import Variables

DOCS = ROOT / "docs"
CODE = ("delegation", "mcp_entry", "deployments", "flows", "tasks")
UNUSED = "### Read, and used by nothing yet\n"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_pages", DOCS / "reference" / "make.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_the_card_is_as_the_card_is():
    made = maker()
    assert made.table() in page("reference/card.md"), "run `python docs/reference/make.py`"
    assert made.page_with(made.table(), page("reference/card.md")) == page("reference/card.md")
    assert all(f"| `{name}` |" in made.table() for name in Card.model_fields)


def test_the_glossary_has_every_flag_in_the_words_of_a_receipt():
    assert [row for name, text in FLAGS.items() if (row := f"| `{name}` | {text} |") not in page("glossary.md")] == []


def test_settings_that_nothing_uses_are_marked_and_those_that_something_uses_are_not():
    """`settings.py` only reads and checks them; harnesses count as soon as anything outside of them imports them."""
    files = [path for part in CODE for path in (ROOT / part).rglob("*.py")]
    files = [path for path in files if path.name not in ("variables.py", "settings.py")]
    harnesses = {path for path in files if ROOT / "delegation" / "harnesses" in path.parents}
    texts = [path.read_text(encoding="utf-8") for path in files if path not in harnesses]
    if any("delegation.harnesses" in text for text in texts):
        texts += [path.read_text(encoding="utf-8") for path in harnesses]
    used = {name for name in Variables.model_fields if any(re.search(rf"\b{name}\b", text) for text in texts)}
    programs = {name for name in Variables.model_fields if name.startswith(("codex_", "agy_", "gemini_", "dsh_"))}
    marked = set(re.findall(r"^\| `\w+` \| `(\w+)` \|", page("reference/configuration.md").split(UNUSED)[1], re.M))

    assert marked & used == set(), "these are used by now: move them to a table of their own"
    assert programs - used <= marked


@pytest.mark.parametrize("path", sorted([*DOCS.rglob("*.md"), ROOT / "README.md"]), ids=lambda path: path.name)
def test_every_link_of_a_page_leads_to_a_file_and_a_heading_that_are_there(path: Path):
    for target, heading in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", path.read_text(encoding="utf-8")):
        file = path if not target else (path.parent / target).resolve()
        assert file.exists(), target
        if heading:
            assert heading in {_anchor(line) for line in file.read_text(encoding="utf-8").splitlines()}, heading


def _anchor(line: str) -> str | None:
    if not line.startswith("#"):
        return None
    return re.sub(r"[^a-z0-9_ -]", "", line.lstrip("#").strip().lower()).replace(" ", "-")
