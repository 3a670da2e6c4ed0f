"""A program that starts sooner: libraries' parts that it never uses are not loaded, and nothing is tidied meanwhile."""

import gc
import sys

_UNUSED = (
    "httpx._main",  # its own command line, with rich, pygments and click
    "h2",  # HTTP/2, which nobody here asks for
)
_OBJECTS = 50_000  # between two looks for garbage; loading the program makes as many, and none of them is garbage


def start_quickly() -> None:
    """For the whole process, so only where it is ours. Both libraries do without what they do not find."""
    gc.set_threshold(_OBJECTS)
    for name in _UNUSED:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # "there is none", to the import system
