"""Which changes of a patch touch the things that judge it."""

import subprocess
from pathlib import Path

import pytest

from delegation.verdict.edits import Change, Edits, changes_of, edits_of
from delegation.verdict.scripts import called_files
from delegation.verdict.tables import restored


def change(path: str, kind: str = "edited", old: str | None = None) -> Change:
    return Change(path, old or path, kind, b"")  # type: ignore[arg-type]  # kinds are spelled out in the tests


def sorted_out(*changes: Change, judges: frozenset[str] = frozenset()) -> Edits:
    return edits_of(changes, judges=judges)


@pytest.mark.parametrize(
    "path",
    [
        "tests/test_a.py",
        "tests/data/expected.json",
        "pkg/test_a.py",
        "pkg/a_test.go",
        "src/a.test.ts",
        "src/__tests__/a.js",
        "conftest.py",
        "pytest.ini",
        "tox.ini",
        "Makefile",
        "jest.config.js",
        ".cargo/config.toml",
    ],
)
def test_editing_a_judge_is_withheld(path: str):
    assert sorted_out(change(path)).names == (path,)


@pytest.mark.parametrize(
    "path", ["src/app.py", "README.md", "src/contest.py", "app/testing_tools.py", "src/latest.py", "docs/tests.md"]
)
def test_editing_anything_else_is_kept(path: str):
    assert sorted_out(change(path)).names == ()


@pytest.mark.parametrize("path", ["tests/test_new.py", "pkg/new_test.go", "tests/data/new.json"])
def test_new_tests_are_legitimate(path: str):
    assert sorted_out(change(path, "added")).names == ()


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py",
        "tests/unit/conftest.py",
        "pytest.py",
        "_pytest/__init__.py",
        "sitecustomize.py",
        "src/usercustomize.py",
        "hook.pth",
        "json.py",
        "src/unittest/__init__.py",
        "tests/re.py",
        "pytest.ini",
        "GNUmakefile",
    ],
)
def test_planted_files_are_withheld(path: str):
    assert sorted_out(change(path, "added")).names == (path,)


@pytest.mark.parametrize("path", ["src/app/json.py", "app/types.py", "src/app/logging/__init__.py"])
def test_a_module_inside_a_package_may_be_named_like_the_standard_library(path: str):
    assert sorted_out(change(path, "added")).names == ()


def test_files_known_to_judge_are_withheld_whatever_their_name():
    assert sorted_out(change("pkg/check_a.py"), judges=frozenset({"pkg/check_a.py"})).names == ("pkg/check_a.py",)


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_files_a_command_runs_are_found(tmp_path: Path):
    names = ("sub/check.py", "sub/ci/run.sh", "sub/tests/test_a.py", "sub/all.py", "sub/want.txt", "sub/data.txt")
    written(tmp_path, dict.fromkeys(names, ""))
    command = "python check.py && sh ./ci/run.sh; pytest -q tests/test_a.py::test_x; X=1 python all.py data.txt"
    command += " | diff - want.txt"
    called = called_files(command, tmp_path, "sub")
    assert called.judging == {"sub/check.py", "sub/ci/run.sh", "sub/tests/test_a.py"}
    assert called.unclear == {"sub/all.py", "sub/want.txt"}


def test_what_make_compiles_is_not_what_judges(tmp_path: Path):
    makefile = "all: app\n\napp: main.c\n\tcc -o app main.c\n\ntest: app\n\tsh check.sh\n\nother:\n\tsh other.sh\n"
    written(tmp_path, {"Makefile": makefile, "main.c": "", "check.sh": "", "other.sh": ""})
    called = called_files("make test", tmp_path, ".")
    assert (called.judging, called.unclear) == ({"check.sh", "test"}, set()), "a file `test` would stand for the target"


def test_what_npm_starts_is_not_what_judges(tmp_path: Path):
    scripts = (
        '{"scripts": {"start": "node index.js", "test": "npm run unit", "unit": "node spec.js", "pretest": "sh a.sh"}}'
    )
    written(tmp_path, {"package.json": scripts, "index.js": "", "spec.js": "", "a.sh": ""})
    called = called_files("npm t", tmp_path, ".")
    assert (called.judging, called.unclear) == ({"spec.js"}, {"a.sh"})


def test_a_new_test_file_is_left_out_of_the_reduced_patch_on_demand():
    edits = edits_of(
        [Change("m.py", "m.py", "edited", b"m"), Change("test_a.py", "test_a.py", "added", b"t")], judges=frozenset()
    )
    assert (edits.patch(with_new_tests=True), edits.patch(with_new_tests=False)) == (b"mt", b"m")


def test_moving_a_test_away_is_withheld_under_both_names():
    assert sorted_out(change("old/thing.py", old="tests/test_a.py")).names == ("old/thing.py", "tests/test_a.py")


def test_files_that_steer_tests_in_part_are_kept_and_named():
    edits = sorted_out(change("pyproject.toml"), change("pkg/setup.cfg"))
    assert (edits.partial, edits.withheld, len(edits.kept)) == (("pyproject.toml", "pkg/setup.cfg"), (), 2)


def repository(root: Path) -> Path:
    for command in (["init", "-q"], ["config", "diff.renames", "true"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    return root


def test_every_kind_of_section_of_a_real_patch_is_read(tmp_path: Path):
    repo = repository(tmp_path)
    for name in ("edited.py", "deleted.py", "moved.py", "täst.py", "with space.py", "mode.sh", 'quo"te.py'):
        (repo / name).write_text(f"content of {name}\n" * 5)
    subprocess.run("git add -A && git commit -qm base", shell=True, cwd=repo, check=True)
    (repo / "edited.py").write_text("diff --git a/fake b/fake\n")
    (repo / "deleted.py").unlink()
    (repo / "moved.py").rename(repo / "moved to.py")
    (repo / "binary.bin").write_bytes(bytes(range(256)) * 20)
    for name in ("täst.py", "with space.py", 'quo"te.py'):
        (repo / name).write_text("new\n")
    (repo / "mode.sh").chmod(0o755)
    (repo / "empty.py").touch()
    subprocess.run("git add -A", shell=True, cwd=repo, check=True)
    patch = subprocess.run(["git", "diff", "--cached", "--binary"], cwd=repo, check=True, capture_output=True).stdout
    changes = changes_of(patch)
    assert {(item.old_path, item.path, item.kind) for item in changes} == {
        ("edited.py", "edited.py", "edited"),
        ("deleted.py", "deleted.py", "deleted"),
        ("moved.py", "moved to.py", "edited"),
        ("binary.bin", "binary.bin", "added"),
        ("täst.py", "täst.py", "edited"),
        ("with space.py", "with space.py", "edited"),
        ('quo"te.py', 'quo"te.py', "edited"),
        ("mode.sh", "mode.sh", "edited"),
        ("empty.py", "empty.py", "added"),
    }
    assert b"".join(item.section for item in changes) == patch


TOML = '[project]\nname = "x"\n\n[tool.pytest.ini_options]\naddopts = "-q"\n\n[tool.ruff]\nline-length = 100\n'


def test_a_changed_pytest_table_goes_back_and_the_rest_stays():
    candidate = TOML.replace('"-q"', '"-q -k nothing"').replace("100", "120").replace('"x"', '"y"')
    text = restored("pyproject.toml", TOML, candidate)
    assert text is not None
    assert '"-q"' in text
    assert "nothing" not in text
    assert "line-length = 120" in text
    assert 'name = "y"' in text


def test_a_pytest_table_added_or_removed_is_undone():
    without = '[project]\nname = "x"\n'
    assert "pytest" not in str(
        restored("pyproject.toml", without, without + "[tool.pytest.ini_options]\naddopts = '-k no'\n")
    )
    assert "addopts" in str(restored("pyproject.toml", TOML, without))


def test_a_file_whose_tables_for_tests_did_not_change_is_left_alone():
    candidate = TOML.replace("100", "120")
    assert restored("pyproject.toml", TOML, candidate) is candidate


def test_a_file_that_cannot_be_read_goes_back_as_a_whole():
    assert restored("pyproject.toml", TOML, "[[[ broken") == TOML


def test_package_scripts_go_back_and_dependencies_stay():
    base = '{"scripts": {"test": "node --test"}, "dependencies": {}}'
    text = restored("package.json", base, '{"scripts": {"test": "true"}, "dependencies": {"a": "1"}}')
    assert '"test": "node --test"' in str(text)
    assert '"a": "1"' in str(text)


def test_a_section_of_setup_cfg_goes_back():
    base = "[metadata]\nname = x\n\n[tool:pytest]\naddopts = -q\n"
    text = restored("setup.cfg", base, "[metadata]\nname = y\n\n[tool:pytest]\naddopts = --co\n")
    assert text == "[metadata]\nname = y\n\n[tool:pytest]\naddopts = -q\n"


def test_a_deleted_file_comes_back():
    assert restored("pyproject.toml", TOML, None) == TOML


def test_lines_of_an_environment_file_that_steer_go_back_and_the_rest_stays():
    text = restored(".env", "PYTHONPATH=src\nA=1\n", "A=2\nexport PYTEST_PLUGINS=evil\nNODE_OPTIONS=-r ./e\n")
    assert text == "A=2\nPYTHONPATH=src\n"
    assert restored(".env.test", "A=1\n", "A=2\n") == "A=2\n"


def test_a_plugin_declared_in_the_project_goes_back():
    base = '[project]\nname = "x"\n'
    text = restored("pyproject.toml", base, f'{base}[project.entry-points.pytest11]\nevil = "evil"\n')
    assert text == base


RUST = "pub fn f() {{}}\n\n#[cfg(test)]\nmod tests {{\n    {}\n}}\n"


def test_unit_tests_in_a_rust_source_go_back_and_the_code_stays():
    text = restored("lib.rs", RUST.format("old"), RUST.format("new").replace("fn f", "fn g"))
    assert text == RUST.format("old").replace("fn f", "fn g")
    assert restored("lib.rs", "fn a() {}\n", RUST.format("new")) == RUST.format("new")


@pytest.mark.parametrize(
    "path",
    [
        ".venv/lib/python3.11/site-packages/m.py",
        "node_modules/jest/index.js",
        "evil.egg-info/entry_points.txt",
        "bin/python3",
        "tools/pytest",
        ".python-version",
        "uv.toml",
    ],
)
def test_what_is_installed_and_what_chooses_the_interpreter_is_withheld(path: str):
    assert sorted_out(change(path, "added")).names == (path,)


def test_source_with_unit_tests_is_kept_and_named_as_steering_in_part():
    edits = sorted_out(change("src/lib.rs"), change("tests/it.rs"), judges=frozenset({"tests/it.rs"}))
    assert (edits.partial, edits.names) == (("src/lib.rs",), ("tests/it.rs",))


def test_files_whose_part_is_unclear_are_withheld_and_told_apart():
    edits = edits_of([change("app.sh"), change("tests/test_a.py")], judges=frozenset(), unclear=frozenset({"app.sh"}))
    assert edits.names == ("app.sh", "tests/test_a.py")
    assert [item.path for item in edits.unclear] == ["app.sh"]
    assert [item.path for item in edits.old_tests] == ["tests/test_a.py"]
