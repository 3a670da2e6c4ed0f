"""The lines around a reader's answer that scripts read, and the limits of an answer's length."""

from collections.abc import Sequence

from delegation.errors import EndpointError
from delegation.reading.packing.manifest import Manifest, Skip
from delegation.receipt import Cost
from delegation.records.wording import money_behind

OUTPUT_FLOOR = 200
DEFAULT_OUTPUT_TOKENS = 4096
_NAMED_SKIPS, _NAMED_LENGTH = 20, 2000


class AnswerCut(EndpointError):
    """The answer reached the length that the caller allowed: another provider would be cut as well."""


def header_line(
    tool: str,
    *,
    provider: str,
    model: str,
    input_tokens: int | None,
    output_tokens: int | None,
    session_id: str,
    cost: Cost | None = None,
) -> str:
    """The fixed first line. A count that the provider did not tell is `unknown`, not 0; a cost follows where known."""
    taken, given = ("unknown" if count is None else count for count in (input_tokens, output_tokens))
    line = f"[delegate {tool}] provider={provider} model={model} in={taken} out={given} session={session_id}"
    return line + (money_behind(cost) if cost else "")


def skips_line(skipped: Sequence[Skip]) -> str | None:
    """What was not read and why, the first of it by name; none where nothing was skipped."""
    if not skipped:
        return None
    named: list[str] = []
    for skip in skipped[:_NAMED_SKIPS]:
        named.append(f"{skip.path} ({skip.reason})")
        if sum(map(len, named)) > _NAMED_LENGTH:
            named.pop()
            break
    more = len(skipped) - len(named)
    said = ", ".join([*named, *([f"{more} more: `delegate pack DIR --list` names all"] if more else [])])
    return f"not read: {said}"


def footer_line(manifest: Manifest, tool: str = "analyze") -> str | None:
    """The fixed last line where files were skipped or cut; none where all was packed whole."""
    if not manifest.skipped and not any(file.truncated for file in manifest.files):
        return None
    return f"[delegate {tool}] packed {len(manifest.files)} file(s), {len(manifest.skipped)} skipped"


def output_tokens(asked: int | None, configured: int | None) -> int:
    """How long an answer may be: the call's word, else the configuration's, else 4,096; never under 200."""
    chosen = asked if asked is not None else configured if configured is not None else DEFAULT_OUTPUT_TOKENS
    return max(OUTPUT_FLOOR, chosen)


def usable_answer(text: str, *, cut: bool, limit: int) -> str:
    """The answer. Raises EndpointError('empty_answer' or 'truncated') with the remedy for one that is none."""
    if not text.strip():
        raise empty_answer(limit)
    if cut:
        raise AnswerCut(
            "truncated", f"the answer was cut off at max_output_tokens={limit}: raise max_output_tokens or ask for less"
        )
    return text


def empty_answer(limit: int) -> EndpointError:
    """The error of an answer without a word in it."""
    return EndpointError(
        "empty_answer",
        f"the answer is empty under max_output_tokens={limit}: raise max_output_tokens "
        f"(a thinking model may use all of it before the first word; the floor is {OUTPUT_FLOOR})",
    )
