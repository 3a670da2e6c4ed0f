"""How much is packed and what is left out: the `file_walker` of the reader's configuration."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from delegation.values import Value

OnSecret = Literal["skip", "mask"]
Globs = Annotated[tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)]


class FileWalker(Value):
    """Bytes count as they lie on disk. `exclude_glob` adds to the floor.

    `on_secret`: a file with a key or token in it is left out ('skip'), or packed with the value replaced ('mask').
    Passwords in addresses and settings are replaced in either case.
    """

    max_file_bytes: int = Field(default=262_144, ge=1)
    max_total_bytes: int = Field(default=4_194_304, ge=1)
    exclude_glob: Globs = ()
    on_secret: OnSecret = "skip"
