"""Local work stays local, whatever a table, a name or an address says."""

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegation.card import Lane
from delegation.errors import UsageError
from delegation.models import chains, lanes
from delegation.models.addresses import is_local, is_loopback
from delegation.models.catalogue import Catalogue
from delegation.models.entry import Coverage, Entry
from delegation.request import Endpoint


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "127.9.9.9", "[::1]", "a.localhost", "[::ffff:127.0.0.1]", "LOCALHOST"]
)
def test_loopback_is_recognised(host: str):
    assert is_loopback(f"http://{host}:1/v1")


@pytest.mark.parametrize(
    "host",
    ["localhost.evil.example", "127.0.0.1.evil.example", "0.0.0.0", "10.0.0.1", "2130706433", "127.1", "notlocalhost"],
)
def test_what_only_looks_like_loopback_is_not(host: str):
    assert not is_loopback(f"http://{host}:1/v1")


def test_listed_private_hosts_and_networks_are_local():
    listed = ("gpu.lan", "192.168.1.0/24", "10.0.0.7")
    assert [is_local(f"http://{host}:1/v1", listed) for host in ("gpu.lan", "192.168.1.9", "10.0.0.7")] == [True] * 3
    assert [is_local(f"http://{host}:1/v1", listed) for host in ("x.gpu.lan", "192.168.2.9", "10.0.0.8")] == [False] * 3


def accepts(settings, alias: str, lane: Lane = "local") -> bool:
    try:
        lanes.check_lane(lane, Catalogue(settings, {}).entry(alias))
    except UsageError:
        return False
    return True


def test_a_local_name_at_a_remote_address_is_refused(settings_for):
    settings = settings_for(DELEGATE_LOCAL_URL="https://proxy.example")
    for alias in ("local-a", "ornith-1"):
        with pytest.raises(
            UsageError, match=r"lane 'local', but 'proxy\.example' is neither this machine nor in local_hosts"
        ):
            Catalogue(settings, {}).endpoint(alias)
    listed = settings_for(DELEGATE_LOCAL_URL="http://gpu.lan:8080", DELEGATE_LOCAL_HOSTS="gpu.lan")
    assert Catalogue(listed, {}).endpoint("local-a").lane == "local"


def test_a_local_card_takes_a_local_name_at_a_default_endpoint_on_loopback(settings_for):
    settings = settings_for(DELEGATE_LOCAL_URL="http://127.0.0.1:8080")
    assert accepts(settings, "local-a")
    assert not accepts(settings, "qwen-3-8-max")


@pytest.mark.parametrize(
    "variables",
    [
        {"DELEGATE_LOCAL_URL": "http://localhost:4000/v1/messages"},
        {"DELEGATE_LOCAL_MODEL": "local-a"},
        {"DELEGATE_GATEWAY": "bifrost", "DELEGATE_BIFROST_URL": "http://127.0.0.1:4010"},
    ],
)
def test_a_local_card_refuses_a_proxy_even_for_a_local_name(settings_for, variables: dict[str, str]):
    settings = settings_for(**variables)
    with pytest.raises(UsageError, match=r"a proxy at http://\S+ may pass the work on; write lane = \"local\" "):
        lanes.check_lane("local", Catalogue(settings, {}).entry("local-a"))


@pytest.mark.parametrize(
    ("keys", "accepted"),
    [
        ("", False),
        ("upstream_local = true", True),
        ('lane = "local"', True),
        ('lane = "local"\nupstream_local = false', False),
    ],
)
def test_the_catalogue_says_whether_a_proxy_on_loopback_is_local(settings_for, keys: str, accepted: bool):
    settings = settings_for(f"[models.coder]\nbase_url='http://127.0.0.1:4000'\n{keys}\n")
    assert accepts(settings, "coder") is accepted


def test_a_table_cannot_call_a_remote_address_local(settings_for):
    for keys in ("lane = 'local'", "upstream_local = true"):
        with pytest.raises(UsageError, match="neither this machine nor in local_hosts"):
            Catalogue(settings_for(f"[models.a]\nbase_url='https://h.example'\n{keys}\n"), {}).endpoint("a")


def test_a_table_cannot_take_a_local_name_out_of_its_lane(settings_for):
    with pytest.raises(UsageError, match="pinned to the lane 'local'"):
        Catalogue(settings_for("[models.local-a]\nbase_url='http://localhost'\nlane='metered'\n"), {}).endpoint(
            "local-a"
        )
    with pytest.raises(UsageError, match="contradicts"):
        Catalogue(
            settings_for("[models.a]\nbase_url='http://localhost'\nlane='metered'\nupstream_local=true\n"), {}
        ).endpoint("a")


def test_a_card_of_another_lane_is_refused_with_the_models_lane(settings_for):
    entry = Catalogue(settings_for(DELEGATE_LOCAL_URL="http://localhost:4000"), {}).entry("glm-coding-plan")
    with pytest.raises(UsageError, match="lane 'metered' refuses model 'glm-coding-plan': its lane is 'flat_plan'"):
        lanes.check_lane("metered", entry)
    lanes.check_lane("flat_plan", entry)
    lanes.check_lane(None, entry)


def test_the_default_model_of_a_lane_is_the_first_that_fits(settings_for):
    toml = """
default_model = "cloud"
[models.cloud]
base_url = "https://h.example"
[models.mine]
base_url = "http://localhost:8080"
upstream_local = true
"""
    models = Catalogue(settings_for(toml), {})
    assert (models.default_alias(), models.default_alias("metered"), models.default_alias("local")) == (
        "cloud",
        "cloud",
        "mine",
    )
    with pytest.raises(UsageError, match="no ready model is of the lane 'flat_plan'"):
        models.default_alias("flat_plan")


def test_a_repository_is_local_by_its_own_file_or_by_the_settings(settings_for, tmp_path: Path):
    repo = tmp_path / "repo"
    repo.mkdir()
    assert lanes.lane_of_repository(repo, settings_for()) is None
    for marked in (tmp_path, repo, repo / "inside"):
        assert lanes.lane_of_repository(repo, settings_for(DELEGATE_LOCAL_PATHS=str(marked))) == "local"
    assert lanes.lane_of_repository(repo, settings_for(DELEGATE_LOCAL_PATHS=str(tmp_path / "rep"))) is None
    (repo / ".delegate.toml").write_text('lane = "local"\n')
    assert lanes.lane_of_repository(repo, settings_for()) == "local"


# --- chains ---------------------------------------------------------------------------------------------------------

PROXY = {"DELEGATE_LOCAL_URL": "http://localhost:4000"}


def chain(settings, alias: str, lane: Lane | None = None) -> list[str]:
    models = Catalogue(settings, {})
    return [endpoint.alias for endpoint in models.chain(models.entry(alias), lane)]


@pytest.mark.parametrize(
    ("alias", "expected"),
    [
        ("glm-coding-plan-think", ["qwen-3-8-max", "deepseek-v4-flash"]),
        ("glm-coding-plan", ["qwen-3-8-max", "deepseek-v4-flash"]),
        ("qwen-3-8-max", ["glm-coding-plan-think", "deepseek-v4-flash"]),
        ("qwen-3-8-max-think", ["glm-coding-plan-think", "deepseek-v4-flash"]),
        ("deepseek-v4-flash", ["glm-coding-plan-think", "qwen-3-8-max"]),
        ("local-a", []),
        ("ornith-1", []),
        ("gpt-6-luna", []),
        ("qwen-other", []),
    ],
)
def test_the_default_chains_put_flat_plans_first_and_leave_pinned_models_alone(
    settings_for, alias: str, expected: list[str]
):
    assert chain(settings_for(**PROXY), alias) == expected


def test_a_chain_stays_in_the_lane_of_its_card(settings_for):
    assert chain(settings_for(**PROXY), "glm-coding-plan", "flat_plan") == ["qwen-3-8-max"]
    assert chain(settings_for(**PROXY), "deepseek-v4-flash", "metered") == []


def test_only_what_is_configured_is_in_a_chain(settings_for):
    assert chain(settings_for(DEEPSEEK_API_KEY="k"), "deepseek-v4-flash") == []
    assert chain(settings_for(DEEPSEEK_API_KEY="k", ZAI_API_KEY="k"), "deepseek-v4-flash") == ["glm-coding-plan-think"]


def test_what_the_default_endpoint_alone_knows_neither_gives_nor_takes_work(settings_for):
    toml = "[models.a]\nbase_url='http://h'\nchain=['mine', 'b']\n[models.b]\nbase_url='http://h'\n"
    settings = settings_for(toml, DELEGATE_LOCAL_MODEL="mine", **PROXY)
    assert chain(settings, "a") == ["b"]
    assert chain(settings, "mine") == []


def test_a_bad_chain_cannot_send_local_work_out_or_use_a_quota_pool_twice(settings_for):
    toml = """
[models.local-a]
base_url = "http://localhost:1"
chain = ["cloud"]
[models.cloud]
base_url = "https://h.example"
quota_pool = "one"
chain = ["local-a", "mine", "gpt-x", "codex-x", "twin", "absent", "keyless", "mimo-x", "other", "other"]
[models.twin]
base_url = "https://h.example"
quota_pool = "one"
[models.other]
base_url = "https://h.example"
[models.keyless]
base_url = "https://h.example"
key = "env:UNSET"
[models.mine]
base_url = "http://localhost:1"
lane = "local"
[models.gpt-x]
base_url = "https://h.example"
[models.codex-x]
base_url = "https://h.example"
"""
    settings = settings_for(toml)
    assert chain(settings, "local-a") == []
    assert chain(settings, "cloud") == ["other"]
    assert chain(settings_for(toml.replace('quota_pool = "one"\nchain', "chain = []\n#")), "cloud") == []


ENTRIES = st.builds(
    lambda alias, lane, pool, coverage: Entry(
        Endpoint(
            alias=alias, base_url="http://h", format="openai_chat", model=alias, bucket=pool, quota_pool=pool, lane=lane
        ),
        coverage,
    ),
    st.sampled_from(["local-a", "LOCAL-b", "ornith", "gpt-1", "codex", "glm-x", "qwen-x", "deepseek-x", "mine"]),
    st.sampled_from(get_args(Lane)),
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(get_args(Coverage)),
)


@given(origin=ENTRIES, targets=st.lists(ENTRIES, max_size=8), lane=st.sampled_from([None, *get_args(Lane)]))
def test_no_chain_whatever_moves_pinned_work_or_leaves_a_lane(origin: Entry, targets: list[Entry], lane: Lane | None):
    chosen = chains.filtered(origin, targets, lane)
    pools = [origin.endpoint.quota_pool, *(target.endpoint.quota_pool for target in chosen)]
    moved = [origin, *chosen] if chosen else []
    assert len(set(pools)) == len(pools)
    assert not any(entry.endpoint.lane == "local" for entry in moved)
    assert not any(entry.endpoint.alias.lower().startswith(("local-", "ornith", "codex", "gpt-")) for entry in moved)
    assert all(target.endpoint.lane == lane for target in chosen if lane)
    assert not any(entry.covered_by in ("default", "discovered") for entry in moved)
