"""Objects that answer every comparison alike are seen where the patch writes them down."""

import pytest

from delegation.verdict.liars import new_liars


def found(text: str | None, base: str | None = None) -> tuple[str, ...]:
    return new_liars([base], {"m.py": text})


def method(body: str, name: str = "__eq__") -> str:
    return f"class Y(int):\n    def {name}(self, *rest):\n        {body}\n"


@pytest.mark.parametrize("name", ["__eq__", "__ne__", "__bool__", "__hash__"])
@pytest.mark.parametrize(
    "body",
    [
        "return True",
        "return 1 == 1",
        "return not 0",
        "'''Say.'''\n        return False",
        "if rest:\n            return NotImplemented\n        return True",
        "if rest:\n            return True\n        return True",
        "return",
    ],
)
def test_a_method_that_returns_a_constant_is_named_with_its_class(name: str, body: str):
    assert found(method(body, name)) == (f"m.py: Y.{name}",)


@pytest.mark.parametrize(
    "text",
    [
        "class Y:\n    __eq__ = lambda self, other: True\n",
        "def f():\n    class Y:\n        if 1:\n            def __eq__(self, other): return True\n",
        "Y = type('Y', (int,), {'__eq__': lambda self, other: True})\n",
        "class Y: pass\nY.__eq__ = lambda self, other: True\n",
    ],
)
def test_it_may_be_made_in_other_ways(text: str):
    assert [each.rsplit(".", 1)[-1].split(": ")[-1] for each in found(text)] == ["__eq__"]


@pytest.mark.parametrize(
    "text",
    [
        method("return self.x == rest[0].x"),
        method("return isinstance(rest[0], Y)"),
        method("return NotImplemented"),
        method("if rest:\n            return True\n        return False"),
        method("raise TypeError"),
        method("return True", "__contains__"),
        "class Y:\n    __hash__ = None\n",
        "not python(\n",
        None,
    ],
)
def test_honest_methods_are_left_alone(text: str | None):
    assert found(text) == ()


def test_one_that_stood_there_before_or_was_moved_is_not_new():
    text = method("return True")
    assert found("x = 1\n" + text, text) == ()
    assert new_liars([text, None], {"m.py": None, "n.py": text}) == ()
    assert new_liars([text], {"m.py": text.replace("Y", "Z")}) == ("m.py: Z.__eq__",)
