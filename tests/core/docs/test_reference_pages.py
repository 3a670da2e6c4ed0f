"""Pages that say what the code says: the card's fields, the settings, the flags; and every page can be found."""

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
READ_IN_SETTINGS = ("budget_", "test_isolation")  # the beginnings of their names


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_pages", DOCS / "reference" / "make.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["card", "settings"])
def test_a_page_that_repeats_the_code_is_as_the_code_is(name: str):
    made = maker()
    path, written = getattr(made, f"{name.upper()}_PAGE"), getattr(made, f"{name}_page")
    text = path.read_text(encoding="utf-8")
    assert written(text) == text, "run `python docs/reference/make.py`"
    assert all(f"| `{field}` |" in made.card_table() for field in Card.model_fields)


def test_the_glossary_has_every_flag_in_the_words_of_a_receipt():
    assert [row for name, text in FLAGS.items() if (row := f"| `{name}` | {text} |") not in page("glossary.md")] == []


def test_every_setting_is_used_by_something():
    """`variables.py` declares them, and `settings.py` reads them and uses a few itself."""
    files = [path for part in CODE for path in (ROOT / part).rglob("*.py")]
    texts = [path.read_text(encoding="utf-8") for path in files if path.name not in ("variables.py", "settings.py")]
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    unused = set(Variables.model_fields) - words
    assert {name for name in unused if not name.startswith(READ_IN_SETTINGS)} == set()


def test_the_design_names_every_folder_and_module_of_the_core_and_of_the_front_door():
    page = (DOCS / "design.md").read_text(encoding="utf-8")
    parts = [path for part in ("delegation", "mcp_entry") for path in (ROOT / part).glob("*")]
    names = {path.stem for path in parts if path.suffix == ".py" or (path / "__init__.py").exists()}
    named = set(re.findall(r"`(?:\w+/)*(\w+)(?:/|\.py)?`", page))
    assert {name for name in names if not name.startswith("__")} - named == set()


def test_every_page_is_found_by_going_from_link_to_link():
    found, left = set[Path](), [ROOT / "README.md"]
    while left:
        path = left.pop()
        if path in found:
            continue
        found.add(path)
        if path.is_dir():
            left += path.glob("*.md")
        elif path.suffix == ".md" and path.is_file():
            left += [(path.parent / target).resolve() for target, _ in _links(path) if target]
    assert {str(page.relative_to(ROOT)) for page in set(DOCS.rglob("*.md")) - found} == set()


@pytest.mark.parametrize("path", sorted([*DOCS.rglob("*.md"), ROOT / "README.md"]), ids=lambda path: path.name)
def test_every_link_of_a_page_leads_to_a_file_and_a_heading_that_are_there(path: Path):
    for target, heading in _links(path):
        file = path if not target else (path.parent / target).resolve()
        assert file.exists(), target
        if heading:
            assert heading in {_anchor(line) for line in file.read_text(encoding="utf-8").splitlines()}, heading


def _links(path: Path) -> list[tuple[str, str]]:
    """The links of a page that stay here: file and heading, either of them possibly empty."""
    return re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", path.read_text(encoding="utf-8"))


def _anchor(line: str) -> str | None:
    if not line.startswith("#"):
        return None
    return re.sub(r"[^a-z0-9_ -]", "", line.lstrip("#").strip().lower()).replace(" ", "-")
