"""dsh by a stand-in launcher: `result.json` decides, its models file admits, and its change stays where it is."""

import json
from pathlib import Path

import pytest

from delegation.errors import UsageError
from delegation.harnesses.dsh import Dsh
from delegation.harnesses.dsh_models import dsh_model
from delegation.harnesses.result import HarnessResult
from delegation.harnesses.running import run_harness
from delegation.receipt import Usage
from delegation.settings import Settings
from tests.doubles.harness_jobs import harness_settings, job, program

LAUNCHER = """#!/bin/sh
while [ $# -gt 0 ]; do case "$1" in
  --cwd) cwd="$2";; --model) model="$2";; --task-file) task="$2";; --out-dir) out="$2";; *) exit 9;;
esac; shift 2; done
cp "$task" "$out/seen-task"; echo "$cwd $model" > "$out/seen-words"; echo 'diff' > "$out/change.diff"
%s
"""
GOOD = {
    "status": "done",
    "rc": 0,
    "diff_stat": "1 file changed",
    "summary": "Repaired it.",
    "tokens": {"input": 50, "output": 5},
    "wall_s": 3.5,
}


def run_dsh(place: Path, result: object, *, exit_code: int = 0, more: str = "") -> HarnessResult:
    written = "" if result is None else f"cat > \"$out/result.json\" <<'END'\n{json.dumps(result)}\nEND"
    launcher = program(place, "dsh-herdr.sh", LAUNCHER % f"{written}\n{more}\nexit {exit_code}")
    settings = harness_settings(place, DELEGATE_DSH_LAUNCHER=str(launcher))
    wanted = job(place, "dsh", "Repair it.", model="deepseek-v4-flash", idle_seconds=None)
    return run_harness(Dsh(settings), wanted, settings)


def test_a_result_file_is_the_answer_and_the_change_stays_in_the_run_folder(tmp_path: Path):
    result = run_dsh(tmp_path, GOOD)
    assert (result.status, result.answer) == ("done", "Repaired it.\n\n1 file changed"), result.failure_message
    assert result.usage == Usage(input_tokens=50, output_tokens=5)
    assert result.out_dir is not None
    out = Path(result.out_dir)
    assert (out / "seen-task").read_text() == "Repair it."
    assert (out / "seen-words").read_text() == f"{tmp_path / 'tree'} deepseek-v4-flash\n"
    assert (out / "change.diff").exists()
    assert not (tmp_path / "tree" / "change.diff").exists()


@pytest.mark.parametrize(
    ("content", "exit_code", "kind"),
    [
        ({**GOOD, "status": "failed", "rc": 1, "summary": "429 rate limit"}, 0, "throttled"),
        ({**GOOD, "status": "failed", "rc": 2, "summary": "it broke"}, 0, "bad_request"),
        ({**GOOD, "rc": 3}, 0, "bad_request"),
        (GOOD, 4, "process"),
        (None, 0, "process"),
        ([], 0, "process"),
    ],
)
def test_anything_but_a_good_result_is_a_failure(tmp_path: Path, content: object, exit_code: int, kind: str):
    result = run_dsh(tmp_path, content, exit_code=exit_code)
    assert (result.status, result.failure_kind) == ("failed", kind)


def test_a_result_that_is_a_link_is_none(tmp_path: Path):
    (tmp_path / "elsewhere.json").write_text(json.dumps(GOOD))
    result = run_dsh(tmp_path, None, more=f'ln -s {tmp_path}/elsewhere.json "$out/result.json"')
    assert result.status == "failed"


def models(place: Path, content: object) -> Settings:
    path = place / "dsh-models.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return harness_settings(place, DELEGATE_DSH_MODELS_FILE=str(path))


def test_only_listed_and_enabled_models_are_admitted(tmp_path: Path):
    settings = models(tmp_path, {"models": [{"name": "a"}, {"name": "b", "enabled": False}, "c"]})
    assert (dsh_model("a", settings), dsh_model("c", settings)) == ("a", "c")
    with pytest.raises(UsageError, match="disabled"):
        dsh_model("b", settings)
    with pytest.raises(UsageError, match="choose one of a, c"):
        dsh_model("d", settings)


def test_models_may_also_be_an_object(tmp_path: Path):
    settings = models(tmp_path, {"models": {"a": {"enabled": True}, "b": {"disabled": True}}})
    assert dsh_model("a", settings) == "a"
    with pytest.raises(UsageError, match="disabled"):
        dsh_model("b", settings)


def test_without_a_file_everything_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="dsh has no models"):
        dsh_model("deepseek-v4-flash", harness_settings(tmp_path))


@pytest.mark.parametrize("name", ["mimo-v2", "Xiaomi/mimo", "vendor/xiaomi-x"])
def test_models_whose_terms_forbid_it_are_refused_even_when_listed(tmp_path: Path, name: str):
    with pytest.raises(UsageError, match="terms forbid"):
        dsh_model(name, models(tmp_path, {"models": [name]}))


def test_the_example_file_is_one(tmp_path: Path):
    text = (Path(__file__).parents[3] / "dsh-models.json.example").read_text(encoding="utf-8")
    assert dsh_model("deepseek-v4-flash", models(tmp_path, json.loads(text))) == "deepseek-v4-flash"
