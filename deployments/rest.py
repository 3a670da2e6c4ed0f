"""The few calls of Prefect's REST API that the stack needs, without importing Prefect."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from delegation.errors import StackError

_TIMEOUT_SECONDS = 15.0
_PAGE = 200


class Unreachable(StackError):
    """Nothing answers, or not with success; asking again may help."""


class Refused(StackError):
    """The server understood and said no."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class PrefectRest:
    """A client of one server. Close it, or use it as a context manager."""

    def __init__(self, api_url: str, auth_string: str | None = None, api_key: str | None = None) -> None:
        self.api_url = api_url.rstrip("/")
        user, _, password = (auth_string or "").partition(":")
        headers = {"Authorization": f"Bearer {api_key}"} if api_key and not auth_string else {}
        self._client = httpx.Client(
            base_url=self.api_url,
            auth=(user, password) if auth_string else None,
            headers=headers,
            timeout=_TIMEOUT_SECONDS,
            trust_env=False,
        )

    def __enter__(self) -> "PrefectRest":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def version(self) -> str:
        """The server's version; it needs the password, unlike its health."""
        return str(self.call("GET", "/admin/version"))

    def find(self, path: str) -> Any:
        """The object at `path`, or None where there is none."""
        try:
            return self.call("GET", path)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The answer as JSON. Raises Refused for 4xx, Unreachable for everything that may pass."""
        try:
            response = self._client.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise Unreachable(f"{method} {self.api_url}{path}: {error or type(error).__name__}") from error
        if response.status_code >= 500:
            raise Unreachable(f"{method} {self.api_url}{path} answered {response.status_code}: {response.text[:300]}")
        if response.status_code >= 400:
            raise Refused(response.status_code, _refusal(method, self.api_url + path, response))
        return response.json() if response.content else None


def flow_runs(rest: PrefectRest, wanted: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """All that fit the filter, however many run at once. Raises as `call` does."""
    return pages(rest, "/flow_runs/filter", wanted)


def pages(rest: PrefectRest, path: str, wanted: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """All that a filter finds, page by page: the server gives two hundred at most. Raises as `call` does."""
    for offset in itertools.count(0, _PAGE):
        page = rest.call("POST", path, {**wanted, "limit": _PAGE, "offset": offset})
        yield from page
        if len(page) < _PAGE:
            return


def _refusal(method: str, url: str, response: httpx.Response) -> str:
    if response.status_code in (401, 403):
        return f"{method} {url} answered {response.status_code}: it wants other credentials (PREFECT_API_AUTH_STRING)"
    return f"{method} {url} answered {response.status_code}: {response.text[:500]}"
