"""Answers of a stated shape: a JSON schema that is safe to use, and an answer held against it."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, cast

from delegation.errors import UsageError

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL | re.IGNORECASE)
_SAID = 400


class Unfitting(Exception):
    """The answer is no JSON, or not of the shape; the text says where, for the model to put right."""


def checked_schema(value: object, what: str) -> dict[str, Any]:
    """The schema, if it is one. Raises UsageError that names `what`, also for one that refers to other documents."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    if not isinstance(value, dict):
        raise UsageError(f"{what} must be a JSON object: a JSON schema")
    schema = cast("dict[str, Any]", value)
    for reference in _references(schema):
        if not reference.startswith("#"):
            raise UsageError(f"{what} refers to {reference!r}: only references inside it (`#/...`) are followed")
    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        raise UsageError(f"{what} is no JSON schema: {error.message} at {error.json_path}") from None
    except RecursionError:
        raise UsageError(f"{what} is nested too deeply") from None
    return schema


def schema_of_text(text: str, what: str) -> dict[str, Any]:
    """The same from JSON text."""
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UsageError(f"{what} is not valid JSON: {error}") from None
    return checked_schema(value, what)


def fitting(answer: str, schema: Mapping[str, Any]) -> Any:
    """The value that the answer holds, also within a code fence or a sentence. Raises Unfitting."""
    from jsonschema.exceptions import best_match
    from jsonschema.validators import validator_for

    value = _value(answer)
    validator = validator_for(schema)(schema)
    try:
        error = best_match(validator.iter_errors(value))
    except Exception as broken:  # a reference to nowhere, a loop: the schema's fault, seen only now
        raise UsageError(f"the JSON schema cannot be used: {type(broken).__name__}: {str(broken)[:_SAID]}") from broken
    if error is not None:
        raise Unfitting(f"{error.json_path}: {error.message[:_SAID]}")
    return value


def _value(answer: str) -> Any:
    problem = "it holds no JSON"
    for text in _candidates(answer):
        try:
            return json.loads(text, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            problem = f"it is not valid JSON: {error}"
    raise Unfitting(problem)


def _candidates(answer: str) -> Iterator[str]:
    """The answer itself, what is fenced in it, and from its first bracket to its last."""
    yield answer.strip()
    yield from _FENCED.findall(answer)
    begin = min((place for mark in "{[" if (place := answer.find(mark)) >= 0), default=-1)
    end = max(answer.rfind("}"), answer.rfind("]"))
    if 0 <= begin < end:
        yield answer[begin : end + 1]


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _references(value: object) -> Iterator[str]:
    """All references, found without recursion: a schema can be deep."""
    waiting: list[object] = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            known = cast("dict[str, object]", each)
            yield from (found for name in _REFERENCES if isinstance(found := known.get(name), str))
            waiting += known.values()
        elif isinstance(each, list):
            waiting += cast("list[object]", each)
