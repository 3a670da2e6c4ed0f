"""Judging a stored change again, by the command it was submitted with or by another one."""

from delegation.errors import UsageError
from delegation.receipt import Receipt
from delegation.request import DelegationRequest
from delegation.verify_choice import NO_VERIFY


def judged_by(request: DelegationRequest, receipt: Receipt, verify: str | None, setup: str | None) -> DelegationRequest:
    """The request with the commands that judge its change from now on. Its warnings say so, and so its next receipt.

    Raises UsageError where there is no change, no command at all, or an empty one.
    """
    for name, command in (("--verify", verify), ("--setup", setup)):
        if command is not None and (not command.strip() or "\0" in command):
            raise UsageError(f"{name} is empty: give a shell command, or leave {name} out")
    if receipt.patch is None:
        raise UsageError(f"{receipt.id!r} is {receipt.outcome} and left no change to judge: rerun it from the start")
    command = verify or request.card.verify
    if command is None:
        raise UsageError(f"{receipt.id!r} has no verify command: give one with --verify CMD")
    if (command, setup or request.card.setup) == (request.card.verify, request.card.setup):
        return request
    card = request.card.model_copy(update={"verify": command, "setup": setup or request.card.setup})
    earlier = [warning for warning in request.warnings if not warning.startswith(NO_VERIFY)]  # there is one now
    return request.model_copy(update={"card": card, "warnings": (*earlier, _remark(request, verify, setup))})


def _remark(request: DelegationRequest, verify: str | None, setup: str | None) -> str:
    earlier = f"by {request.card.verify!r}" if request.card.verify else "by no command"
    given = ", ".join(f"{name} {command!r}" for name, command in (("verify", verify), ("setup", setup)) if command)
    return f"judged again with {given}; it was first judged {earlier}, and the receipts before stand beside this one"
