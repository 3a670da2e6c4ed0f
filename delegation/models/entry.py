"""One model of the catalogue with what only this process may know: its key, and why it counts as local."""

from dataclasses import dataclass, field
from typing import Literal

from delegation.request import Endpoint

Coverage = Literal["catalogue", "rule", "default", "discovered"]


@dataclass(frozen=True)
class Key:
    """A key and the variable that gave it. Its value never shows in a repr."""

    name: str
    value: str | None = field(repr=False)
    required: bool = True


@dataclass(frozen=True)
class Entry:
    """`covered_by` says who vouches for the alias: what the default endpoint alone covers takes no part in failover."""

    endpoint: Endpoint
    covered_by: Coverage
    key: Key | None = None
    upstream_local: bool = False
    chain: tuple[str, ...] | None = None
    warnings: tuple[str, ...] = ()
