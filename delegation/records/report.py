"""A receipt and a patch as Markdown, for Prefect's artifacts and for people."""

from pathlib import Path

from delegation.receipt import CommandRun, Cost, PatchSummary, Receipt, Verification

_PATCH_SHOWN_BYTES = 100_000


def receipt_markdown(receipt: Receipt) -> str:
    """The receipt on one page: outcome, model, verdict, tokens and money, and the commands that use it."""
    return "\n".join(
        [
            f"# {receipt.outcome}{f': {receipt.failure_kind}' if receipt.failure_kind else ''}",
            "",
            *([f"> {receipt.failure_message}", ""] if receipt.failure_message else []),
            *_table(receipt),
            *(_verification(receipt.verification) if receipt.verification else []),
            *_text("Answer", receipt.answer),
            *_text("What the model says it did (not checked)", receipt.claim),
            *_warnings(receipt.warnings),
            "",
            f"`delegate show {receipt.id}` · `delegate patch {receipt.id}` · `delegate apply {receipt.id}`",
        ]
    )


def patch_markdown(patch: PatchSummary) -> str:
    """The patch in a fence that its text cannot close; a large one is cut, and its file named."""
    raw = Path(patch.path).read_bytes()
    text = raw[:_PATCH_SHOWN_BYTES].decode("utf-8", errors="replace")
    fence = "`" * max(3, _longest_run_of_backticks(text) + 1)
    cut = [f"Cut at {_PATCH_SHOWN_BYTES} of {len(raw)} bytes; the whole is in `{patch.path}`."]
    head = f"**{size_of(patch)}** · sha256 `{patch.sha256}`"
    return "\n".join([head, "", f"{fence}diff", text, fence, *(cut if len(raw) > _PATCH_SHOWN_BYTES else [])])


def size_of(patch: PatchSummary) -> str:
    """How large a change is, in a few words."""
    return f"{patch.files} file{'s' if patch.files != 1 else ''}, +{patch.insertions} -{patch.deletions}"


def money(cost: Cost) -> str:
    """Money with its kind; unknown prints no amount."""
    match cost.kind:
        case "reported" if cost.amount_usd is not None:
            return f"${cost.amount_usd:.6f}"
        case "estimated" if cost.amount_usd is not None:
            return f"~${cost.amount_usd:.4f} estimated"
        case "flat_plan":
            return "flat plan"
        case _:
            return "unknown"


def _table(receipt: Receipt) -> list[str]:
    usage = receipt.usage
    rows = {
        "delegation": receipt.id,
        "model": _model(receipt),
        "agent": receipt.agent,
        "base commit": receipt.base_commit,
        "branch": receipt.branch,
        "patch": size_of(receipt.patch) if receipt.patch else None,
        "flags": ", ".join(receipt.flags) or None,
        "turns": f"{receipt.turns} of {receipt.max_turns}" if receipt.turns is not None else None,
        "stopped by": receipt.stop_reason,
        "tokens in / out": f"{_count(usage.input_tokens)} / {_count(usage.output_tokens)}" if usage else None,
        "cost": money(receipt.cost),
        "confined by": receipt.confined_by or "nothing",
        "endpoints": ", ".join(receipt.endpoints) or None,
        "agent seconds": _seconds(receipt.timings.agent_seconds),
        "verify seconds": _seconds(receipt.timings.verify_seconds),
    }
    return [
        "| | |",
        "|---|---|",
        *(f"| {name} | {_cell(value)} |" for name, value in rows.items() if value is not None),
    ]


def _model(receipt: Receipt) -> str | None:
    names = (receipt.model_used, receipt.response_model)
    return " answered by ".join(dict.fromkeys(name for name in names if name)) or None


def _verification(verification: Verification) -> list[str]:
    lines = ["", f"## Verdict: {verification.verdict}", "", f"`{_cell(verification.command)}`", ""]
    if verification.reason:
        lines += [verification.reason, ""]
    for name, run in (("base", verification.base), ("candidate", verification.candidate)):
        if run:
            lines.append(f"- {name}: {_run(run)}")
    groups = {
        "newly failing": verification.newly_failing,
        "fixed": verification.fixed,
        "still failing": verification.still_failing,
        "flaky": verification.flaky,
        "wanted but not passed": verification.missing_wants,
    }
    lines += [f"- {name}: {', '.join(f'`{each}`' for each in tests[:20])}" for name, tests in groups.items() if tests]
    if verification.candidate and verification.candidate.verdict != "passed":
        lines += _text("End of the candidate's output", verification.candidate.output_tail)
    return lines


def _run(run: CommandRun) -> str:
    known = f", {len(run.tests)} tests" if run.tests is not None else ""
    reason = f" ({run.reason})" if run.reason else ""
    remembered = ", remembered" if run.cached else ""
    return f"{run.verdict}{reason}, exit code {run.exit_code}{known}, {run.seconds:.1f} s{remembered}"


def _warnings(warnings: tuple[str, ...]) -> list[str]:
    return ["", "## Warnings", "", *(f"- {warning}" for warning in warnings)] if warnings else []


def _text(title: str, text: str | None) -> list[str]:
    if not text:
        return []
    fence = "`" * max(3, _longest_run_of_backticks(text) + 1)
    return ["", f"## {title}", "", fence, text.rstrip(), fence]


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def _count(tokens: int | None) -> str:
    return "unknown" if tokens is None else f"{tokens:,}"


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.1f}"


def _longest_run_of_backticks(text: str) -> int:
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest
