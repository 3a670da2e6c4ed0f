"""What one verb of the stack tells."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Report:
    """The exit code, the object that --json prints, and the text for a person."""

    exit_code: int
    facts: dict[str, Any]
    text: str
