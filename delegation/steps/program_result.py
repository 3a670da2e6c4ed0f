"""What a run of a command-line agent came to, as it is kept: its result in the record, and what dsh left for review."""

import logging
import shutil
from pathlib import Path

from delegation.errors import StackError
from delegation.harnesses.polling import PERSIST_ERROR, keep_result
from delegation.harnesses.result import HarnessResult
from delegation.harnesses.running import whole_mask
from delegation.harnesses.sanitising import exception_text
from delegation.harnesses.surroundings import state_folder
from delegation.masking import Mask
from delegation.request import DelegationRequest
from delegation.settings import Settings
from delegation.steps.folders import record_folder
from delegation.steps.masked_copy import copy_masked

_logger = logging.getLogger(__name__)


def with_kept_out(request: DelegationRequest, result: HarnessResult, settings: Settings, mask: Mask) -> HarnessResult:
    """What dsh left for review goes into the record, or where DELEGATE_DSH_STATE_DIR says: its own folder goes with the
    tree. What the mask hides is in no file of it, as plain text or escaped in JSON, and in no name."""
    if result.out_dir is None:
        return result
    left, moved = Path(result.out_dir), result
    try:
        place = _out_folder(request, settings)
        shutil.rmtree(place, ignore_errors=True)
        missing = copy_masked(left, place, whole_mask(mask, None))
        moved = result.model_copy(update={"out_dir": str(place)})
    except (OSError, StackError) as error:
        missing = (exception_text(error),)
    if missing:
        return warned(moved, f"what it left for review could not all be kept ({'; '.join(missing)})")
    shutil.rmtree(left, ignore_errors=True)
    return moved


def _out_folder(request: DelegationRequest, settings: Settings) -> Path:
    if settings.dsh_state_dir is None:
        return record_folder(request.id) / "out"
    place = state_folder(settings, "dsh") / request.id
    place.mkdir(mode=0o700, exist_ok=True)
    return place / "out"


def kept(result: HarnessResult, folder: Path) -> HarnessResult:
    """Write the result into the record. A disk that takes it no longer does not undo the work: polls tell of it."""
    try:
        keep_result(folder, result)
    except OSError as error:
        said = f"{PERSIST_ERROR}{exception_text(error)}"
        _logger.error("the result of %s could not be kept: %s", folder.name, said)
        return warned(result, said)
    return result


def warned(result: HarnessResult, warning: str) -> HarnessResult:
    return result.model_copy(update={"warnings": (*result.warnings, warning)})
