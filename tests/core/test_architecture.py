"""Imports point down, and each foreign world has one door."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAY_IMPORT = {
    "delegation": {"delegation"},
    "tasks": {"tasks", "delegation"},
    "flows": {"flows", "tasks", "delegation"},
    "deployments": {"deployments", "delegation"},
    "mcp_entry": {"mcp_entry", "delegation"},
}
FOREIGN = {
    "delegation": {"prefect", "mcp", "mcp_types"},
    "tasks": {"mcp"},
    "flows": {"mcp"},
    "deployments": {"mcp"},
    "mcp_entry": {"prefect"},
}


def imported_packages(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_imports_point_down(layer: str):
    sources = sorted((ROOT / layer).rglob("*.py"))
    upward = {
        f"{source.relative_to(ROOT)} imports {name}"
        for source in sources
        for name in imported_packages(source)
        if (name in MAY_IMPORT and name not in MAY_IMPORT[layer]) or name in FOREIGN[layer]
    }
    assert sources
    assert upward == set()


def test_flow_files_have_no_name_of_another_package():
    names = {path.stem for path in (ROOT / "flows").glob("*.py")}
    assert names & {"tasks", "git", "prefect", "mcp", "delegation_core"} == set()
