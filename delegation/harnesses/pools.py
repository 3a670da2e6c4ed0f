"""How many of a kind may run at once, in which pool, and what counts as one project and one checkout."""

from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from delegation.checkout.git import locate
from delegation.harnesses.order import HarnessName, Order
from delegation.models.buckets import DEFAULT_SLOTS, Ceiling, ceiling_of
from delegation.request import Endpoint
from delegation.settings import Settings

KINDS: tuple[HarnessName, ...] = ("codex", "gemini", "dsh")
"""Those that have a pool, tools and ids of their own."""
_KIND_OF: dict[str, HarnessName] = {kind: kind for kind in KINDS}


@dataclass(frozen=True)
class Pool:
    """`ceiling` runs at once everywhere, `per_project` of them in one repository, `max_queue` waiting, and
    `stagger_seconds` between two launches."""

    bucket: str
    ceiling: int
    per_project: int
    max_queue: int
    stagger_seconds: float = 0.0


@dataclass(frozen=True)
class LaunchPlace:
    """Where a job works, canonically: linked worktrees share a project, folders of one checkout share the checkout."""

    project: Path
    checkout: Path


def pool_of(harness: HarnessName, settings: Settings) -> Pool:
    """The pool of a kind by the user's settings. Claude Code counts in its model's own bucket."""
    match harness:
        case "codex":
            return Pool(
                "codex",
                settings.codex_max_concurrent,
                settings.codex_max_per_project,
                settings.codex_max_queue,
                settings.codex_stagger_seconds,
            )
        case "gemini":
            most = settings.gemini_max_concurrent
            return Pool("gemini", most, most, settings.gemini_max_queue)
        case "dsh":
            return Pool(
                "dsh",
                settings.dsh_max_concurrent,
                settings.dsh_max_per_project,
                settings.dsh_max_queue,
                settings.dsh_stagger_seconds,
            )
        case "claude" | "command":
            return Pool(harness, DEFAULT_SLOTS, DEFAULT_SLOTS, settings.max_queue)
        case _:
            assert_never(harness)


def per_project_now(pool: Pool, everywhere: int) -> int:
    """How many of one project may run while so many may everywhere: what lowers the one lowers the other."""
    return max(1, min(pool.per_project, pool.per_project * everywhere // pool.ceiling))


def ceiling_for(bucket: str, settings: Settings) -> Ceiling:
    """How many slots a bucket has: as for every other, but the variables of command-line agents count, too."""
    usual = ceiling_of(bucket, settings.ceilings, settings.catalogue.buckets)
    kind = _KIND_OF.get(bucket)
    if kind is None or usual.chosen_by is not None:
        return usual
    name = f"{kind}_max_concurrent"
    said = f"DELEGATE_{name.upper()}" if name in settings.model_fields_set else None
    return Ceiling(bucket, pool_of(kind, settings).ceiling, said)


def launch_place_of(workdir: Path) -> LaunchPlace:
    """The project and the checkout around a folder; without git the folder is both. Raises UsageError as `locate`."""
    place = locate(workdir)
    if place is None:
        return LaunchPlace(workdir.resolve(), workdir.resolve())
    return LaunchPlace(place.common_dir.resolve(), place.top.resolve())


def endpoint_of(order: Order) -> Endpoint:
    """What stands for the model of a command-line agent in a request, where no endpoint of ours is asked."""
    return Endpoint(
        alias=order.harness,
        base_url=f"cli:{order.harness}",
        format="openai_responses",
        model=order.model or order.harness,
        bucket=order.harness,
        quota_pool=order.harness,
        lane="subscription_cli",
        flat_plan=order.harness in ("codex", "gemini"),
    )
