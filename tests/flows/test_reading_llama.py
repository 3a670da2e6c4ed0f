"""A small real model as the reader: the form of what comes back, and its failures, whatever it says."""

import json
import re
import shutil
from pathlib import Path

import pytest
from readers import provider

from tests.flows.conftest import DELEGATE, ROOT, Ran, Terminal
from tests.flows.test_llama import llama  # noqa: F401  # a fixture

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]
HEADER = r"\[delegate (\w+)\] provider=small model=smollm2 in=(\d+) out=(\d+) session=(rd-\S+)"
FILES = ("ids.py", "values.py")
SHORT = ("--max-output-tokens", "200")
CUT = "the answer was cut off at max_output_tokens=200: raise max_output_tokens"
QUESTIONS = (
    "Which function makes a new id?",
    "What is a Value?",
    "How is an id checked?",
    "Which file uses pydantic?",
    "What is the time in an id?",
)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    root = tmp_path / "code"
    root.mkdir()
    for name in FILES:
        shutil.copy(ROOT / "delegation" / name, root / name)
    (root / ".env").write_text("WORD=xyzzy\n")
    return root


@pytest.fixture
def ask(tmp_path: Path, llama: str) -> "Asker":  # noqa: F811  # the fixture
    return Asker(Terminal(tmp_path / "home"), tmp_path / "readers.json", llama)


class Asker:
    """The terminal of a user whose one reader is the small model. No stack runs."""

    def __init__(self, terminal: Terminal, config: Path, url: str) -> None:
        self._terminal, self._config, self._url = terminal, config, url

    def __call__(self, *words: str, **limits: int) -> Ran:
        small = {**provider("small", self._url, timeout_ms=240_000), "default_model": "smollm2", **limits}
        self._config.write_text(json.dumps({"providers": [small]}))
        self._config.chmod(0o600)
        assert DELEGATE.exists()
        return self._terminal(*words, env={"DELEGATE_MCP_CONFIG": str(self._config)}, timeout=300)


@pytest.mark.slow
def test_an_answer_has_its_form_whatever_a_small_model_says(ask: Asker, code: Path):
    refused = ask("analyze", str(code), "What?", "--on-too-large", "refuse", max_input_tokens=600)
    assert refused.code == 1
    assert re.search(r"2 files are about [\d,]+ tokens and the provider takes 600 at once", refused.stderr)
    session = checked_session(ask("analyze", str(code), QUESTIONS[0], *SHORT), code)
    further = ask("resume", session or "rd-20261130t160527291-fvre", "And in one word?", *SHORT)
    assert (session is None) == ("there is no session" in further.stderr)


@pytest.mark.slow
def test_five_questions_have_the_form_of_an_answer_whatever_a_small_model_says(ask: Asker, code: Path):
    sessions = [checked_session(ask("analyze", str(code), question, *SHORT), code) for question in QUESTIONS]
    assert any(sessions), "not one of five questions was answered"


@pytest.mark.slow
def test_what_a_small_model_cannot_do_is_told_with_the_reason(ask: Asker, code: Path, tmp_path: Path):
    (tmp_path / "schema.json").write_text('{"type": "array", "minItems": 3, "items": {"type": "boolean"}}')
    typed = ask("query", "Say hello.", "--json-schema", str(tmp_path / "schema.json"), "--json", *SHORT)
    if typed.code == 0:
        assert all(isinstance(each, bool) for each in typed.json["data"])
    else:
        assert typed.json["failure_kind"] in ("empty_answer", "truncated")
    parts = ask("analyze", str(code), "Which function makes an id?", "--json", *SHORT, max_input_tokens=950)
    if parts.code == 0:
        assert parts.json["requests"] >= 3
        assert "the files were read in" in parts.json["text"]
    else:
        assert parts.json["failure_kind"] in ("context_overflow", "truncated", "empty_answer")


def checked_session(ran: Ran, code: Path) -> str | None:
    """The session of an answer whose form is right, or None where the model rambled and that was said."""
    if ran.code != 0:
        assert CUT in ran.stderr
        return None
    header, *body = ran.stdout.splitlines()
    found = re.fullmatch(HEADER, header)
    assert found is not None, header
    assert (found[1], body[-1]) == ("analyze", "[delegate analyze] packed 2 file(s), 1 skipped")
    assert 500 < int(found[2]) < 8192
    assert 0 < int(found[3]) <= 200
    assert "".join(body[:-2]).strip()
    assert "xyzzy" not in ran.stdout
    for path, last in re.findall(r"\b(\w+\.py):\d+-(\d+)(?! \[wrong)", ran.stdout):
        assert path in FILES
        assert int(last) <= len((code / path).read_text().splitlines())
    return found[4]
