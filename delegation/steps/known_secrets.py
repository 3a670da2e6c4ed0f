"""The secrets that one delegation is given, so that none of them stands in what is kept of it."""

from collections.abc import Mapping
from contextlib import suppress

from delegation.errors import WorkFailed
from delegation.masking import Mask, is_secret
from delegation.request import DelegationRequest, Endpoint
from delegation.secrets import value_of
from delegation.settings import environment
from delegation.steps.folders import home


def key_of(endpoint: Endpoint, environ: Mapping[str, str]) -> str | None:
    """The endpoint's key, None where it needs none. Raises WorkFailed('auth') for one that is gone."""
    return None if endpoint.key_ref is None else value_of(home(), endpoint.key_ref, environ)


def known_secrets(request: DelegationRequest) -> Mask:
    """Keys of every model that may get the work, and passed variables that are secrets. One that is gone is left out:
    it ends the run only where it is needed."""
    environ = environment()
    known: list[str] = []
    for endpoint in (request.endpoint, *request.chain):
        with suppress(WorkFailed):
            known += filter(None, [key_of(endpoint, environ)])
    for name, reference in request.environment_refs.items():
        with suppress(WorkFailed):
            value = value_of(home(), reference, environ)
            known += [value] if is_secret(name, value) else []
    return Mask.of(known)
