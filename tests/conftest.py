"""Isolation, before anything of ours is imported: no test sees the developer's home, keys or settings.

Everything below happens at import: pytest loads this file first, and every child process inherits it.
"""

import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import hypothesis
import pytest

ROOT = Path(__file__).parent.parent
_ISOLATION_ROOT = Path(tempfile.mkdtemp(prefix="delegate-tests-"))
_KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "CI", "PYTHONPATH", "VIRTUAL_ENV", "COVERAGE_FILE", "HYPOTHESIS_PROFILE")


def _isolate() -> None:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    outermost = os.environ.get("DELEGATE_TEST_ISOLATION_ROOT", str(_ISOLATION_ROOT))  # a worker's files lie below it
    for folder in ("home", "temp", "delegate"):
        (_ISOLATION_ROOT / folder).mkdir(mode=0o700)
    os.environ.clear()
    os.environ.update(kept)
    os.environ.update(
        HOME=str(_ISOLATION_ROOT / "home"),
        TMPDIR=str(_ISOLATION_ROOT / "temp"),
        DELEGATE_HOME=str(_ISOLATION_ROOT / "delegate"),
        DELEGATE_TEST_ISOLATION="1",
        DELEGATE_TEST_ISOLATION_ROOT=outermost,
        PREFECT_HOME=str(_ISOLATION_ROOT / "prefect"),
        GIT_CONFIG_GLOBAL=str(_ISOLATION_ROOT / "home" / ".gitconfig"),
        GIT_CONFIG_NOSYSTEM="1",
        GIT_AUTHOR_NAME="Test",
        GIT_AUTHOR_EMAIL="test@example.invalid",
        GIT_COMMITTER_NAME="Test",
        GIT_COMMITTER_EMAIL="test@example.invalid",
        NO_PROXY="127.0.0.1,localhost",
        PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW="ignore",
    )
    tempfile.tempdir = None
    for folder in (ROOT, ROOT / "tests"):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))


_isolate()
hypothesis.settings.register_profile("same", derandomize=True)  # a run that is red here is red everywhere
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts what runs in its background like that
    signal.signal(signal.SIGINT, signal.default_int_handler)


_QUICK_WITHOUT_LAUNCHER = ("test_delegation.py", "test_claude_code.py")
"""Every flow test runs through the launcher and through Prefect's own engine; of the latter these in `make test`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--live", action="store_true", help="run tests that reach a paid endpoint")
    parser.addoption("--write-examples", action="store_true", help="write the pages of docs/examples anew")


@pytest.hookimpl(tryfirst=True)  # before pytest reads the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if stack_of(item.nodeid) == "engine" and item.path.name not in _QUICK_WITHOUT_LAUNCHER:
            item.add_marker(pytest.mark.slow)
    if config.getoption("--live"):
        return
    for item in items:
        if item.get_closest_marker("live"):
            item.add_marker(pytest.mark.skip(reason="reaches a paid endpoint: give --live"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadgroup` tests that share a stack stay on one worker. (xdist's own groups go by a name that it
    writes into the test's id, which this pytest no longer reads.)"""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByStack(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return stack_of(nodeid)

    return ByStack(config, log)


def stack_of(nodeid: str) -> str:
    """The parameter that names a stack of the session's, else the folder or file that has a stack of its own."""
    named = re.search(r"\[(launcher|engine)[-\]]", nodeid)
    if named:
        return named[1]
    return "tests/stack" if nodeid.startswith("tests/stack/") else nodeid.split("::")[0]


def pytest_unconfigure() -> None:
    shutil.rmtree(_ISOLATION_ROOT, ignore_errors=True)


@pytest.fixture
def delegate_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A DELEGATE_HOME of this test's own."""
    home = tmp_path / "delegate-home"
    monkeypatch.setenv("DELEGATE_HOME", str(home))
    monkeypatch.setenv("DELEGATE_TEST_ISOLATION_ROOT", str(tmp_path.anchor))
    return home
