"""A mistake made in `delegate.toml` stops what is new, and neither what was begun nor the verbs that look at it."""

from collections.abc import Callable

import pytest
from front import Front, Ran

Call = Callable[..., Ran]
MISTAKE = '[models.a]\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m"\nformt = "openai"\n'


@pytest.fixture
def mistaken(front: Front) -> Callable[[], str]:
    """Make the mistake; what is said of it."""

    def make() -> str:
        file = front.settings.home.config_file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(MISTAKE, encoding="utf-8")
        return f"{file}, line 4: [models.a] formt is an unknown key: did you mean 'format'?"

    return make


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["list"], 0), (["show", "1"], 0), (["patch", "1"], 2), (["stats"], 0), (["wait", "1"], 1), (["status"], 4),
        (["down"], 0),
    ],
)  # fmt: skip
def test_what_was_begun_is_listed_shown_waited_for_and_ended(
    front: Front, call: Call, mistaken: Callable[[], str], words: list[str], code: int
):
    front.end(front.keep(number=1), "failed")
    said = mistaken()
    done = call(*words)
    assert done.code == code, done.stderr
    assert f"warning: {said}: the file is left aside" in done.stderr


def test_nothing_new_is_begun(front: Front, call: Call, mistaken: Callable[[], str]):
    said = mistaken()
    for words in (["run", "x"], ["up"], ["models"]):
        done = call(*words)
        assert (done.code, said in done.stderr, "left aside" in done.stderr) == (2, True, False), words


def test_doctor_names_it_and_looks_at_all_the_rest(front: Front, call: Call, mistaken: Callable[[], str]):
    said = mistaken()
    done = call("doctor")
    assert done.code == 2
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("MISSING")]
    assert (said in line, "python" in done.stdout, "confinement" in done.stdout) == (True, True, True)
