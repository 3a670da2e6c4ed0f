"""A receipt and a patch as Markdown, for Prefect's artifacts and for people."""

import shlex
from collections.abc import Callable
from pathlib import Path

from delegation.command_lines import CommandLines
from delegation.receipt import CommandRun, PatchSummary, Receipt, Usage, Verification
from delegation.records.labels import short_commit
from delegation.records.markdown import bounded, code, fenced, plain, quoted, table
from delegation.records.wording import FLAGS, count, explanation, failing_of, logs_of, money, size_of

__all__ = ["money", "patch_markdown", "receipt_markdown", "size_of", "spent"]

_PATCH_SHOWN_BYTES = 100_000
_TASK_SHOWN, _CLAIM_SHOWN, _ANSWER_SHOWN, _OUTPUT_SHOWN = 1_200, 4_000, 60_000, 4_000
_TESTS_SHOWN = 20
Spelt = Callable[..., str]
"""Spells a command of ours out of its words."""


def receipt_markdown(receipt: Receipt, task: str | None = None, commands: CommandLines | None = None) -> str:
    """The receipt on one page, what matters first: outcome and reason, task, verdict, patch, then the small print.

    `commands` spells them for a shell that knows nothing of this home.
    """
    spelt = commands.of if commands else _plainly
    return "\n".join(
        [
            f"# {receipt.outcome.replace('_', ' ').capitalize()}",
            "",
            f"**{plain(explanation(receipt))}**",
            *_section("Task", quoted(bounded(task, _TASK_SHOWN)) if task else []),
            *(_verdict(receipt.verification) if receipt.verification else []),
            *(_patch(receipt.patch, receipt, spelt) if receipt.patch else []),
            *_section("Answer", fenced(bounded(receipt.answer, _ANSWER_SHOWN), wrap=True) if receipt.answer else []),
            *_section("What the model says it did (nobody checked this)", _claim(receipt)),
            *_section("Flags", [f"- `{flag}`: {FLAGS[flag]}" for flag in receipt.flags]),
            *_section("Warnings", [f"- {plain(warning)}" for warning in receipt.warnings]),
            *_section("Details", table(("what", "value"), _details(receipt))),
            "",
            f"In a terminal: {_commands(receipt, spelt)}",
        ]
    )


def patch_markdown(patch: PatchSummary) -> str:
    """The patch in a fence that its text cannot close; a large one is cut, and its file named."""
    size = Path(patch.path).stat().st_size
    with Path(patch.path).open("rb") as file:
        text = file.read(_PATCH_SHOWN_BYTES).decode("utf-8", errors="replace")
    cut = [f"Cut at {_PATCH_SHOWN_BYTES} of {size} bytes; the whole is in {code(patch.path)}."]
    head = f"**{size_of(patch)}** · sha256 `{patch.sha256}`"
    return "\n".join([head, "", *fenced(text, "diff"), *(cut if size > _PATCH_SHOWN_BYTES else [])])


def spent(receipt: Receipt) -> str:
    """What a delegation cost; kinds that mixed stand side by side, since their sum would mean nothing."""
    return " and ".join(money(cost) for cost in receipt.costs) or money(receipt.cost)


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", f"## {title}", "", *lines] if lines else []


def _verdict(verification: Verification) -> list[str]:
    """Both runs side by side, then the tests by name, then the output of a run that did not pass."""
    runs = [("base commit", verification.base), ("with the patch", verification.candidate)]
    rows = [(name, *_run(run)) for name, run in runs if run]
    head = ("verify command", "verdict", "tests", "exit code", "seconds")
    reason = [plain(verification.reason), ""] if verification.reason and verification.verdict == "none" else []
    return [
        *_section(f"Verdict: {verification.verdict}", [code(verification.command), "", *reason]),
        *(table(head, rows) if rows else []),
        "",
        *_tests(verification),
        *(f"- Whole output, {what}: {code(path)}" for what, path in logs_of(verification)),
        *_output(verification.candidate),
    ]


def _run(run: CommandRun) -> tuple[str, ...]:
    verdict = f"{run.verdict} ({plain(run.reason)})" if run.verdict == "none" and run.reason else run.verdict
    failing = failing_of(run)
    tests = "not told apart" if run.tests is None else count(len(run.tests), "test")
    seconds = f"{run.seconds:.1f}{', from an earlier run' if run.cached else ''}"
    code_ = "none" if run.exit_code is None else str(run.exit_code)
    return verdict, f"{tests}, {failing} failing" if failing else tests, code_, seconds


def _tests(verification: Verification) -> list[str]:
    groups = {
        "Fixed": verification.fixed,
        "Newly failing": verification.newly_failing,
        "Still failing": verification.still_failing,
        "Flaky": verification.flaky,
        "Wanted, but not passed": verification.missing_wants,
    }
    return [f"- {name} ({len(tests)}): {_names(tests)}" for name, tests in groups.items() if tests]


def _names(tests: tuple[str, ...]) -> str:
    more = len(tests) - _TESTS_SHOWN
    return ", ".join([*(code(test) for test in tests[:_TESTS_SHOWN]), *([f"and {more} more"] if more > 0 else [])])


def _output(candidate: CommandRun | None) -> list[str]:
    if candidate is None or candidate.verdict == "passed" or not candidate.output_tail.strip():
        return []
    return _section("End of the output with the patch", fenced(candidate.output_tail[-_OUTPUT_SHOWN:]))


def _patch(patch: PatchSummary, receipt: Receipt, spelt: Spelt) -> list[str]:
    branch = f"It is also the branch {code(receipt.branch)} of the repository. " if receipt.branch else ""
    apply, print_ = (code(spelt(verb, receipt.id)) for verb in ("apply", "patch"))
    lines = [f"{branch}{apply} puts it into the checkout, {print_} prints it."]
    return _section(f"Patch: {size_of(patch)}", lines)


def _claim(receipt: Receipt) -> list[str]:
    if not receipt.claim or receipt.claim == receipt.answer:
        return []
    return quoted(bounded(receipt.claim, _CLAIM_SHOWN))


def _details(receipt: Receipt) -> list[tuple[str, ...]]:
    rows = {
        "delegation": receipt.id,
        "repository": code(receipt.repo),
        "base commit": code(short_commit(receipt.base_commit)) if receipt.base_commit else None,
        "model": _model(receipt),
        "agent": plain(receipt.agent),
        "turns": _turns(receipt),
        "ended by": receipt.stop_reason.replace("_", " ") if receipt.stop_reason else None,
        "failure kind": f"`{receipt.failure_kind}`" if receipt.failure_kind else None,
        "tokens in / out": _tokens(receipt.usage) if receipt.usage else None,
        "cost": spent(receipt),
        "sandbox": plain(receipt.confined_by or "none"),
        "endpoints contacted": ", ".join(code(endpoint) for endpoint in receipt.endpoints) or None,
        "seconds of agent / verify": _seconds(receipt.timings.agent_seconds, receipt.timings.verify_seconds),
        "worktree left at": code(receipt.worktree) if receipt.worktree else None,
    }
    return [(name, value) for name, value in rows.items() if value is not None]


def _turns(receipt: Receipt) -> str | None:
    """A program without a bound of ours may tell of none."""
    if receipt.max_turns is None:
        return str(receipt.turns) if receipt.turns else None
    return None if receipt.turns is None else f"{receipt.turns} of at most {receipt.max_turns}"


def _model(receipt: Receipt) -> str | None:
    names = (receipt.model_used, receipt.response_model)
    return ", which answered as ".join(dict.fromkeys(plain(name) for name in names if name)) or None


def _tokens(usage: Usage) -> str | None:
    counts = (usage.input_tokens, usage.output_tokens)
    if counts == (None, None):
        return None
    told = ["unknown" if each is None else f"{each:,}" for each in counts]
    cached = f" ({usage.cached_tokens:,} from a cache)" if usage.cached_tokens else ""
    return f"{told[0]}{cached} / {told[1]}"


def _seconds(*values: float | None) -> str | None:
    return None if values[0] is None else " / ".join("none" if each is None else f"{each:.1f}" for each in values)


def _commands(receipt: Receipt, spelt: Spelt) -> str:
    verbs = ("show", "transcript") if receipt.transcript_path else ("show",)
    return " · ".join(code(spelt(verb, receipt.id)) for verb in verbs)


def _plainly(*words: str) -> str:
    return shlex.join(["delegate", *words])
