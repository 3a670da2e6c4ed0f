"""The installed version of this program, without the command line that also tells it."""

from importlib.metadata import PackageNotFoundError, version


def version_text() -> str:
    """The installed version of this program."""
    try:
        return version("delegate-flows")
    except PackageNotFoundError:
        return "0+unknown"
