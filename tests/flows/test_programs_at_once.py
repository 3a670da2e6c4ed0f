"""Many jobs of one program: caps that hold across two live servers, and eight real Codex with one login."""

import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from stdio_server import Server

from delegation.scripted.endpoint import Request, ScriptedEndpoint, Turn
from delegation.settings import load_settings
from mcp_entry.verbs.program_jobs import submit_jobs
from mcp_entry.verbs.service import Service
from tests.doubles.codex import codex_stand_in
from tests.doubles.harness_jobs import repository
from tests.doubles.waiting import until
from tests.flows.conftest import ROOT, Terminal, stack_of
from tests.flows.test_harness_agents import CODEX, codex_environment

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


@contextmanager
def server(terminal: Terminal, cwd: Path, env: dict[str, str]) -> Iterator[Callable[..., dict[str, Any]]]:
    """`delegate mcp` as a process of its own; called with a tool and its arguments."""
    words = [sys.executable, "-m", "mcp_entry", "mcp"]
    environment = {**terminal.environment(env), "PYTHONPATH": str(ROOT), "DELEGATE_TEST_ISOLATION_ROOT": "/"}
    said = terminal.home.parent / f"{cwd.name}.stderr"
    with (
        said.open("wb") as stderr,
        subprocess.Popen(
            words, cwd=cwd, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
        ) as child,
    ):
        client, numbers = Server(child), itertools.count(1)
        client.greet()

        def call(tool: str, **arguments: Any) -> dict[str, Any]:
            client.call(number := next(numbers), tool, **arguments)
            answer = client.answer(number, 60)["result"]
            assert not answer.get("isError"), f"{answer}\n{said.read_text(encoding='utf-8')[-3000:]}"
            return answer["structuredContent"]

        try:
            yield call
        finally:
            child.kill()


def worktrees(repo: Path, *names: str) -> list[Path]:
    for name in names:
        words = ["git", "worktree", "add", "-q", "--detach", str(repo.parent / f"{repo.name}-{name}")]
        subprocess.run(words, cwd=repo, check=True)
    return [repo.parent / f"{repo.name}-{name}" for name in names]


def most_at_once(trees: list[Path]) -> int:
    """From the moments at which the jobs in these trees began and ended."""
    changes: list[tuple[float, int]] = []
    for tree in trees:
        begun, ended = ((tree / name).read_text(encoding="utf-8").split() for name in ("begun", "ended"))
        changes += [(float(at), 1) for at in begun] + [(float(at), -1) for at in ended]
    running, most = 0, 0
    for _, change in sorted(changes):
        running += change
        most = max(most, running)
    return most


@pytest.mark.slow
def test_the_caps_hold_across_two_live_servers_and_each_sees_the_others_jobs(tmp_path: Path):
    """Three at once everywhere, two of one repository, one in a checkout: seven jobs of two servers."""
    waits = "date +%s.%N >> begun; until [ -e go ]; do sleep 0.1; done; date +%s.%N >> ended"
    env = {"DELEGATE_CODEX_BIN": str(codex_stand_in(tmp_path, waits)), "CODEX_HOME": str(tmp_path / "login")}
    caps = {"DELEGATE_CODEX_MAX_CONCURRENT": "3", "DELEGATE_CODEX_MAX_PER_PROJECT": "2"}
    a, b = repository(tmp_path / "a"), repository(tmp_path / "b")
    in_a, in_b = worktrees(a, "1", "2", "3", "4"), worktrees(b, "1", "2")
    with ExitStack() as stack:
        terminal = stack.enter_context(
            stack_of(Terminal(tmp_path / "home", {"DELEGATE_CODEX_STAGGER_S": "1.5", **caps}))
        )
        one = stack.enter_context(server(terminal, a, {**env, **caps}))
        two = stack.enter_context(server(terminal, b, {**env, **caps}))
        first = submitted(one, *in_a[:3])
        (below := in_a[0] / "below").mkdir()
        second = submitted(two, in_a[3], *in_b, below)

        def running() -> list[str]:
            return [job["workdir"] for job in polled(two, *first, *second) if job["status"] == "running"]

        until(lambda: len(running()) == 3, 90, "three run")

        def reasons() -> set[str]:
            return {job["queue_reason"] for job in polled(one, *first, *second) if job["status"] == "queued"}

        until(lambda: {"workspace_busy", "global_cap"} <= reasons(), 60, "each says why it waits")
        assert len(running()) == 3
        trees = [*in_a, *in_b, below]
        for tree in trees:
            (tree / "go").touch()
        words = [sys.executable, "-m", "mcp_entry.terminal.delegate_wait", "--all", "--timeout", "120"]
        waited = subprocess.run([*words, *first, *second], env=terminal.environment(), cwd=ROOT, capture_output=True)
        assert waited.returncode == 0, waited.stdout
        assert len(running()) == 0
    assert most_at_once(trees) == 3
    assert most_at_once([*in_a, below]) == 2
    assert most_at_once([in_a[0], below]) == 1
    assert shortest_pause(trees) >= 0.5


def submitted(call: Callable[..., dict[str, Any]], *workdirs: Path) -> list[str]:
    answer = call("submit_codex", tasks=[{"task": "Do it.", "workdir": str(each)} for each in workdirs])
    return [job["id"] for job in answer["jobs"]]


def polled(call: Callable[..., dict[str, Any]], *ids: str) -> list[dict[str, Any]]:
    time.sleep(0.3)  # a poll costs the same processor as what is waited for
    return call("poll_codex", ids=list(ids))["jobs"]


def shortest_pause(trees: list[Path]) -> float:
    """Between two launches."""
    begun = sorted(float(at) for tree in trees for at in (tree / "begun").read_text(encoding="utf-8").split())
    return min(later - earlier for earlier, later in itertools.pairwise(begun))


@pytest.mark.real
@pytest.mark.skipif(not CODEX.exists(), reason="no Codex: `make programs-real` installs it")
def test_eight_real_codex_at_once_share_one_login_home(tmp_path: Path):
    """Each has a tree of its own, and their answers come only when all eight have asked."""
    together = Together(8)
    with ScriptedEndpoint(together) as endpoint:
        together.endpoint = endpoint
        env = codex_environment(tmp_path, endpoint)
        repos = [repository(tmp_path / name) for name in ("a", "b")]
        caps = {"DELEGATE_CODEX_STAGGER_S": "0"}
        with stack_of(Terminal(tmp_path / "home", caps)) as terminal:
            verbs = Service(load_settings(terminal.environment(env), cwd=tmp_path))
            given = [{"task": f"Job {n}.", "workdir": str(repos[n % 2])} for n in range(8)]
            started = submit_jobs(verbs, "codex", given, tool="submit_codex", keys=[None] * 8)
            words = [sys.executable, "-m", "mcp_entry.terminal.delegate_wait", "--all", "--timeout", "200"]
            ids = [each.id for each in started]
            waited = subprocess.run([*words, *ids], env=terminal.environment(), cwd=ROOT, capture_output=True)
            receipts = [verbs.receipt(each) for each in ids]
        assert waited.returncode == 0, waited.stdout
        assert endpoint.most_busy == 8
    assert [receipt.answer for receipt in receipts] == ["Done."] * 8
    assert len(list((tmp_path / "codex" / "sessions").glob("*/*/*/rollout-*.jsonl"))) == 8
    assert not list((tmp_path / "codex").glob("*.sqlite"))


class Together:
    """Answers once so many ask at the same time, or after a while."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self.endpoint: ScriptedEndpoint | None = None

    def __call__(self, _: Request) -> Turn:
        deadline = time.monotonic() + 60
        assert self.endpoint is not None
        while self.endpoint.most_busy < self._wanted and time.monotonic() < deadline:
            time.sleep(0.05)
        return Turn(text="Done.")
