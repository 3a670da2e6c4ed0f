"""`prefect.yaml` with this installation's paths in it: the only source of our deployments."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from delegation.errors import StackError
from delegation.files import publish
from delegation.layout import pipeline_directory
from deployments.configuration import WORK_POOL

_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def rendered(source: str, values: Mapping[str, str]) -> str:
    """The YAML with each `{{ name }}` (in double quotes there) replaced. Raises StackError for an unknown name."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise StackError(f"prefect.yaml names {match[1]!r}: known are {', '.join(sorted(values))}")
        return json.dumps(values[match[1]])[1:-1]

    return _PLACEHOLDER.sub(value, source)


def render(target: Path, launcher_command: Sequence[str], version: str) -> None:
    """Write the rendered file for this installation."""
    pipeline = pipeline_directory()
    values = {
        "pipeline_directory": str(pipeline),
        "work_pool": WORK_POOL,
        "launcher_command": shlex.join(launcher_command),
        "version": version,
    }
    publish(target, rendered((pipeline / "prefect.yaml").read_text(encoding="utf-8"), values))


def deployments_in(file: Path) -> list[dict[str, Any]]:
    """The deployments of a rendered file, each with its pull steps."""
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    return [{"pull": content.get("pull"), **deployment} for deployment in content.get("deployments") or []]
