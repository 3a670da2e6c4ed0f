"""A key that the work was given stands nowhere in what is kept of it, whoever prints it; in the patch it is told."""

from collections.abc import Callable, Sequence

import pytest
from front import Front

from delegation.masking import MASK, Mask, is_secret
from delegation.receipt import Receipt
from delegation.scripted.endpoint import Call, ScriptedEndpoint, Turn
from tests.core.steps.one_run import through_the_steps

KEY = "sk-of-this-test"
TOKEN = "tok-0123456789abcdef"
Done = Callable[..., Receipt]


@pytest.fixture
def done(front: Front) -> Done:
    def doing(turns: Sequence[Turn], **fields: object) -> Receipt:
        with ScriptedEndpoint(turns) as server:
            front.environ |= {
                "DELEGATE_LOCAL_URL": server.base_url,
                "MY_TOKEN": TOKEN,
                "MY_MODE": "production",
                "DELEGATE_ENV_PASSTHROUGH": "MY_*",
            }
            request = front.records.request(front.keep(**fields))  # pyright: ignore[reportArgumentType]
            return through_the_steps(request)

    return doing


def kept(front: Front, receipt: Receipt) -> dict[str, str]:
    folder = front.records.folder(receipt.id)
    return {path.name: path.read_text() for path in folder.iterdir() if path.suffix in (".json", ".jsonl", ".txt")}


def those_that_hold(front: Front, receipt: Receipt, secret: str) -> set[str]:
    return {name for name, text in kept(front, receipt).items() if secret in text}


@pytest.mark.parametrize("secret", [KEY, TOKEN])
@pytest.mark.parametrize("expects", ["change", "answer"])
def test_what_the_model_says_is_kept_without_the_keys(secret: str, expects: str, done: Done, front: Front):
    receipt = done([Turn(text=f"It is {secret}, in production.")] * 2, expects=expects)
    assert (receipt.claim or receipt.answer) == f"It is {MASK}, in production."
    assert those_that_hold(front, receipt, secret) == set()
    assert MASK in kept(front, receipt)["work.json"]


@pytest.mark.parametrize(("secret", "mask"), [(KEY, "***"), (TOKEN, MASK)])
def test_an_error_that_quotes_a_secret_is_kept_without_it(secret: str, mask: str, done: Done, front: Front):
    refusal = Turn(status=401, body={"error": {"message": f"the key {secret} is unknown"}})
    receipt = done([refusal] * 9)
    assert (receipt.outcome, receipt.failure_kind) == ("failed", "auth")
    assert f"the key {mask} is unknown" in str(receipt.failure_message)
    assert those_that_hold(front, receipt, secret) == set()


def test_a_key_in_the_patch_is_a_warning_that_names_the_files(done: Done, front: Front):
    written = (
        Turn(
            calls=(
                Call("write_file", {"path": "conf.py", "content": f'KEY = "{KEY}"\n'}),
                Call("write_file", {"path": "fine.py", "content": "x = 1\n"}),
                Call("run_bash", {"command": f"printf 'a\\0{TOKEN}' > dump.bin"}),
            )
        ),
        Turn(text="Done."),
    )
    receipt = done(written)
    (warning,) = (each for each in receipt.warnings if "stands in the patch" in each)
    assert "stands in the patch: conf.py, dump.bin; take it out" in warning
    assert those_that_hold(front, receipt, KEY) == set()
    assert KEY in (front.records.folder(receipt.id) / "patch.diff").read_text()


def test_a_patch_without_a_key_has_no_such_warning(done: Done):
    receipt = done([Turn(calls=(Call("write_file", {"path": "a", "content": "production\n"}),)), Turn(text="Done.")])
    assert receipt.patch is not None
    assert not [each for each in receipt.warnings if "stands in the patch" in each]


def test_the_longest_value_goes_first_and_short_ones_stay():
    mask = Mask.of(["abc", "secret-1", "secret-1-and-more\n"])
    assert mask.text("secret-1-and-more, secret-1, abc") == f"{MASK}, {MASK}, abc"


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("GITHUB_TOKEN", "x" * 8, True),
        ("PLAIN", "ghp_0123456789abcdefghij", True),
        ("DATABASE", "postgres://me:word@host/db", True),
        ("NODE_ENV", "production", False),
        ("SEARCH", "/usr/local/lib/python3.11/site-packages", False),
        ("URL", "http://localhost:8080/v1", False),
    ],
)
def test_a_passed_variable_is_a_secret_by_its_name_or_look(name: str, value: str, secret: bool):
    assert is_secret(name, value) is secret
