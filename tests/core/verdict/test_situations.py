"""Each situation a verdict must tell apart, with real commands in real checkouts."""

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pytest

from delegation.errors import WorkFailed

PYTEST = f"{sys.executable} -m pytest -q -p no:hypothesispytest -p no:anyio"
UNITTEST = f"{sys.executable} -m unittest discover -s tests -t ."
CASE = "import unittest\nimport m\n\n\nclass T(unittest.TestCase):\n"


def cases(**bodies: str) -> dict[str, str]:
    """A package of tests with one unittest method per keyword."""
    methods = "".join(f"    def test_{name}(self):\n        {body}\n" for name, body in bodies.items())
    return {"tests/__init__.py": "", "tests/test_m.py": CASE + methods}


ADD_AND_ONE = cases(add="self.assertEqual(m.add(1, 2), 3)", one="self.assertEqual(m.one(), 1)")
RIGHT = {"m.py": "def add(a, b):\n    return a + b\n\n\ndef one():\n    return 1\n"}
WRONG = {"m.py": "def add(a, b):\n    return a - b\n\n\ndef one():\n    return 1\n"}
ADD, ONE = "tests.test_m.T.test_add", "tests.test_m.T.test_one"


def test_a_repair_is_passed_and_names_what_it_fixed(bench):
    bench.commit(WRONG | ADD_AND_ONE)
    answer = bench.verify(RIGHT, UNITTEST)
    assert (answer.verdict, answer.fixed, answer.flags) == ("passed", (ADD,), ("baseline_red",))
    assert (answer.base.tests, answer.candidate.tests) == (
        {ADD: "failed", ONE: "passed"},
        {ADD: "passed", ONE: "passed"},
    )
    assert answer.environment["python"] == sys.version.split()[0]


def test_a_regression_is_failed_and_named(bench):
    bench.commit(RIGHT | ADD_AND_ONE)
    answer = bench.verify(WRONG, UNITTEST)
    assert (answer.verdict, answer.newly_failing, answer.flaky) == ("failed", (ADD,), ())


def test_pytest_ids_reach_the_receipt(bench):
    bench.commit(WRONG | {"tests/test_m.py": "import m\n\n\ndef test_add():\n    assert m.add(1, 2) == 3\n"})
    answer = bench.verify(RIGHT, PYTEST)
    assert (answer.verdict, answer.fixed) == ("passed", ("tests/test_m.py::test_add",))
    assert str(answer.environment["runner"]).startswith("pytest ")


def test_old_failures_alone_are_called_that(bench):
    bench.commit(WRONG | ADD_AND_ONE)
    change = {"m.py": WRONG["m.py"] + "\n\ndef more():\n    return 2\n"}
    by_pass, by_no_worse = (bench.verify(change, UNITTEST, accept=accept) for accept in ("pass", "no_worse"))
    assert (by_pass.verdict, by_pass.flags, by_pass.still_failing) == (
        "failed",
        ("baseline_red", "pre_existing_only"),
        (ADD,),
    )
    assert (by_no_worse.verdict, by_no_worse.base.cached) == ("passed", True)


def test_no_worse_still_needs_the_wanted_tests(bench):
    bench.commit(WRONG | ADD_AND_ONE)
    answer = bench.verify({"new.py": "x = 1\n"}, UNITTEST, accept="no_worse", wants=(ADD,))
    assert (answer.verdict, answer.missing_wants) == ("failed", (ADD,))


def test_no_tests_at_all_is_no_verdict(bench):
    bench.commit({"m.py": "x = 1\n"})
    answer = bench.verify({"m.py": "x = 2\n"}, PYTEST)
    assert (answer.verdict, answer.reason) == ("none", "the base gave no verdict: no tests ran")
    assert answer.base.exit_code == 5


def test_tests_that_disappear_without_a_trace_are_failed(bench):
    bench.commit(RIGHT | ADD_AND_ONE)
    hidden = "import os\nos._exit(0)\n" + RIGHT["m.py"]
    answer = bench.verify({"m.py": hidden}, UNITTEST)
    assert (answer.verdict, answer.candidate.exit_code) == ("failed", 0)
    assert str(answer.reason).startswith("the tests disappeared")


def counter_test(counter: Path, fails_on: str) -> dict[str, str]:
    body = (
        f"p = pathlib.Path({str(counter)!r}); n = int(p.read_text()) if p.exists() else 0; p.write_text(str(n + 1)); "
        f"self.assertFalse({fails_on})"
    )
    files = cases(wavers=body, add="self.assertEqual(m.add(1, 2), 3)")
    return files | {"tests/test_m.py": "import pathlib\n" + files["tests/test_m.py"]}


WAVERS = "tests.test_m.T.test_wavers"


def test_a_test_that_fails_every_second_run_is_flaky_and_not_blamed(bench):
    bench.commit(RIGHT | counter_test(bench.root / "counter", "n % 2"))
    answer = bench.verify({"new.py": "x = 1\n"}, UNITTEST, confinement="off")
    assert (answer.verdict, answer.flaky, answer.newly_failing, answer.flags) == ("passed", (WAVERS,), (), ("flaky",))
    assert (bench.root / "counter").read_text() == "5"  # base, candidate, candidate again, base again, canaries
    assert bench.record.joinpath("candidate.log").read_text().count("[verify]") == 2


def test_a_test_that_wavers_only_with_the_change_has_no_verdict(bench):
    bench.commit(RIGHT | counter_test(bench.root / "counter", "n == 1"))
    answer = bench.verify({"new.py": "x = 1\n"}, UNITTEST, confinement="off")
    assert (answer.verdict, answer.flaky) == ("none", (WAVERS,))
    assert "flaky" in str(answer.reason)


def test_a_base_that_is_red_once_is_flaky_not_red(bench):
    bench.commit(RIGHT | counter_test(bench.root / "counter", "n == 0"))
    answer = bench.verify({"new.py": "x = 1\n"}, UNITTEST, confinement="off")
    assert (answer.verdict, answer.flags, answer.flaky) == ("passed", ("flaky",), (WAVERS,))


def test_a_command_that_hangs_is_a_timeout_and_leaves_no_process(bench):
    bench.commit({"spin.py": "import os\nos.fork()\nwhile True:\n    pass\n", "mark": "mark-4471"})
    command = f"echo started; {sys.executable} spin.py mark-4471 & wait"
    answer = bench.verify({"new.py": "x = 1\n"}, command, timeout_seconds=1.0)
    assert answer.verdict == "none"
    assert str(answer.reason) == "the base gave no verdict: timeout: no end after 1 s"
    assert answer.candidate is None  # it could only take as long and change nothing
    assert "started" in answer.base.output_tail
    assert [p for p in psutil.process_iter(["cmdline"]) if "mark-4471" in (p.info["cmdline"] or [])] == []


@pytest.fixture(scope="module")
def plain(shared):
    """One file and nothing to test."""
    shared.commit({"m.py": "x = 1\n"})
    return shared


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("kill -9 $$", "killed by signal 9 (SIGKILL)"),
        (f"exec {sys.executable} -c 'import os; os.kill(os.getpid(), 11)'", "killed by signal 11 (SIGSEGV)"),
        ("sh -c 'kill -9 $$'; exit $?", "killed by signal 9 (SIGKILL)"),
        (".venv/bin/pytest -q", "missing tool: "),
        ("no-such-runner", "missing tool: "),
        ("touch t.sh; ./t.sh", "missing tool: exit code 126, found but not executable"),
        (f"{sys.executable} -m no_such_runner", "missing tool: no module named 'no_such_runner'"),
        ("echo 'no-such-runner' > t.sh; sh t.sh || exit 1", "missing tool: t.sh: "),
        ("printf 'test:\\n\\tno-such-runner\\n' > Makefile; make test", "missing tool: "),
    ],
)
def test_a_command_that_cannot_judge_says_why(plain, command: str, reason: str):
    answer = plain.verify(None, command)
    assert (answer.base.verdict, answer.verdict) == ("none", "none")
    assert str(answer.base.reason).startswith(reason)
    assert answer.base.exit_code is not None


def test_a_package_missing_on_both_sides_is_the_environment_not_the_change(bench):
    bench.commit({"tests/test_a.py": "import not_installed_anywhere\n\n\ndef test_a():\n    pass\n"})
    answer = bench.verify({"m.py": "x = 1\n"}, PYTEST)
    assert answer.verdict == "none"
    assert "no module named 'not_installed_anywhere'" in str(answer.reason)


def test_a_change_that_needs_an_ignored_file_is_failed(bench):
    bench.commit({".gitignore": "data/\n", "m.py": "def f():\n    return 7\n", "t.py": "import m\nassert m.f() == 7\n"})
    (bench.repo / "data").mkdir()
    (bench.repo / "data" / "v").write_text("7")
    change = {"m.py": "def f():\n    return int(open('data/v').read())\n"}
    answer = bench.verify(change, f"{sys.executable} t.py", ignored_files=("data/v", "data/other"))
    assert (answer.verdict, answer.flags) == ("failed", ("needs_ignored_file",))
    assert str(answer.reason).endswith("the patch lacks ignored files it needs: data/v")


def test_tests_see_neither_our_environment_nor_each_others_folders(bench, monkeypatch):
    for name in (
        "PREFECT_API_URL",
        "GIT_DIR",
        "VIRTUAL_ENV",
        "PYTHONPATH",
        "ANTHROPIC_API_KEY",
        "DELEGATE_LOCAL_KEY",
        "PYTEST_ADDOPTS",
    ):
        monkeypatch.setenv(name, "leaked-value")
    bench.commit({"m.py": "x = 1\n"})
    answer = bench.verify(
        {"m.py": "x = 2\n"}, "env; touch $HOME/here $TMPDIR/here; ls -a $HOME $TMPDIR | grep -c '^here$'"
    )
    assert answer.verdict == "passed"
    assert "leaked-value" not in answer.base.output_tail
    variables = [
        dict(line.split("=", 1) for line in run.output_tail.splitlines() if "=" in line)
        for run in (answer.base, answer.candidate)
    ]
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME"):
        assert variables[0][name] != variables[1][name]
    assert all(int(run["DELEGATE_FREE_PORT"]) > 1023 for run in variables)
    assert answer.candidate.output_tail.rstrip().endswith("2")


def test_the_repository_and_its_folders_stay_as_they_were(bench):
    bench.commit(RIGHT | ADD_AND_ONE)
    before = sorted(path for path in bench.repo.rglob("*") if ".git" not in path.parts)
    answer = bench.verify({"new.py": "x = 1\n"}, f"{UNITTEST}; echo polluted > m.py; touch {bench.repo}/planted")
    assert sorted(path for path in bench.repo.rglob("*") if ".git" not in path.parts) == before
    assert (bench.repo / "m.py").read_text() == RIGHT["m.py"]
    assert list(bench.root.glob("v*")) == []
    assert list(Path(tempfile.gettempdir()).glob("dv-*")) == []
    assert answer.environment["confinement"] is not None


def test_two_verifications_at_once_do_not_meet(bench):
    bench.commit({"m.py": "x = 1\n"})
    server = "import os, socket, time; s = socket.create_server(('127.0.0.1', int(os.environ['DELEGATE_FREE_PORT'])))"
    lock = "os.mkdir(os.environ['TMPDIR'] + '/lock'); os.mkdir(os.environ['HOME'] + '/lock'); time.sleep(0.3)"
    command = f'{sys.executable} -c "{server}; {lock}"'
    patch, answers = bench.patch({"m.py": "x = 2\n"}), []

    def work(number: int) -> None:
        options = {"place": bench.root / f"p{number}", "record_dir": bench.root / f"r{number}", "patch_file": patch}
        answers.append(bench.verify(None, command, network=True, **options).verdict)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["passed", "passed"]


def test_setup_runs_in_both_checkouts_before_the_command(plain):
    answer = plain.verify({"m.py": "x = 2\n"}, "cat made", setup="cat m.py > made")
    assert (answer.verdict, answer.base.output_tail, answer.candidate.output_tail) == ("passed", "x = 1\n", "x = 2\n")
    assert answer.environment["setup_exit"] == "0"


@pytest.mark.parametrize(("setup", "side"), [("exit 3", "base"), ("grep -q 1 m.py", "candidate")])
def test_a_setup_that_fails_is_no_verdict(plain, setup: str, side: str):
    answer = plain.verify({"m.py": "x = 2\n"}, "true", setup=setup)
    assert answer.verdict == "none"
    assert str(answer.reason).startswith(f"the {side} gave no verdict: setup failed: exit code")
    assert answer.environment["setup_exit"] != "0"


def test_without_a_change_only_the_base_is_run(bench):
    bench.commit(RIGHT | ADD_AND_ONE)
    answer = bench.verify(None, UNITTEST)
    assert (answer.verdict, answer.candidate, answer.base.verdict) == ("none", None, "passed")


def test_the_command_runs_in_the_workdir(bench):
    bench.commit({"sub/m.py": "x = 1\n"})
    assert bench.verify({"sub/m.py": "x = 2\n"}, "test -f m.py", workdir="sub").verdict == "passed"


def test_a_workdir_that_the_change_removes_is_no_verdict(bench):
    bench.commit({"sub/m.py": "x = 1\n"})
    answer = bench.verify({"sub/m.py": None}, "true", workdir="sub")
    assert (answer.verdict, answer.candidate.reason) == ("none", "the workdir 'sub' does not exist")


def test_git_works_in_the_checkouts_and_shows_the_change(bench):
    commit = bench.commit({"m.py": "x = 1\n"})
    command = "git log -1 --format=%H && git status --short && git commit -qam more && git diff HEAD~1 --stat"
    answer = bench.verify({"m.py": "x = 2\n"}, command)
    assert answer.candidate.output_tail.startswith(commit)
    assert "M  m.py" in answer.candidate.output_tail
    assert "1 insertion(+), 1 deletion(-)" in answer.candidate.output_tail


def test_a_cancelled_verification_ends_soon_and_keeps_no_baseline(bench):
    bench.commit({"m.py": "x = 1\n"})
    cancelled = threading.Event()
    threading.Timer(0.5, cancelled.set).start()
    started = time.monotonic()
    answer = bench.verify({"m.py": "x = 2\n"}, "sleep 60", cancelled=cancelled)
    assert (answer.verdict, answer.reason, answer.candidate, answer.flags) == ("none", "cancelled", None, ())
    assert time.monotonic() - started < 20
    assert list((bench.root / "home" / "baselines").glob("*")) == []


def test_a_patch_that_does_not_apply_is_a_failure_not_a_verdict(bench):
    bench.commit({"m.py": "x = 1\n"})
    file = bench.patch({"m.py": "x = 2\n"})
    file.write_bytes(file.read_bytes().replace(b"-x = 1", b"-x = 9"))
    with pytest.raises(WorkFailed) as caught:
        bench.verify(None, "true", patch_file=file)
    assert caught.value.kind == "checkout"
    assert list(bench.root.glob("v*")) == []


def test_logs_are_bounded_and_keep_both_ends(plain):
    noise = f"{sys.executable} -c \"[print('y' * 99) for _ in range(30000)]\""
    plain.verify({"m.py": "x = 2\n"}, f"echo first; {noise}; echo last")
    log = (plain.record / "candidate.log").read_text()
    assert len(log) < 1_100_000
    assert "first" in log
    assert log.rstrip().endswith("last")
    assert "characters left out" in log


@pytest.fixture
def editable(bench, tmp_path: Path) -> str:
    """A virtual environment in which the repository's package is installed in editable form."""
    bench.commit(
        {
            "src/pkg_x/__init__.py": "def f():\n    return 1\n",
            "tests/test_x.py": (
                "import subprocess, sys, unittest\nimport pkg_x\n\n\nclass T(unittest.TestCase):\n"
                "    def test_here(self):\n        self.assertEqual(pkg_x.f(), 1)\n\n"
                "    def test_child(self):\n"
                "        subprocess.run([sys.executable, '-c', 'import pkg_x; assert pkg_x.f() == 1'], check=True)\n"
            ),
        }
    )
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    site = next((venv / "lib").glob("python*/site-packages"))
    (site / "__editable__.pkg_x.pth").write_text(f"{bench.repo / 'src'}\n")
    return f"{venv}/bin/python -m unittest discover -s tests"


@pytest.mark.parametrize("confinement", ["auto", "off"])
def test_an_editable_install_cannot_point_at_the_main_checkout(bench, editable: str, confinement: str):
    answer = bench.verify(
        {"src/pkg_x/__init__.py": "def f():\n    return 'BROKEN'\n"}, editable, confinement=confinement
    )
    assert (answer.base.verdict, answer.candidate.verdict, answer.verdict) == ("passed", "failed", "failed")
    assert answer.newly_failing == ("test_x.T.test_child", "test_x.T.test_here")
    assert "editable" in answer.warnings[0]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_node_tests_are_compared_by_name(bench):
    test = (
        "const {test} = require('node:test');\nconst {f} = require('./m');\n"
        "test('one', () => { if (f() !== 1) throw new Error('no'); });\ntest('two', () => {});\n"
    )
    bench.commit(
        {"m.js": "exports.f = () => 1;\n", "a.test.js": test, "package.json": '{"scripts": {"test": "node --test"}}'}
    )
    answer = bench.verify({"m.js": "exports.f = () => 2;\n"}, "npm test")
    assert (answer.verdict, answer.newly_failing) == ("failed", ("one",))
    assert answer.base.tests == {"one": "passed", "two": "passed"}


@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")
def test_cargo_tests_are_compared_by_name(bench, rust_home):
    test = "#[cfg(test)]\nmod tests {{\n    #[test]\n    fn one() {{ assert_eq!(super::f(), 1) }}\n}}\n"
    source = "pub fn f() -> i32 {{ {} }}\n" + test
    manifest = '[package]\nname = "cr"\nversion = "0.1.0"\nedition = "2021"\n'
    bench.commit({"Cargo.toml": manifest, "src/lib.rs": source.format(1)})
    answer = bench.verify({"src/lib.rs": source.format(2)}, "cargo test --offline --lib")
    assert (answer.verdict, answer.newly_failing) == ("failed", ("src/lib.rs::tests::one",))
