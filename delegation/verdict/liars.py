"""Objects that give every comparison the same answer: a test that compares with one passes whatever was computed."""

import ast
from collections.abc import Iterable, Iterator, Mapping

_ANSWERS = frozenset({"__eq__", "__ne__", "__bool__", "__hash__"})
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def new_liars(base: Iterable[str | None], candidate: Mapping[str, str | None]) -> tuple[str, ...]:
    """`file: Class.__eq__` for each method of a changed Python file that newly returns a constant.

    What stood in another of the changed files before, under the same name, was moved and is not new. What is computed
    to be constant is not seen.
    """
    known = {name for text in base for name in _liars(text)}
    return tuple(f"{path}: {name}" for path, text in candidate.items() for name in sorted(_liars(text) - known))


def _liars(text: str | None) -> set[str]:
    try:
        tree = ast.parse(text or "")
    except (SyntaxError, ValueError, RecursionError):
        return set()
    return {name for name, function in _methods(tree, "") if _returns_a_constant(function)}


def _methods(node: ast.AST, owner: str) -> Iterator[tuple[str, _Function]]:
    """Every function that is given one of the names: by `def`, by assignment, or in the dictionary of a class."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if child.name in _ANSWERS:
                yield owner + child.name, child
            case ast.Assign(value=ast.Lambda() as function):
                yield from ((owner + name, function) for name in map(_name, child.targets) if name in _ANSWERS)
            case ast.Dict():
                pairs = zip(child.keys, child.values, strict=True)
                yield from (
                    (owner + str(key.value), value)
                    for key, value in pairs
                    if isinstance(key, ast.Constant) and key.value in _ANSWERS and isinstance(value, ast.Lambda)
                )
            case _:
                pass
        yield from _methods(child, f"{owner}{child.name}." if isinstance(child, ast.ClassDef) else owner)


def _name(target: ast.expr) -> str:
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _returns_a_constant(function: _Function) -> bool:
    given = [function.body] if isinstance(function, ast.Lambda) else _returned(function)
    values = [value for value in given if not (isinstance(value, ast.Name) and value.id == "NotImplemented")]
    return bool(values) and len({ast.dump(value) for value in values}) == 1 and _is_constant(values[0])


def _returned(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    returns = (node for node in ast.walk(function) if isinstance(node, ast.Return))
    return [node.value or ast.Constant(None) for node in returns]


def _is_constant(value: ast.expr) -> bool:
    return not any(isinstance(part, ast.Name | ast.Attribute | ast.Call | ast.Await) for part in ast.walk(value))
