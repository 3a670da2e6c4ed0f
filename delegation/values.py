"""The base of every value that crosses a process: frozen, strict about unknown keys."""

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """Immutable data; an unknown key is an error that names it."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # built when first used, not at import
