"""Cards out of YAML: one, a list of them, or several documents, with the line of each key."""

from collections.abc import Iterator
from typing import Any

import yaml

from delegation.cards.found import Broken, RawCard

_MERGE = "tag:yaml.org,2002:merge"


def cards_in_yaml(text: str, stem: str) -> Iterator[RawCard | Broken]:
    """The cards, and what is wrong with those that are none. Raises Broken for text that is not YAML at all."""
    found = [node for document in _documents(text) for node in _cards_of(document)]
    if not found:
        raise Broken("there is no card in it", 1)
    for number, node in enumerate(found, 1):
        default_id = stem if len(found) == 1 else f"{stem}-{number}"
        try:
            yield mapping_of(node, default_id=default_id)
        except Broken as broken:
            broken.card = broken.card or default_id
            yield broken


def mapping_of(node: yaml.Node | None, *, default_id: str, line_before: int = 0) -> RawCard:
    """One card. `line_before` is how many lines of the file lie before the text."""
    if not isinstance(node, yaml.MappingNode):
        raise Broken("a card is made of keys and values", _line(node, line_before))
    fields: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for key_node, value_node in node.value:
        line = _line(key_node, line_before)
        key = key_node.value if key_node.tag == _MERGE else _value(key_node, line_before)
        if not isinstance(key, str):
            raise Broken(f"the key {key!r} must be a text", line, str(key))
        if key in fields:
            raise Broken(f"{key} stands there twice, first in line {lines[key]}", line, key, _id_in(fields))
        if key_node.tag == _MERGE:
            raise Broken(f"{key} takes over keys of elsewhere, which is not read here: write them out", line, key)
        fields[key], lines[key] = _value_of(key, value_node, line_before), line
    return RawCard(fields, _line(node, line_before), lines, default_id)


def _value_of(key: str, node: yaml.Node, line_before: int) -> Any:
    """The value, with the key's name in what is wrong with it."""
    try:
        return _value(node, line_before)
    except Broken as broken:
        raise Broken(f"{key}: {broken}", broken.line, key) from None


def _id_in(fields: dict[str, Any]) -> str | None:
    name = fields.get("id", fields.get("name"))
    return name if isinstance(name, str) else None


def node_of(text: str, line_before: int = 0) -> yaml.Node | None:
    """The only document in the text. Raises Broken for text that is not YAML."""
    found = list(_documents(text, line_before))
    if len(found) > 1:
        raise Broken("holds two documents, and a card is one", _line(found[1], line_before))
    return found[0] if found else None


def _documents(text: str, line_before: int = 0) -> Iterator[yaml.Node]:
    try:
        yield from (node for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if node is not None)
    except yaml.YAMLError as error:
        raise _not_yaml(error, line_before) from None
    except RecursionError:
        raise Broken("is nested too deeply", line_before + 1) from None


def _cards_of(document: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(document, yaml.SequenceNode):
        yield from document.value
    elif not _is_empty(document):
        yield document


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _value(node: yaml.Node, line_before: int) -> Any:
    """The plain value of a node: only what JSON has too, and dates."""
    loader = yaml.SafeLoader("")
    try:
        _refuse_doubles(node, line_before)
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        raise _not_yaml(error, line_before) from None
    except (RecursionError, ValueError, TypeError, OverflowError) as error:
        raise Broken(f"this value cannot be read: {str(error)[:200]}", _line(node, line_before)) from None
    finally:
        loader.dispose()


def _refuse_doubles(node: yaml.Node, line_before: int) -> None:
    """PyYAML takes the last of two equal keys without a word."""
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.value in seen:
            raise Broken(f"{key.value} stands there twice", _line(key, line_before), key.value)
        seen.add(str(key.value))


def _line(node: yaml.Node | None, line_before: int) -> int:
    return line_before + (node.start_mark.line + 1 if node is not None else 1)


def _not_yaml(error: yaml.YAMLError, line_before: int) -> Broken:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = line_before + (mark.line + 1 if mark else 1)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    hint = ""
    if "\\t" in problem:
        hint = ": YAML takes blanks, not tabs, at the beginning of a line"
    elif "mapping values" in problem:
        hint = ": put a text that holds ': ' between quotes"
    return Broken(f"is not YAML: {problem}{hint}", line)
