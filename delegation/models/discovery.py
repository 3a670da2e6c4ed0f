"""Model servers that already answer on this machine, found by one short question to their usual ports."""

import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from delegation.settings import Settings

USUAL_PORTS: Mapping[int, str] = {
    11434: "Ollama",
    1234: "LM Studio",
    8080: "llama.cpp",
    8000: "vLLM",
    4000: "LiteLLM",
}
_PROBE_SECONDS = 0.5
_CONNECT_SECONDS = 1.0


@dataclass(frozen=True)
class LocalServer:
    """A server that answered. `models` is empty with a `problem` when it would not give its list."""

    name: str
    base_url: str
    models: tuple[str, ...]
    problem: str | None = None

    @property
    def is_proxy(self) -> bool:
        """Whether the work may end elsewhere: LiteLLM passes everything on."""
        return self.name == "LiteLLM"


def find_servers(ports: Mapping[int, str] = USUAL_PORTS) -> tuple[LocalServer, ...]:
    """Every server on loopback that speaks `/v1/models`, in the order of `ports`. Asks each once and sends no key."""
    if not ports:
        return ()
    with ThreadPoolExecutor(len(ports)) as pool:
        found = pool.map(_probe, ports.values(), (f"http://127.0.0.1:{port}/v1" for port in ports))
        return tuple(server for server in found if server)


def discover(settings: "Settings", ports: Mapping[int, str] = USUAL_PORTS) -> tuple[LocalServer, ...]:
    """As `find_servers`, unless the settings forbid looking."""
    return find_servers(ports) if settings.discover else ()


def model_list(base_url: str, key: str | None = None, timeout_seconds: float = _PROBE_SECONDS) -> tuple[str, ...]:
    """The ids that `GET <base_url>/models` lists. Raises httpx.HTTPError or ValueError when there is no such list."""
    import httpx  # most commands ask no server, and it takes longer to load than they do

    headers = {"Authorization": f"Bearer {key}", "x-api-key": key} if key else {}
    with httpx.Client(timeout=timeout_seconds, trust_env=False, follow_redirects=False, headers=headers) as client:
        answer = client.get(f"{base_url}/models")
        answer.raise_for_status()
        return _ids(answer.json())


def listens(url: str) -> bool:
    """Whether anything takes connections at an address. Says nothing to it."""
    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "", port), _CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def _probe(name: str, base_url: str) -> LocalServer | None:
    import httpx

    try:
        return LocalServer(name, base_url, model_list(base_url))
    except httpx.HTTPStatusError as error:
        if error.response.status_code in (401, 403):
            return LocalServer(name, base_url, (), "it wants a key: set DELEGATE_LOCAL_URL and DELEGATE_LOCAL_KEY")
        return None
    except (httpx.HTTPError, ValueError):
        return None


def _ids(content: Any) -> tuple[str, ...]:
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise ValueError("not a list of models")
    ids = [entry.get("id") for entry in content["data"] if isinstance(entry, dict)]
    return tuple(name for name in ids if isinstance(name, str) and name)
