"""The catalogue: every alias this process can resolve, from files, variables, prefix rules and servers here."""

import difflib
import re
from collections.abc import Mapping, Sequence
from functools import cached_property

from delegation.card import Lane
from delegation.errors import NotFoundError, UsageError
from delegation.models import chains, endpoints, lanes
from delegation.models.discovery import USUAL_PORTS, LocalServer, discover, model_list
from delegation.models.entry import Entry
from delegation.models.providers import PROVIDERS, provider_of
from delegation.request import Endpoint
from delegation.settings import Settings
from delegation.variables import DEFAULT_LOCAL_MODEL

_SHOWN, _MOST_NEAR, _SHORTEST_PART = 20, 3, 3
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
ENVIRONMENT_BACKEND = "DELEGATE_BASE_URL"
"""The backend that the three variables DELEGATE_BASE_URL, _API_KEY and _MODEL make."""


class Catalogue:
    """Aliases of one process's settings. Servers are asked only when nothing else answers the question, once."""

    def __init__(self, settings: Settings, ports: Mapping[int, str] = USUAL_PORTS, *, ask: bool = True) -> None:
        """`ask=False` asks no server at all: what only a server could tell is then not known."""
        self._settings = settings
        self._ports = ports if ask else {}
        self._ask = ask

    def endpoint(self, alias: str | None = None) -> Endpoint:
        """The endpoint of an alias, or of the default. Raises UsageError: unknown (with near names), or key unset."""
        entry = self.entry(alias)
        require_key(entry)
        return entry.endpoint

    def entry(self, alias: str | None = None) -> Entry:
        """As `endpoint`, with its key and coverage, and without the demand that the key be set."""
        name = alias if alias is not None else self.default_alias()
        lanes.refuse_by_name(name)
        found = self._named(name) or self._by_rule(name) or self._listed(name)
        if found is None:
            raise self._unknown(name)
        return found

    def aliases(self) -> tuple[str, ...]:
        """Ready names: the files' first, then those that variables give; without any, the models of servers found."""
        named = (*self._settings.catalogue.models, *self._settings.backends.names, *self._from_variables())
        found = () if named else (name for server in self.servers for name in server.models)
        return tuple(dict.fromkeys((*named, *found)))

    def default_alias(self, lane: Lane | None = None) -> str:
        """The model of a card that names none: chosen by a variable or the file, else the only obvious one.

        With `lane`, the first ready alias of that lane where the default is of another. A provider that charges is
        never the default by its key alone. Raises UsageError that says how to choose.
        """
        default = self._chosen_default()
        if lane is not None and (default is None or not self._fits(default, lane)):
            default = next((name for name in self.aliases() if self._fits(name, lane)), None)
            if default is None:
                raise UsageError(f"no ready model is of the lane {lane!r}: name one, or add one to {self._config_file}")
        if default is None:
            raise UsageError(self._no_default())
        return default

    def wished(self, alias: str, lane: Lane | None = None) -> Entry | None:
        """The model that an agent's file wishes for, or None where it is not known here, has no key or another lane."""
        try:
            entry = self.entry(alias)
            lanes.check_lane(lane, entry)
            require_key(entry)
        except UsageError:
            return None
        return entry

    def chain(self, entry: Entry, lane: Lane | None = None) -> tuple[Endpoint, ...]:
        """Where the work may go next, in order: see `chains.filtered`."""
        return tuple(target.endpoint for target in self.chain_entries(entry, lane))

    def chain_entries(self, entry: Entry, lane: Lane | None = None) -> tuple[Entry, ...]:
        names = chains.names_for(entry)
        return chains.filtered(entry, [target for name in names if (target := self._ready(name))], lane)

    def backend(self, name: str | None = None, model: str | None = None) -> Entry:
        """A backend of `delegate_task`: by name, else DELEGATE_BASE_URL and its kin, else the default.

        `model` replaces the model inside it and nothing else.
        """
        if name == ENVIRONMENT_BACKEND or (name is None and self._settings.base_url):
            return endpoints.from_base_url(self._settings, model)
        if name is None:
            return self.entry(model)
        entry = self.entry(name)
        return entry if model in (None, entry.endpoint.model) else endpoints.with_model(entry, model, self._settings)

    @cached_property
    def servers(self) -> tuple[LocalServer, ...]:
        """Model servers that answer on their usual ports of this machine. Asked on first use."""
        return discover(self._settings, self._ports)

    @property
    def _config_file(self) -> str:
        return str(self._settings.home.config_file)

    def _named(self, alias: str) -> Entry | None:
        settings = self._settings
        if alias in settings.catalogue.models:
            return endpoints.from_table(alias, settings.catalogue.models[alias], settings)
        if alias in settings.backends:
            return endpoints.from_backend(alias, settings.backends[alias], settings)
        if settings.base_url and alias == settings.model:
            return endpoints.from_base_url(settings)
        return None

    def _by_rule(self, alias: str) -> Entry | None:
        lanes.refuse_retired(alias)
        settings = self._settings
        if self._has_default_endpoint:
            if lanes.has_known_prefix(alias):
                return endpoints.from_default(alias, settings, "rule")
            if alias in self._default_models():
                return endpoints.from_default(alias, settings, "default")
        provider = provider_of(alias)
        if provider and settings.environ.get(provider.key_variable):
            return endpoints.from_provider(alias, provider, settings)
        return None

    def _listed(self, alias: str) -> Entry | None:
        if self._has_default_endpoint:
            listed = alias in self._models_of_default_endpoint
            return endpoints.from_default(alias, self._settings, "default") if listed else None
        for server in self.servers:
            if alias in server.models:
                return endpoints.from_server(alias, server, self._settings)
        known = lanes.has_known_prefix(alias)
        return endpoints.from_default(alias, self._settings, "default") if known and not provider_of(alias) else None

    @property
    def _has_default_endpoint(self) -> bool:
        settings = self._settings
        return bool(settings.local_url or settings.local_model or settings.local_key or settings.gateway == "bifrost")

    @cached_property
    def _models_of_default_endpoint(self) -> tuple[str, ...]:
        import httpx  # loaded where a server is asked

        if not self._ask:
            return ()
        entry = endpoints.from_default(DEFAULT_LOCAL_MODEL, self._settings, "default")
        try:
            return model_list(entry.endpoint.base_url, entry.key.value if entry.key else None, timeout_seconds=2)
        except (httpx.HTTPError, ValueError):
            return ()

    def _default_models(self) -> tuple[str, ...]:
        settings = self._settings
        return tuple(name for name in (settings.local_model or DEFAULT_LOCAL_MODEL, settings.coding_model) if name)

    def _from_variables(self) -> tuple[str, ...]:
        settings = self._settings
        local = self._default_models() if self._has_default_endpoint else ()
        base = (settings.model,) if settings.base_url and settings.model else ()
        ready = (
            name for provider in PROVIDERS if settings.environ.get(provider.key_variable) for name in provider.models
        )
        return (*local, *base, *ready)

    def _chosen_default(self) -> str | None:
        settings = self._settings
        chosen = settings.local_model or settings.default_model
        if chosen is None and self._has_default_endpoint:
            chosen = DEFAULT_LOCAL_MODEL
        if chosen is None and settings.base_url:
            chosen = settings.model
        in_files = (*settings.catalogue.models, *settings.backends.names)
        return chosen or next(iter(in_files), None) or self._served_default()

    def _served_default(self) -> str | None:
        served = [name for server in self.servers for name in server.models if "embed" not in name.lower()]
        return DEFAULT_LOCAL_MODEL if DEFAULT_LOCAL_MODEL in served else next(iter(served), None)

    def _ready(self, alias: str) -> Entry | None:
        """A target of a chain, or None where it is not configured, has no key, or may not be used."""
        try:
            entry = self._named(alias) or self._by_rule(alias)
        except UsageError:
            return None
        return entry if entry and (entry.key is None or entry.key.value) else None

    def _fits(self, alias: str, lane: Lane) -> bool:
        try:
            lanes.check_lane(lane, self.entry(alias))
        except UsageError:
            return False
        return True

    def _no_default(self) -> str:
        ready = ", ".join(self._from_variables())
        if ready:
            return f"no model is chosen: name one ({ready}), or set default_model in {self._config_file}"
        said = "; ".join(f"{server.name} answers, but {server.problem}" for server in self.servers if server.problem)
        asked = f"asked {', '.join(f'{name} {port}' for port, name in self._ports.items()) or 'none'}"
        return (
            f"no model is configured and no local server gives one ({said or asked}): start one, set "
            f"DELEGATE_LOCAL_URL and DELEGATE_LOCAL_MODEL, or write {self._config_file}"
        )

    def _unknown(self, alias: str) -> UsageError:
        provider = provider_of(alias)
        if provider and not self._has_default_endpoint:
            return UsageError(
                f"model {alias!r} needs {provider.key_variable}, which is not set: set it, or DELEGATE_LOCAL_URL"
            )
        known = (*self.aliases(), *(self._models_of_default_endpoint if self._has_default_endpoint else ()))
        near = _near(alias, known)
        meant = f"did you mean {' or '.join(map(repr, near))}?"
        said = meant if near else f"known: {', '.join(known[:_SHOWN]) or 'none'}."
        table = f"models.{alias}" if _BARE_KEY.fullmatch(alias) else f'models."{alias}"'
        return NotFoundError(f"unknown model {alias!r}: {said} To add it, write [{table}] into {self._config_file}")


def _near(alias: str, known: Sequence[str]) -> list[str]:
    """Up to three names that hold it or are spelt like it, whatever their case."""
    folded, wanted = {name.casefold(): name for name in known}, alias.casefold()
    holding = [low for low in folded if len(wanted) >= _SHORTEST_PART and wanted in low]
    alike = difflib.get_close_matches(wanted, folded, _MOST_NEAR, cutoff=0.5)
    return [folded[low] for low in dict.fromkeys((*holding, *alike))][:_MOST_NEAR]


def require_key(entry: Entry) -> None:
    """Raises UsageError that names the variable and the alias when a key is wanted and not there."""
    if entry.key is not None and entry.key.required and not entry.key.value:
        raise UsageError(
            f"model {entry.endpoint.alias!r} needs a key and {entry.key.name} is not set: set it or choose another"
        )
