"""What a person sees in Prefect's UI: the run's name and tags, the receipt and the patch, the final state's name."""

from collections.abc import Collection
from contextlib import suppress
from uuid import UUID

from prefect.artifacts import create_markdown_artifact
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import State, StateType
from prefect.runtime import flow_run

from delegation import steps
from delegation.command_lines import CommandLines
from delegation.errors import UsageError
from delegation.ids import is_id
from delegation.models.buckets import limit_name_of
from delegation.receipt import Outcome, Receipt
from delegation.records.labels import run_name_of, tags_of
from delegation.records.report import patch_markdown, receipt_markdown
from delegation.records.wording import explanation, size_of
from delegation.request import DelegationRequest
from delegation.settings import settings_at_work

_STATE_NAMES: dict[Outcome, tuple[StateType, str]] = {
    "verified": (StateType.COMPLETED, "Verified"),
    "refuted": (StateType.COMPLETED, "Refuted"),
    "unverified": (StateType.COMPLETED, "Unverified"),
    "no_change": (StateType.COMPLETED, "No change"),
    "answered": (StateType.COMPLETED, "Answered"),
    "failed": (StateType.FAILED, "Failed"),
    "cancelled": (StateType.CANCELLED, "Cancelled"),
}


def name_run(request: DelegationRequest) -> None:
    """Give a run that was started in the UI the name and tags that the front door gives to its own. What it was copied
    from had tags, too: they are that one's."""
    run_id = flow_run.get_id()
    if run_id is None:
        return
    given = set(flow_run.get_tags())
    tags = (given - _foreign(given, request)) | set(tags_of(request))
    if tags == given:
        return
    with get_client(sync_client=True) as client:
        client.update_flow_run(UUID(run_id), name=run_name_of(request), tags=sorted(tags))


def _foreign(tags: Collection[str], request: DelegationRequest) -> set[str]:
    """Tags of another delegation, where an id among them says that there is one."""
    found: set[str] = set()
    for name in (tag for tag in tags if is_id(tag) and tag != request.id):
        found |= {name} | {tag for tag in tags if tag.startswith("outcome:")}
        with suppress(UsageError):  # its record may be gone
            other = steps.records().request(name)
            found |= {*tags_of(other), other.night_id or name}
    return found


def show(receipt: Receipt) -> None:
    """Leave the receipt and the patch as artifacts, and the outcome as a tag of the run."""
    task = steps.records().request(receipt.id).card.task
    page = receipt_markdown(receipt, task, CommandLines(settings_at_work()))
    create_markdown_artifact(page, key=receipt.id, description=_description(receipt))
    if receipt.patch:
        size = f"Patch: {size_of(receipt.patch)}"
        create_markdown_artifact(patch_markdown(receipt.patch), key=f"{receipt.id}-patch", description=size)
    run_id = flow_run.get_id()
    if run_id is None:
        return
    with get_client(sync_client=True) as client:
        tag_outcome(client, UUID(run_id), receipt)


def tag_outcome(client: SyncPrefectClient, run_id: UUID, receipt: Receipt) -> None:
    """The outcome as a tag of the run, in the place of an earlier one; and of the model that went on, where one did."""
    tags = {tag for tag in client.read_flow_run(run_id).tags if not tag.startswith("outcome:")}
    if receipt.failed_over_from is not None and receipt.bucket is not None:
        tags |= {f"model:{receipt.model_used}", limit_name_of(receipt.bucket)}
    client.update_flow_run(run_id, tags=sorted(tags | {f"outcome:{receipt.outcome}"}))


def final_state(receipt: Receipt, remark: str = "") -> State:
    """COMPLETED, FAILED or CANCELLED under the outcome's name; the message tells a refusal from an acceptance."""
    kind, name = _STATE_NAMES[receipt.outcome]
    size = f" Patch: {size_of(receipt.patch)}." if receipt.patch else ""
    return State(type=kind, name=name, message=f"{explanation(receipt)}{size}{remark}")


def _description(receipt: Receipt) -> str:
    """Of the receipt, where only one line of it is seen."""
    outcome = receipt.outcome.replace("_", " ")
    return ", ".join([f"Receipt: {outcome}", *([size_of(receipt.patch)] if receipt.patch else [])])


def is_being_cancelled() -> bool:
    """Whether somebody asked for this run to end (otherwise its process is only being stopped)."""
    run_id = flow_run.get_id()
    if run_id is None:
        return False
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(UUID(run_id)).state
    return state is not None and state.type in (StateType.CANCELLING, StateType.CANCELLED)
