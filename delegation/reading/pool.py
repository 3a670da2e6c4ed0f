"""Who can be asked: the providers of the reader's configuration, else the models of the catalogue."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from delegation.card import Lane
from delegation.errors import NotFoundError, UsageError
from delegation.models import endpoints
from delegation.models.addresses import is_local
from delegation.models.buckets import ceiling_of
from delegation.models.catalogue import Catalogue, require_key
from delegation.models.entry import Entry
from delegation.models.lanes import is_local_name
from delegation.reading.config import ConfigPlace, Provider, ReaderConfig, config_place, read_reader_config
from delegation.reading.question import Reader
from delegation.reading.sessions import Session, pinned_provider
from delegation.settings import Settings

_CATALOGUE_SECONDS = 600.0
_LITELLM_PORT = ":4000"


@dataclass(frozen=True)
class Pool:
    """Readers and their keys by name. `drawn` tells that the order is drawn by weight; else it stands."""

    readers: tuple[Reader, ...]
    keys: Mapping[str, str] = field(repr=False)
    drawn: bool = False
    warnings: tuple[str, ...] = ()


def place_of_config(settings: Settings) -> ConfigPlace | None:
    """The configuration file, or None where there is none. Raises NotFoundError for one that was named."""
    named = str(settings.reader_config) if settings.reader_config else None
    try:
        return config_place(named, settings.environ, settings.cwd)
    except NotFoundError:
        if named:
            raise
        return None


def config_of(settings: Settings) -> ReaderConfig | None:
    """What the file says, or None where there is none. Raises UsageError for one that is not valid."""
    place = place_of_config(settings)
    return read_reader_config(place.path, settings.environ) if place else None


def pool_of(
    settings: Settings, config: ReaderConfig | None, model: str | None = None, lane: Lane | None = None
) -> Pool:
    """All that may be asked. `model` names one provider of the configuration, or an alias of the catalogue.

    Raises UsageError where nobody can be asked, saying where it was looked.
    """
    if config is not None and (model is None or config.provider(model)):
        chosen = [each for each in config.providers if model in (None, each.name)]
        return _pool([_of_provider(each, settings) for each in chosen], drawn=True, warnings=config.warnings)
    return _of_catalogue(settings, model, lane)


def pinned(settings: Settings, config: ReaderConfig | None, session: Session) -> Pool:
    """Who answered before, with the same model. Raises UsageError where it can no longer be asked."""
    if config is not None and config.provider(session.provider):
        provider = pinned_provider(session, config).model_copy(update={"default_model": session.model})
        return _pool([_of_provider(provider, settings)])
    try:
        entry = Catalogue(settings).entry(session.provider)
        require_key(entry)
    except UsageError as error:
        if config is not None:
            pinned_provider(session, config)  # says that the configuration no longer has it
        raise UsageError(
            f"session {session.id!r} belongs to {session.provider!r}, which cannot be asked any more: {error}"
        ) from error
    if entry.endpoint.model != session.model:
        entry = endpoints.with_model(entry, session.model, settings)
    return _pool([entry_reader(entry, settings)])


def can_be_asked(settings: Settings) -> bool:
    """Whether reading is of any use here: there is a configuration, be it wrong, or a model to take."""
    try:
        if place_of_config(settings) is not None:
            return True
        Catalogue(settings).default_alias()
    except NotFoundError:
        return True  # a file was named: its absence is told by the call
    except UsageError:
        return False
    return True


def entry_reader(entry: Entry, settings: Settings) -> tuple[Reader, str | None]:
    """A model of the catalogue as a reader, and its key."""
    reader = Reader(
        name=entry.endpoint.alias,
        endpoint=entry.endpoint,
        timeout_seconds=_CATALOGUE_SECONDS,
        stays_local=entry.endpoint.lane == "local" and entry.upstream_local,
        slots=ceiling_of(entry.endpoint.bucket, settings.ceilings, settings.catalogue.buckets).slots,
    )
    return reader, entry.key.value if entry.key else None


def _of_catalogue(settings: Settings, model: str | None, lane: Lane | None) -> Pool:
    catalogue = Catalogue(settings)
    try:
        entry = catalogue.entry(model if model is not None else catalogue.default_alias(lane))
    except UsageError as error:
        if model is not None:
            raise
        raise UsageError(f"{error}. For a pool of readers: {_looked(settings)}") from error
    require_key(entry)
    return _pool([entry_reader(each, settings) for each in (entry, *catalogue.chain_entries(entry, lane))])


def _looked(settings: Settings) -> str:
    try:
        config_place(None, settings.environ, settings.cwd)
    except NotFoundError as error:
        return str(error)
    return "the reader's configuration"


def _of_provider(provider: Provider, settings: Settings) -> tuple[Reader, str | None]:
    entry = endpoints.from_reader(
        provider.name,
        provider.base_url,
        provider.default_model,
        settings,
        key=provider.api_key,
        headers=provider.headers,
        stays_local=_stays_local(provider, settings),
    )
    reader = Reader(
        name=provider.name,
        endpoint=entry.endpoint,
        weight=provider.weight,
        timeout_seconds=provider.timeout_ms / 1000,
        max_input_tokens=provider.max_input_tokens,
        stays_local=entry.upstream_local,
        stream=False,
        slots=ceiling_of(entry.endpoint.bucket, settings.ceilings, settings.catalogue.buckets).slots,
    )
    return reader, provider.api_key


def _stays_local(provider: Provider, settings: Settings) -> bool:
    """By the user's word, or by a local model's name at an address that is here and no proxy's usual one."""
    if provider.upstream_local:
        return True
    here = is_local(provider.base_url, settings.local_hosts) and _LITELLM_PORT not in provider.base_url
    return here and is_local_name(provider.default_model)


def _pool(found: list[tuple[Reader, str | None]], *, drawn: bool = False, warnings: tuple[str, ...] = ()) -> Pool:
    keys = {reader.name: key for reader, key in found if key}
    return Pool(tuple(reader for reader, _ in found), keys, drawn, warnings)


def folder_of_sessions(settings: Settings, config: ReaderConfig | None) -> Path:
    return (config and config.session_dir) or settings.home.reading / "sessions"


def metrics_file(settings: Settings, config: ReaderConfig | None) -> Path:
    return (config and config.metrics_file) or settings.home.reading / "metrics.jsonl"
