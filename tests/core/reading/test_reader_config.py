"""The JSON configuration of delegate-mcp is found and read as it is; what is wrong in it is said in one line."""

import json
import os
from pathlib import Path

import pytest

from delegation.errors import NotFoundError, UsageError
from delegation.reading.config import config_place, read_reader_config
from delegation.reading.packing.limits import FileWalker
from delegation.reading.pool import folder_of_sessions
from delegation.settings import load_settings

PROVIDER = {"name": "cheap", "base_url": "https://h.example/v1/", "api_key": "env:CHEAP_KEY", "default_model": "m"}
KEYS = {"CHEAP_KEY": "sk-value-of-the-key", "HOME": "/home/somebody"}


@pytest.fixture
def config(tmp_path: Path):
    def make(**content):
        path = tmp_path / "config.json"
        path.write_text(json.dumps({"providers": [PROVIDER], **content}))
        path.chmod(0o600)
        return path

    return make


def test_a_whole_file_is_read_as_it_is(config):
    path = config(
        providers=[
            {**PROVIDER, "weight": 3, "timeout_ms": 5000, "max_input_tokens": 128_000, "headers": {"X-A": "b"}},
            {**PROVIDER, "name": "second"},
        ],
        disabled_providers=[],
        session_dir="~/sessions",
        metrics_file="metrics.jsonl",
        default_max_output_tokens=2000,
        file_walker={"max_file_bytes": 10, "max_total_bytes": 20, "exclude_glob": ["*.csv", "data/raw"]},
    )
    read = read_reader_config(path, KEYS)
    first, second = read.providers
    assert (first.name, first.base_url, first.api_key) == ("cheap", "https://h.example/v1", "sk-value-of-the-key")
    assert (first.weight, first.timeout_ms, first.max_input_tokens, first.headers) == (3, 5000, 128_000, {"X-A": "b"})
    assert (second.weight, second.timeout_ms, second.max_input_tokens, second.headers) == (1, 120_000, None, {})
    assert read.session_dir == Path("/home/somebody/sessions")
    assert read.metrics_file == path.parent / "metrics.jsonl"
    assert read.default_max_output_tokens == 2000
    assert read.file_walker == FileWalker(max_file_bytes=10, max_total_bytes=20, exclude_glob=("*.csv", "data/raw"))
    assert read.warnings == ()


def test_what_is_left_out_has_the_usual_values(config, tmp_path):
    read = read_reader_config(config(), KEYS)
    assert (read.file_walker.max_file_bytes, read.file_walker.max_total_bytes) == (262_144, 4_194_304)
    settings = load_settings({"DELEGATE_HOME": str(tmp_path / "h"), "HOME": str(tmp_path)}, tmp_path)
    assert folder_of_sessions(settings, read) == tmp_path / "h/reading/sessions"
    assert (read.metrics_file, read.default_max_output_tokens) == (None, None)


def test_a_key_variable_that_is_not_set_is_named_and_nothing_else(config):
    said = 'api_key references environment variable "CHEAP_KEY", but it is not set'
    for environ in ({}, {"CHEAP_KEY": ""}):
        with pytest.raises(UsageError, match=said):
            read_reader_config(config(), environ)


def test_a_disabled_provider_may_be_unfinished(config):
    path = config(providers=[{"name": "later", "api_key": "env:NOT_SET"}, PROVIDER], disabled_providers=["later"])
    assert [provider.name for provider in read_reader_config(path, KEYS).providers] == ["cheap"]


def test_all_providers_disabled_is_an_error(config):
    with pytest.raises(UsageError, match="all providers are disabled"):
        read_reader_config(config(disabled_providers=["cheap"]), KEYS)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"providers": []}, "providers: must be a list with at least one provider"),
        ({"providers": ["x"]}, r"providers\[0\]: must be an object"),
        ({"providers": [{**PROVIDER, "base_url": "h.example"}]}, r"providers\[0\]\.base_url: it must begin with http"),
        ({"providers": [{**PROVIDER, "weight": -1}]}, r"providers\[0\]\.weight: "),
        ({"providers": [{**PROVIDER, "timeout_ms": 0}]}, r"providers\[0\]\.timeout_ms: "),
        ({"providers": [{"name": "x"}]}, r"base_url: Field required; .*api_key: Field required; .*default_model"),
        ({"providers": [PROVIDER, PROVIDER]}, "the name 'cheap' occurs 2 times"),
        ({"disabled_providers": "cheap"}, "disabled_providers: must be a list"),
        ({"session_dir": 3}, "session_dir: must be a path"),
        ({"default_max_output_tokens": "many"}, "default_max_output_tokens: must be a whole number"),
        ({"file_walker": {"max_file_bytes": 0}}, r"file_walker\.max_file_bytes: "),
        ({"file_walker": {"exclude_glob": [""]}}, "file_walker: exclude_glob holds ''"),
        ({"file_walker": []}, "file_walker: must be an object"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(config, change, said):
    path = config(**change)
    with pytest.raises(UsageError, match=said) as told:
        read_reader_config(path, KEYS)
    assert str(path) in str(told.value)


@pytest.mark.parametrize("content", ["{", "[]", "\ufeff{]", "nonsense"])
def test_a_file_that_is_no_object_is_an_error_with_its_path(tmp_path, content):
    path = tmp_path / "c.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=str(path)):
        read_reader_config(path, KEYS)


def test_no_key_is_ever_shown(config):
    path = config(providers=[{**PROVIDER, "api_key": "literal-key-12345", "weight": "literal-key-12345"}])
    with pytest.raises(UsageError) as told:
        read_reader_config(path, KEYS)
    assert "12345" not in str(told.value)
    path = config(providers=[{**PROVIDER, "api_key": "literal-key-12345", "headers": {"X-Key": "literal-key-12345"}}])
    assert "12345" not in repr(read_reader_config(path, KEYS))


def test_a_literal_key_is_taken_with_a_warning(config):
    path = config(providers=[{**PROVIDER, "api_key": "literal"}])
    read = read_reader_config(path, KEYS)
    assert read.providers[0].api_key == "literal"
    assert [warning for warning in read.warnings if "api_key is written out in the file: better is env:NAME" in warning]
    path.chmod(0o644)
    assert "others can read the file" in read_reader_config(path, KEYS).warnings[0]


def test_unknown_keys_are_mentioned_and_change_nothing(config):
    path = config(
        providers=[{**PROVIDER, "wieght": 2}],
        decision={},
        file_walker={"exclude_globs": ["x"]},
        disabled_providers=["no"],
    )
    read = read_reader_config(path, KEYS)
    text = "\n".join(read.warnings)
    assert "decision is not used here" in text
    assert "providers[0].wieght is not used here; did you mean 'weight'?" in text
    assert "file_walker.exclude_globs is not used here; did you mean 'exclude_glob'?" in text
    assert "disabled_providers names 'no', which is no provider" in text


def test_the_option_is_looked_at_first_then_the_variable_then_the_usual_places(tmp_path):
    home, xdg = tmp_path / "home", tmp_path / "xdg"
    places = [
        tmp_path / "option.json", tmp_path / "variable.json", xdg / "delegate-mcp/config.json",
        home / ".delegate-mcp/config.json", home / ".delegate-mcp.json",
    ]  # fmt: skip
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("{}")
    environ = {"HOME": str(home), "XDG_CONFIG_HOME": str(xdg), "DELEGATE_MCP_CONFIG": "variable.json"}
    found = config_place("option.json", environ, tmp_path)
    assert (found.path, found.explicit) == (places[0], True)
    found = config_place(None, environ, tmp_path)
    assert (found.path, found.explicit) == (places[1], True)
    del environ["DELEGATE_MCP_CONFIG"]
    for place in places[2:]:
        found = config_place(None, environ, tmp_path)
        assert (found.path, found.explicit) == (place, False)
        place.unlink()
    with pytest.raises(NotFoundError) as told:
        config_place(None, environ, tmp_path)
    assert str(told.value).startswith("no delegate-mcp config found")
    assert [str(place) in str(told.value) for place in places[2:]] == [True] * 3


def test_without_xdg_the_usual_config_folder_is_looked_at(tmp_path):
    place = tmp_path / ".config/delegate-mcp/config.json"
    place.parent.mkdir(parents=True)
    place.write_text("{}")
    assert config_place(None, {"HOME": str(tmp_path)}, tmp_path).path == place


def test_a_named_file_that_is_missing_is_not_replaced_by_another(tmp_path):
    (tmp_path / ".delegate-mcp.json").write_text("{}")
    with pytest.raises(NotFoundError, match="no delegate-mcp config found") as told:
        config_place("~/gone.json", {"HOME": str(tmp_path)}, tmp_path)
    assert str(tmp_path / "gone.json") in str(told.value)
    assert ".delegate-mcp.json" not in str(told.value)


def test_a_pipe_in_place_of_the_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "fifo.json")
    with pytest.raises(NotFoundError):
        config_place("fifo.json", {}, tmp_path)
