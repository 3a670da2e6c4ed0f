"""Runs one flow run through the launcher: `python -S -E client.py SOCKET [LOG_FOLDER]`, the run in the environment.

It passes its folder, environment and output to the launcher's parent, hands SIGTERM on, and ends as the flow process
did, once nothing of it is left. When no parent answers it becomes `python -m prefect.engine` itself, or, where the
environment has a question (`DELEGATE_QUESTION`) and no flow run, `python -m flows.question`.
Standard library only, and no pathlib: the import would take longer than the rest.
"""

import array
import json
import os
import signal
import socket
import sys

RUN_VARIABLE = "PREFECT__FLOW_RUN_ID"
QUESTION_VARIABLE = "DELEGATE_QUESTION"
QUESTIONS = "flows.question"  # a process that answers first, and makes its flow run itself
_LOST = 75  # the monitor went away without an answer


def main() -> None:
    if len(sys.argv) > 2 and _is_unseen(1):
        _write_to_log(sys.argv[2])
    connection = _connection(sys.argv[1])
    if connection is None:
        _become_engine()
    else:
        _run(connection)


def _connection(path: str) -> "socket.socket | None":
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        return None
    return connection


def _run(connection: socket.socket) -> None:
    def pass_on(*_: object) -> None:
        connection.sendall(b"T")

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, pass_on)
    try:
        _send_request(connection)
        answer = _answer(connection)
    except OSError:
        answer = b""
    if not answer:
        sys.exit(_LOST)
    _end_as(int(answer))


def _send_request(connection: socket.socket) -> None:
    cwd = os.getcwd()  # noqa: PTH109
    request = {"op": "run", "cwd": cwd, "env": dict(os.environ), "umask": _umask()}
    body = json.dumps(request).encode("utf-8", "surrogateescape")
    descriptors = array.array("i", [0, 1, 2])
    connection.sendmsg([len(body).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
    connection.sendall(body)


def _answer(connection: socket.socket) -> bytes:
    text = b""
    while not text.endswith(b"\n"):
        part = connection.recv(64)
        if not part:
            return b""
        text += part
    return text


def _end_as(code: int) -> None:
    """With the flow process's exit code, or by the signal that ended it."""
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    sys.exit(code if code >= 0 else 128 - code)


def _become_engine() -> None:
    module = QUESTIONS if QUESTION_VARIABLE in os.environ else "prefect.engine"
    os.execve(sys.executable, [sys.executable, "-m", module], dict(os.environ))


def name_of(environment: "dict[str, str]") -> str:
    """What a process is known as: its flow run, or the question that it answers."""
    return environment.get(RUN_VARIABLE) or environment.get(QUESTION_VARIABLE) or "unknown"


def _is_unseen(descriptor: int) -> bool:
    """Whether what is written there is thrown away."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(os.devnull))  # noqa: PTH116
    except OSError:
        return True


def _write_to_log(folder: str) -> None:
    name = name_of(dict(os.environ)).replace("/", "_")
    try:
        log = os.open(os.path.join(folder, name + ".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)  # noqa: PTH118
    except OSError:
        return
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


if __name__ == "__main__":
    main()
