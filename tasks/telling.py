"""What a run's log says, in sentences for somebody who opens it in the UI without knowing us."""

from prefect.logging import get_run_logger

from delegation.checkout.patch import Patch
from delegation.errors import WorkFailed
from delegation.receipt import CommandRun, PatchSummary, Verification
from delegation.records.labels import short_commit
from delegation.records.store import title_of
from delegation.records.wording import count, failing_of, size_of
from delegation.request import DelegationRequest


def tell_request(request: DelegationRequest) -> None:
    base = f" at commit {short_commit(request.base_commit)}" if request.base_commit else ""
    model = f"{request.endpoint.alias!r} as agent {request.agent.name!r}"
    get_run_logger().info("Model %s is to do this in %s%s: %s", model, request.repo, base, title_of(request.card.task))


def tell_patch(patch: Patch | None, failure: WorkFailed | None) -> None:
    logger = get_run_logger()
    if patch is None:
        logger.info("The model changed no file that git keeps.")
        return
    summary = PatchSummary.model_validate(patch.model_dump(include=set(PatchSummary.model_fields)))
    until = " by the time it stopped" if failure else ""
    logger.info("The model's change%s: %s in %s.", until, size_of(summary), ", ".join(patch.names[:5]))


def tell_verification(verification: Verification) -> None:
    """How the verify command ended on the base commit and with the patch."""
    runs = (("on the base commit", verification.base), ("with the patch", verification.candidate))
    said = ", ".join(f"{name} it {_ending(run)}" for name, run in runs if run) or f"not run: {verification.reason}"
    get_run_logger().info("The verify command `%s`: %s.", verification.command, said)


def _ending(run: CommandRun) -> str:
    verdict = "gave no verdict" if run.verdict == "none" else run.verdict
    failing = failing_of(run)
    return f"{verdict} ({count(failing, 'test')} failing)" if failing else verdict
