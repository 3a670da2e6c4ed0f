"""The parameters of nights that come every night: Prefect forgets them when a schedule is paused or resumed.

Its server takes an update that names none for one that empties them (seen with 3.9.1; its own UI sends them along, its
command line and whoever uses the API do not). The night would then begin without its cards.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from delegation.files import text_or_none
from delegation.home import Home
from delegation.kept_keys import EVERY_NIGHT, SURROUNDINGS
from deployments.rest import PrefectRest

_NIGHT = "/deployments/name/night_shift/night"
_SLUG = re.compile(rf"{EVERY_NIGHT}[0-9a-f]{{16}}")


class NightSchedules:
    """Those that `delegate night DIR --at` made in this home, which has kept their parameters."""

    def __init__(self, rest: PrefectRest, home: Home, say: Callable[[str], None]) -> None:
        self._rest, self._home, self._say = rest, home, say

    def mend(self) -> None:
        """Give back what was lost; whether one is active stays as it is. The server is asked where there is anything to
        give back. Raises StackError when it does not answer."""
        if not any(self._home.nights.glob(f"{EVERY_NIGHT}*{SURROUNDINGS}")):
            return
        deployment = self._rest.find(_NIGHT) or {}
        for schedule in deployment.get("schedules") or ():
            slug = schedule.get("slug") or ""
            parameters = None if schedule.get("parameters") else self._kept(slug)
            if parameters:
                path = f"/deployments/{deployment['id']}/schedules/{schedule['id']}"
                self._rest.call("PATCH", path, {"parameters": parameters})
                self._say(f"schedule {slug}: its parameters were lost, and are given back")

    def _kept(self, slug: str) -> dict[str, Any] | None:
        if not _SLUG.fullmatch(slug):
            return None
        try:
            kept = json.loads(text_or_none(self._home.nights / f"{slug}{SURROUNDINGS}") or "{}")
        except (ValueError, OSError):
            return None
        found = kept.get("parameters") if isinstance(kept, dict) else None
        return found if isinstance(found, dict) else None
