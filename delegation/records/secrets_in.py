"""The secrets that records were given, so that none of them leaves this home in a file that is made of them."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from delegation.errors import WorkFailed
from delegation.masking import Mask, is_secret
from delegation.records.store import RecordStore
from delegation.secrets import value_of
from delegation.settings import Settings
from delegation.variables import Variables

_REFERENCE = re.compile(rb'"(\w+)":\s*"((?:secret:(?:own-)?[0-9a-f]{32})|(?:env:\w+))"')


def secrets_of(settings: Settings, ids: Iterable[str]) -> Mask:
    """The keys of all models that these delegations could ask, the secrets among the variables they passed on, and the
    keys of today's settings. One that is no longer kept cannot be looked for."""
    store = RecordStore(settings.home)
    named = {pair for name in ids for pair in _references(store, name)}
    own = [getattr(settings, name) for name, field in Variables.model_fields.items() if not field.repr]
    return Mask.of([*filter(None, own), *_values(settings, named)])


def _values(settings: Settings, named: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, reference in named:
        with suppress(WorkFailed):
            value = value_of(settings.home, reference, settings.environ)
            if name == "key_ref" or is_secret(name, value):
                yield value


def _references(store: RecordStore, delegation_id: str) -> set[tuple[str, str]]:
    """Read as bytes: a damaged request still names its keys."""
    try:
        content = (store.folder(delegation_id) / "request.json").read_bytes()
    except OSError:
        return set()
    return {(name.decode(), reference.decode()) for name, reference in _REFERENCE.findall(content)}
