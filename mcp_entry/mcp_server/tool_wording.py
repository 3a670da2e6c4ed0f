"""The verbs' messages for one who calls tools: where they advise words of a terminal, the tool that does the same."""

import re

_SAID = (
    (r"`delegate list`", "`list_recent_delegations`"),
    (r"`delegate models`", "`local_backend_status`"),
    (r"`delegate agents`", "`list_local_agents`"),
    (r"`delegate wait (\S+)`", r"`poll_delegations` with wait_seconds, ids [\1],"),
    (r"`delegate show (\S+)`", r"`poll_delegations` with ids [\1]"),
    (r"`delegate patch (\S+)`", r"`get_delegation_patch` of \1"),
    (r"`delegate transcript (\S+)`", r"`get_delegation_transcript` of \1"),
    (r"`delegate apply (\S+)`", r"`apply_delegation` of \1"),
    (r"`delegate cancel (\S+)`", r"`cancel_delegation` of \1"),
    (r"`delegate rerun (\S+) --continue`", r"`rerun_delegation` with continue_from \1"),
    (r"`delegate rerun (\S+)`", r"`rerun_delegation` of \1"),
    (r"`delegate rerun`", "`rerun_delegation`"),
    (r"--prompt-add TEXT", "prompt_add"),
    (r"--continue\b", "continue_from"),
    (r"--any-outcome", "any_outcome"),
    (r"`--from verify`", "from_step 'verify'"),
    (r"--include-dirty", "include_dirty"),
    (r"--verify auto", "verify 'auto'"),
    (r"--from verify", "from_step 'verify'"),
    (r"--(verify|setup) CMD", r"\1"),
    (r"--verify (?=\S)", "verify "),
    (r"--setup\b", "setup"),
    (r"--verify\b", "verify"),
)
_TABLE = tuple((re.compile(pattern), said) for pattern, said in _SAID)


def for_tools(text: str) -> str:
    """The text with each advice in the words of the tools. What no tool does (`delegate up`) stays a shell command."""
    for pattern, said in _TABLE:
        text = pattern.sub(said, text)
    return text
