"""The pictures of Prefect's UI in this folder: a real delegation and a real night, seen by a headless Chromium.

`.venv/bin/python docs/images/make.py` starts a stack in a temporary home and ends it. With DELEGATE_HOME set, the stack
of that home is used, or started there, and left running; the list then shows its earlier runs too. CHROMIUM names a
browser that is not found by itself.
"""

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
from websockets.sync.client import connect
from websockets.sync.connection import Connection

from delegation.scripted.endpoint import ScriptedEndpoint
from delegation.settings import load_settings
from delegation.stack_state import StackState, running_stack

FOLDER = Path(__file__).parent
SENTENCES = ("Turn 1 of at most", "The verify command")  # of the run's log
WIDTH, HEIGHT, TALL, _REPORT = 1400, 900, 1400, 1180
_DEMO_SECONDS, _DOWN_SECONDS, _WAIT_SECONDS = 900, 300, 120
_SAME_IN_A_ROW = 5  # pictures, half a second apart: then the page has come to rest
_LARGEST_BYTES = 300_000
_FLAGS = (
    "--headless",
    "--disable-gpu",
    "--enable-unsafe-swiftshader",  # the graph is WebGL, and there is no other way to draw it without a GPU
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",  # the UI has nothing to ask outside
    "--remote-debugging-port=0",
)
_DRAWN = (
    "!!document.querySelector('canvas') && performance.getEntriesByType('resource').some(e => /graph/.test(e.name))"
)
_T = TypeVar("_T")


def main() -> None:
    with _environment() as environ:
        receipt = _demo(environ)
        report = _night(environ)
        state = running_stack(load_settings(environ).home)
        with _browser() as page, _prefect(state) as prefect:
            _sign_in(page, state)
            _take_pictures(page, prefect, receipt)
            _take_pictures_of_night(page, prefect, report, load_settings(environ).home.nights)
            if page.asked_outside():
                raise SystemExit(f"the UI asked the outside: {sorted(page.asked_outside())}")


@contextmanager
def _environment() -> Generator[dict[str, str]]:
    """The environment of every `delegate`; a home of our own is emptied and its stack ended."""
    if os.environ.get("DELEGATE_HOME"):
        yield dict(os.environ)
        return
    with tempfile.TemporaryDirectory(prefix="delegate-pictures-") as root:
        repositories = Path(root, "repositories")
        repositories.mkdir()
        environ = {**os.environ, "DELEGATE_HOME": f"{root}/home", "TMPDIR": str(repositories)}
        try:
            yield environ
        finally:
            _delegate(environ, "down", "--purge", timeout_seconds=_DOWN_SECONDS)


def _demo(environ: Mapping[str, str]) -> dict[str, Any]:
    done = _delegate(environ, "demo", "--json", timeout_seconds=_DEMO_SECONDS)
    if done.returncode != 0:
        raise SystemExit(f"`delegate demo --json` ended with exit code {done.returncode}: {done.stdout}")
    return json.loads(done.stdout)


def _night(environ: Mapping[str, str]) -> dict[str, Any]:
    """The report of a night of few cards, worked by a scripted model."""
    import sample_night  # beside this script

    with tempfile.TemporaryDirectory(prefix="delegate-night-") as root:
        shop = sample_night.make_shop(Path(root, "shop"))
        cards = sample_night.make_cards(Path(root, "cards"), shop)
        with ScriptedEndpoint(sample_night.Models()) as endpoint:
            model = {
                "DELEGATE_LOCAL_URL": f"{endpoint.base_url}/chat/completions",
                "DELEGATE_LOCAL_KEY": "sk-scripted",
                "DELEGATE_LOCAL_MODEL": "openai-scripted",
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}",
            }
            words = ("night", str(cards), "--wait", "--json", "--in-flight", "3")
            done = _delegate({**environ, **model}, *words, timeout_seconds=_DEMO_SECONDS)
    if not done.stdout:
        raise SystemExit("`delegate night` left no report")
    return json.loads(done.stdout)


def _delegate(environ: Mapping[str, str], *words: str, timeout_seconds: float) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "mcp_entry", *words]
    return subprocess.run(
        argv, env=environ, stdout=subprocess.PIPE, encoding="utf-8", timeout=timeout_seconds, check=False
    )


@contextmanager
def _prefect(state: StackState) -> Generator[httpx.Client]:
    user, _, password = (state.auth_string or "").partition(":")
    auth = (user, password) if state.auth_string else None
    with httpx.Client(base_url=state.ui_url, auth=auth, trust_env=False, timeout=60) as client:
        yield client


class Page:
    """One tab of the browser, over the DevTools protocol."""

    def __init__(self, socket: Connection) -> None:
        self._socket, self._calls = socket, 0
        self.asked: list[str] = []  # every address that the page asked for anything
        self.call("Page.enable")
        self.call("Network.enable")
        self.call("Emulation.setTimezoneOverride", timezoneId="UTC")
        self.call("Emulation.setScrollbarsHidden", hidden=True)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._calls += 1
        self._socket.send(json.dumps({"id": self._calls, "method": method, "params": parameters}))
        while (answer := json.loads(self._socket.recv(_WAIT_SECONDS))).get("id") != self._calls:
            if answer.get("method") == "Network.requestWillBeSent":
                self.asked.append(answer["params"]["request"]["url"])
        if "error" in answer:
            raise RuntimeError(f"the browser refused {method!r}: {answer['error']}")
        return answer["result"]

    def value(self, expression: str) -> Any:
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def show(self, url: str, *texts: str, condition: str = "true", height: int = HEIGHT) -> None:
        """Go there and wait until every text is on the page and the condition holds."""
        self.call("Emulation.setDeviceMetricsOverride", width=WIDTH, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=url)
        has_texts = f"{json.dumps(texts)}.every(text => document.body.innerText.includes(text))"
        expression = f"!!document.body && {has_texts} && {condition}"
        _waited_for(f"{texts!r} at {url!r}", lambda: self.value(expression))

    def asked_outside(self) -> set[str]:
        """Addresses beyond this machine."""
        own = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:", "about:", "file:")
        return {url for url in self.asked if not url.startswith(own)}

    def picture(self) -> bytes:
        """The page once it has come to rest, as PNG."""
        seen: list[str] = []

        def at_rest() -> bool:
            seen.append(self.call("Page.captureScreenshot", format="png")["data"])
            return len(seen) >= _SAME_IN_A_ROW and len(set(seen[-_SAME_IN_A_ROW:])) == 1

        _waited_for("the page to come to rest", at_rest)
        return base64.b64decode(seen[-1])


@contextmanager
def _browser() -> Generator[Page]:
    """A browser with a fresh profile; it ends with its children."""
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="delegate-browser-", ignore_cleanup_errors=True) as profile:
        argv = [_chromium(), *_FLAGS, *as_root, f"--user-data-dir={profile}", "about:blank"]
        browser = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            with connect(_address_of_tab(Path(profile)), max_size=None, proxy=None) as socket:
                yield Page(socket)
        finally:
            os.killpg(browser.pid, signal.SIGKILL)
            browser.wait()


def _chromium() -> str:
    names = (os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, (shutil.which(name) for name in names if name)), None)
    if found is None:
        raise SystemExit("no Chromium is on the PATH: install one, or name it by CHROMIUM=/path/to/it")
    return found


def _address_of_tab(profile: Path) -> str:
    """Chromium writes the port that it chose into its profile."""
    file = profile / "DevToolsActivePort"
    port = _waited_for(
        "Chromium to start", lambda: file.is_file() and file.read_text(encoding="utf-8").partition("\n")[0]
    )
    tabs = httpx.get(f"http://127.0.0.1:{port}/json/list", trust_env=False, timeout=60).json()
    return next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")


def _sign_in(page: Page, state: StackState) -> None:
    """What the UI's login form leaves behind: the auth string in base64, in the browser's storage."""
    page.show(f"{state.ui_url}/ui-settings", "api_url")
    if state.auth_string:
        page.value(f"localStorage.setItem('prefect-password', btoa({json.dumps(state.auth_string)}))")


def _take_pictures(page: Page, prefect: httpx.Client, receipt: Mapping[str, Any]) -> None:
    ui = str(prefect.base_url).rstrip("/")
    outcome = receipt["outcome"].replace("_", " ").capitalize()
    page.show(receipt["ui_url"], outcome, *SENTENCES, condition=_DRAWN)
    _keep("run-page.png", page.picture())
    page.show(f"{ui}/runs", receipt["id"].rpartition("-")[2], outcome, height=TALL)
    _keep("runs.png", page.picture())
    receipts = {"artifacts": {"key": {"any_": [receipt["id"]]}}}
    artifact = prefect.post("/api/artifacts/filter", json=receipts).raise_for_status().json()[0]["id"]
    page.show(f"{ui}/artifacts/artifact/{artifact}", outcome, "base commit", height=TALL)
    _keep("receipt.png", page.picture())


def _take_pictures_of_night(page: Page, prefect: httpx.Client, report: Mapping[str, Any], nights: Path) -> None:
    """The run with its delegations, the list of them, and the report as its one page."""
    ui, name = str(prefect.base_url).rstrip("/"), report["night_id"]
    page.show(report["ui_url"], "Night of cards", "Completed", condition=_DRAWN)
    _keep("night.png", page.picture())
    page.show(f"{ui}/runs?tag={name}", "Multiply price", height=TALL)
    _keep("night-runs.png", page.picture())
    page.show((nights / name / "report.html").as_uri(), "Verified", "invoice-total", height=_REPORT)
    _keep("night-report.png", page.picture())


def _keep(name: str, picture: bytes) -> None:
    if len(picture) > _LARGEST_BYTES:
        raise SystemExit(f"{name!r} has {len(picture)} bytes, more than the {_LARGEST_BYTES} we keep in the repository")
    (FOLDER / name).write_bytes(picture)
    sys.stdout.write(f"{FOLDER / name}: {len(picture)} bytes\n")


def _waited_for(what: str, condition: Callable[[], _T]) -> _T:
    """The first true answer. Raises TimeoutError saying what did not come."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {_WAIT_SECONDS} s for {what}")
        time.sleep(0.5)
    return answer


if __name__ == "__main__":
    main()
