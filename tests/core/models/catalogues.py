"""A catalogue whose only usual ports are those of the test, and what an entry of it comes to."""

from delegation.models.catalogue import Catalogue
from delegation.request import Endpoint
from delegation.settings import Settings

LITELLM = "http://localhost:4000/v1"


def catalogue(settings: Settings, **ports: int) -> Catalogue:
    return Catalogue(settings, {port: name.replace("_", " ") for name, port in ports.items()})


def route(endpoint: Endpoint) -> tuple[str, str, str]:
    return endpoint.base_url, endpoint.format, endpoint.model
