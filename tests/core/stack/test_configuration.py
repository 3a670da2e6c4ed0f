"""Which stack is to run, what its processes inherit, and how wide its queues are."""

import socket
from pathlib import Path

import pytest

from delegation.errors import StackError, UsageError
from delegation.home import Home
from deployments.configuration import Configuration, configuration, keeper_fingerprint
from deployments.database.choice import choose_database
from deployments.environment import keeper_environment, stack_environment
from deployments.kept import Kept, is_free, server_port
from deployments.places import Places
from deployments.registration.buckets import Bucket
from deployments.registration.rendering import rendered


@pytest.fixture
def places(tmp_path: Path) -> Places:
    found = Places(Home(root=tmp_path / "home", config_file=tmp_path / "config.toml"))
    found.make()
    return found


def environ(places: Places, **more: str) -> dict[str, str]:
    return {"HOME": str(places.home.root.parent), "PATH": "/usr/bin", "DELEGATE_HOME": str(places.home.root), **more}


@pytest.mark.parametrize(
    ("name", "value"), [("DELEGATE_SERVER_PORT", "0"), ("DELEGATE_SERVER_PORT", "4x"), ("DELEGATE_DATABASE", "oracle")]
)
def test_a_value_that_makes_no_sense_is_refused_by_name(places: Places, name: str, value: str):
    with pytest.raises(UsageError, match=name):
        configuration(environ(places, **{name: value}))


def test_a_server_of_the_users_own_is_taken_with_its_credentials(places: Places):
    given = environ(places, PREFECT_API_URL="http://127.0.0.1:4200/api", PREFECT_API_AUTH_STRING="a:b")
    found = configuration(given).foreign
    assert found is not None
    assert (found.api_url, found.ui_url, found.auth_string) == (
        "http://127.0.0.1:4200/api",
        "http://127.0.0.1:4200",
        "a:b",
    )


def test_the_fingerprint_changes_with_what_is_to_run(places: Places):
    one = Configuration(places.home)
    assert one.settings_hash() == Configuration(places.home).settings_hash()
    assert one.settings_hash() != Configuration(places.home, server_port=4200).settings_hash()
    assert one.fingerprint() != keeper_fingerprint()


def test_processes_of_the_stack_inherit_no_key_and_no_prefect_setting(places: Places):
    given = environ(
        places,
        OPENAI_API_KEY="sk",
        PREFECT_API_KEY="k",
        PYTHONDONTWRITEBYTECODE="1",
        DELEGATE_LOCAL_KEY="k",
        LC_ALL="C",
    )
    found = stack_environment(Configuration(places.home), given)
    assert not {"OPENAI_API_KEY", "PREFECT_API_KEY", "PYTHONDONTWRITEBYTECODE", "DELEGATE_LOCAL_KEY"} & set(found)
    assert (found["LC_ALL"], found["DELEGATE_HOME"]) == ("C", str(places.home.root))


def test_the_keeper_learns_which_database_and_ceilings_are_wanted(places: Places):
    given = environ(places, DELEGATE_DATABASE="sqlite", DELEGATE_CONCURRENCY_LOCAL="3", ANTHROPIC_API_KEY="sk")
    found = keeper_environment(Configuration(places.home), given)
    assert (found["DELEGATE_DATABASE"], found["DELEGATE_CONCURRENCY_LOCAL"]) == ("sqlite", "3")
    assert "ANTHROPIC_API_KEY" not in found


def test_a_queue_holds_twice_the_ceiling_and_the_chain_and_a_head():
    assert Bucket("glm", 6, chain_slots=4).queue_limit == 18


def test_planned_buckets_take_ceiling_and_chain_from_the_catalogue(places: Places):
    file = places.home.root / "config" / "delegate.toml"
    file.parent.mkdir()
    file.write_text(
        '[models.a]\nbase_url = "http://127.0.0.1:1/v1"\nbucket = "x"\nchain = ["b"]\n'
        '[models.b]\nbase_url = "http://127.0.0.1:1/v1"\nbucket = "y"\n[buckets.y]\nceiling = 4\n'
    )
    found = {bucket.name: bucket for bucket in configuration(environ(places)).buckets}
    assert found == {"x": Bucket("x", 6, False, 4), "y": Bucket("y", 4, True, 0)}


def test_a_port_is_kept_until_somebody_else_has_it(places: Places):
    kept = Kept(places)
    first = server_port(kept, None)
    kept.set("server_port", first)
    assert server_port(Kept(places), None) == first
    with socket.socket() as other:
        other.bind(("127.0.0.1", first))
        other.listen()
        assert not is_free(first)
        assert server_port(Kept(places), None) != first
        with pytest.raises(StackError, match=f"port {first} .* is taken by"):
            server_port(Kept(places), first)


def test_a_password_is_made_once_and_kept_privately(places: Places):
    first = Kept(places).secret("server_password")
    assert Kept(places).secret("server_password") == first
    assert len(first) > 20
    assert places.kept.stat().st_mode & 0o077 == 0


def test_placeholders_are_replaced_safely_and_unknown_ones_refused():
    assert rendered('a: "{{ x }}"', {"x": 'say "hi" \\'}) == 'a: "say \\"hi\\" \\\\"'
    with pytest.raises(StackError, match="nothing"):
        rendered('a: "{{ nothing }}"', {"x": "1"})


@pytest.mark.parametrize(
    ("url", "ours", "prefects"),
    [
        ("postgresql://u:p%40w@h:1/d", "postgresql+psycopg://u:p%40w@h:1/d", "postgresql+asyncpg://u:p%40w@h:1/d"),
        ("postgresql+asyncpg://u@h/d", "postgresql+psycopg://u@h/d", "postgresql+asyncpg://u@h/d"),
        ("sqlite:////tmp/x.db", "sqlite:////tmp/x.db", "sqlite+aiosqlite:////tmp/x.db"),
    ],
)
def test_a_database_of_the_users_own_gets_the_right_drivers(places: Places, url: str, ours: str, prefects: str):
    found = choose_database(Configuration(places.home, database_url=url), places, Kept(places))
    assert (found.url, found.prefect_url, found.cluster) == (ours, prefects, None)


def test_sqlite_comes_with_a_warning(places: Places):
    found = choose_database(Configuration(places.home, database="sqlite"), places, Kept(places))
    assert "SQLite" in found.warnings[0]


def test_an_unknown_kind_of_database_is_refused(places: Places):
    with pytest.raises(UsageError, match="mysql"):
        choose_database(Configuration(places.home, database_url="mysql://h/d"), places, Kept(places))
