"""A flow of the stack's own tests: it says when it began, and does as its parameters tell it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from prefect import flow


@flow(name="trial", retries=0)
def trial(
    out: str, seconds: float = 0.0, leave_children: bool = False, stubborn: bool = False, die: bool = False
) -> str:
    folder = Path(out)
    stamp = {"began": time.time(), "pid": os.getpid(), "ppid": os.getppid(), "argv0": sys.argv[0], "cwd": os.getcwd()}
    stamp["environment"] = dict(os.environ)
    stamp["descriptors"] = sorted(os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.exists())
    with (folder / "began.jsonl").open("a") as log:
        log.write(json.dumps(stamp) + "\n")
    if leave_children:
        code = "import os, time; os.setsid(); open(os.environ['MARK'], 'a').write(f'{os.getpid()}\\n'); time.sleep(600)"
        env = {"PATH": os.environ["PATH"], "MARK": str(folder / "children")}
        for _ in range(2):
            subprocess.Popen([sys.executable, "-S", "-c", code], env=env, stdin=subprocess.DEVNULL)
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if die and len((folder / "began.jsonl").read_text().splitlines()) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.05)
    finally:
        (folder / "tidied").touch()
    return "done"
