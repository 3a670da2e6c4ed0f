"""One user with a reader's configuration, providers on loopback, and the verbs that ask them."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from delegation.reading.admission import Admitted, Wish, admit_analyze, admit_query, admit_resume
from delegation.reading.answering import answered
from delegation.reading.gate import Gate, Open, Shared
from delegation.reading.question import Answer
from delegation.settings import Settings, load_settings
from delegation.shared_state import SharedState


@dataclass
class ReadingUser:
    """`providers` become the configuration file; without any the catalogue serves. With `tables` a stack runs."""

    home: Path
    environ: dict[str, str] = field(default_factory=dict)
    tables: SharedState | None = None
    chance: Callable[[], float] = random.random

    def configure(self, providers: Sequence[dict[str, Any]], **more: Any) -> Path:
        """Write the configuration and name it. Later providers come later in the draw."""
        path = self.home / "readers.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"providers": list(providers), **more}), encoding="utf-8")
        path.chmod(0o600)
        self.environ["DELEGATE_MCP_CONFIG"] = str(path)
        return path

    @property
    def settings(self) -> Settings:
        environ = {"HOME": str(self.home / "user"), "DELEGATE_HOME": str(self.home / "state"), "DELEGATE_DISCOVER": "0"}
        return load_settings({**environ, **self.environ}, self.home)

    def analyze(self, folder: Path, prompt: str = "What is this?", **wish: Any) -> Answer:
        return self.ask(admit_analyze(self.settings, folder, prompt, Wish(**wish), chance=self.chance))

    def query(self, prompt: str = "Why?", **wish: Any) -> Answer:
        return self.ask(admit_query(self.settings, prompt, Wish(**wish), chance=self.chance))

    def resume(self, session: str | None, prompt: str = "And?", **wish: Any) -> Answer:
        return self.ask(admit_resume(self.settings, session or "", prompt, Wish(**wish)))

    def ask(self, admitted: Admitted, cancelled: Event | None = None) -> Answer:
        if self.tables is None:
            return self._asked(admitted, Open(), cancelled)
        with Shared(self.tables, admitted.question) as gate:
            return self._asked(admitted, gate, cancelled)

    def _asked(self, admitted: Admitted, gate: Gate, cancelled: Event | None) -> Answer:
        keys = admitted.keys
        return answered(admitted.question, key_of=lambda reader: keys.get(reader.name), gate=gate, cancelled=cancelled)

    def metrics(self) -> list[dict[str, Any]]:
        path = self.settings.home.reading / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def provider(name: str, base_url: str, **more: Any) -> dict[str, Any]:
    """A block of the configuration. The key is no secret, so it may stand there."""
    return {
        "name": name,
        "base_url": base_url,
        "api_key": f"key-of-{name}",
        "default_model": f"model-of-{name}",
        **more,
    }
