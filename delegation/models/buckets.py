"""Buckets: which models share a pool of slots, and how many slots a pool has."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from delegation.models.config_file import BucketTable

DEFAULT_SLOTS = 6
LIMIT_PREFIX = "bucket:"
_BEYOND_THE_GATE = 2


@dataclass(frozen=True)
class _Row:
    prefix: str
    bucket: str
    slots: int = DEFAULT_SLOTS


# Variants of one model share its pool because they sit behind one plan; the whole GLM family is one pool.
_TABLE = (
    _Row("deepseek-v4-flash", "deepseek-v4-flash"),
    _Row("qwen-3-8-max", "qwen-3-8-max"),
    _Row("glm-coding-plan", "glm-coding-plan"),
    _Row("glm-", "glm-coding-plan"),
    _Row("ornith", "ornith"),
    _Row("local-", "local-", 2),
    _Row("openrouter/", "openrouter"),
    _Row("codex", "codex", 8),
)


@dataclass(frozen=True)
class Ceiling:
    """The most that may run at once in a bucket. `chosen_by` names who said so; None means nobody did (the default)."""

    bucket: str
    slots: int
    chosen_by: str | None = None


def bucket_of(alias: str) -> str:
    """The pool of an alias: the longest prefix of the table, else a pool of its own (safe in names and tags)."""
    matching = [row for row in _TABLE if alias.lower().startswith(row.prefix)]
    if matching:
        return max(matching, key=lambda row: len(row.prefix)).bucket
    return re.sub(r"[^a-z0-9._-]+", "-", alias.lower()).strip("-.") or "default"


def limit_name_of(bucket: str) -> str:
    """The Prefect concurrency limit that is the bucket's ceiling; runs carry it as a tag, too."""
    return f"{LIMIT_PREFIX}{bucket}"


def queue_limit(ceiling: int, chain_ceilings: Iterable[int]) -> int:
    """How many runs of one queue may have a process: twice the ceiling (a run in verify still counts), what its runs
    may hold of their chain, and two more, so that the next ones are prepared while they wait."""
    return 2 * ceiling + sum(chain_ceilings) + _BEYOND_THE_GATE


def variable_of(bucket: str) -> str:
    """The variable that sets a bucket's ceiling: `local-` is DELEGATE_CONCURRENCY_LOCAL."""
    return f"DELEGATE_CONCURRENCY_{_key_of(bucket)}"


def ceiling_of(bucket: str, variables: Mapping[str, int], tables: Mapping[str, BucketTable]) -> Ceiling:
    """The ceiling: the variable, else `[buckets.<name>]`, else the table's, else six."""
    if (slots := variables.get(_key_of(bucket))) is not None:
        return Ceiling(bucket, slots, variable_of(bucket))
    if table := tables.get(bucket) or tables.get(bucket.rstrip("-")):
        return Ceiling(bucket, table.ceiling, f"[buckets.{bucket}]")
    return Ceiling(bucket, next((row.slots for row in _TABLE if row.bucket == bucket), DEFAULT_SLOTS))


def _key_of(bucket: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", bucket.upper()).rstrip("_")
