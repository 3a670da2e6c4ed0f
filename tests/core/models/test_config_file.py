"""delegate.toml is read strictly, and models.json as its owner's older tool left it."""

from pathlib import Path

import pytest

from delegation.errors import UsageError
from delegation.models.config_file import ConfigFile, read_config, read_repository_file


def refused(text: str, tmp_path: Path) -> str:
    path = tmp_path / "delegate.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as error:
        read_config(path)
    said = str(error.value)
    assert "\n" not in said
    assert said.startswith((f"{path}, line ", f"cannot read {str(path)!r}: "))
    return said


def test_no_file_is_an_empty_catalogue(tmp_path: Path):
    assert read_config(tmp_path / "nothing" / "delegate.toml") == ConfigFile()


def test_a_byte_order_mark_is_no_error(tmp_path: Path):
    (tmp_path / "c.toml").write_bytes(b"\xef\xbb\xbfdefault_model = 'a'\n")
    assert read_config(tmp_path / "c.toml").default_model == "a"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("defualt_model = 'a'", "line 1: defualt_model is an unknown key: did you mean 'default_model'?"),
        ("[models.a]\nbase_url='http://h'\nbase='x'", "line 3: [models.a] base is an unknown key"),
        ("[models.a]\nmodel='x'", "line 1: [models.a] base_url is missing"),
        ("[models.a]\nbase_url='h:1'", "line 2: [models.a] base_url must begin with http://"),
        ("[models.a]\nbase_url='http://h'\nformat='grpc'", "[models.a] format: must be 'openai', 'anthropic' or 'resp"),
        ("[models.a]\nbase_url='http://h'\nlane='moon'", "[models.a] lane must be 'local', 'flat_plan'"),
        (
            "[models.a]\nbase_url='http://h'\n\ncontext_tokens=0",
            "line 4: [models.a] context_tokens must be a whole number from 1, not 0",
        ),
        ("[models.a]\nbase_url='http://h'\ncontext_tokens='many'", "must be a whole number from 1, not 'many'"),
        ("[models.a]\nbase_url='http://h'\nupstream_local=[1]", "upstream_local must be true or false, not a list"),
        ("[models.a]\nbase_url='http://h'\nbucket='a b'", "[models.a] bucket must be a text that matches"),
        ("[models.a]\nbase_url='http://h'\nprices={input=1,output=2}", "line 3: [models.a] prices.as_of is missing"),
        (
            "[models.a]\nbase_url='http://h'\nheaders={Authorization='Bearer x'}",
            "[models.a] headers: header 'Authorization'",
        ),
        ("[models.a]\nbase_url='http://h'\nheaders={X-Api-Key='x'}", "[models.a] headers: header 'X-Api-Key'"),
        ("[buckets.a]\nceiling=0", "line 2: [buckets.a] ceiling must be a whole number from 1 to 1000, not 0"),
        ("[buckets.a]\ncieling=2", "[buckets.a] cieling is an unknown key: did you mean 'ceiling'?"),
        ("models = 3", "line 1: models must be an object of keys and values, not 3"),
        ("local_paths = [1]", "line 1: local_paths[0] must be a text, not 1"),
        ("[models.a", "cannot read"),
    ],
)
def test_what_is_not_understood_names_file_table_and_key(text: str, said: str, tmp_path: Path):
    assert said in refused(text, tmp_path)


def test_a_value_is_never_shown_because_it_may_be_a_secret(tmp_path: Path):
    text = "[models.a]\nbase_url='http://u:sekrit@h'\nkey=['sekrit']\nheaders={Authorization='sekrit'}\n"
    assert "sekrit" not in refused(text, tmp_path)


def test_formats_have_short_names(tmp_path: Path):
    path = tmp_path / "c.toml"
    path.write_text(
        "".join(f"[models.{f}]\nbase_url='http://h'\nformat='{f}'\n" for f in ("openai", "anthropic", "responses"))
    )
    assert [table.format for table in read_config(path).models.values()] == [
        "openai_chat",
        "anthropic_messages",
        "openai_responses",
    ]


def test_a_repository_demands_its_lane_strictly(tmp_path: Path):
    assert read_repository_file(tmp_path).lane is None
    (tmp_path / ".delegate.toml").write_text('lane = "local"\n')
    assert read_repository_file(tmp_path).lane == "local"
    for text in ('lane = "metered"', "lne = 'local'", "lane = "):
        (tmp_path / ".delegate.toml").write_text(text)
        with pytest.raises(UsageError, match=r"\.delegate\.toml"):
            read_repository_file(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "must be an object"),
        ("{", "cannot read"),
        ('{"a": {"model": "m"}}', "backend 'a': base_url is missing"),
        ('{"a": {"base_url": "h", "model": "m", "api_key": "sekrit"}}', "backend 'a': base_url must begin"),
        ('{"a": 3}', "backend 'a': the entry must be an object"),
    ],
)
def test_a_broken_models_json_names_file_and_entry(settings_for, text: str, said: str):
    with pytest.raises(UsageError) as error:
        settings_for(backends=text)
    assert "models.json" in str(error.value)
    assert said in str(error.value)
    assert "sekrit" not in str(error.value)
    assert "\n" not in str(error.value)
