"""Which buckets are known before any delegation asks, and how wide their queues are."""

from collections.abc import Iterable
from dataclasses import dataclass

from delegation.harnesses.installed import is_installed
from delegation.harnesses.pools import KINDS, ceiling_for
from delegation.models import buckets
from delegation.models.buckets import Ceiling, bucket_of, limit_name_of
from delegation.models.config_file import ModelTable
from delegation.records.labels import queue_name_of
from delegation.settings import Settings


@dataclass(frozen=True)
class Bucket:
    """A pool of slots. `explicit` says that the user chose the ceiling, so that a limit made earlier is overwritten."""

    name: str
    ceiling: int
    explicit: bool = False
    chain_slots: int = 0

    @property
    def limit_name(self) -> str:
        return limit_name_of(self.name)

    @property
    def queue_names(self) -> tuple[str, str]:
        """First what runs now, then what may wait for the night."""
        return queue_name_of(self.name, "now"), queue_name_of(self.name, "night")

    @property
    def queue_limit(self) -> int:
        return buckets.queue_limit(self.ceiling, [self.chain_slots])


def planned_buckets(settings: Settings) -> tuple[Bucket, ...]:
    """One for each bucket that the catalogue names and for each command-line agent that is installed; others are made
    when a delegation first asks for them."""
    models = settings.catalogue.models
    names = {_bucket(alias, model) for alias, model in models.items()} | set(settings.catalogue.buckets)
    names |= {kind for kind in KINDS if is_installed(kind, settings)}
    return tuple(_planned(name, settings) for name in sorted(names))


def _planned(name: str, settings: Settings) -> Bucket:
    ceiling = _ceiling(name, settings)
    chained = _chained_buckets(name, settings.catalogue.models.items(), settings)
    slots = sum(_ceiling(other, settings).slots for other in chained)
    return Bucket(name, ceiling.slots, ceiling.chosen_by is not None, slots)


def _chained_buckets(name: str, models: Iterable[tuple[str, ModelTable]], settings: Settings) -> set[str]:
    aliases = {other for alias, model in models if _bucket(alias, model) == name for other in model.chain or ()}
    tables = settings.catalogue.models
    return {_bucket(alias, tables.get(alias)) for alias in aliases} - {name}


def _ceiling(name: str, settings: Settings) -> Ceiling:
    return ceiling_for(name, settings)


def _bucket(alias: str, model: ModelTable | None) -> str:
    return (model.bucket if model else None) or bucket_of(alias)
