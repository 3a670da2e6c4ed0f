"""A program of the user's as a command-line agent: how it is called and where it leaves its answer."""

import re
from collections.abc import Container
from typing import Literal

from pydantic import Field, field_validator

from delegation.values import Value

_FIELDS = ("task_file", "workdir", "output_file", "model", "out_dir")
_FIELD = re.compile(r"\{(\w+)\}")


class Template(Value):
    """`[commands.<name>]` of delegate.toml.

    Arguments may hold `{task_file}`, `{workdir}`, `{output_file}`, `{model}` and `{out_dir}`. The task itself never
    stands in the argument list, where everybody on the machine could read it: it comes by file, or on standard input.
    """

    argv: tuple[str, ...] = Field(min_length=1, description="The program and its arguments, no shell.")
    stdin: Literal["task", "none"] = Field(default="none", description="'task': the task on standard input.")
    output: Literal["stdout", "json", "file"] = Field(
        default="stdout",
        description="Where the answer is: all of stdout, a JSON object on it, or the file {output_file}.",
    )
    ok_exit_codes: tuple[int, ...] = (0,)
    environment: dict[str, str] = Field(default_factory=dict, description="Variables it gets beside the usual ones.")
    passthrough: tuple[str, ...] = Field(default=(), description="Variables of ours that it also gets.")
    confined: bool = Field(default=True, description="False for a program that brings a sandbox of its own.")

    @field_validator("argv")
    @classmethod
    def _has_known_fields_only(cls, argv: tuple[str, ...]) -> tuple[str, ...]:
        for name in (found for argument in argv for found in _FIELD.findall(argument)):
            if name in ("task", "prompt"):
                raise ValueError(f"{{{name}}} would show the task in the process list: use {{task_file}} or stdin")
            if name not in _FIELDS:
                raise ValueError(f"{{{name}}} is not known; it knows {', '.join(f'{{{known}}}' for known in _FIELDS)}")
        return argv

    def without(self, names: Container[str]) -> "Template":
        """The same without these variables."""
        kept = {name: value for name, value in self.environment.items() if name not in names}
        return self.model_copy(update={"environment": kept})

    def filled(self, **values: str) -> tuple[str, ...]:
        """The argument list with its fields filled in."""
        return tuple(_FIELD.sub(lambda match: values[match[1]], argument) for argument in self.argv)
