"""Failover chains: where a model's work may go next, and the guards that hold whatever the tables say."""

from collections.abc import Iterable, Mapping

from delegation.card import Lane
from delegation.models import lanes
from delegation.models.entry import Entry

# Flat plans before the one that charges per token: a busy hour must not become a bill.
_CHAINS: Mapping[str, tuple[str, ...]] = {
    "glm-": ("qwen-3-8-max", "deepseek-v4-flash"),
    "qwen-3-8-max": ("glm-coding-plan-think", "deepseek-v4-flash"),
    "deepseek-v4-flash": ("glm-coding-plan-think", "qwen-3-8-max"),
}


def names_for(entry: Entry, table: Mapping[str, tuple[str, ...]] = _CHAINS) -> tuple[str, ...]:
    """The aliases to try next: the catalogue's own list, else the table's by the longest prefix."""
    if entry.chain is not None:
        return entry.chain
    matching = [prefix for prefix in table if entry.endpoint.alias.lower().startswith(prefix)]
    return table[max(matching, key=len)] if matching else ()


def filtered(origin: Entry, targets: Iterable[Entry], lane: Lane | None) -> tuple[Entry, ...]:
    """The targets that may take the origin's work, in their order.

    Nothing pinned gives work away or takes any; nothing known to the default endpoint alone does either; no quota pool
    comes twice, the origin's included; and a card that names a lane stays in it.
    """
    if not _takes_part(origin):
        return ()
    pools = {origin.endpoint.quota_pool}
    chosen: list[Entry] = []
    for target in targets:
        endpoint = target.endpoint
        if _takes_part(target) and endpoint.quota_pool not in pools and lane in (None, endpoint.lane):
            pools.add(endpoint.quota_pool)
            chosen.append(target)
    return tuple(chosen)


def _takes_part(entry: Entry) -> bool:
    endpoint = entry.endpoint
    return entry.covered_by in ("catalogue", "rule") and not lanes.is_pinned(endpoint.alias, endpoint.lane)
