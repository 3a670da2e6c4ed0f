"""The scripted model as a program of its own."""

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "try-without-a-model.md"


def served(base: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{base}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def test_the_script_of_the_page_is_served_until_it_is_ended(tmp_path: Path):
    script = tmp_path / "edit.json"
    script.write_text(PAGE.read_text(encoding="utf-8").split("```json\n", 1)[1].split("```", 1)[0], encoding="utf-8")
    words = [sys.executable, "-m", "delegation.scripted", str(script), "--port", "0"]
    program = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    base, _, models = program.stdout.readline().strip().partition(" serves ")

    assert models == "scripted"
    assert [model["id"] for model in served(base, "/models")["data"]] == ["scripted"]
    said = served(base, "/chat/completions", {"model": "scripted", "messages": [{"role": "user", "content": "x"}]})
    call = said["choices"][0]["message"]["tool_calls"][0]["function"]
    assert (call["name"], json.loads(call["arguments"])["path"]) == ("write_file", "NOTES.md")

    program.send_signal(signal.SIGINT)
    assert program.wait(10) == 0
    program.stdout.close()


def test_a_script_that_cannot_be_used_is_named(tmp_path: Path):
    script = tmp_path / "broken.json"
    script.write_text('[{"txt": "x"}]')
    words = [sys.executable, "-m", "delegation.scripted", str(script)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "a turn has no ['txt']" in done.stderr


def test_a_file_that_is_not_json_is_said_to_be_none(tmp_path: Path):
    script = tmp_path / "bad.json"
    script.write_text("{")
    words = [sys.executable, "-m", "delegation.scripted", str(script)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "bad.json' is not JSON: line 1, column 2" in done.stderr
    assert "port" not in done.stderr
