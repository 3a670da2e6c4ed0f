#!/usr/bin/env python3
"""A stand-in for the Antigravity program: its flags, its JSON, its ways of failing. Standard library only.

It reads how to behave from `stand-in.json` beside its settings, because nothing else reaches it in its jail:
`{"as": "ok", "command": "shell to run", "response": "text"}`. What the shell printed is in the answer.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

WITH_VALUE = {"p", "print", "prompt", "output-format", "model", "print-timeout", "conversation"}
TOKENS = {
    "input_tokens": 900,
    "output_tokens": 40,
    "thinking_tokens": 30,
    "cache_read_tokens": 100,
    "total_tokens": 940,
}
NO_TOKENS = dict.fromkeys(TOKENS, 0)
STATE = Path(os.environ["HOME"], ".gemini", "antigravity-cli")


def flags(words: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, _, value = word.lstrip("-").partition("=")
        if name in WITH_VALUE and not value:
            value = next(rest, "")
            if not value:
                sys.exit(complain(f"flag needs an argument: -{name}", 2))
        found[name] = value
    return found


def complain(text: str, code: int) -> int:
    sys.stderr.write(text + "\n")
    return code


def result(status: str, response: str = "", *, usage: dict[str, int] = TOKENS, **more: object) -> str:
    told = {"conversation_id": "c-1", "status": status, "response": response, "num_turns": 1, "usage": usage, **more}
    return json.dumps(told)


def main() -> int:
    given = flags(sys.argv[1:])
    if "version" in given:
        print("1.2.17")
        return 0
    if sys.stdin.isatty() or sys.stdin.read():
        return complain("stdin is not closed", 9)
    how = json.loads((STATE / "stand-in.json").read_text(encoding="utf-8"))
    (STATE / "log" / "arguments.json").write_text(json.dumps(sys.argv[1:]), encoding="utf-8")
    if not {"dangerously-skip-permissions", "sandbox"} <= given.keys() or given["output-format"] != "json":
        return complain("not called as it must be", 9)
    task = Path(given["p"].partition("file ")[2].partition(". Read")[0]).read_text(encoding="utf-8")
    response = how.get("response", f"task: {task}\n")
    if command := how.get("command"):
        ran = subprocess.run(command, shell=True, capture_output=True, text=True)
        response += ran.stdout + ran.stderr
    return behave(how.get("as", "ok"), response)


def behave(how: str, response: str) -> int:
    match how:
        case "ok":
            print(result("SUCCESS", response))
        case "raw newlines":
            print(result("SUCCESS", response).replace("\\n", "\n"))
        case "silent":
            pass
        case "no login":
            print(result("ERROR", usage=NO_TOKENS, error="authentication failed or timed out"))
            return 1
        case "quota":
            said = "Individual quota reached. Contact your administrator to enable overages. Resets in 34m13s."
            sys.stderr.write(f"error: {said}\n")
            sys.stderr.write('AGY_ERROR: {"short_error": "RESOURCE_EXHAUSTED (code 429): ' + said + '"}\n')
            print(result("ERROR", error=said))
            return 3
        case "denied":
            print(result("SUCCESS", denied_actions=[{"action": "run_command", "display_name": "Run command"}]))
        case "print timeout":
            sys.stderr.write("[agy] print timeout after 20m with turn in progress; returning partial output\n")
            print(result("SUCCESS", "partial te", usage=NO_TOKENS))
        case "no tokens":
            print(result("SUCCESS", "partial te", usage=NO_TOKENS))
        case "broken turn":
            sys.stderr.write('AGY_ERROR: {"short_error": "model stream failed"}\n')
            print(result("SUCCESS", ""))
        case "hang":
            subprocess.Popen(["sleep", "300"], start_new_session=True)
            time.sleep(300)
        case _:
            return complain(f"the stand-in does not know {how!r}", 9)
    return 0


if __name__ == "__main__":
    sys.exit(main())
