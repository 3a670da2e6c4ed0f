"""Objects whose references nobody counts, so that a fork leaves the pages shared on which they lie.

Whoever uses an object writes its reference count, and the first write to a page after a fork copies the page: a run
copies a third of the launcher's memory, and makes a megabyte of its own. Since Python 3.12 some objects are immortal
(PEP 683): a count that says so is never written again. The interpreter gives it to None, to small numbers and to its
own types, and has no function that gives it to others. Here each object that lives gets the count that None has.

None of them is ever freed. In the launcher all of them stay anyway, and a flow process ends by `os._exit`.
"""

import ctypes
import gc
import sys
import sysconfig
from collections.abc import Iterator
from types import CodeType
from typing import Any

_Count = ctypes.c_uint32  # the lower half of the field; nothing else of an object is looked at or written


def share_heap() -> int:
    """How many objects are immortal now; 0, and nothing done, where this interpreter does not know such objects."""
    if not _can_share():
        return 0
    immortal = _count(None).value
    waiting = [*gc.get_objects(), *_classes()]
    for each in waiting:
        _count(each).value = immortal
    shared = len(waiting)
    while waiting:
        for part in _parts(waiting.pop()):
            if (count := _count(part)).value != immortal:
                count.value = immortal
                waiting.append(part)
                shared += 1
    return shared


def _count(thing: object) -> ctypes.c_uint32:
    return _Count.from_address(id(thing))


def _can_share() -> bool:
    """Whether the count lies where it is looked for, and None's is one that stays: both are tried."""
    if (
        sys.implementation.name != "cpython"
        or sys.version_info < (3, 12)
        or sysconfig.get_config_var("Py_GIL_DISABLED")
    ):
        return False
    if sys.byteorder != "little" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    trial, immortal = object(), _count(None).value
    before = _count(trial).value
    uses: list[object] = [trial] * 5
    if _count(trial).value != before + len(uses) or _count(True).value != immortal:
        return False
    _count(trial).value = immortal
    uses += [trial] * 5
    return _count(trial).value == immortal and sys.getrefcount(trial) == sys.getrefcount(None)


def _classes() -> list[type]:
    """All there are: what the interpreter's own ones hold is not found otherwise, since they are immortal already."""
    found, waiting = set[type](), [object]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += type.__subclasses__(each)
    return list(found)


def _parts(thing: Any) -> Iterator[Any]:
    """What it refers to. Of code the interpreter does not say it, and the last four are made when somebody first asks
    and kept with it: here once, and not in every run."""
    yield from gc.get_referents(thing)
    if isinstance(thing, CodeType):
        yield from (thing.co_consts, thing.co_names, thing.co_name, thing.co_qualname, thing.co_filename)
        yield from (thing.co_linetable, thing.co_exceptiontable)
        yield from (thing.co_code, thing.co_varnames, thing.co_cellvars, thing.co_freevars)
