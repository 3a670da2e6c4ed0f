"""A verify command found in a repository is named, and run only where the card or the settings allow it."""

from pathlib import Path

import pytest

from delegation.admission import admit
from delegation.errors import UsageError

MAKEFILE = "test:\n\ttouch ran\n"
PROPOSED = "no verify command was given; Makefile, target 'test' suggests --verify 'make test' (or --verify auto)"
CHOSEN = "the verify command is the one that Makefile, target 'test' suggests: make test"


@pytest.fixture
def with_target(repo: Path) -> Path:
    (repo / "Makefile").write_text(MAKEFILE)
    return repo


@pytest.fixture(autouse=True)
def nothing_was_run(repo: Path):
    yield
    assert not (repo / "ran").exists()


def judged(card, settings) -> tuple[str | None, str | None]:
    """The command, and what is said about it."""
    request = admit(card, settings, tool="run")
    return request.card.verify, next((said for said in request.warnings if "verify" in said), None)


def test_without_a_command_the_one_to_give_is_named_and_none_is_run(settings_for, card_for, with_target: Path):
    assert judged(card_for(), settings_for()) == (None, PROPOSED)


def test_auto_in_the_card_takes_the_detected_command_and_says_which(settings_for, card_for, with_target: Path):
    assert judged(card_for(verify="auto"), settings_for()) == ("make test", CHOSEN)


@pytest.mark.parametrize("how", ["variable", "file"])
def test_the_setting_allows_it_for_every_card_without_a_command(settings_for, card_for, with_target: Path, how: str):
    settings = (
        settings_for(DELEGATE_VERIFY="auto") if how == "variable" else settings_for('[settings]\nverify = "auto"\n')
    )
    assert judged(card_for(), settings) == ("make test", CHOSEN)
    assert judged(card_for(verify="true"), settings) == ("true", None)


def test_an_env_file_of_the_folder_cannot_allow_it(settings_for, card_for, with_target: Path, tmp_path: Path):
    (tmp_path / "cwd" / ".env").write_text("DELEGATE_VERIFY=auto\n")
    settings = settings_for()
    assert judged(card_for(), settings)[0] is None
    assert any("DELEGATE_VERIFY is ignored there" in said for said in settings.warnings)


def test_auto_is_refused_where_no_file_speaks_for_a_command(settings_for, card_for, repo: Path):
    with pytest.raises(UsageError, match=f"verify is 'auto', and nothing in '{repo}' says how it is tested"):
        admit(card_for(verify="auto"), settings_for(), tool="run")
    assert judged(card_for(), settings_for(DELEGATE_VERIFY="auto")) == (None, None)


def test_a_card_that_wants_an_answer_gets_no_proposal(settings_for, card_for, with_target: Path):
    assert judged(card_for(expects="answer"), settings_for(DELEGATE_VERIFY="auto")) == (None, None)


def test_the_folder_of_the_work_is_looked_at_and_not_the_one_above(settings_for, card_for, with_target: Path):
    assert judged(card_for(repo=str(with_target / "sub")), settings_for()) == (None, None)
    (with_target / "sub" / "pytest.ini").touch()
    assert judged(card_for(repo=str(with_target / "sub"), verify="auto"), settings_for())[0] == "python -m pytest -q"


def test_a_command_that_a_shell_would_read_otherwise_is_named_in_quotes(settings_for, card_for, repo: Path):
    (repo / ".venv" / "bin").mkdir(parents=True)
    (repo / ".venv" / "bin" / "python").touch()
    (repo / "pytest.ini").touch()
    said = judged(card_for(), settings_for())[1]
    assert said is not None
    assert f"--verify '{repo}/.venv/bin/python -m pytest -q'" in said


def test_wanted_tests_without_a_command_are_refused_with_the_one_to_give(settings_for, card_for, with_target: Path):
    with pytest.raises(UsageError, match=r"no verify command to run them: give verify; .*--verify 'make test'"):
        admit(card_for(wants=("a",)), settings_for(), tool="run")
    assert judged(card_for(wants=("a",)), settings_for(DELEGATE_VERIFY="auto"))[0] == "make test"
