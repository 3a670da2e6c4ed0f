"""Bytes of each request, ours beside mini-swe-agent's, for the same four steps in the same repository."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from delegation.chat.client import connect
from delegation.request import Endpoint
from delegation.scripted.endpoint import Call, ScriptedEndpoint, Turn
from tests.flows.conftest import unpacked_package
from tests.real.conftest import PROGRAMS, program_environment
from tests.real.workplace import delegated

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

TASK = "Cache.__setitem__ counts a replaced item twice. Repair it in src/cachetools/__init__.py and run the tests."
FILE = "src/cachetools/__init__.py"
BROKEN, REPAIRED = "self.__currsize += size", "self.__currsize += diffsize"
CHECK = "PYTHONPATH=src python -m pytest -q -p no:cacheprovider tests"
STEPS = ("read 80 lines", "edit one line", "run the tests", "submit")
SAID = ("I read the place first.", "The old size has to be taken off.", "Now the tests.", "Repaired; the tests pass.")


def script(*calls: Call | None) -> list[Turn]:
    return [Turn(text=text, calls=(call,) if call else ()) for text, call in zip(SAID, calls, strict=True)]


OURS = script(
    Call("read_file", {"path": FILE, "offset": 41, "limit": 80}),
    Call("edit_file", {"path": FILE, "old_text": BROKEN, "new_text": REPAIRED}),
    Call("run_bash", {"command": CHECK}),
    None,
)
THEIRS = script(
    Call("bash", {"command": f"nl -ba {FILE} | sed -n '41,120p'"}),
    Call("bash", {"command": f"sed -i 's/{BROKEN}$/{REPAIRED}/' {FILE}"}),
    Call("bash", {"command": CHECK}),
    Call("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}),
)


def test_request_bytes_per_turn_beside_mini_swe_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    ours, theirs = ours_sent(tmp_path / "ours"), theirs_sent(tmp_path / "theirs")
    assert len(ours) == len(theirs) == len(STEPS)
    with capsys.disabled():
        print(table(ours, theirs))


def broken_package(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return unpacked_package(folder, "cachetools-6.2.0", FILE, REPAIRED, BROKEN)


def ours_sent(place: Path) -> list[int]:
    repo = broken_package(place / "package")
    with ScriptedEndpoint(OURS) as server:
        endpoint = Endpoint(
            alias="scripted",
            base_url=server.base_url,
            format="openai_chat",
            model="scripted",
            bucket="b",
            quota_pool="q",
            lane="local",
        )
        with connect(endpoint, "key") as model:
            course, result = delegated(model, place, repo=repo, task=TASK, check=CHECK)
        assert (course.outcome, course.last_bash_exit, course.tool_calls) == ("verified", 0, 3), result.failure
        return sizes(server)


def theirs_sent(place: Path) -> list[int]:
    program, repo = PROGRAMS / "mini-swe-agent" / "bin" / "mini", broken_package(place)
    assert program.exists(), "run `make programs-real` first"
    with ScriptedEndpoint(THEIRS) as server:
        env = program_environment(
            place,
            OPENAI_BASE_URL=server.base_url,
            OPENAI_API_KEY="key",
            MSWEA_CONFIGURED="true",
            MSWEA_COST_TRACKING="ignore_errors",
            MSWEA_GLOBAL_CONFIG_DIR=str(place / "mini"),
            MSWEA_SILENT_STARTUP="1",
            LITELLM_LOCAL_MODEL_COST_MAP="True",
        )
        words = ["-y", "--exit-immediately", "-m", "openai/scripted", "-t", TASK, "-o", str(place / "trajectory.json")]
        done = subprocess.run(
            [str(program), *words],
            cwd=repo,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=200,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        assert json.loads((place / "trajectory.json").read_text())["info"]["exit_status"] == "Submitted"
        assert REPAIRED in (repo / FILE).read_text(encoding="utf-8")
        assert json.loads(server.calls[-1].tool_results[-1])["returncode"] == 0
        return sizes(server)


def sizes(server: ScriptedEndpoint) -> list[int]:
    return [int(request.headers["content-length"]) for request in server.calls]


def table(ours: Sequence[int], theirs: Sequence[int]) -> str:
    rows = [(*row, str(row[1] - row[2])) for row in zip(STEPS, ours, theirs, strict=True)]
    rows.append(("together", sum(ours), sum(theirs), str(sum(ours) - sum(theirs))))
    lines = [f"{name:<16}{our:>10,}{their:>18,}{more:>12}" for name, our, their, more in rows]
    return "\n".join(("", f"{'request for':<16}{'ours':>10}{'mini-swe-agent':>18}{'difference':>12}", *lines))
