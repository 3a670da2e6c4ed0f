"""What a command runs beside the runner itself: recipes of make, package scripts, and files of the checkout."""

import itertools
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from delegation.verdict.configured import configured_files, text_of

_INTERPRETERS = re.compile(r"(?:ba|da|z)?sh|python[\d.]*|pypy[\d.]*|node|deno|bun|ruby|perl|php|source|\.")
_COMPARERS = frozenset({"diff", "cmp", "comm"})
_RUNNERS = frozenset({"pytest", "py.test", "unittest", "jest", "vitest", "mocha", "tsx", "ts-node", "tox", "nox"})
_WRAPPERS = frozenset(
    {"env", "exec", "time", "nice", "timeout", "uv", "poetry", "run", "npx", "coverage", "sudo", "xargs"}
)
_PACKAGE_MANAGERS = frozenset({"npm", "pnpm", "yarn", "bun"})
_OTHER_RECIPES = {"just": ("justfile", "Justfile"), "task": ("Taskfile.yml", "Taskfile.yaml"), "tox": ("tox.ini",)}
_LOADING = re.compile(r"--(?:require|import|loader|experimental-loader|env-file|setup|config)=(.+)")
_MOST_LEVELS = 4
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*")
_RULE = re.compile(r"^([^\s#:=][^:=#]*?)\s*::?(?![:=])\s*([^#]*)")
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_JUDGING_NAME = re.compile(
    r"(?:^|[/_.\-])(?:tests?|testing|checks?|check\w*|verif\w*|specs?|ci|lint\w*|validat\w*|selftest|expected|golden)(?=$|[/_.\-])",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Called:
    """Files that a command runs or compares with: those that judge by their name or place, and the others.

    Names that nobody has yet are among those that judge, where a file planted there would have a say.
    """

    judging: frozenset[str]
    unclear: frozenset[str]


def called_files(command: str, checkout: Path, workdir: str) -> Called:
    """The files of a checkout that `command` runs, itself or through make and package scripts."""
    folder = checkout / workdir
    there = _run_files([command, *_reached(command, folder)], folder)
    judging = {name for name in there if _JUDGING_NAME.search(name)}
    steering = {*configured_files(folder, command), *_of_make(command, folder)}
    placed = [{PurePosixPath(workdir, name).as_posix() for name in names} for names in (judging | steering, there)]
    return Called(frozenset(placed[0]), frozenset(placed[1] - placed[0]))


def _run_files(texts: list[str], folder: Path) -> set[str]:
    """Files that the texts run, and that the shell scripts among these run, a few levels down."""
    found: set[str] = set()
    for _ in range(_MOST_LEVELS):
        names = {name for text in texts for name in _run_by(text)} - found
        new = {name for name in names if len(name) < 1000 and (folder / name).is_file()}
        found |= new
        scripts = [text for name in new if _is_shell(name, text := text_of(folder / name))]
        texts = [piece for script in scripts for piece in (script, *_reached(script, folder))]
    return found


def _is_shell(name: str, text: str) -> bool:
    return name.endswith((".sh", ".bash")) or re.match(r"#!\S*(?:/|\s)(?:ba|da|z|k)?sh\b", text) is not None


def _of_make(command: str, folder: Path) -> Iterator[str]:
    """Where a planted file would be part of the makefile or stand for a target: its includes, and targets asked for."""
    words = _words(command)
    if not {"make", "gmake"} & set(words):
        return
    makefile = _makefile(folder)
    for line in re.findall(r"^[-s]?include\s+([^#\n]+)", makefile, re.MULTILINE):
        yield from (PurePosixPath(word).as_posix() for word in line.split() if "$" not in word and _is_inside(word))
    yield from (
        word for word in words if word in _rules(makefile) and _is_inside(word) and not (folder / word).exists()
    )


def called_texts(command: str, folder: Path) -> Iterator[str]:
    """The text of all that the command may call: makefiles, package scripts, script files."""
    words = _words(command)
    if {"make", "gmake"} & set(words):
        yield from (text_of(folder / name) for name in _MAKEFILES)
    if _PACKAGE_MANAGERS & set(words):
        yield "\n".join(_package_scripts(folder).values())
    yield from (text_of(folder / word) for word in words if word and _is_inside(word))


def _reached(command: str, folder: Path) -> Iterator[str]:
    """Recipes and package scripts that the command comes by."""
    words = _words(command)
    if {"make", "gmake"} & set(words):
        yield "\n".join(_recipes(_makefile(folder), words))
    if _PACKAGE_MANAGERS & set(words):
        yield "\n".join(_scripts_reached(_package_scripts(folder), words))
    for program, names in _OTHER_RECIPES.items():
        if program in words:
            yield from (
                re.sub(r"^[\s\-@]*(?:cmd:|commands\s*=)?\s*", "", text_of(folder / name), flags=re.M) for name in names
            )


def _makefile(folder: Path) -> str:
    return next((text for name in _MAKEFILES if (text := text_of(folder / name))), "")


def _recipes(makefile: str, words: list[str]) -> list[str]:
    """The recipe lines of the targets among `words` (the first target where there is none) and what they need."""
    rules = _rules(makefile)
    names = [name for name in rules if not name.startswith(".")]
    wanted = [word for word in words if word in rules] or names[:1]
    return [
        line
        for name in _closure(wanted, {name: needed for name, (needed, _) in rules.items()})
        for line in rules[name][1]
    ]


def _rules(makefile: str) -> dict[str, tuple[list[str], list[str]]]:
    """What each target needs, and its recipe."""
    rules: dict[str, tuple[list[str], list[str]]] = {}
    current: list[list[str]] = []
    for line in makefile.splitlines():
        if line.startswith("\t"):
            for recipe in current:
                recipe.append(line.strip().lstrip("@-+"))
        elif match := _RULE.match(line):
            targets = [rules.setdefault(name, ([], [])) for name in match[1].split()]
            for needed, _ in targets:
                needed.extend(match[2].split())
            current = [recipe for _, recipe in targets]
    return rules


def _scripts_reached(scripts: dict[str, str], words: list[str]) -> list[str]:
    wanted = [name for name in scripts if name in words or (name == "test" and {"t", "tst"} & set(words))]
    calls = {name: [word for word in _words(text) if word in scripts] for name, text in scripts.items()}
    around = {name: [f"pre{name}", f"post{name}"] for name in scripts}
    links = {name: [link for link in (*calls[name], *around[name]) if link in scripts] for name in scripts}
    return [scripts[name] for name in _closure(wanted, links)]


def _closure(wanted: list[str], links: dict[str, list[str]]) -> list[str]:
    found: list[str] = []
    todo = list(wanted)
    while todo:
        name = todo.pop()
        if name in links and name not in found:
            found.append(name)
            todo.extend(links[name])
    return found


def _run_by(text: str) -> Iterator[str]:
    """Files that the steps of a shell text run: `./check.sh`, `python check.py`, `pytest tests/test_a.py::test_x`."""
    below = PurePosixPath()
    for step in re.split(r"&&|\|\||[;|&()\n]", text):
        if (entered := re.fullmatch(r"\s*cd\s+(\S+)\s*", step)) and _is_inside(entered[1]):
            below /= entered[1]
        names = [name for name in _run_by_step(step) if _is_inside(name)]
        yield from ((folder / name).as_posix() for name in names for folder in {PurePosixPath(), below})


def _run_by_step(step: str) -> Iterator[str]:
    try:
        words = shlex.split(step, comments=True)
    except ValueError:
        words = step.split()
    while words and (_ASSIGNMENT.fullmatch(words[0]) or words[0] in _WRAPPERS or words[0].startswith("-")):
        words = words[1:]
    if not words:
        return
    program, arguments = words[0], words[1:]
    name = PurePosixPath(program).name
    if arguments[:1] == ["-m"]:
        name, arguments = (arguments[1] if len(arguments) > 1 else ""), arguments[2:]
    yield from (match[1] for word in arguments if (match := _LOADING.fullmatch(word)))
    if name in _RUNNERS or name in _COMPARERS or "--test" in arguments:
        yield from (word.split("::")[0] for word in arguments if not word.startswith("-"))
    elif _INTERPRETERS.fullmatch(name):
        if "-c" in arguments:
            yield from _run_by(arguments[arguments.index("-c") + 1] if arguments[-1] != "-c" else "")
        loaded = [after for word, after in itertools.pairwise(arguments) if word in ("-r", "--require", "--import")]
        yield from loaded
        yield from [word for word in arguments if not word.startswith("-") and word not in loaded][:1]
    elif "/" in program or "." in program:
        yield program


def _package_scripts(folder: Path) -> dict[str, str]:
    try:
        scripts = json.loads(text_of(folder / "package.json") or "{}").get("scripts", {})
        return {str(name): str(script) for name, script in scripts.items()}
    except (ValueError, AttributeError):
        return {}


def _words(command: str) -> list[str]:
    return re.split(r"[\s;&|()\"']+", command)


def _is_inside(word: str) -> bool:
    return bool(word) and not word.startswith(("/", "-", "~")) and ".." not in word
