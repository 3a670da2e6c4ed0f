"""A small night on the real stack: cards, what their models do, and what a test looks at."""

import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil
import waiting

from delegation.home import Home
from delegation.scripted.endpoint import Call, Request, Turn
from delegation.stack_state import read_state
from tests.flows.conftest import Terminal

VERIFY = "python -m pytest -q"


def task_of(request: Request) -> str:
    """The name of the card, which each task begins with."""
    text = json.dumps(request.body)
    return next(word for word in text.split("card-")[1:]).split(":")[0]


def edit(path: str, old: str, new: str) -> Call:
    return Call("edit_file", {"path": path, "old_text": old, "new_text": new})


class Models:
    """What each card's model does; `best` is wrong the first time, and `asked` counts the requests of each card."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.go_on = threading.Event()
        self.go_on.set()
        self.first_best = iter([True])

    def __call__(self, request: Request) -> Turn:
        name = task_of(request)
        with self.lock:
            self.asked[name] += 1
        if name.startswith("slow"):
            self.go_on.wait(120)
        if name == "failing":
            return Turn(fault="400")
        if request.turn > 0 or name in ("nothing", "question"):
            return Turn(text="Done.")
        return Turn(calls=(self._edit(name),))

    def _edit(self, name: str) -> Call:
        if name == "wrong" or (name == "best" and next(self.first_best, False)):
            return edit("adding.py", "a - b", "a * b")
        if name == "more":
            return Call("write_file", {"path": "more.py", "content": "from adding import add\nassert add(2, 3) == 5\n"})
        return edit("adding.py", "a - b", "a + b")


def write(cards: Path, repo: Path, **given: str) -> None:
    for name, lines in given.items():
        text = f"---\nrepo: {repo}\nverify: {VERIFY}\n{lines}\n---\ncard-{name}: do it\n"
        (cards / f"{name}.md").write_text(text, encoding="utf-8")


def api(stack: Terminal) -> httpx.Client:
    state = read_state(Home(stack.home, stack.home / "config"))
    assert state
    user, _, password = (state.auth_string or "").partition(":")
    return httpx.Client(base_url=state.api_url, auth=(user, password), trust_env=False, timeout=30)


def until(what: Callable[[], bool], seconds: float = 90) -> None:
    """With a night's patience; each look asks the server, or starts a program."""
    waiting.until(what, seconds, pause_seconds=0.2)


def flow_process(stack: Terminal, flow_run_id: str) -> int:
    """The process that the flow run's code is in."""
    launched = stack.home / "stack" / "runs"
    until(lambda: any(flow_run_id in path.name for path in launched.glob("*")) or bool(_by_environment(flow_run_id)))
    for path in launched.glob(f"*{flow_run_id}*"):
        return int(json.loads(path.read_text())["pid"])
    return _by_environment(flow_run_id)[0]


def _by_environment(flow_run_id: str) -> list[int]:
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("PREFECT__FLOW_RUN_ID") == flow_run_id and "prefect.engine" in process.cmdline():
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found
