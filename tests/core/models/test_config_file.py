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
    assert said.startswith((f"{path}: ", f"cannot read {str(path)!r}: "))
    return said


def test_no_file_is_an_empty_catalogue(tmp_path: Path):
    assert read_config(tmp_path / "nothing" / "delegate.toml") == ConfigFile()


def test_a_byte_order_mark_is_no_error(tmp_path: Path):
    (tmp_path / "c.toml").write_bytes(b"\xef\xbb\xbfdefault_model = 'a'\n")
    assert read_config(tmp_path / "c.toml").default_model == "a"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("defualt_model = 'a'", "defualt_model: unknown key"),
        ("[models.a]\nbase_url='http://h'\nbase='x'", "[models.a] base: unknown key"),
        ("[models.a]\nmodel='x'", "[models.a] base_url: Field required"),
        ("[models.a]\nbase_url='h:1'", "[models.a] base_url: base_url must begin with http://"),
        ("[models.a]\nbase_url='http://h'\nformat='grpc'", "[models.a] format: Input should be 'openai_chat'"),
        ("[models.a]\nbase_url='http://h'\nlane='moon'", "[models.a] lane: Input should be 'local', 'flat_plan'"),
        ("[models.a]\nbase_url='http://h'\ncontext_tokens=0", "[models.a] context_tokens: Input should be greater"),
        ("[models.a]\nbase_url='http://h'\nbucket='a b'", "[models.a] bucket: String should match"),
        ("[models.a]\nbase_url='http://h'\nprices={input=1,output=2}", "[models.a] prices.as_of: Field required"),
        (
            "[models.a]\nbase_url='http://h'\nheaders={Authorization='Bearer x'}",
            "[models.a] headers: header 'Authorization'",
        ),
        ("[models.a]\nbase_url='http://h'\nheaders={X-Api-Key='x'}", "[models.a] headers: header 'X-Api-Key'"),
        ("[buckets.a]\nceiling=0", "[buckets.a] ceiling: Input should be greater than or equal to 1"),
        ("[buckets.a]\ncieling=2", "[buckets.a] cieling: unknown key"),
        ("models = 3", "models: Input should be a valid dictionary"),
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
        ('{"a": {"model": "m"}}', "backend 'a': base_url: Field required"),
        ('{"a": {"base_url": "h", "model": "m", "api_key": "sekrit"}}', "backend 'a': base_url: base_url must begin"),
        ('{"a": 3}', "backend 'a': the entry:"),
    ],
)
def test_a_broken_models_json_names_file_and_entry(settings_for, text: str, said: str):
    with pytest.raises(UsageError) as error:
        settings_for(backends=text)
    assert "models.json" in str(error.value)
    assert said in str(error.value)
    assert "sekrit" not in str(error.value)
    assert "\n" not in str(error.value)
