"""What one delegation costs: two turns, one edit, a patch, a verdict by `true`, with a model that answers at once."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.bench.client import McpClient, mcp_server
from tests.bench.model import ROOT, Model, model
from tests.bench.rows import Aim, Row, at_most
from tests.bench.stacks import DELEGATE, Bench, repository, run, stack, temporary_folder
from tests.bench.stock import stock_first_requests, stock_overhead
from tests.bench.usage import spending

TASK = "Make hello.txt with the line hello."
PROGRAMS = ROOT / ".programs"
_TOOL = "delegate_to_local_agent"
Measured = list[tuple[float, float]]
"""Wall and CPU seconds of each round."""


def rows(quick: bool) -> Iterator[Row]:
    rounds = 3 if quick else 10
    with temporary_folder() as place, model("repair", place) as answering, stack(answering) as bench:
        ours, split, first = _ours(bench, answering, rounds)
        terminal = _terminal(bench, rounds // 2 + 1)
        peers = dict(_peers(place, answering, max(2, rounds // 3)))
        peers["process worker"] = stock_overhead(bench, answering, max(2, rounds // 3))
        stock = stock_first_requests(bench, answering, max(2, rounds // 2))
    peers["bare git + true"] = _bare(rounds)
    wall = {name: statistics.median(wall for wall, _ in each) for name, each in peers.items()}
    cpu = {name: statistics.median(cpu for _, cpu in each) for name, each in peers.items()}
    nearest = _nearest(wall)
    yield Row(
        name="one delegation, call to receipt", unit="s", ours=_wall(ours), peers=wall, against=nearest,
        note=f"through the terminal {_wall(terminal):.2f} s",
    )  # fmt: skip
    yield Row(
        name="one delegation, CPU of all processes", unit="CPU s", ours=_cpu(ours), peers=cpu, against=_nearest(cpu),
        aims=at_most(1.5), note=f"{_said(split)}; through the terminal {_cpu(terminal):.2f} CPU s",
    )  # fmt: skip
    yield Row(
        name="call to first model request", unit="s", ours=statistics.median(first), peers=stock,
        against="process worker, polling each second", aims=(Aim(most=0.8), Aim(of="ratio", most=1 / 6)),
        note=f"slowest {max(first):.2f} s of {len(first)}",
    )  # fmt: skip


def _ours(bench: Bench, answering: Model, rounds: int) -> tuple[Measured, dict[str, float], list[float]]:
    """By a front door that is open, as a client has it. One delegation goes before, unmeasured."""
    measured, first, splits = Measured(), list[float](), list[dict[str, float]]()
    with mcp_server([str(DELEGATE), "mcp"], bench.env, bench.repo) as client:
        delegated(client, bench.repo)
        roots = {"front door": client.child.pid, "keeper": bench.keeper, **_parts(bench)}
        for _ in range(rounds):
            moment = time.time()
            with spending(**roots) as spent:
                delegated(client, bench.repo)
                wall = time.time() - moment
                time.sleep(1.0)  # what is still to be written after the receipt is a part of it
            measured.append((wall, spent.by_process["front door"] + spent.by_process["keeper"]))
            splits.append(spent.by_process)
            first.append(answering.first_after(moment) - moment)
    split = {name: statistics.median(each[name] for each in splits) for name in roots if name != "keeper"}
    return measured, split, first


def delegated(client: McpClient, repo: Path) -> None:
    """One delegation, waited for. Raises RuntimeError when it does not end as verified."""
    found = client.call(_TOOL, task=TASK, workdir=str(repo), verify="true", wait_seconds=60)
    if found.get("outcome") != "verified":
        raise RuntimeError(f"not verified: {json.dumps(found)[:600]}")


def _parts(bench: Bench) -> dict[str, int]:
    return {name: pid for name, pid in bench.pids().items() if name in ("server", "database", "worker", "launcher")}


def _terminal(bench: Bench, rounds: int) -> Measured:
    measured = Measured()
    for _ in range(rounds):
        with spending(keeper=bench.keeper) as spent:
            began = time.monotonic()
            bench.delegate("run", TASK, "--repo", str(bench.repo), "--verify", "true")
            wall = time.monotonic() - began
            time.sleep(1.0)
        measured.append((wall, spent.cpu))
    return measured


def _peers(place: Path, answering: Model, rounds: int) -> Iterator[tuple[str, Measured]]:
    """Programs that do the same without worktree, verdict and record. Those that are not installed are left out."""
    for name, command in (("codex exec", _codex), ("claude -p", _claude), ("mini-swe-agent", _mini)):
        built = command(place / name.split()[0], answering)
        if built is None:
            print(f"no {name}: `make programs programs-real` installs it", file=sys.stderr)
            continue
        yield name, [_timed(partial(_asked, *built)) for _ in range(rounds)]


Command = tuple[list[str], dict[str, str], Path]


def _asked(words: list[str], env: dict[str, str], folder: Path) -> None:
    repo = folder / "repo"
    shutil.rmtree(repo, ignore_errors=True)
    repository(repo)
    run(words, env, cwd=repo, seconds=120)
    if (repo / "hello.txt").read_text(encoding="utf-8") != "hello\n":
        raise RuntimeError(f"{words[0]} did not do its work")


def _codex(folder: Path, answering: Model) -> Command | None:
    program = PROGRAMS / "codex" / "node_modules" / ".bin" / "codex"
    home = folder / "codex"
    home.mkdir(parents=True)
    (home / "config.toml").write_text(
        'model_provider = "bench"\n[analytics]\nenabled = false\n[model_providers.bench]\nname = "bench"\n'
        f'base_url = "{answering.base_url}"\nwire_api = "responses"\n',
        encoding="utf-8",
    )
    words = [str(program), "exec", "--sandbox", "danger-full-access", "-m", "gpt-6.1-terra", TASK]
    return (words, _peer_environment(folder, CODEX_HOME=str(home)), folder) if program.exists() else None


def _claude(folder: Path, answering: Model) -> Command | None:
    found = sorted((PROGRAMS / "claude-code/node_modules/@anthropic-ai").glob("claude-code-*/claude"))
    folder.mkdir(parents=True)
    env = _peer_environment(
        folder, ANTHROPIC_BASE_URL=answering.base_url.removesuffix("/v1"), ANTHROPIC_API_KEY="sk-ant-bench-not-a-key",
        CLAUDE_CONFIG_DIR=str(folder / ".claude"), CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", DISABLE_TELEMETRY="1",
        DISABLE_ERROR_REPORTING="1", DISABLE_AUTOUPDATER="1",
    )  # fmt: skip
    words = ["-p", TASK, "--model", "claude-sonnet-4-5", "--allowedTools", "Bash", "--strict-mcp-config"]
    return ([str(found[0]), *words], env, folder) if found else None


def _mini(folder: Path, answering: Model) -> Command | None:
    program = PROGRAMS / "mini-swe-agent" / "bin" / "mini"
    env = _peer_environment(
        folder, OPENAI_BASE_URL=answering.base_url, OPENAI_API_KEY="key", MSWEA_CONFIGURED="true",
        MSWEA_COST_TRACKING="ignore_errors", MSWEA_GLOBAL_CONFIG_DIR=str(folder / "mini"), MSWEA_SILENT_STARTUP="1",
        LITELLM_LOCAL_MODEL_COST_MAP="True",
    )  # fmt: skip
    words = ["-y", "--exit-immediately", "-m", "openai/bench", "-t", TASK, "-o", str(folder / "trajectory.json")]
    return ([str(program), *words], env, folder) if program.exists() else None


def _peer_environment(home: Path, **more: str) -> dict[str, str]:
    """A home of its own, and no way out but loopback."""
    nowhere = "http://127.0.0.1:9"
    return {
        "PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb", "PYTHONUTF8": "1",
        "HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "NO_PROXY": "127.0.0.1,localhost", **more,
    }  # fmt: skip


def _bare(rounds: int) -> Measured:
    """What git alone needs for it: a worktree, the edit, a commit, the patch, a second checkout, `true` in both."""
    with temporary_folder() as place:
        repo = repository(place / "repo")
        return [_timed(partial(_with_git, repo, place / str(number))) for number in range(rounds)]


def _with_git(repo: Path, place: Path) -> None:
    def git(folder: Path, *words: str) -> bytes:
        named = ("-c", "user.name=B", "-c", "user.email=b@example.invalid")
        return subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True).stdout

    tree, base, candidate = (place / name for name in ("tree", "base", "candidate"))
    git(repo, "worktree", "add", "-q", "--detach", str(tree))
    (tree / "hello.txt").write_text("hello\n", encoding="utf-8")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "hello")
    patch = place / "patch.diff"
    patch.write_bytes(git(tree, "diff", "--binary", "HEAD~1"))
    for checkout in (base, candidate):
        git(repo, "worktree", "add", "-q", "--detach", str(checkout))
    git(candidate, "apply", str(patch))
    for checkout in (base, candidate):
        subprocess.run(["bash", "-c", "true"], cwd=checkout, check=True)
    for checkout in (tree, base, candidate):
        git(repo, "worktree", "remove", "--force", str(checkout))


def _timed(work: Callable[[], None]) -> tuple[float, float]:
    with spending() as spent:
        work()
    return spent.wall, spent.cpu


def _nearest(peers: dict[str, float]) -> str | None:
    """The cheapest program that does the whole work of an agent."""
    whole = {name: value for name, value in peers.items() if name in ("codex exec", "claude -p", "mini-swe-agent")}
    return min(whole, key=whole.__getitem__, default=None)


def _wall(measured: Measured) -> float:
    return statistics.median(wall for wall, _ in measured)


def _cpu(measured: Measured) -> float:
    return statistics.median(cpu for _, cpu in measured)


def _said(split: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in split.items())
