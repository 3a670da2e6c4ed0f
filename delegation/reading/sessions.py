"""Sessions: who answered what about which files, so that `resume` goes on with the same model and the same files."""

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import Field, ValidationError

from delegation.card import Lane
from delegation.errors import ConflictError, NotFoundError, StackError, UsageError
from delegation.files import publish
from delegation.ids import is_id, new_id
from delegation.reading.config import Provider, ReaderConfig
from delegation.reading.corpora import Corpora
from delegation.reading.locks import Busy, held
from delegation.reading.metrics import Tool
from delegation.reading.packing.manifest import Pack
from delegation.values import Value

KEEP_DAYS = 30.0
_ENDING = 4  # characters at the end of an id that may stand for it


class Turn(Value):
    """One question and its answer."""

    prompt: str
    answer: str
    at: datetime


class Session(Value):
    """What is kept. `corpus` names the packed files, `source` the folder they are from (neither for a bare query).

    `lane` is where the files had to stay when they were packed.
    """

    id: str
    tool: Tool
    provider: str
    model: str
    created_at: datetime
    used_at: datetime
    source: str | None = None
    corpus: str | None = None
    lane: Lane | None = None
    turns: tuple[Turn, ...] = Field(min_length=1)


@dataclass(frozen=True)
class Pruned:
    """What a prune removed."""

    sessions: int
    corpora: int
    bytes: int


def session_id(text: str) -> str:
    """The id, if it is one and so may name a file. Raises UsageError."""
    if text.startswith("rd-") and is_id(text):
        return text
    raise UsageError(
        f"{text[:80]!r} is not a session id: it is the word after `session=` in the answer's first line, or "
        "its last four characters or more; `delegate sessions` lists them"
    )


def pinned_provider(session: Session, config: ReaderConfig) -> Provider:
    """The provider that the session began with. Raises UsageError when the configuration no longer has it."""
    provider = config.provider(session.provider)
    if provider is None:
        raise UsageError(
            f"session {session.id!r} belongs to provider {session.provider!r}, which {str(config.path)!r} no longer "
            "has or disables: enable it, or ask again with analyze or query"
        )
    return provider


class Held:
    """A session that nobody else can go on with meanwhile."""

    def __init__(self, store: "SessionStore", session: Session) -> None:
        self._store = store
        self.session = session

    def append(self, prompt: str, answer: str) -> Session:
        """Keep one more turn; on disk when this returns."""
        now = self._store.now()
        turn = Turn(prompt=prompt, answer=answer, at=now)
        self.session = self.session.model_copy(update={"turns": (*self.session.turns, turn), "used_at": now})
        self._store.write(self.session)
        return self.session


class SessionStore:
    """The sessions of one folder, one file of mode 600 each, and the packs they are about."""

    def __init__(
        self, folder: Path, *, keep_days: float = KEEP_DAYS, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._folder = folder
        self._keep = timedelta(days=keep_days)
        self.now = now
        self.corpora = Corpora(folder / "corpora")

    def create(
        self,
        tool: Tool,
        *,
        provider: str,
        model: str,
        prompt: str,
        answer: str,
        source: Path | None = None,
        pack: Pack | None = None,
        name: str | None = None,
        lane: Lane | None = None,
    ) -> Session:
        """Keep a first question, its answer and its files. Raises StackError when the folder cannot be written."""
        now = self.now()
        session = Session(
            id=session_id(name) if name else new_id("rd", now),
            tool=tool,
            provider=provider,
            model=model,
            created_at=now,
            used_at=now,
            source=str(source) if source else None,
            corpus=self.corpora.keep(pack) if pack else None,
            lane=lane,
            turns=(Turn(prompt=prompt, answer=answer, at=now),),
        )
        self.write(session)
        return session

    def resolve(self, text: str) -> str:
        """The id that a person means: a whole one, or a unique ending of at least four characters.

        Raises UsageError when nothing fits that is no whole one, and when several do.
        """
        name = text.strip()
        known = self.ids()
        fitting = [name] if name in known else [each for each in known if len(name) >= _ENDING and each.endswith(name)]
        if len(fitting) > 1:
            raise UsageError(f"{name!r} fits {len(fitting)} sessions, for example {fitting[0]!r}: give more of it")
        return fitting[0] if fitting else session_id(name)

    def read(self, name: str) -> Session:
        """The session. Raises NotFoundError for one that there is not, UsageError for one that is over or damaged."""
        path = self._path(name)
        try:
            if path.is_symlink():
                raise UsageError(f"{str(path)!r} is a link, which no session is: remove it")
            session = Session.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise NotFoundError(
                f"there is no session {name!r} in {str(self._folder)!r}: ask anew; `delegate sessions` lists those "
                "that can be resumed"
            ) from None
        except ValidationError as error:
            raise UsageError(f"{str(path)!r} is damaged or another tool's: ask again with analyze or query") from error
        except OSError as error:
            raise UsageError(f"cannot read session {name!r} in {str(self._folder)!r}: {error.strerror}") from error
        if session.id != name:
            raise UsageError(f"{str(path)!r} holds another session: it was copied or renamed")
        if self._is_over(session):
            raise UsageError(
                f"session {name!r} expired: it was last used on {session.used_at:%Y-%m-%d} and is kept for "
                f"{self._keep.total_seconds() / 86_400:g} days; ask again with analyze or query"
            )
        return session

    @contextmanager
    def resume(self, name: str) -> Generator[Held]:
        """The session, for oneself alone. Raises as `read` does, and ConflictError at once while another resumes it.

        A holder that died holds nothing.
        """
        self.read(name)
        with ExitStack() as stack:
            try:
                stack.enter_context(held(self._lock(name)))
            except Busy as busy:
                raise ConflictError(
                    f"session {name!r} is busy ({busy.holder}): wait until that question is answered, then ask again"
                ) from None
            except OSError as error:
                raise UsageError(f"cannot lock session {name!r} in {str(self._folder)!r}: {error.strerror}") from error
            yield Held(self, self.read(name))

    def write(self, session: Session) -> None:
        """Replace the session's file whole. Raises StackError when that cannot be."""
        path = self._path(session.id)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            publish(path, session.model_dump_json(indent=1))
        except OSError as error:
            raise StackError(
                f"cannot write to {str(self._folder)!r} ({error.strerror}): free space, or set session_dir"
            ) from error

    def ids(self) -> list[str]:
        """All ids, newest first; files of others are not ours."""
        if not self._folder.is_dir():
            return []
        found = (path.name.removesuffix(".json") for path in self._folder.glob("rd-*.json"))
        return sorted((name for name in found if is_id(name)), reverse=True)

    def prune(self) -> Pruned:
        """Remove sessions that are over (never one in use) and packs that no session names."""
        removed = size = 0
        wanted: set[str] = set()
        for name in self.ids():
            session = self._readable(name)
            if session and self._is_over(session) and self._remove(name):
                removed, size = removed + 1, size + len(session.model_dump_json())
            elif session and session.corpus:
                wanted.add(session.corpus)
        corpora, corpora_size = self.corpora.prune(wanted)
        return Pruned(removed, corpora, size + corpora_size)

    def _remove(self, name: str) -> bool:
        """Unless it is in use, or was between our look at it and our lock."""
        with suppress(Busy, OSError), held(self._lock(name)):
            session = self._readable(name)
            if session and self._is_over(session):
                self._path(name).unlink()
                return True
        return False

    def _readable(self, name: str) -> Session | None:
        try:
            return Session.model_validate_json(self._path(name).read_bytes())
        except (OSError, ValidationError):
            return None

    def _is_over(self, session: Session) -> bool:
        return self.now() - session.used_at > self._keep

    def _path(self, name: str) -> Path:
        return self._folder / f"{session_id(name)}.json"

    def _lock(self, name: str) -> Path:
        return self._folder / f".{session_id(name)}.lock"
