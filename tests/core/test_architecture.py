"""The shape of the code: imports point down, each foreign world has its door, and importing does nothing."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml

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
MAY_NOT_KNOW = {
    "mcp_entry.terminal": ("mcp_entry.mcp_server", "mcp_entry.tools"),
    "mcp_entry.mcp_server": ("mcp_entry.terminal",),
    "mcp_entry.tools": ("mcp_entry.terminal",),
    "mcp_entry.verbs": ("mcp_entry.terminal", "mcp_entry.mcp_server", "mcp_entry.tools"),
    "mcp_entry.stack": ("mcp_entry.terminal", "mcp_entry.mcp_server", "mcp_entry.tools", "mcp_entry.verbs"),
}
STARTS_THE_SERVER = "mcp_entry/terminal/stack.py imports mcp_entry.mcp_server.stdio"  # the verb `mcp`
POSIX_ONLY = ("fcntl", "grp", "pwd", "resource", "termios")
LONGEST_MODULE = 400
_IMPORT_ALL = """
import builtins, importlib, pkgutil, sys

done, missing, usual = [], set(sys.argv[2:]), builtins.__import__
watched = {"socket.connect", "socket.bind", "subprocess.Popen", "os.fork", "os.mkdir", "os.remove", "os.rename"}

def imported(name, globals=None, *more):
    if name in missing and (globals or {}).get("__name__", "").startswith(sys.argv[1]):
        raise ModuleNotFoundError(f"No module named {name!r}")
    return usual(name, globals, *more)

def note(event, arguments):
    writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
    if event in watched or writes:
        done.append(f"{event} {arguments[0]!r}")

builtins.__import__ = imported
sys.addaudithook(note)
package = importlib.import_module(sys.argv[1])
for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
    if ".migrations." not in found.name and not found.name.endswith(".supervisor"):  # these are programs
        importlib.import_module(found.name)
print(done)
"""


def sources(layer: str) -> list[Path]:
    found = sorted((ROOT / layer).rglob("*.py"))
    assert found
    return found


def imported_modules(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_packages(source: Path) -> Iterator[str]:
    return (name.split(".")[0] for name in imported_modules(source))


def all_imported(package: str, *missing: str) -> str:
    """Import every module of a package in a fresh interpreter that has not the `missing` ones for it; what that did."""
    argv = [sys.executable, "-B", "-c", _IMPORT_ALL, package, *missing]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_imports_point_down(layer: str):
    upward = {
        f"{source.relative_to(ROOT)} imports {name}"
        for source in sources(layer)
        for name in imported_packages(source)
        if (name in MAY_IMPORT and name not in MAY_IMPORT[layer]) or name in FOREIGN[layer]
    }
    assert upward == set()


@pytest.mark.parametrize("package", MAY_NOT_KNOW)
def test_the_two_faces_know_the_verbs_and_neither_the_other(package: str):
    found = {
        f"{source.relative_to(ROOT)} imports {name}"
        for source in sources(package.replace(".", "/"))
        for name in imported_modules(source)
        if name.startswith(MAY_NOT_KNOW[package])
    }
    assert {each for each in found if not each.startswith(STARTS_THE_SERVER)} == set()


@pytest.mark.parametrize("package", ["delegation", "mcp_entry"])
def test_importing_needs_nothing_of_posix_and_neither_starts_nor_writes_anything(package: str):
    assert all_imported(package, *POSIX_ONLY) == "[]"


def test_every_package_that_is_imported_is_declared():
    """A dependency's dependency may go away with its next release."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {_normal(re.split(r"[^\w.-]", each, maxsplit=1)[0]) for each in project["dependencies"]}
    imported = {name for layer in MAY_IMPORT for source in sources(layer) for name in imported_packages(source)}
    distributions = packages_distributions()
    foreign = imported - set(sys.stdlib_module_names) - set(MAY_IMPORT)
    undeclared = {name for name in foreign if declared.isdisjoint(map(_normal, distributions[name]))}
    assert undeclared == set()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_lock_files_name_no_host():
    """What is installed comes from where the user's own settings say."""
    locks = [*ROOT.glob("requirements/*.txt"), *ROOT.glob("programs/*/package-lock.json")]
    locks += ROOT.glob("programs/*/requirements.txt")
    assert len(locks) > 5
    assert [str(lock.relative_to(ROOT)) for lock in locks if "://" in lock.read_text(encoding="utf-8")] == []


def test_deployments_name_their_flows_by_module():
    """By a file path Prefect would put `flows/` first on the module path, where its names shadow packages."""
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))["deployments"]
    assert deployments
    for deployment in deployments:
        module, _, function = deployment["entrypoint"].rpartition(".")
        tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_no_module_is_longer_than_a_reader_bears():
    lengths = {
        str(source.relative_to(ROOT)): len(source.read_text(encoding="utf-8").splitlines())
        for layer in MAY_IMPORT
        for source in sources(layer)
    }
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_MODULE} == {}
    assert not [name for name in lengths if Path(name).stem in ("utils", "util", "helpers", "misc")]
