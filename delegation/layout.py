"""Where the pipeline lies: the folder that holds flows/, tasks/, deployments/ and prefect.yaml."""

from pathlib import Path

from delegation.errors import StackError


def pipeline_directory() -> Path:
    """The installed wheel's own copy where there is one, else the checkout. Raises StackError when neither is whole."""
    package = Path(__file__).resolve().parent
    for candidate in (package / "pipeline", package.parent):
        if (candidate / "prefect.yaml").is_file() and (candidate / "deployments").is_dir():
            return candidate
    raise StackError(
        f"prefect.yaml and deployments/ are neither in {package / 'pipeline'} nor beside {package}: reinstall"
    )
