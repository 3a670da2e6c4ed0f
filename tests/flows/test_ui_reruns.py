"""Doing it again by hand: a person presses Retry on a finished run's page, and fills in the form of a new one."""

import json
from pathlib import Path
from typing import Any

import pytest

from delegation.scripted.endpoint import Request, ScriptedEndpoint, Turn
from tests.flows.conftest import Terminal, local_model
from tests.flows.test_reruns import RIGHT, VERIFY, WRONG, contents, record
from tests.flows.test_ui import BROWSER, Prefect, _pictures, prefect, waited_for

__all__ = ["prefect"]  # a fixture

pytestmark = [
    pytest.mark.stack,
    pytest.mark.timeout(400),
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on the PATH (CHROMIUM names one)"),
]


def press(page: Any, label: str, within: str = "document") -> None:
    """The button or menu item that says so, once it is there."""
    found = (
        f"[...{within}.querySelectorAll('button,.p-overflow-menu-item')]"
        f".findLast(each => each.innerText.trim() == {json.dumps(label)})"
    )
    waited_for(lambda: page.value(f"!!{found}") or None)
    page.value(f"{found}.click()")


def write(page: Any, before: str, after: str) -> None:
    """Put a text in the place of that one, in the field of the form that holds it, as typing would: again where the
    form is drawn anew, and until it stays, since the form takes it over only when nobody has typed for a moment."""
    setter = "Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set"
    typed = (
        f"(field => {{ if (field) {{ {setter}.call(field, {json.dumps(after)});"
        f" field.dispatchEvent(new Event('input', {{bubbles: true}})) }} return !!field }})({_field(before)})"
    )
    stayed = [0]

    def stays() -> bool | None:
        typed_now = page.value(typed)
        stayed[0] = 0 if typed_now or not page.value(f"!!{_field(after)}") else stayed[0] + 1
        return stayed[0] >= 20 or None

    waited_for(stays)


def _field(text: str) -> str:
    return f"[...document.querySelectorAll('textarea')].find(each => each.value == {json.dumps(text)})"


def outcome_of(stack: Terminal, name: str, page: Any, after: str = "") -> dict[str, Any]:
    """Its receipt, once there is one later than that. The browser is asked something now and then, or it hangs up."""

    def ended() -> dict[str, Any] | None:
        page.value("1")
        shown = stack("show", name, "--json").json
        return shown if shown.get("ended_at", "") > after else None

    return waited_for(ended, 150)


def children(stack: Terminal, name: str) -> list[str]:
    return [each["id"] for each in stack("show", name, "--json").json["children"]]


@pytest.mark.slow
def test_retry_on_the_page_of_a_run_judges_it_again_and_the_page_shows_the_new_result(
    stack: Terminal, prefect: Prefect, small_repository: Path
):
    flag = small_repository.parent / "may-pass"
    with ScriptedEndpoint(lambda request: RIGHT[min(request.turn, 1)]) as endpoint:
        words = ("run", "Fix it", "--repo", str(small_repository), "--json", "--confinement", "off", "--verify")
        ran = stack(*words, f"test -e {flag} && {VERIFY}", env=local_model(endpoint.base_url))
        first = ran.json
        asked = len(endpoint.calls)
    assert first["outcome"] in ("refuted", "unverified"), ran.stderr
    prefect.ended(first["flow_run_id"])
    pictures, title = _pictures(), f"Fix it · {first['id'][-4:]}"
    with pictures._browser() as page:
        pictures._sign_in(page, prefect.state)
        page.show(first["ui_url"], title, first["outcome"].capitalize())
        flag.touch()
        press(page, "Retry")
        waited_for(lambda: page.value(f"document.body.innerText.includes({json.dumps(f'Retry {title}?')})") or None)
        press(page, "Retry")  # of the dialogue, which is the last one
        assert outcome_of(stack, first["id"], page, after=first["ended_at"])["outcome"] == "verified"
        waited_for(lambda: page.value("document.body.innerText.includes('Verified')") or None)
        assert page.asked_outside() == set()
    folder = record(stack, first["id"])
    assert json.loads((folder / "receipt.1.json").read_text(encoding="utf-8"))["outcome"] == first["outcome"]
    assert asked == 2, "no model was asked again: the endpoint is gone by now"


@pytest.mark.slow  # what the form posts is tested without a browser, too
def test_copy_to_new_run_opens_the_form_and_makes_a_delegation_of_its_own(
    stack: Terminal, prefect: Prefect, small_repository: Path
):
    def answer(request: Request) -> Turn:
        turns = RIGHT if "with a plus" in json.dumps(request.body) else WRONG
        return turns[min(request.turn, 1)]

    pictures = _pictures()
    with ScriptedEndpoint(answer) as endpoint:
        words = ("run", "Fix adding", "--repo", str(small_repository), "--verify", VERIFY, "--json")
        first = stack(*words, env=local_model(endpoint.base_url)).json
        prefect.ended(first["flow_run_id"])
        before = contents(record(stack, first["id"]))
        with pictures._browser() as page:
            pictures._sign_in(page, prefect.state)
            page.show(first["ui_url"], f"Fix adding · {first['id'][-4:]}", "Refuted")
            page.value("[...document.querySelectorAll('button.h-10.w-10')].find(each => !each.title).click()")
            press(page, "Copy to new run")
            write(page, "Fix adding", "Fix adding with a plus")
            press(page, "Submit")
            waited_for(lambda: (page.value("1") and children(stack, first["id"])) or None, 120)
            (child,) = children(stack, first["id"])
            receipt = outcome_of(stack, child, page)
            assert (receipt["task"], receipt["outcome"]) == ("Fix adding with a plus", "verified"), receipt
            page.show(f"{prefect.state.ui_url}/runs/flow-run/{receipt['flow_run_id']}", "Verified")
    assert receipt["parent_id"] == first["id"] != receipt["id"]
    assert contents(record(stack, first["id"])) == before
