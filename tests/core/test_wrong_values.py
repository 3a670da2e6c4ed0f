"""Values that do not fit are told in our words, whatever library found them."""

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from delegation.wrong_values import allowed, sentence


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    port: int = Field(ge=1, le=65_535)
    share: Annotated[float, Field(gt=0, lt=1)] | None = None


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1)
    inner: dict[str, Inner] = Field(default_factory=dict)
    kinds: tuple[Literal["a", "b"], ...] = ()
    api_key: str | None = Field(default=None, pattern="^sk-")
    hidden: int = Field(default=0, repr=False)
    flag: bool = False
    both: int | Literal["all"] = 1


def told(**values: object) -> str:
    with pytest.raises(ValidationError) as error:
        Outer.model_validate({"name": "x", **values})
    said = sentence(error.value, Outer)
    for word in ("Input should", "type=", "pydantic", "Field required", "Extra inputs"):
        assert word not in said
    return said


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"name": ""}, "name must not be empty"),
        ({"name": None}, "name must be a text, not empty"),
        ({"nmae": 1}, "nmae is an unknown key: did you mean 'name'?"),
        ({"inner": {"x": {"port": 0}}}, "inner.x.port must be a whole number from 1 to 65535, not 0"),
        ({"inner": {"x": {}}}, "inner.x.port is missing"),
        ({"inner": {"x": {"port": 1, "prot": 2}}}, "inner.x.prot is an unknown key: did you mean 'port'?"),
        ({"inner": {"x": {"port": 1, "share": 1}}}, "inner.x.share must be a number above 0 below 1, not 1"),
        ({"inner": {"x": 5}}, "inner.x must be an object of keys and values, not 5"),
        ({"inner": []}, "inner must be an object of keys and values, not a list"),
        ({"kinds": ["a", "c"]}, "kinds[1] must be 'a' or 'b', not 'c'"),
        ({"kinds": "a"}, "kinds must be a list, not 'a'"),
        ({"flag": "perhaps"}, "flag must be true or false, not 'perhaps'"),
        ({"api_key": "secret"}, "api_key must be a text that matches ^sk-"),
        ({"hidden": "secret"}, "hidden must be a whole number"),
        ({"name": "\ud83d"}, "name holds characters that are not Unicode text: leave them out"),
        ({"name": "x" * 9, "flag": "y" * 99}, f"flag must be true or false, not '{'y' * 59}…'"),
    ],
)
def test_each_wrong_value_is_named_with_what_was_found_and_what_is_allowed(values: dict[str, object], said: str):
    assert told(**values) == said


def test_a_value_that_may_be_one_of_several_kinds_is_told_once():
    assert told(both="x") == "both must be a whole number or 'all', not 'x'"


def test_many_wrong_values_are_bounded():
    assert told(kinds=["c"] * 50).count(";") == 5


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        (int | None, "a whole number"),
        (tuple[str, ...], "a list of texts"),
        (list[int], "a list of whole numbers"),
        (Path, "a path"),
        (Literal["a", "b", "c"], "'a', 'b' or 'c'"),
        (Annotated[int, Field(ge=1)] | None, "a whole number from 1"),
    ],
)
def test_what_is_allowed_is_read_from_the_type(annotation: object, said: str):
    assert allowed(annotation) == said
