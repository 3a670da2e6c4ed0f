"""Tried from inside: what an agent behind the walls can see, change and reach."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from delegation.confinement import Walls
from delegation.confinement.bubblewrap import Bubblewrap
from delegation.errors import WorkFailed

CONNECT = "python3 -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 2); print('connected')\""


def test_the_tree_the_temp_and_the_private_home_can_be_written(cell):
    done = cell.run('echo 1 > here && echo 2 > "$TMPDIR/t" && echo 3 > /tmp/u && echo 4 > "$HOME/h"')
    assert done.exit_code == 0, done.stderr.text
    assert (cell.tree / "here").exists()
    assert {path.name for path in (cell.place / "temp").iterdir()} >= {"t", "u"}


def test_temp_is_kept_from_one_command_to_the_next_and_is_not_the_hosts(cell):
    cell.run("echo kept > /tmp/note")
    assert cell.run("cat /tmp/note /var/tmp/note").stdout.text == "kept\nkept\n"
    assert not Path("/tmp/note").exists()


@pytest.mark.parametrize("path", [".ssh/id_rsa", ".local/share/delegate/secrets/abc", ".ssh", ".bashrc"])
def test_the_users_home_and_ours_cannot_be_read(cell, path):
    (cell.user_home / ".bashrc").write_text("a secret")
    done = cell.run(["cat", str(cell.user_home / path)])
    assert done.exit_code == 1
    assert "No such file" in done.stderr.text


def test_nothing_outside_can_be_written(cell):
    outside = [
        cell.user_home / "x",
        cell.our_home / "secrets" / "x",
        cell.our_home / "x",
        Path("/usr/x"),
        Path("/etc/x"),
    ]
    for path in outside:
        cell.run(["touch", str(path)])
    assert [path for path in outside if path.exists()] == []


@pytest.mark.parametrize("path", ["/etc/shadow", "/etc/sudoers", "/etc/ssh", "/run/docker.sock", "/var/log", "/boot"])
def test_the_systems_own_secrets_are_not_there(cell, path):
    assert cell.run(["test", "-e", path]).exit_code == 1


def test_system_programs_and_names_work(cell):
    done = cell.run("git --version && python3 --version && id && getent passwd root && ls /etc/ssl/certs | head -1")
    assert done.exit_code == 0, done.stderr.text


def test_no_process_of_the_host_is_visible_and_no_capability_is_left(cell):
    done = cell.run(
        "ls -d /proc/[0-9]* | wc -l; grep CapEff /proc/self/status; cat /proc/1/environ | tr '\\0' '\\n' | wc -l"
    )
    processes, capabilities, variables = done.stdout.text.splitlines()
    assert int(processes) < 10
    assert capabilities.split()[1] == "0" * 16
    assert int(variables) <= len(cell.env) + 3


@contextlib.contextmanager
def listening(family: int, address: object) -> Iterator[socket.socket]:
    with socket.socket(family) as server:
        server.bind(address)  # pyright: ignore[reportArgumentType]
        server.listen()
        yield server


def test_loopback_is_reachable_only_with_the_network_on(cell):
    with listening(socket.AF_INET, ("127.0.0.1", 0)) as server:
        command = CONNECT.format(port=server.getsockname()[1])
        assert cell.run(command).stdout.text == "connected\n"
        assert cell.run(command, cell.walls(network=False)).exit_code == 1


def test_without_the_network_a_command_still_has_its_own_loopback(cell):
    script = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()); print(1)"
    )
    assert cell.run(["python3", "-c", script], cell.walls(network=False)).stdout.text == "1\n"


def test_sockets_of_the_stack_cannot_be_reached_where_they_usually_lie(cell):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, listening(socket.AF_UNIX, f"{folder}/s"):
        code = f"import socket; socket.socket(socket.AF_UNIX).connect('{folder}/s')"
        subprocess.run([sys.executable, "-c", code], check=True)
        assert "No such file" in cell.run(["python3", "-c", code]).stderr.text
    assert cell.run("ls -A /run /run/user 2>/dev/null").stdout.text.strip() in ("", "/run:")


def test_a_socket_inside_a_shown_folder_can_be_hidden(cell):
    with contextlib.chdir(cell.tree), listening(socket.AF_UNIX, "s"):
        code = "import socket; socket.socket(socket.AF_UNIX).connect('s')"
        assert cell.run(["python3", "-c", code]).exit_code == 0
        walls = Walls(writable=(cell.tree,), hidden=(cell.tree / "s",))
        assert "refused" in cell.run(["python3", "-c", code], walls).stderr.text


def test_the_agents_git_commits_and_the_main_store_is_untouched(cell, linked):
    before = everything_in(linked.common_dir, without=linked.git_dir)
    cell.env |= linked.variables
    walls = cell.walls(git=linked)
    done = cell.run(
        "echo two >> file; echo new > new; git add -A && git commit -qm change && git log --format=%s", walls
    )
    assert done.stdout.text == "change\nbase\n", done.stderr.text
    assert everything_in(linked.common_dir, without=linked.git_dir) == before
    assert any(linked.objects.rglob("*"))


@pytest.mark.parametrize(
    "command",
    ["git branch evil", "git update-ref refs/heads/other HEAD", "git stash", "echo x > {common}/hooks/post-commit"],
)
def test_the_agents_git_cannot_change_the_repository(cell, linked, command):
    before = everything_in(linked.common_dir, without=linked.git_dir)
    cell.env |= linked.variables
    (cell.tree / "file").write_text("changed\n")
    done = cell.run(command.format(common=linked.common_dir), cell.walls(git=linked))
    assert done.exit_code not in (0, None)
    assert everything_in(linked.common_dir, without=linked.git_dir) == before


def everything_in(folder: Path, without: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_relative_to(without))
    return {str(path): path.read_bytes() for path in files}


def test_a_repository_that_borrows_objects_can_be_read(cell, linked):
    store = cell.user_home / "store"
    shutil.move(linked.common_dir / "objects", store)
    (linked.common_dir / "objects" / "info").mkdir(parents=True)
    (linked.common_dir / "objects" / "info" / "alternates").write_text(f"# a comment\n{store}\n/no/such/store\n")
    cell.env |= linked.variables
    done = cell.run("git show HEAD:file", cell.walls(git=linked))
    assert done.stdout.text == "one\n", done.stderr.text


def test_a_longer_path_lies_on_top_of_a_shorter_one(cell, tmp_path):
    for folder in ("open", "open/closed", "open/closed/shown", "open/closed/shown/own"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "f").write_text(f"{folder}\n")
    walls = Walls(
        writable=(cell.tree, tmp_path / "open/closed/shown/own"),
        readable=(tmp_path / "open", tmp_path / "open/closed/shown"),
        hidden=(tmp_path / "open/closed",),
    )
    done = cell.run(
        f"cd {tmp_path}; cat open/f open/closed/shown/f; cat open/closed/f; find open -name f | sort", walls
    )
    assert done.stdout.text.split() == [
        "open",
        "open/closed/shown",
        "open/closed/shown/f",
        "open/closed/shown/own/f",
        "open/f",
    ]
    done = cell.run(f"cd {tmp_path}/open; touch closed/shown/own/new && ! touch new && ! touch closed/shown/new", walls)
    assert done.exit_code == 0
    assert (tmp_path / "open/closed/shown/own/new").exists()


def test_a_secret_file_inside_a_shown_folder_can_be_hidden(cell):
    (cell.tree / ".env").write_text("KEY=fake")
    assert cell.run("cat .env", cell.walls()).stdout.text == "KEY=fake"
    walls = Walls(writable=(cell.tree,), hidden=(cell.tree / ".env",))
    assert cell.run("cat .env", walls).stdout.text == ""


def test_our_home_inside_the_tree_is_hidden(cell):
    inside = cell.tree / ".delegate"
    inside.mkdir()
    (inside / "secret").write_text("a secret")
    assert cell.run("ls -A .delegate", cell.walls(our_home=inside)).stdout.text == ""


def test_a_virtual_environment_on_path_works_and_cannot_be_changed(cell):
    venv = cell.user_home / "project" / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    cell.env["PATH"] = f"{venv}/bin:/usr/bin:/bin"
    done = cell.run(f"python -c 'import sys, json; print(sys.prefix)'; touch {venv}/x")
    assert done.stdout.text == f"{venv}\n", done.stderr.text
    assert "Read-only" in done.stderr.text
    assert cell.run(["ls", "-A", str(venv.parent)]).stdout.text == ".venv\n"


def test_a_program_linked_into_the_users_own_bin_works_without_showing_what_lies_beside(cell):
    target = cell.user_home / ".local" / "share" / "tool" / "1.0"
    target.mkdir(parents=True)
    (target / "tool").write_text("#!/bin/sh\necho tool\n")
    (target / "tool").chmod(0o755)
    (cell.user_home / ".local" / "share" / "keyring").write_text("a secret")
    bin_folder = cell.user_home / ".local" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "tool").symlink_to("../share/tool/1.0/tool")
    cell.env["PATH"] = f"{bin_folder}:/usr/bin:/bin"
    assert cell.run("tool").stdout.text == "tool\n"
    assert cell.run(["cat", str(cell.user_home / ".local/share/keyring")]).exit_code == 1


def test_a_folder_that_should_be_writable_and_is_not_there_is_a_failure(cell):
    with pytest.raises(WorkFailed, match="nowhere") as caught:
        cell.run("true", Walls(writable=(cell.tree, cell.tree / "nowhere")))
    assert caught.value.kind == "confinement"


def test_walls_that_cannot_be_put_up_are_a_failure_and_not_an_exit_code(cell):
    with pytest.raises(WorkFailed, match="could not be put up: bwrap:") as caught:
        cell.run("true", Walls(writable=(cell.place / "home",)))  # the command's own folder is not among them
    assert caught.value.kind == "confinement"


def test_a_command_that_fails_like_bubblewrap_is_only_a_command_that_failed(cell):
    assert cell.run("echo 'bwrap: not really' >&2; exit 1").exit_code == 1


def test_an_unprivileged_user_gets_the_same_walls():
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root, to become somebody else")
    confiner = Bubblewrap(shutil.which("bwrap") or "bwrap", "")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        place = Path(folder)
        place.chmod(0o755)
        tree, temp, hidden = (place / name for name in ("tree", "temp", "hidden"))
        for path in (tree, temp, hidden):
            path.mkdir()
            os.chown(path, 65534, 65534)
        (hidden / "secret").write_text("a secret")
        walls = Walls(writable=(tree, temp), hidden=(hidden,), network=False, temp=temp)
        script = f"touch ok && touch /tmp/too && ! cat {hidden}/secret && ! touch /usr/x && id -u"
        inner = confiner.wrap(["sh", "-c", script], walls=walls, cwd=tree)
        drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        done = subprocess.run([*drop, *inner], capture_output=True, text=True, cwd=tree, timeout=20)
        assert done.stdout == "65534\n", done.stderr
        assert (tree / "ok").exists()
        assert (temp / "too").exists()


def test_a_home_behind_a_symbolic_link_works_under_both_names(tmp_path, cell, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "linked").symlink_to("elsewhere")
    monkeypatch.setenv("HOME", str(tmp_path / "linked"))
    other = type(cell)(tmp_path / "linked", cell.confiner)
    done = other.run(f'pwd; echo x > "$HOME/x" && echo y > {other.tree.resolve()}/y && ! cat ~+/../../../secrets/abc')
    assert (done.exit_code, done.stdout.text) == (0, f"{other.tree}\n"), done.stderr.text
    assert (other.tree / "y").exists()


@pytest.mark.parametrize("switch", ["sys/vm/swappiness", "sys/kernel/core_pattern", "sysrq-trigger"])
def test_the_kernels_switches_cannot_be_opened_for_writing_even_by_root(cell, switch):
    done = cell.run(["python3", "-c", f"open('/proc/{switch}', 'wb', 0)"])
    assert done.exit_code == 1
    refusals = ("Read-only file system", "Permission denied", "No such file")  # the last: not on every kernel
    assert any(refusal in done.stderr.text for refusal in refusals)


def test_many_at_once_do_not_disturb_each_other(cell):
    codes: list[int | None] = []
    threads = [threading.Thread(target=lambda: codes.append(cell.run("sleep 0.2; exit 7").exit_code)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [7] * 6
