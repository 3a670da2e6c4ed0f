"""From one source (a table, a provider's key, the default endpoint, a server found) to one entry of the catalogue."""

import hashlib
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from delegation.card import Lane
from delegation.errors import UsageError
from delegation.models import lanes, prices
from delegation.models.addresses import base_url, format_of_url, gateway_root, host_of, is_local
from delegation.models.backends_file import Backend
from delegation.models.buckets import bucket_of
from delegation.models.config_file import ModelTable
from delegation.models.discovery import LocalServer
from delegation.models.entry import Coverage, Entry, Key
from delegation.models.provider_guard import check_provider_host
from delegation.models.providers import Provider, belongs_together
from delegation.request import Endpoint, WireFormat
from delegation.settings import Settings
from delegation.variables import DEFAULT_LOCAL_URL

DEFAULT_OUTPUT_TOKENS = 65_536
# Tiers that reason at length by default have spent 65,536 tokens on reasoning and answered nothing.
HEAVY_OUTPUT_TOKENS = 131_072
_HEAVY_SUFFIXES = ("-think", "-max")
_LITELLM_PORT = ":4000/"
_TAKEN_AS_THEY_ARE = (
    "bucket",
    "quota_pool",
    "context_tokens",
    "max_output_tokens",
    "resend_reasoning",
    "reasoning_field",
    "text_tool_calls",
    "prompt_cache",
)


def default_output_tokens(alias: str) -> int:
    """What a reply may use when nobody says: more for the tiers that reason at length."""
    return HEAVY_OUTPUT_TOKENS if alias.lower().endswith(_HEAVY_SUFFIXES) else DEFAULT_OUTPUT_TOKENS


def from_table(alias: str, table: ModelTable, settings: Settings) -> Entry:
    """An entry of delegate.toml. Raises UsageError when its lane contradicts its name or its address."""
    where = f"[models.{alias}] of {settings.home.config_file}"
    wire_format = table.format or lanes.format_by_prefix(alias)
    lane = _lane_of_table(alias, table, where)
    key, warnings = _key_of_table(table, settings, where)
    chosen: dict[str, Any] = {name: value for name in _TAKEN_AS_THEY_ARE if (value := getattr(table, name)) is not None}
    if table.prices:
        chosen |= {f"{name}_usd_per_million": getattr(table.prices, name) for name in ("input", "output", "cached")}
        chosen["prices_as_of"] = table.prices.as_of
    chosen["flat_plan"] = table.flat_plan or lane == "flat_plan"
    url = base_url(table.base_url, wire_format, f"base_url in {where}")
    ends_here = table.upstream_local is not False and (table.lane == "local" or table.upstream_local is True)
    return _entry(
        settings, alias, url, wire_format, table.model or alias, lane=lane, key=key, covered_by="catalogue",
        upstream_local=ends_here, chain=table.chain, warnings=warnings, headers=table.headers, **chosen,
    )  # fmt: skip


def from_backend(name: str, backend: Backend, settings: Settings) -> Entry:
    """An entry of models.json: always OpenAI chat. Raises UsageError when it would carry a key to a strange address."""
    url = base_url(backend.base_url, "openai_chat", f"base_url of backend {name!r}")
    key = None
    warnings: tuple[str, ...] = ()
    if backend.api_key_env:
        key = Key(backend.api_key_env, settings.environ.get(backend.api_key_env) or None)
        if settings.backends.in_current_folder:
            _check_belonging(key, url, str(settings.backends.path), settings)
    elif backend.api_key:
        key = Key(f"api_key of backend {name!r}", backend.api_key)
        warnings = (
            f"{settings.backends.path}: backend {name!r} holds its key as text; name a variable with api_key_env",
        )
    return _entry(settings, name, url, "openai_chat", backend.model, key=key, covered_by="catalogue", warnings=warnings)


def from_provider(alias: str, provider: Provider, settings: Settings) -> Entry:
    """A model of one of the five providers, by its own key variable."""
    url, key = (
        provider.address(settings.environ),
        Key(provider.key_variable, settings.environ.get(provider.key_variable) or None),
    )
    if provider.url_variable in settings.from_env_file:
        _check_belonging(key, url, f"{provider.url_variable} in .env", settings)
    return _entry(settings, alias, url, provider.format, provider.wire_name(alias), key=key, covered_by="catalogue")


def from_base_url(settings: Settings, model: str | None = None) -> Entry:
    """DELEGATE_BASE_URL, _API_KEY and _MODEL, or another model there. Raises UsageError naming the one missing."""
    name = model or settings.model
    if not settings.base_url or not name:
        missing = "DELEGATE_MODEL" if settings.base_url else "DELEGATE_BASE_URL"
        raise UsageError(f"no backend is named and {missing} is not set: set it, or name a backend of models.json")
    url = base_url(settings.base_url, "openai_chat", "DELEGATE_BASE_URL")
    key = Key("DELEGATE_API_KEY", settings.api_key, required=False)
    if "DELEGATE_BASE_URL" in settings.from_env_file:
        _check_belonging(key, url, "DELEGATE_BASE_URL in .env", settings)
    return _entry(settings, name, url, "openai_chat", name, key=key, covered_by="catalogue")


def from_default(alias: str, settings: Settings, covered_by: Coverage) -> Entry:
    """The default endpoint, or the gateway in its place, asked for `alias` in the format its prefix says."""
    if settings.gateway == "bifrost":
        return _from_bifrost(alias, settings, covered_by)
    wire_format = lanes.format_by_prefix(alias)
    url = base_url(settings.local_url or DEFAULT_LOCAL_URL, wire_format, "DELEGATE_LOCAL_URL")
    key = Key("DELEGATE_LOCAL_KEY", settings.local_key, required=False)
    if "DELEGATE_LOCAL_URL" in settings.from_env_file:
        _check_belonging(key, url, "DELEGATE_LOCAL_URL in .env", settings)
    ends_here = lanes.is_local_name(alias) and _LITELLM_PORT not in f"{url}/"
    return _entry(settings, alias, url, wire_format, alias, key=key, covered_by=covered_by, upstream_local=ends_here)


def from_server(alias: str, server: LocalServer, settings: Settings) -> Entry:
    """A model that a server found on this machine lists. Its work ends there, unless it is a proxy or sells a cloud."""
    wire_format = lanes.format_by_prefix(alias) if server.is_proxy else "openai_chat"
    ends_here = not server.is_proxy and not alias.endswith(("-cloud", ":cloud"))
    lane: Lane = "local" if ends_here else lanes.lane_by_name(alias)
    bucket = "local-" if ends_here and not lanes.has_known_prefix(alias) else bucket_of(alias)
    url = base_url(server.base_url, wire_format, server.name)
    return _entry(
        settings,
        alias,
        url,
        wire_format,
        alias,
        lane=lane,
        covered_by="discovered",
        upstream_local=ends_here,
        bucket=bucket,
    )


def from_provider_url(url: str, model: str, settings: Settings, *, key: str) -> Entry:
    """An endpoint that a caller names for one delegation: nothing of the catalogue or the gateway applies to it.

    Raises UsageError for an address that `provider_guard` refuses. What it charges is not known.
    """
    wire_format = format_of_url(url) or lanes.format_by_prefix(model)
    address = base_url(url, wire_format, "provider_url")
    check_provider_host(address, settings.provider_allowed_hosts)
    given = Key("api_key", key or None, required=False)
    free: dict[str, Any] = dict.fromkeys(("input_usd_per_million", "output_usd_per_million", "prices_as_of"))
    lane: Lane = "local" if lanes.is_local_name(model) else "metered"  # whose plan this is, nobody here knows
    return _entry(
        settings, model, address, wire_format, model, lane=lane, key=given, covered_by="default", chain=(), **free
    )


def from_reader(
    name: str, url: str, model: str, settings: Settings, *, key: str, headers: dict[str, str], stays_local: bool
) -> Entry:
    """A provider of the reader's own configuration: OpenAI chat at exactly this address, in the pool of its model.

    Raises UsageError for a model whose terms forbid it, and for one that stays local at an address that does not.
    """
    given = Key("api_key", key or None, required=False)
    lane: Lane = "local" if stays_local else lanes.lane_by_name(model)
    if lane == "local" and not stays_local:
        lane = "metered"  # its name alone does not keep the work here: the configuration has to say so
    return _entry(
        settings, name, url.removesuffix("/chat/completions"), "openai_chat", model, lane=lane, key=given,
        covered_by="default", upstream_local=stays_local, chain=(), bucket=bucket_of(model), headers=headers,
    )  # fmt: skip


def with_model(entry: Entry, model: str, settings: Settings) -> Entry:
    """The same backend asked for another of its models; what hangs on the model's name is worked out anew."""
    lanes.refuse_by_name(model)
    priced = dict.fromkeys(
        ("input_usd_per_million", "output_usd_per_million", "cached_usd_per_million", "prices_as_of")
    )
    told = {
        "model": model,
        "resend_reasoning": _resends(entry.endpoint.alias, model, settings),
        **priced,
        **_listed_price(model, entry.endpoint.lane),
    }
    return replace(entry, endpoint=entry.endpoint.model_copy(update=told), chain=())


def _from_bifrost(alias: str, settings: Settings, covered_by: Coverage) -> Entry:
    local = lanes.is_local_name(alias)
    base = (local and settings.bifrost_local_url) or settings.bifrost_url or ""
    wire_format: WireFormat = "openai_chat" if settings.bifrost_api == "openai" else lanes.format_by_prefix(alias)
    name, value = ("LOCAL", settings.bifrost_key_local) if local else ("CODE", settings.bifrost_key_code)
    key = Key(f"DELEGATE_BIFROST_VK_{name}", value, required=False)
    if {"DELEGATE_BIFROST_URL", "DELEGATE_BIFROST_LOCAL_URL"} & settings.from_env_file:
        _check_belonging(key, base, "DELEGATE_BIFROST_URL in .env", settings)
    url = base_url(f"{gateway_root(base)}/litellm", "anthropic_messages", "DELEGATE_BIFROST_URL")
    return _entry(settings, alias, url, wire_format, alias, key=key, covered_by=covered_by)


def _entry(
    settings: Settings, alias: str, url: str, wire_format: WireFormat, model: str, *,
    covered_by: Coverage, lane: Lane | None = None, key: Key | None = None, upstream_local: bool = False,
    chain: tuple[str, ...] | None = None, warnings: tuple[str, ...] = (), **chosen: Any,
) -> Entry:  # fmt: skip
    """One place where every entry passes: the guards of names and lanes, and what is derived from the alias."""
    lanes.refuse_by_name(alias, model)
    lane = lane or lanes.lane_by_name(alias)
    if lane == "local" and not is_local(url, settings.local_hosts):
        raise UsageError(
            f"model {alias!r} is in the lane 'local', but {host_of(url)!r} is neither this machine nor in local_hosts: "
            "list it there if it is private, or choose another model"
        )
    if key is not None and key.value is None and not key.required:
        key = None
    bucket = chosen.pop("bucket", None) or bucket_of(alias)
    derived: dict[str, Any] = {
        "bucket": bucket,
        "quota_pool": _quota_pool(bucket, url, key),
        "max_output_tokens": default_output_tokens(alias),
        "resend_reasoning": _resends(alias, model, settings),
        "flat_plan": lane == "flat_plan",
        **_listed_price(model, lane),
    }
    endpoint = Endpoint(
        alias=alias, base_url=url, format=wire_format, model=model, lane=lane,
        key_ref=f"env:{key.name}" if key and key.name.isidentifier() else None, key_name=key.name if key else None,
        **(derived | chosen),
    )  # fmt: skip
    return Entry(endpoint, covered_by, key, upstream_local and lane == "local", chain, warnings)


def _quota_pool(bucket: str, url: str, key: Key | None) -> str:
    """Provider, account and plan: two clients with other addresses or keys do not share a cooldown."""
    account = hashlib.sha256(f"{urlsplit(url).netloc.lower()}\n{(key and key.value) or ''}".encode()).hexdigest()
    return f"{bucket}@{account[:8]}"


def _resends(alias: str, model: str, settings: Settings) -> bool:
    """By alias, or by the model's own name where the alias is a backend's."""
    names = (alias.lower(), model.lower().rsplit("/", 1)[-1])
    auto = settings.resend_reasoning == "auto" and any(name.startswith("deepseek-") for name in names)
    return auto or settings.resend_reasoning == "1"


def _listed_price(model: str, lane: Lane) -> dict[str, Any]:
    price = prices.price_of(model) if lane == "metered" else None
    if price is None:
        return {}
    return {"input_usd_per_million": price.input, "output_usd_per_million": price.output, "prices_as_of": price.as_of}


def _lane_of_table(alias: str, table: ModelTable, where: str) -> Lane:
    by_name = lanes.lane_by_name(alias, flat_plan=table.flat_plan)
    lane = table.lane or ("local" if table.upstream_local else by_name)
    if by_name == "local" and lane != "local":
        raise UsageError(
            f"{where}: the name {alias!r} is pinned to the lane 'local', so lane = {lane!r} cannot hold; rename it"
        )
    if table.upstream_local and lane != "local":
        raise UsageError(f"{where}: upstream_local = true contradicts lane = {lane!r}")
    return lane


def _key_of_table(table: ModelTable, settings: Settings, where: str) -> tuple[Key | None, tuple[str, ...]]:
    if table.key is None:
        return None, ()
    if table.key.startswith("env:"):
        name = table.key.removeprefix("env:")
        return Key(name, settings.environ.get(name) or None), ()
    return Key(f"key in {where}", table.key), (f'{where} holds its key as text: write key = "env:NAME"',)


def _check_belonging(key: Key, url: str, source: str, settings: Settings) -> None:
    foreign = key.value is not None and key.name not in settings.from_env_file
    if foreign and not belongs_together(key.name, url) and not is_local(url, settings.local_hosts):
        raise UsageError(
            f"{source} of this folder names the address {url}, but {key.name} comes from your environment: a folder "
            f"cannot choose where your keys go; move it to {settings.home.config_file.parent}, or put both into .env"
        )
