"""The jail of agy: tried from inside where there is bubblewrap, and read as text where it is sandbox-exec's."""

import shutil
import subprocess
from pathlib import Path

import pytest

from delegation.confinement import Walls
from delegation.errors import WorkFailed
from delegation.harnesses import agy_jail, gemini
from delegation.harnesses.agy_git import check_git_settings
from delegation.harnesses.agy_jail import STATE, Jail, jail_profile
from delegation.harnesses.gemini import Gemini
from delegation.harnesses.running import run_harness
from tests.doubles.agy import agy_settings, run_agy
from tests.doubles.harness_jobs import job, repository

inside = pytest.mark.skipif(shutil.which("bwrap") is None, reason="the jail needs bubblewrap")


def tried(place: Path, command: str) -> str:
    """What a shell inside the jail said, and its exit code."""
    result = run_agy(place, command=f"({command}); echo code $?", response="")
    assert result.status == "done", result.failure_message
    return result.answer or ""


@inside
@pytest.mark.parametrize(
    "command",
    [
        "cat {user}/secret",
        "ls {user}/.ssh",
        "ls /root",
        "ls /home",
        "ls /mnt",
        "ls /media",
        "ls /srv",
        "ls /var/lib",
        "cat /etc/shadow",
        "cat {delegate}/harnesses/kept",
        "ls {delegate}/harnesses",
        "echo x > {user}/.gemini/antigravity-cli/settings.json",
        "echo x > {user}/.gemini/antigravity-cli/config/x",
        "echo x > {user}/.gemini/antigravity-cli/builtin/x",
        "echo x > {user}/.gemini/antigravity-cli/bin/x",
        "echo x > {user}/.gemini/new",
        "echo x > {user}/.local/bin/agy",
        "echo x > /usr/bin/planted",
        "rm -rf {user}/.gemini/antigravity-cli/settings.json",
        "ln -s {user}/secret link && cat link",
        "cat /proc/1/root/{user}/secret",
        "env | grep -q SECRET_KEY",
    ],
)
def test_what_the_jail_does_not_name_cannot_be_reached_from_inside(tmp_path: Path, command: str):
    (tmp_path / "user" / ".ssh").mkdir(parents=True)
    (tmp_path / "user" / "secret").write_text("hidden words")
    for name in ("builtin", "bin"):
        (tmp_path / "user" / ".gemini" / "antigravity-cli" / name).mkdir(parents=True)
    kept = tmp_path / "delegate" / "harnesses" / "kept"
    kept.parent.mkdir(parents=True)
    kept.write_text("hidden words")
    said = tried(tmp_path, command.format(user=tmp_path / "user", delegate=tmp_path / "delegate"))
    assert "hidden words" not in said
    assert "kept" not in said.replace(str(kept), "")
    assert not said.endswith("code 0\n")


@inside
def test_a_folder_on_the_way_to_a_given_one_shows_nothing_else_and_keeps_nothing(tmp_path: Path):
    """Inside, such a folder exists, empty but for the way; what is written there is gone with the jail."""
    (tmp_path / "user" / "secret").parent.mkdir()
    (tmp_path / "user" / "secret").write_text("hidden words")
    said = tried(tmp_path, f"ls -A {tmp_path / 'user'}; echo x > {tmp_path / 'user' / 'outside'}")
    assert set(said.split()) <= {".gemini", ".cache", ".local", "code", "0"}
    assert not (tmp_path / "user" / "outside").exists()


@inside
def test_programs_that_the_system_did_not_install_are_not_even_listed(tmp_path: Path):
    """On Linux what /Applications is on macOS."""
    assert tried(tmp_path, "ls -A /opt") in ("code 0\n", "code 2\n")


@inside
def test_what_the_jail_gives_can_be_used(tmp_path: Path):
    state = tmp_path / "user" / ".gemini" / "antigravity-cli"
    writes = " && ".join(f"echo x > {state / name}/x" for name in STATE)
    said = tried(
        tmp_path,
        f"{writes} && cat {state}/settings.json && echo x > made && git status --short && python3 -c 'print(6 * 7)' "
        "&& echo x > $TMPDIR/x && cat /etc/hosts > /dev/null",
    )
    assert said.endswith("code 0\n"), said
    assert "?? made" in said
    assert "42" in said


@inside
def test_a_program_that_opens_others_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert tried(tmp_path / "before", "echo ab | tac") == "ab\ncode 0\n"
    monkeypatch.setattr(agy_jail, "OPENERS", ("tac",))
    said = tried(tmp_path / "after", "echo ab | tac")
    assert "Permission denied" in said


@inside
def test_our_state_is_out_of_reach_even_below_a_folder_that_is_given(tmp_path: Path):
    """The tree holds the state folder of another harness: what is there stays hidden."""
    tree = repository(tmp_path / "tree")
    state = tree / "state"
    state.mkdir()
    (state / "slots").write_text("hidden words")
    settings = agy_settings(tmp_path, command="cat state/slots; echo x > state/planted; ls state", response="")
    settings = settings.model_copy(update={"codex_state_dir": state})
    result = run_harness(Gemini(settings), job(tmp_path, "gemini", idle_seconds=None), settings)
    assert "hidden words" not in (result.answer or "")
    assert not (state / "planted").exists()


@inside
def test_a_jail_that_does_not_hold_stops_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As if the walls showed the user's whole home."""
    whole = gemini.jail_walls

    def holey(jail: Jail) -> Walls:
        walls = whole(jail)
        return Walls(**{**vars(walls), "readable": (*walls.readable, jail.user_home)})

    monkeypatch.setattr(gemini, "jail_walls", holey)
    settings = agy_settings(tmp_path, command="echo x > ran")
    with pytest.raises(WorkFailed, match="does not hold") as failed:
        run_harness(Gemini(settings), job(tmp_path, "gemini"), settings)
    assert failed.value.kind == "confinement"
    assert not (tmp_path / "tree" / "ran").exists()
    assert not list((tmp_path / "user" / ".cache" / "delegate-agy").iterdir())


def test_without_any_jail_nothing_runs_whatever_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def none(mode: str) -> None:
        raise WorkFailed("confinement", f"confinement is {mode}, but bubblewrap is not installed")

    monkeypatch.setattr(agy_jail, "find_confiner", none)
    settings = agy_settings(tmp_path, command="echo x > ran")
    with pytest.raises(WorkFailed, match="required"):
        run_harness(Gemini(settings), job(tmp_path, "gemini", confinement="off"), settings)
    assert not (tmp_path / "tree" / "ran").exists()


@inside
def test_unsafe_git_settings_are_refused_with_the_word_for_it(tmp_path: Path):
    settings = agy_settings(tmp_path)
    wanted = job(tmp_path, "gemini")
    subprocess.run(["git", "config", "core.fsmonitor", "/bin/evil"], cwd=wanted.tree, check=True)
    with pytest.raises(WorkFailed, match="jail_git_config") as failed:
        run_harness(Gemini(settings), wanted, settings)
    assert failed.value.kind == "confinement"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("core.sshCommand", "evil"),
        ("core.hooksPath", "/evil"),
        ("filter.x.smudge", "evil"),
        ("credential.helper", "!evil"),
        ("alias.st", "!evil"),
        ("include.path", "/evil"),
        ("diff.x.textconv", "evil"),
        ("url.https://evil/.insteadOf", "https://github.com/"),
        ("http.proxy", "evil:1"),
    ],
)
def test_each_setting_that_starts_a_program_or_reaches_elsewhere_is_refused(tmp_path: Path, name: str, value: str):
    repo = repository(tmp_path / "repo")
    check_git_settings(repo)
    subprocess.run(["git", "config", name, value], cwd=repo, check=True)
    with pytest.raises(WorkFailed, match="jail_git_config"):
        check_git_settings(repo)


def test_a_branch_that_follows_another_is_refused_with_the_way_out(tmp_path: Path):
    repo = repository(tmp_path / "repo")
    subprocess.run(["git", "branch", "other"], cwd=repo, check=True)
    subprocess.run(["git", "branch", "--set-upstream-to", "other"], cwd=repo, check=True, stdout=subprocess.DEVNULL)
    with pytest.raises(WorkFailed, match="run: git branch --unset-upstream"):
        check_git_settings(repo)
    subprocess.run(["git", "branch", "--unset-upstream"], cwd=repo, check=True)
    check_git_settings(repo)


def test_a_harmless_alias_and_a_folder_without_git_are_let_in(tmp_path: Path):
    repo = repository(tmp_path / "repo")
    subprocess.run(["git", "config", "alias.st", "status"], cwd=repo, check=True)
    check_git_settings(repo)
    (tmp_path / "plain").mkdir()
    check_git_settings(tmp_path / "plain")


def test_settings_that_git_cannot_read_let_nothing_in(tmp_path: Path):
    repo = repository(tmp_path / "repo")
    with (repo / ".git" / "config").open("a") as config:
        config.write("[broken\n")
    with pytest.raises(WorkFailed, match="jail_git_config: git cannot read") as failed:
        check_git_settings(repo)
    assert failed.value.kind == "confinement"


MAC = Jail(
    workdir=Path("/Users/u/work/tree"),
    home=Path("/Users/u/Library/Caches/delegate-agy/1"),
    temp=Path("/private/var/folders/x/T/run"),
    user_home=Path("/Users/u"),
    program=Path("/opt/homebrew/bin/agy"),
    states=(Path("/private/var/folders/x/T/delegate"),),
)


def rules() -> list[str]:
    return jail_profile(MAC).splitlines()


def place_of(rule: str) -> int:
    return next(number for number, line in enumerate(rules()) if rule in line)


def test_the_profile_denies_everything_first():
    assert rules()[:2] == ["(version 1)", "(deny default)"]


def test_the_profile_gives_back_only_the_named_places():
    given = next(line for line in rules() if line.startswith("(allow file-read* (subpath"))
    named = ["/usr", "/bin", "/sbin", "/System", "/Library/Developer", "/opt/homebrew", "/private/etc"]
    named += ["/private/var/db/timezone", "/private/var/folders", "/dev"]
    assert [path for path in named if f'(subpath "{path}")' not in given] == []
    assert "/Library/Preferences" not in given


def test_the_profile_denies_even_the_names_in_other_peoples_places():
    denied = rules()[place_of('(deny file-read* file-write* (subpath "/Volumes")')]
    for path in ("/Volumes", "/Users", "/Applications", "/private/tmp", "/private/var/root"):
        assert f'(subpath "{path}")' in denied
    assert place_of('(deny file-read* file-write* (subpath "/Volumes")') < place_of(
        '(allow file-read* file-write* (subpath "/Users/u/work/tree"))'
    )
    assert '(allow file-read-metadata (subpath "/Users/u/Library"))' in rules()


def test_the_profile_lets_the_program_write_its_state_and_never_its_settings():
    for name in STATE:
        assert f'(allow file-read* file-write* (subpath "/Users/u/.gemini/antigravity-cli/{name}"))' in rules()
    fixed = place_of('(deny file-write* (subpath "/Users/u/.gemini/antigravity-cli/config")')
    for name in ("config", "settings.json", "builtin", "bin"):
        assert f'(subpath "/Users/u/.gemini/antigravity-cli/{name}")' in rules()[fixed]
    assert fixed > place_of('(deny file-write* (subpath "/Users/u/.gemini"))')


def test_the_profile_shows_keychains_only_for_reading():
    assert '(allow file-read* (subpath "/Users/u/Library/Keychains"))' in rules()
    assert '(deny file-write* (subpath "/Users/u/Library/Keychains"))' in rules()


def test_the_profile_starts_no_opener_and_nothing_of_applications():
    last = rules()[-1]
    assert last.startswith("(deny process-exec ")
    for path in ('(literal "/usr/bin/open")', '(literal "/usr/bin/osascript")', '(subpath "/Applications")'):
        assert path in last


def test_the_profile_denies_our_state_below_the_writable_temp():
    temp = place_of('(allow file-write* (subpath "/private/var/folders"))')
    state = place_of('(deny file-read* file-write* (subpath "/private/var/folders/x/T/delegate"))')
    assert state > temp


def test_a_quote_in_a_path_cannot_end_its_rule():
    jail = Jail(**{**vars(MAC), "workdir": Path('/Users/u/a") (allow default) ("')})
    assert '(subpath "/Users/u/a\\") (allow default) (\\"")' in jail_profile(jail)
    assert "\n(allow default)" not in jail_profile(jail)
