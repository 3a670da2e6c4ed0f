"""What a model may write as arguments: each is refused by the name of the field, or means exactly what it says."""

import os
from pathlib import Path
from typing import Any

import pytest
from front import Front

from tests.core.front.mcp_client import called, content, text_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def places(front: Front, tmp_path: Path) -> dict[str, str]:
    """Names for folders that only exist once the test runs."""
    (front.repo / "sub").mkdir()
    (tmp_path / "link").symlink_to(front.repo / "sub")
    (tmp_path / "link-to-system").symlink_to("/etc")
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    front.environ["CLAUDE_PROJECT_DIR"] = str(front.repo / "sub")
    return {"REPO": str(front.repo), "TMP": str(tmp_path)}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"workdir": "~"}, "workdir_forbidden"),
        ({"workdir": "/"}, "workdir_forbidden"),
        ({"workdir": "/etc"}, "workdir_forbidden"),
        ({"workdir": "TMP/link-to-system"}, "workdir_forbidden"),
        ({"workdir": "../../../../../../../../../../etc"}, "workdir_forbidden"),
        ({"workdir": "../nothing/x"}, "does not exist"),
        ({"workdir": "TMP/file"}, "is a file, not a folder"),
        ({"workdir": "REPO\0/etc"}, "repo"),
        ({"model": "nosuch"}, "unknown model 'nosuch'"),
        ({"model": ""}, "model"),
        ({"timeout_seconds": -1}, "timeout_seconds"),
        ({"timeout_seconds": "soon"}, "timeout_seconds"),
        ({"timeout_seconds": 1e12}, "timeout_seconds"),
        ({"max_turns": 0}, "max_turns"),
        ({"max_tokens": -5}, "max_tokens"),
        ({"task": ""}, "task"),
        ({"task": " \n "}, "the task is empty"),
        ({"base": "--output=TMP/made"}, "base"),
        ({"base": "-x"}, "base"),
        ({"base": "HEAD\n--all"}, "no commit is called"),
        ({"agent_name": "../../etc/passwd"}, "agent"),
    ],
    ids=lambda value: repr(value) if isinstance(value, dict) else "",
)
async def test_it_is_a_tool_error_that_names_the_field_and_nothing_is_made(
    front: Front, places: dict[str, str], tmp_path: Path, arguments: dict[str, Any], said: str
):
    before = sorted(os.listdir(tmp_path))
    given = {"task": "Fix it", "workdir": "REPO", **arguments}
    for name, place in places.items():
        given = {key: value.replace(name, place) if isinstance(value, str) else value for key, value in given.items()}
    result = await called(front, "delegate_to_local_agent", given)
    assert result.is_error, content(result)
    assert said in text_of(result)
    assert (sorted(os.listdir(tmp_path)), front.home.exists()) == (before, False)


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ({"workdir": "."}, {"workdir": "sub"}),
        ({"workdir": ".."}, {"workdir": "."}),
        ({"workdir": "TMP/link"}, {"workdir": "sub"}),
        ({"timeout_seconds": "5"}, {"timeout_seconds": 5}),
        ({"verify": "echo 'unbalanced; echo \"x"}, {"verify": "echo 'unbalanced; echo \"x"}),
        ({"verify": "echo a;\necho b\n"}, {"verify": "echo a;\necho b\n"}),
        ({"task": "x" * 2_000_000}, {"task": "x" * 2_000_000}),
        ({"task": "; rm -rf / #"}, {"task": "; rm -rf / #"}),
    ],
    ids=lambda value: repr(value)[:60] if isinstance(value, dict) else "",
)
async def test_what_is_odd_but_right_means_what_it_says(
    stacked: Front, places: dict[str, str], arguments: dict[str, Any], kept: dict[str, Any]
):
    given = {"task": "Fix it", "workdir": "REPO", "wait_seconds": 0, **arguments}
    for name, place in places.items():
        given = {key: value.replace(name, place) if isinstance(value, str) else value for key, value in given.items()}
    content(await called(stacked, "delegate_to_local_agent", given))
    request = stacked.records.request(stacked.records.ids()[0])
    found = {
        "workdir": request.workdir,
        "timeout_seconds": request.limits.timeout_seconds,
        "verify": request.card.verify,
        "task": request.card.task,
    }
    assert {name: found[name] for name in kept} == kept
    assert request.repo == str(stacked.repo)
