"""Two clients, one endpoint that serves four at a time: our slots beside plain retrying and LiteLLM's router.

`python -m tests.bench.bench_slots [--delegations N] [--turns N] [--long-turns N] [--only NAME] [--json]
[--out FILE]`. Not part of
`make test`. Every client does the same: so many conversations of so many requests of about a second, each request as
soon as the one before it is answered. Everything is counted at the endpoint. The ratios are what counts.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from delegation.card import Card
from delegation.models.buckets import queue_limit
from delegation.scripted.endpoint import Call, Request, ScriptedEndpoint, Turn
from delegation.settings import load_settings
from deployments.launcher.runs import launched_runs
from mcp_entry.verbs.service import Service
from tests.bench.machine import system

ROOT = Path(__file__).parents[2]
DELEGATE = Path(sys.executable).with_name("delegate")
ROUTER = ROOT / ".programs" / "litellm" / "bin" / "python"
LIMIT, BUCKET, RETRY_AFTER, REQUEST_SECONDS = 4, 6, 2, 1.0
_SETTLED_SECONDS = 60.0
_LONGEST_SECONDS = 420.0


class Busy(ScriptedEndpoint):
    """Serves `LIMIT` requests at a time and refuses those beyond with 429 and Retry-After; counts everything."""

    def __init__(self, turns: int) -> None:
        super().__init__(self._turn)
        self._turns = turns
        self._mine = threading.local()
        self._counting = threading.Lock()
        self._began: float | None = None
        self.serving = 0
        self.changes: list[tuple[float, int]] = []
        self.refused: list[float] = []
        self.most_at_once = 0
        self.last_turns: list[float] = []

    def __enter__(self) -> "Busy":
        self.start()
        return self

    @property
    def seconds(self) -> float:
        return self.changes[-1][0] if self.changes else 0.0

    def count_busy(self, change: int) -> None:
        super().count_busy(change)
        with self._counting:
            self.most_at_once = max(self.most_at_once, self.busy)
            if change < 0 and getattr(self._mine, "served", False):
                self._mine.served = False
                self._change(-1)

    def _turn(self, request: Request) -> Turn:
        with self._counting:
            self._began = self._began or time.monotonic()
            if self.serving >= LIMIT:
                self.refused.append(time.monotonic() - self._began)
                return Turn(fault="429", retry_after=str(RETRY_AFTER))
            self._mine.served = True
            self._change(1)
        turn, pause = request.turn, REQUEST_SECONDS * random.uniform(0.8, 1.2)
        if turn >= self._turns - 1:
            self.last_turns.append(time.monotonic() - (self._began or 0.0) + pause)
            return Turn(text="Done.", delay_seconds=pause)
        note = Call("write_file", {"path": f"notes/{turn}.md", "content": f"Note {turn} of many.\n"})
        return Turn(calls=(note,), delay_seconds=pause)

    def _change(self, change: int) -> None:
        self.serving += change
        self.changes.append((time.monotonic() - (self._began or 0.0), self.serving))

    def average(self, begin: float, end: float) -> float | None:
        """Requests being served, on average, between two moments."""
        if end - begin < 5:
            return None
        area, at, serving = 0.0, begin, 0
        for moment, now in self.changes:
            if moment > begin:
                area += serving * (min(moment, end) - at)
                at = min(moment, end)
            serving = now
            if moment >= end:
                break
        return area / (end - begin)


@dataclass
class Result:
    """What one way of working came to, as the endpoint saw it."""

    name: str
    seconds: float
    requests: int
    refused: int
    most_at_once: int
    average: float | None
    settled_average: float | None
    settled_requests: int
    settled_refused: int
    notes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, endpoint: Busy, **notes: Any) -> "Result":
        ends = sorted(endpoint.last_turns)
        enough = ends[-LIMIT] if len(ends) >= LIMIT else endpoint.seconds  # from then on there is less work than room
        served = [at for at, _ in endpoint.changes]
        settled = [at for at in endpoint.refused if _SETTLED_SECONDS <= at <= enough]
        return cls(
            name=name,
            seconds=round(endpoint.seconds, 1),
            requests=len(endpoint.calls),
            refused=len(endpoint.refused),
            most_at_once=endpoint.most_at_once,
            average=_rounded(endpoint.average(0, enough)),
            settled_average=_rounded(endpoint.average(_SETTLED_SECONDS, enough)),
            settled_requests=sum(_SETTLED_SECONDS <= at <= enough for at in served) // 2 + len(settled),
            settled_refused=len(settled),
            notes=notes,
        )


def ours(conversations: int, turns: int) -> Result:
    with tempfile.TemporaryDirectory(prefix="delegate-bench-") as folder:
        return _ours(conversations, turns, Path(folder))


def _ours(conversations: int, turns: int, folder: Path) -> Result:
    """Two processes that submit half of the delegations each to one stack, and wait for them."""
    with Busy(turns) as endpoint:
        repo, env = _repository(folder / "repo"), _environment(folder, endpoint)
        try:
            _run([str(DELEGATE), "up", "--json"], env)
            code = "from tests.bench.bench_slots import client; client()"
            half = [sys.executable, "-c", code, str(repo), str(conversations // 2)]
            clients = [subprocess.Popen(half, env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
            most = _most_processes(env["DELEGATE_HOME"], clients)
            outcomes = [each for one in clients for each in json.loads(one.communicate()[0])]
            pools = json.loads(_run([str(DELEGATE), "models", "--no-ask", "--json"], env))["pools"]
        finally:
            subprocess.run([str(DELEGATE), "down", "--purge"], env=env, capture_output=True, check=False)
        changes = [f"{each['what']} ({each['reason']})" for each in reversed(pools["changes"])]
        counted = {name: outcomes.count(name) for name in set(outcomes)}
        return Result.of("ours", endpoint, outcomes=counted, most_processes=most, changes=changes)


def queued(count: int) -> dict[str, Any]:
    """So many delegations of which none gets further than its first request: how many processes there are at once."""
    endless = ScriptedEndpoint(_never)
    with tempfile.TemporaryDirectory(prefix="delegate-bench-") as folder, endless as endpoint:
        repo, env = _repository(Path(folder) / "repo"), _environment(Path(folder), endpoint)
        try:
            _run([str(DELEGATE), "up", "--json"], env)
            begun = time.monotonic()
            code = "from tests.bench.bench_slots import submit_only; submit_only()"
            words = [sys.executable, "-c", code, str(repo), str(count // 2)]
            clients = [subprocess.Popen(words, env=env, cwd=ROOT, text=True) for _ in range(2)]
            most = _most_processes(env["DELEGATE_HOME"], clients)
            seconds, settled = time.monotonic() - begun, 0
            for _ in range(60):
                settled = max(settled, _processes(env["DELEGATE_HOME"]))
                time.sleep(0.5)
        finally:
            subprocess.run([str(DELEGATE), "down", "--purge"], env=env, capture_output=True, check=False)
    return {
        "queued": count, "queue_limit": queue_limit(BUCKET, ()), "most_processes": max(most, settled),
        "submitted_in_seconds": round(seconds, 1), "asking_at_once": len(endpoint.calls),
    }  # fmt: skip


def _never(request: Request) -> Turn:  # what a script is called with
    return Turn(text="Done.", delay_seconds=3600)


def submit_only() -> None:
    """A client that waits for nothing (called in a process of its own)."""
    _submitted(sys.argv[1], int(sys.argv[2]))


def client() -> None:
    """One client: submits its share and prints the outcomes (called in a process of its own)."""
    service, ids = _submitted(sys.argv[1], int(sys.argv[2]))
    watches = {each: service.watch(each) for each in ids}
    outcomes: list[str] = []
    while watches:
        for each, watch in list(watches.items()):
            if (receipt := watch.look()) is not None:
                outcomes.append(receipt.outcome)
                del watches[each]
        time.sleep(0.5)
    sys.stdout.write(json.dumps(outcomes))


def _submitted(repo: str, count: int) -> tuple[Service, list[str]]:
    service = Service(load_settings())
    cards = [Card(task=f"Write the notes of part {number}", repo=repo, max_turns=150) for number in range(count)]
    return service, [service.submit(card).id for card in cards]


def _environment(folder: Path, endpoint: ScriptedEndpoint) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("DELEGATE_", "PREFECT_"))},
        "DELEGATE_HOME": str(folder / "home"),
        "DELEGATE_LOCAL_URL": f"{endpoint.base_url}/chat/completions",
        "DELEGATE_LOCAL_KEY": "sk-bench",
        "DELEGATE_LOCAL_MODEL": "openai-bench",
        "DELEGATE_CONCURRENCY_OPENAI_BENCH": str(BUCKET),
    }


def plain(conversations: int, turns: int) -> Result:
    """As many threads as the bucket has slots; after a refusal each waits 1, 2, 4, ... s with jitter."""
    with Busy(turns) as endpoint, ThreadPoolExecutor(BUCKET) as workers:
        begun = [
            workers.submit(_conversation, turns, lambda body: _retried(endpoint, body)) for _ in range(conversations)
        ]
        for each in begun:
            each.result()
        return Result.of("plain retry", endpoint)


def router(conversations: int, turns: int) -> Result:
    """LiteLLM's router in a process of its own, as many threads, its retries and cooldowns as it comes."""
    with Busy(turns) as endpoint:
        words = [str(ROUTER), "-c", _ROUTER, endpoint.base_url, str(conversations), str(turns), str(BUCKET)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=_LONGEST_SECONDS, check=False)
        said = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"error": done.stderr[-500:]}
        return Result.of("LiteLLM router", endpoint, **said)


_ROUTER = """
import json, os, sys, threading
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
from concurrent.futures import ThreadPoolExecutor
import litellm
from litellm import Router
litellm.suppress_debug_info = True
url, conversations, turns, workers = sys.argv[1], *map(int, sys.argv[2:])
where = {"model": "openai/bench", "api_base": url, "api_key": "sk-bench", "max_parallel_requests": workers}
router = Router(model_list=[{"model_name": "bench", "litellm_params": where}], num_retries=10)
failed = 0
def converse(_):
    global failed
    messages = [{"role": "user", "content": "Write the notes"}]
    for _ in range(turns):
        while True:
            try:
                reply = router.completion(model="bench", messages=messages)
                break
            except Exception:
                failed += 1
        messages += [{"role": "assistant", "content": reply.choices[0].message.content or "a call"},
                     {"role": "user", "content": "Go on"}]
with ThreadPoolExecutor(workers) as pool:
    list(pool.map(converse, range(conversations)))
print(json.dumps({"given_up_by_router_and_asked_again": failed}))
"""


def _conversation(turns: int, ask: Callable[[dict[str, Any]], Any]) -> None:
    messages: list[dict[str, str]] = [{"role": "user", "content": "Write the notes"}]
    for _ in range(turns):
        ask({"model": "openai-bench", "messages": messages})
        messages += [{"role": "assistant", "content": "A note."}, {"role": "user", "content": "Go on"}]


def _retried(endpoint: Busy, body: dict[str, Any]) -> None:
    wait, headers = 1.0, {"content-type": "application/json"}
    while True:
        asked = urllib.request.Request(f"{endpoint.base_url}/chat/completions", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(asked, timeout=60) as reply:
                reply.read()
                return
        except urllib.error.HTTPError as error:
            error.close()
            time.sleep(wait * random.uniform(0.75, 1.25))
            wait = min(2 * wait, 60.0)


def _most_processes(home: str, clients: list["subprocess.Popen[str]"]) -> int:
    """Flow processes of one home at once, as long as the clients run."""
    most, deadline = 0, time.monotonic() + _LONGEST_SECONDS
    while any(each.poll() is None for each in clients) and time.monotonic() < deadline:
        most = max(most, _processes(home))
        time.sleep(0.5)
    return most


def _processes(home: str) -> int:
    """Living flow processes."""
    return sum(run.is_alive() for run in launched_runs(Path(home, "stack", "runs")))


def _repository(folder: Path) -> Path:
    folder.mkdir()
    (folder / "README.md").write_text("Notes\n", encoding="utf-8")
    named = ("-c", "user.name=B", "-c", "user.email=b@example.invalid")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), (*named, "commit", "-q", "-m", "base")):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def _run(words: list[str], env: dict[str, str]) -> str:
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=_LONGEST_SECONDS, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delegations", type=int, default=24)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--long-turns", type=int, default=16, help="for what happens after the first minute; 0: not")
    parser.add_argument("--queued", type=int, default=200, help="with --only queue")
    parser.add_argument("--only", choices=["ours", "plain", "router", "long", "queue"])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="write the JSON there, too")
    asked = parser.parse_args()
    ways: dict[str, Callable[[], Result]] = {
        "plain": lambda: plain(asked.delegations, asked.turns),
        "ours": lambda: ours(asked.delegations, asked.turns),
    }
    if ROUTER.exists():
        ways["router"] = lambda: router(asked.delegations, asked.turns)
    else:
        print(f"no {ROUTER}: `make programs-real` installs LiteLLM", file=sys.stderr)
    if asked.long_turns:
        ways["long"] = lambda: ours(asked.delegations, asked.long_turns)
    if asked.only == "queue":
        print(json.dumps(queued(asked.queued)))
        return 0
    results = {name: way() for name, way in ways.items() if asked.only in (None, name)}
    about = {
        "date": datetime.now(UTC).date().isoformat(), "delegations": asked.delegations, "turns": asked.turns,
        "long_turns": asked.long_turns, "served_at_once": LIMIT, "bucket": BUCKET, "retry_after": RETRY_AFTER,
        "cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "system": system(),
    }  # fmt: skip
    if asked.out:
        asked.out.write_text(json.dumps({**about, "results": {name: vars(result) for name, result in results.items()}}))
    if asked.json:
        print(json.dumps({**about, "results": {name: vars(result) for name, result in results.items()}}))
        return 0
    _print(about, results)
    return 0


def _print(about: dict[str, Any], results: dict[str, Result]) -> None:
    print(" ".join(f"{name}={value}" for name, value in about.items()))
    print(f"{'':<16}{'s':>7}{'requests':>10}{'429s':>6}{'most':>6}{'served':>8}{'after 60 s':>12}{'429s of':>10}")
    for name, row in results.items():
        after = f"{row.settled_refused}/{row.settled_requests}" if row.settled_average is not None else ""
        print(
            f"{row.name + (' (long)' if name == 'long' else ''):<16}{row.seconds:>7}{row.requests:>10}{row.refused:>6}"
            f"{row.most_at_once:>6}{row.average or '':>8}{row.settled_average or '':>12}{after:>10}"
        )
    if mine := results.get("ours"):
        for other in (results[name] for name in ("plain", "router") if name in results):
            print(
                f"ours / {other.name}: time {mine.seconds / other.seconds:.2f}, "
                f"429s {mine.refused / max(1, other.refused):.2f}"
            )
    for name, row in results.items():
        if row.notes:
            print(f"{name}: {json.dumps(row.notes)}")


if __name__ == "__main__":
    sys.exit(main())
