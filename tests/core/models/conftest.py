"""Settings from a stated environment only, and a real model server on loopback that lists what it is told to."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from delegation.settings import Settings, load_settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "state"


@pytest.fixture
def settings_for(tmp_path: Path, home: Path) -> Callable[..., Settings]:
    """Settings of an environment that holds HOME, DELEGATE_HOME and what is given; `toml` becomes delegate.toml."""
    folder = tmp_path / "started here"
    folder.mkdir()

    def load(toml: str = "", *, env_file: str = "", backends: str = "", here: str = "", **variables: str) -> Settings:
        for path, text in (
            (home / "config" / "delegate.toml", toml),
            (home / "config" / "models.json", backends),
            (folder / ".env", env_file),
            (folder / "models.json", here),
        ):
            if text:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        environ = {"HOME": str(tmp_path / "home"), "DELEGATE_HOME": str(home), **variables}
        return load_settings(environ, folder)

    return load


class ModelServer:
    """Answers `/v1/models`; remembers the headers it was asked with."""

    def __init__(self, models: list[str], status: int, said: str | None) -> None:
        self.asked: list[dict[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append({name.lower(): value for name, value in self.headers.items()})
                listed = {"object": "list", "data": [{"id": name} for name in models]}
                body = (json.dumps(listed) if said is None else said).encode()
                found = status if self.path == "/v1/models" else 404
                self.send_response(found)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def serve() -> Iterator[Callable[..., ModelServer]]:
    running: list[ModelServer] = []

    def start(*models: str, status: int = 200, said: str | None = None) -> ModelServer:
        running.append(ModelServer(list(models), status, said))
        return running[-1]

    yield start
    for server in running:
        server.stop()
