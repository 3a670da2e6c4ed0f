"""What steers tests of JavaScript, Go and Rust goes back to the base. Go is judged here by recorded text alone."""

import json

import pytest

from delegation.verdict.edits import Change, Edits, edits_of
from delegation.verdict.tables import restored


def sorted_out(path: str) -> Edits:
    """Of a patch that adds one file."""
    return edits_of([Change(path, path, "added", b"x")], judges=frozenset())


@pytest.mark.parametrize(
    "path",
    [
        "jest.setup.js",
        "src/setupTests.ts",
        "setup-jest.mjs",
        "vitest.setup.ts",
        "test-setup.cjs",
        ".babelrc",
        ".babelrc.json",
        ".pnp.cjs",
        ".yarn/releases/yarn.cjs",
        "node.config.json",
        "__mocks__/fs.js",
        "pkg/__mocks__/axios.js",
        ".cargo/config.toml",
        "Rakefile",
    ],
)
def test_what_steers_runners_elsewhere_is_withheld(path: str):
    assert sorted_out(path).names == (path,)


@pytest.mark.parametrize(
    "path",
    ["build.rs", "crates/a/build.rs", "go.work", "vendor/github.com/stretchr/testify/assert.go", "tsconfig.json"],
)
def test_what_steers_the_build_as_well_as_the_tests_is_unclear(path: str):
    edits = sorted_out(path)
    assert [change.path for change in edits.unclear] == [path]


def test_a_new_file_with_a_main_for_gos_tests_is_left_out_like_every_new_test():
    edits = sorted_out("pkg/zz_test.go")
    assert [change.path for change in edits.new_tests] == ["pkg/zz_test.go"]
    assert edits.patch(with_new_tests=False) == b""


GO_MOD = "module example.org/m\n\ngo 1.22\n\nrequire github.com/stretchr/testify v1.9.0\n"


@pytest.mark.parametrize(
    "planted",
    [
        "replace github.com/stretchr/testify => ./fake\n",
        "replace (\n\tgithub.com/stretchr/testify v1.9.0 => ../fake // quick\n)\n",
    ],
)
def test_a_local_replacement_in_go_mod_goes_back_and_the_rest_stays(planted: str):
    changed = restored("go.mod", GO_MOD, GO_MOD.replace("1.22", "1.23") + planted)
    assert "fake" not in str(changed)
    assert "go 1.23" in str(changed)


def test_a_local_replacement_of_the_base_comes_back_and_a_requirement_is_no_steering():
    base = GO_MOD + "replace example.org/own => ./own\n"
    assert "replace example.org/own => ./own\n" in str(restored("go.mod", base, GO_MOD))
    grown = base + "require example.org/x v1.0.0\n"
    assert restored("go.mod", base, grown) == grown


CARGO = '[package]\nname = "m"\nversion = "0.1.0"\n\n[dependencies]\nserde = "1"\n'


@pytest.mark.parametrize(
    "planted",
    [
        "\n[lib]\nharness = false\n",
        '\n[[test]]\nname = "it"\npath = "fake.rs"\n',
        '\n[dev-dependencies]\npretty_assertions = { path = "fake" }\n',
        '\n[patch.crates-io]\nserde = { path = "fake" }\n',
        "\n[profile.test]\noverflow-checks = false\n",
        '\n[target."cfg(unix)".dev-dependencies]\na = "1"\n',
    ],
)
def test_tables_of_cargo_that_steer_go_back_and_the_rest_stays(planted: str):
    changed = restored("Cargo.toml", CARGO, CARGO.replace("0.1.0", "0.2.0") + planted)
    assert str(changed).rstrip() == CARGO.replace("0.1.0", "0.2.0").rstrip()


def test_keys_of_the_package_that_steer_take_cargos_manifest_back_and_others_leave_it():
    assert restored("Cargo.toml", CARGO, CARGO.replace("[dep", "autotests = false\n\n[dep")) == CARGO
    grown = CARGO.replace('serde = "1"', 'serde = "2"\nrand = "0.8"')
    assert restored("Cargo.toml", CARGO, grown) == grown


def test_a_package_from_a_folder_goes_back_in_package_json_and_other_packages_stay():
    base = {"name": "m", "devDependencies": {"jest": "29", "own": "file:./own"}}
    candidate = {
        "name": "m",
        "dependencies": {"ms": "2", "fake": "link:./fake"},
        "devDependencies": {"jest": "file:./fake", "chai": "5"},
        "overrides": {"expect": "./fake"},
    }
    mended = json.loads(str(restored("package.json", json.dumps(base), json.dumps(candidate))))
    assert mended == {
        "name": "m",
        "dependencies": {"ms": "2"},
        "devDependencies": {"chai": "5", "jest": "29", "own": "file:./own"},
        "overrides": {},
    }


def test_packages_of_a_registry_leave_package_json_alone():
    base, candidate = ('{"dependencies": {"a": "1", "b": "file:./b"}}', '{"dependencies": {"a": "2", "b": "file:./b"}}')
    assert restored("package.json", base, candidate) == candidate


def edited(path: str, line: str) -> Edits:
    section = f"diff --git a/{path} b/{path}\n@@ -1 +1,2 @@\n context of a test\n+{line}\n".encode()
    return edits_of([Change(path, path, "edited", section)], judges=frozenset())


@pytest.mark.parametrize(
    ("path", "line", "is_unclear"),
    [
        ("setup.py", "version = 2", True),
        ("CMakeLists.txt", "add_test(NAME a COMMAND true)", True),
        ("CMakeLists.txt", "add_library(m m.c)", False),
        ("build.gradle.kts", "tasks.test { enabled = false }", True),
        ("pom.xml", "<skipTests>true</skipTests>", True),
        ("pom.xml", "<version>2</version>", False),
        ("dev-requirements.txt", "pytest @ file:./fake", True),
        ("requirements.txt", "-e ./fake", True),
        ("requirements.txt", "httpx==0.28", False),
    ],
)
def test_builds_and_requirements_are_unclear_where_they_speak_of_tests_or_folders(
    path: str, line: str, is_unclear: bool
):
    edits = edited(path, line)
    assert ([change.path for change in edits.unclear] == [path]) is is_unclear
    assert ([change.path for change in edits.kept] == [path]) is not is_unclear


def test_bytecode_is_withheld_and_a_module_beside_the_tests_is_a_new_test():
    assert sorted_out("tests/__pycache__/test_a.cpython-311.pyc").names == ("tests/__pycache__/test_a.cpython-311.pyc",)
    assert [change.path for change in sorted_out("tests/m.py").new_tests] == ["tests/m.py"]
    assert [change.path for change in sorted_out("tests/m.json").kept] == ["tests/m.json"]


def test_another_build_of_the_project_goes_back():
    base = '[project]\nname = "m"\n'
    planted = base + '\n[build-system]\nrequires = []\nbuild-backend = "fake"\nbackend-path = ["."]\n'
    assert str(restored("pyproject.toml", base, planted)).rstrip() == base.rstrip()
