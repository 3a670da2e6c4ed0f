"""Local work never leaves, whatever the catalogue, the chain, the request or the log say."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from delegation.card import Card, Lane
from delegation.errors import UsageError
from delegation.models.catalogue import Catalogue
from delegation.request import Agent, DelegationRequest, Endpoint, Limits
from delegation.settings import load_settings
from delegation.slots.candidates import open_candidates
from delegation.slots.chain_state import chain_state_of
from tests.core.slots.conftest import NOW

ALIASES = ("local-a", "LOCAL-b", "ornith-1", "gpt-6-luna", "codex-x", "glm-x", "qwen-3-8-max", "deepseek-v4-flash", "m")
URLS = ("http://127.0.0.1:8080/v1", "http://localhost:9000", "https://api.example/v1", "http://10.0.0.9:1/v1")
LANES = get_args(Lane)


@dataclass(frozen=True)
class Table:
    """One `[models.<alias>]` of a catalogue, sensible or not."""

    alias: str
    base_url: str
    lane: str | None
    pool: str
    chain: tuple[str, ...]
    upstream_local: bool

    @property
    def toml(self) -> str:
        lines = [
            f"[models.{self.alias}]",
            f"base_url = {self.base_url!r}",
            f"quota_pool = {self.pool!r}",
            f"chain = {list(self.chain)!r}",
            f"upstream_local = {str(self.upstream_local).lower()}",
            *([f"lane = {self.lane!r}"] if self.lane else []),
        ]
        return "\n".join(lines)


TABLES = st.lists(
    st.builds(
        Table,
        st.sampled_from(ALIASES),
        st.sampled_from(URLS),
        st.sampled_from((None, *LANES)),
        st.sampled_from("abc"),
        st.lists(st.sampled_from(ALIASES), max_size=5).map(tuple),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda table: table.alias,
)


def is_inside(endpoint: Endpoint) -> bool:
    return endpoint.lane == "local" and ("127.0.0.1" in endpoint.base_url or "localhost" in endpoint.base_url)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(tables=TABLES, alias=st.sampled_from(ALIASES), lane=st.sampled_from([None, *LANES]))
def test_no_catalogue_whatever_sends_local_work_out(tables: list[Table], alias: str, lane: Lane | None, tmp_path: Path):
    file = tmp_path / "config" / "delegate.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n\n".join(table.toml for table in tables), encoding="utf-8")
    try:
        models = Catalogue(load_settings({"HOME": str(tmp_path), "DELEGATE_HOME": str(tmp_path)}, tmp_path), {})
        origin = models.entry(alias)
        chain = models.chain_entries(origin, lane)
    except UsageError:
        return  # a catalogue that makes no sense serves nobody
    if origin.endpoint.lane == "local" or origin.endpoint.alias.lower().startswith(("local-", "ornith")):
        assert chain == ()
    if lane == "local":
        assert all(is_inside(target.endpoint) for target in chain)
    assert not any(target.endpoint.lane == "local" for target in chain)
    assert all(lane in (None, target.endpoint.lane) for target in chain)


def endpoint(alias: str, url: str, lane: Lane, pool: str) -> Endpoint:
    return Endpoint(
        alias=alias, base_url=url, format="openai_chat", model=alias, bucket=pool, quota_pool=pool, lane=lane
    )


def header(alias: str) -> dict[str, Any]:
    return {"type": "header", "alias": alias}


def gave_up(alias: str) -> dict[str, Any]:
    return {"type": "gave_up", "alias": alias, "failure_kind": "quota", "failure_message": ""}


def handover(one: str, other: str) -> dict[str, Any]:
    return {"type": "handover", "from": one, "to": other, "failure_kind": None}


ENDPOINTS = st.builds(
    endpoint,
    st.sampled_from(ALIASES),
    st.sampled_from(URLS),
    st.sampled_from(LANES),
    st.sampled_from("abc"),
)
EVENTS = st.lists(
    st.one_of(
        st.builds(header, st.sampled_from(ALIASES)),
        st.builds(gave_up, st.sampled_from(ALIASES)),
        st.builds(handover, st.sampled_from(ALIASES), st.sampled_from(ALIASES)),
    ),
    max_size=6,
)


def requested(first: Endpoint, chain: list[Endpoint], lane: Lane | None) -> DelegationRequest:
    return DelegationRequest(
        id="dg-1",
        card=Card(task="t", repo="/r", lane=lane),
        repo="/r",
        is_git=True,
        base_commit=None,
        agent=Agent(name="a", source="built-in", system_prompt="s"),
        endpoint=first,
        chain=tuple(chain),
        limits=Limits(max_turns=5, timeout_seconds=60, max_tokens=1000),
        confinement="off",
        network=False,
        created_at=datetime.now(UTC),
    )


@settings(max_examples=300, deadline=None)
@given(
    first=ENDPOINTS,
    chain=st.lists(ENDPOINTS, max_size=5, unique_by=lambda each: each.alias),
    lane=st.sampled_from([None, *LANES]),
    events=EVENTS,
)
def test_no_chain_in_a_request_and_no_log_whatever_moves_pinned_work(
    first: Endpoint, chain: list[Endpoint], lane: Lane | None, events: list[dict[str, Any]]
):
    """As if somebody had edited the table after admission, or the parameters of the run in the UI."""
    request = requested(first, [each for each in chain if each.alias != first.alias], lane)
    candidates = chain_state_of(request, events).candidates
    opened = open_candidates(candidates, {}, 1_000.0, request.patience, NOW)
    for endpoint in (*candidates, *(opened if isinstance(opened, tuple) else ())):
        if endpoint.alias == first.alias:
            continue
        assert first.lane != "local"
        assert not first.alias.lower().startswith(("local-", "ornith", "codex", "gpt-"))
        assert endpoint.lane != "local"
        assert lane in (None, endpoint.lane)


@pytest.mark.parametrize("lane", LANES)
def test_work_of_a_lane_goes_on_within_it(model: Any, lane: Lane):
    first, same = (model(name).model_copy(update={"lane": lane}) for name in ("m", "n"))
    request = requested(first, [same], lane)
    assert len(chain_state_of(request, []).candidates) == (1 if lane in ("local", "subscription_cli") else 2)
