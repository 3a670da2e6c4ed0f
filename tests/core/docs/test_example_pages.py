"""Pages that a test wrote from a real run: whole, and without the machine that it ran on."""

import re
import shlex
from collections import Counter

from mcp_entry.terminal.app import VERBS
from tests.flows.night_page import PAGE, sections


def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_the_night_has_sixty_cards_each_once_and_every_group_says_how_many_it_has():
    found = sections(page())
    cards = Counter(card for names in found.values() for card in names)
    assert (cards.total(), set(cards.values())) == (60, {1})
    assert len(found["Cannot be read"]) == 12
    headed = re.findall(r"^### (.+) \((\d+)\)$", page(), re.MULTILINE)
    assert {name: int(number) for name, number in headed} == {name: len(names) for name, names in found.items()}


def test_no_path_and_no_address_of_the_machine_that_it_ran_on_stands_there():
    assert re.findall(r"/tmp|/root|/var|pytest-|127\.0\.0\.1|localhost|DELEGATE_HOME", page()) == []
    assert "/home/me/cards" in page()


def test_its_commands_are_those_that_there_are():
    commands = re.findall(r"^  (accept|retry|drop|check|look) `(.+)`", page(), re.MULTILINE)
    assert len(commands) > 100
    for name, command in commands:
        program, *words = shlex.split(command)
        assert program == "git" if name == "drop" else (program == "delegate" and words[0] in VERBS), command
