"""What a tool call gives back: text for the model, and the facts the loop needs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ToolAnswer:
    """The result of one call. A tool never raises for what the model did wrong; it answers with `is_error`.

    `changed` tells that a file of the tree is different now. `about` names what was shown, for the placeholder that
    takes the text's place once it is dropped from the conversation.
    """

    text: str
    is_error: bool = False
    changed: bool = False
    malformed: bool = False
    ran_command: bool = False
    exit_code: int | None = None
    about: str = ""


class ToolProblem(Exception):
    """The call cannot be done; the text is the answer to the model."""
