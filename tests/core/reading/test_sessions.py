"""Sessions keep their files, belong to one resume at a time, and never lie outside their folder."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from delegation.errors import ConflictError, NotFoundError, StackError, UsageError
from delegation.reading.changes import Changes, changes, for_the_caller
from delegation.reading.config import Provider, ReaderConfig
from delegation.reading.packing.pack import pack
from delegation.reading.packing.rendering import rendered
from delegation.reading.sessions import Session, SessionStore, pinned_provider, session_id

ROOT = Path(__file__).parents[3]
HOLD = "with store.resume(sys.argv[1]) as held:\n    print('held', flush=True)\n    input()\n"


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "sessions")


def begun(store: SessionStore, **more) -> Session:
    given = {"provider": "p", "model": "m", "prompt": "why?", "answer": "so", **more}
    return store.create("analyze", **given)


def child(folder: Path, code: str, *words: str) -> "subprocess.Popen[str]":
    head = (
        "import sys, os\nfrom pathlib import Path\nfrom delegation.reading.sessions import SessionStore\n"
        f"store = SessionStore(Path({str(folder)!r}))\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", head + code, *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
    )  # fmt: skip


def test_a_resume_has_the_files_as_they_were_packed(store, write):
    root = write({"a.py": "old = 1\n", "b.py": "x\n"})
    first = pack(root)
    session = begun(store, source=root, pack=first)
    (root / "a.py").write_text("new = 2\n")
    (root / "b.py").unlink()
    (root / "c.py").write_text("y\n")
    with store.resume(session.id) as held:
        assert held.session.corpus is not None
        kept = store.corpora.load(held.session.corpus)
        assert rendered(kept) == rendered(first)
        held.append("and?", "also")
    again = store.read(session.id)
    assert [(turn.prompt, turn.answer) for turn in again.turns] == [("why?", "so"), ("and?", "also")]
    told = changes(kept.manifest, pack(root).manifest)
    assert (told.changed, told.added, told.gone) == (("a.py",), ("c.py",), ("b.py",))
    assert str(told) == (
        "Since the files were packed, some are different now (changed: a.py; new: c.py; gone: b.py). "
        "You see them as they were packed."
    )
    assert not changes(kept.manifest, kept.manifest)


def test_equal_packs_are_kept_once(store, write, tmp_path):
    root = write({"a.py": "x\n"})
    one, two = begun(store, pack=pack(root)), begun(store, pack=pack(root))
    assert one.corpus == two.corpus
    assert len(list((tmp_path / "sessions/corpora").iterdir())) == 1


def test_of_two_resumes_at_once_one_wins_and_the_other_is_told_who_has_it(store, tmp_path):  # SE01
    session = begun(store)
    winner = child(tmp_path / "sessions", HOLD + "    held.append('q', 'a')\n", session.id)
    assert winner.stdout is not None
    assert winner.stdout.readline() == "held\n"
    with pytest.raises(ConflictError, match=rf"busy \(pid {winner.pid}, since 20"), store.resume(session.id):
        pass
    winner.communicate("go\n", timeout=20)
    with store.resume(session.id) as held:
        held.append("q2", "a2")
    assert [turn.prompt for turn in store.read(session.id).turns] == ["why?", "q", "q2"]


def test_fifty_turns_from_two_processes_are_all_kept(store, tmp_path):  # SE01
    session = begun(store)
    code = (
        "from delegation.errors import ConflictError\nimport time\ndone = 0\nend = time.monotonic() + 40\n"
        "while done < 25 and time.monotonic() < end:\n"
        "    try:\n        with store.resume(sys.argv[1]) as held:\n"
        "            held.append(f'{sys.argv[2]}{done}', 'x' * 9000)\n            done += 1\n"
        "    except ConflictError:\n        pass\n"
    )
    both = [child(tmp_path / "sessions", code, session.id, who) for who in "AB"]
    for each in both:
        _, said = each.communicate(timeout=60)
        assert (each.returncode, said) == (0, "")
    prompts = [turn.prompt for turn in store.read(session.id).turns]
    assert sorted(prompts[1:]) == sorted(f"{who}{number}" for who in "AB" for number in range(25))


def test_the_lock_of_a_killed_process_is_free(store, tmp_path):  # SE01
    session = begun(store)
    owner = child(tmp_path / "sessions", HOLD, session.id)
    assert owner.stdout is not None
    owner.stdout.readline()
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    with store.resume(session.id) as held:
        held.append("q", "a")
    assert [path.name for path in (tmp_path / "sessions").iterdir()] == [f"{session.id}.json"]


BAD_IDS = [
    "../../x", "/etc/x", "a/b", "..", "", "x" * 300, "x\0y", "..\\..\\x", "x.json/../../y", "․․/x", "a\nb", "-x", "CON",
    " ", "A", "a", "rd-20261130t113652417-k7x2/../x", "rd-20261130t113652417-k7x2\n", "dg-20261130t113652417-k7x2",
    "RD-20261130T113652417-K7X2", "rd-２0261130t113652417-k7x2",
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD_IDS)
def test_what_is_no_id_is_refused_and_touches_nothing(store, tmp_path, bad):  # SE02
    session = begun(store)
    before = sorted(path for path in tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="is not a session id"):
        session_id(bad)
    with pytest.raises(UsageError):
        store.read(bad)
    with pytest.raises(UsageError), store.resume(bad):
        pass
    with pytest.raises(UsageError):
        store.write(session.model_copy(update={"id": bad}))
    with pytest.raises(UsageError):
        store.corpora.load(bad)
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_a_link_in_the_store_is_not_followed(store, tmp_path):  # SE02
    session = begun(store)
    outside = tmp_path / "outside.json"
    (tmp_path / "sessions" / f"{session.id}.json").rename(outside)
    (tmp_path / "sessions" / f"{session.id}.json").symlink_to(outside)
    before = outside.read_bytes()
    with pytest.raises(UsageError, match="is a link"):
        store.read(session.id)
    with pytest.raises(UsageError, match="is a link"), store.resume(session.id):
        pass
    assert outside.read_bytes() == before


def test_a_lock_that_is_a_link_is_not_followed(store, tmp_path):  # SE02
    session = begun(store)
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "sessions" / f".{session.id}.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(UsageError, match="cannot lock"), store.resume(session.id):
        pass
    assert (tmp_path / "precious").read_text() == "precious"


def test_an_unknown_session_is_not_found(store):
    with pytest.raises(NotFoundError, match="there is no session"):
        store.read("rd-20261130t113652417-k7x2")


def test_a_session_is_over_after_its_days_without_use(tmp_path, write):
    clock = [datetime(2026, 11, 1, tzinfo=UTC)]
    store = SessionStore(tmp_path / "sessions", keep_days=30, now=lambda: clock[0])
    root = write({"a.py": "x\n"})
    session = begun(store, pack=pack(root))
    clock[0] += timedelta(days=29)
    with store.resume(session.id) as held:
        held.append("q", "a")
    clock[0] += timedelta(days=29)
    assert store.read(session.id).turns[-1].prompt == "q"
    clock[0] += timedelta(days=2)
    with pytest.raises(UsageError, match="expired: it was last used on 2026-11-30 and is kept for 30 days"):
        store.read(session.id)


def test_prune_removes_what_is_over_and_files_that_no_session_names(tmp_path, write):
    clock = [datetime(2026, 11, 1, tzinfo=UTC)]
    store = SessionStore(tmp_path / "sessions", keep_days=30, now=lambda: clock[0])
    root = write({"a.py": "x\n"})
    old = begun(store, pack=pack(root))
    (root / "a.py").write_text("y\n")
    clock[0] += timedelta(days=31)
    young = begun(store, pack=pack(root))
    (tmp_path / "sessions/README").write_text("somebody's")
    for path in (tmp_path / "sessions/corpora").iterdir():
        os.utime(path, (1, 1))
    done = store.prune()
    assert (done.sessions, done.corpora) == (1, 1)
    assert store.ids() == [young.id]
    assert young.corpus is not None
    assert old.corpus is not None
    assert store.corpora.load(young.corpus).texts == ("y\n",)
    with pytest.raises(NotFoundError, match="no longer kept"):
        store.corpora.load(old.corpus)
    assert (tmp_path / "sessions/README").exists()
    assert store.prune().sessions == 0


def test_prune_leaves_a_session_that_is_in_use_and_files_just_written(tmp_path, write):
    clock = [datetime(2026, 11, 1, tzinfo=UTC)]
    store = SessionStore(tmp_path / "sessions", keep_days=30, now=lambda: clock[0])
    session = begun(store)
    store.corpora.keep(pack(write({"a.py": "x\n"})))
    with store.resume(session.id) as held:
        clock[0] += timedelta(days=31)
        assert store.prune() == type(store.prune())(0, 0, 0)
        held.append("late", "answer")
    assert store.read(session.id).turns[-1].prompt == "late"


def test_damaged_files_are_said_to_be_damaged(store, write, tmp_path):
    session = begun(store, pack=pack(write({"a.py": "x\n"})))
    path = tmp_path / "sessions" / f"{session.id}.json"
    assert session.corpus is not None
    kept = tmp_path / "sessions/corpora" / f"{session.corpus}.pack"
    kept.write_bytes(kept.read_bytes().replace(b"x\n", b"y\n"))
    with pytest.raises(UsageError, match="is damaged"):
        store.corpora.load(session.corpus)
    other = begun(store)
    path.write_bytes((tmp_path / "sessions" / f"{other.id}.json").read_bytes())
    with pytest.raises(UsageError, match="holds another session"):
        store.read(session.id)
    path.write_text('{"messages": []}')
    with pytest.raises(UsageError, match="damaged or another tool's"):
        store.read(session.id)


def test_sessions_are_private_and_written_whole(store, tmp_path):
    session = begun(store)
    path = tmp_path / "sessions" / f"{session.id}.json"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert json.loads(path.read_text())["provider"] == "p"


def test_a_folder_that_cannot_be_written_says_what_to_set(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StackError, match="set session_dir"):
        begun(SessionStore(tmp_path / "file" / "sessions"))


def test_a_session_goes_on_with_its_own_provider_or_not_at_all(store, tmp_path):
    def config(*names: str) -> ReaderConfig:
        made = (Provider(name=name, base_url="http://h/v1", api_key="k", default_model="new") for name in names)
        return ReaderConfig(path=tmp_path / "config.json", providers=tuple(made))

    session = begun(store, provider="b", model="old")
    assert pinned_provider(session, config("a", "b")).name == "b"
    with pytest.raises(UsageError, match=r"belongs to provider 'b', which .* no longer has or disables"):
        pinned_provider(session, config("a", "c"))


def test_a_session_is_found_by_its_ending_and_an_unknown_one_leads_to_the_list(store):
    session = begun(store)
    assert store.resolve(session.id[-4:]) == session.id
    assert store.resolve(f" {session.id} ") == session.id
    for name in ("zzzz", session.id[-3:], "rd-20261130t113652417-k7x2"):
        with pytest.raises((NotFoundError, UsageError), match="`delegate sessions`"):
            store.read(store.resolve(name))


def test_who_asked_hears_of_the_reader_and_the_reader_of_itself():
    found = Changes(changed=("a.py",))
    assert str(found).endswith("You see them as they were packed.")
    assert for_the_caller(str(found)).endswith("The reader sees them as they were packed.")
