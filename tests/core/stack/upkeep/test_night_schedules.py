"""A night that comes every night keeps its cards when a client that forgets them pauses or resumes its schedule."""

import json
from pathlib import Path
from typing import Any

import pytest

from delegation.home import Home
from delegation.night.surroundings import keep_surroundings
from delegation.settings import load_settings
from deployments.upkeep.night_schedules import NightSchedules

SLUG = "every-0123456789abcdef"
GIVEN = {"cards": "/home/me/cards", "until": "06:00", "surroundings": SLUG}


class Rest:
    """A server with the deployment of nights, and what it was told."""

    def __init__(self, *schedules: dict[str, Any]) -> None:
        self.deployment = {"id": "d", "schedules": [{"id": f"s{n}", **each} for n, each in enumerate(schedules)]}
        self.told: list[tuple[str, str, Any]] = []
        self.asked = 0

    def find(self, path: str) -> Any:
        self.asked += 1
        return self.deployment if path == "/deployments/name/night_shift/night" else None

    def call(self, method: str, path: str, body: Any) -> None:
        self.told.append((method, path, body))


@pytest.fixture
def home(delegate_home: Path, tmp_path: Path) -> Home:
    settings = load_settings({"DELEGATE_HOME": str(delegate_home), "HOME": str(tmp_path)}, tmp_path)
    keep_surroundings(settings, SLUG, GIVEN)
    return settings.home


def mended(home: Home, *schedules: dict[str, Any]) -> list[tuple[str, str, Any]]:
    rest = Rest(*schedules)
    NightSchedules(rest, home, lambda _: None).mend()  # pyright: ignore[reportArgumentType]  # what it calls is there
    return rest.told


def test_what_a_schedule_has_lost_is_given_back_and_nothing_else_is_changed(home: Home):
    lost = {"slug": SLUG, "parameters": {}, "active": False}
    told = mended(home, {"slug": SLUG, "parameters": {"cards": "/other"}}, lost)
    assert told == [("PATCH", "/deployments/d/schedules/s1", {"parameters": GIVEN})]


@pytest.mark.parametrize(
    "slug", [None, "mine", "every-nosuch", f"{SLUG}x", "../../every-0123456789abcdef", "every-" + "a" * 16]
)
def test_a_schedule_that_is_not_of_this_home_is_left_alone(home: Home, slug: str | None):
    assert mended(home, {"slug": slug, "parameters": {}}) == []


@pytest.mark.parametrize("content", ["", "{torn", "[]", '{"cwd": "/", "variables": {}}', '{"parameters": 5}'])
def test_what_was_not_kept_cannot_be_given_back(home: Home, content: str):
    (home.nights / f"{SLUG}.surroundings.json").write_text(content)
    assert mended(home, {"slug": SLUG, "parameters": {}}) == []


def test_without_the_deployment_there_is_nothing_to_mend(home: Home):
    rest = Rest()
    rest.deployment = None  # type: ignore[assignment]
    NightSchedules(rest, home, lambda _: None).mend()  # pyright: ignore[reportArgumentType]
    assert rest.told == []


def test_where_no_night_is_kept_the_server_is_not_asked(home: Home):
    for sweeps, kept in [(1, True), (0, False)]:
        rest = Rest({"slug": SLUG, "parameters": {}})
        NightSchedules(rest, home, lambda _: None).mend()  # pyright: ignore[reportArgumentType]
        assert rest.asked == sweeps, kept
        (home.nights / f"{SLUG}.surroundings.json").unlink(missing_ok=True)


def test_the_settings_of_a_night_are_kept_with_its_parameters_and_read_without_them(home: Home):
    kept = json.loads((home.nights / f"{SLUG}.surroundings.json").read_text())
    assert kept["parameters"] == GIVEN
