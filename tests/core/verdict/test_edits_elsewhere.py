"""What steers tests of JavaScript, Go and Rust goes back to the base. Go is judged here by recorded text alone."""

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
