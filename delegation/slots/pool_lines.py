"""How the pools of slots stand, as plain data for every face. Without the tables: a server that starts loads no
database for the form of an answer."""

from datetime import datetime

from pydantic import BaseModel, Field


class CooldownLine(BaseModel):
    """A quota pool that is left alone."""

    quota_pool: str
    until: datetime
    kind: str
    reason: str


class PoolLine(BaseModel):
    """One bucket. `cap` is how many may hold a slot just now: the limit, or less where its endpoint refused more."""

    bucket: str
    limit: int | None = Field(description="The user's ceiling; null where the Prefect server has none of it.")
    cap: int | None
    cap_set_by_hand: bool
    in_use: int
    waiting_now: int
    waiting_night: int
    holders: list[str]
    cooldowns: list[CooldownLine]


class ChangeLine(BaseModel):
    """One entry of the log of changes."""

    at: datetime
    pool: str
    what: str
    reason: str


class Pools(BaseModel):
    """All pools, and the newest changes first."""

    pools: list[PoolLine]
    changes: list[ChangeLine]
