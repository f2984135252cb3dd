"""The channel `file`: a question is a file in a private directory, its answer another one beside it."""

from __future__ import annotations

import contextlib
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from jaato.abc.asker import Answer, Question
from jaato.errors import ConfigError, JaatoError
from jaato.log import logger
from jaato.plugins.permission.written import in_a_thread, read_answer, written
from jaato.protocol.ids import is_id
from jaato.tools.file_errors import FileMissing
from jaato.tools.folder import Folder

LOG = logger("permission")
DIRECTORY = "questions"
QUESTION, ANSWER = ".question.json", ".answer.json"
MAX_ANSWER_BYTES = 65_536
MAX_QUESTION_BYTES = 16_000_000
LOOK_S = 0.1


class FileChannel:
    """Writes each question as `ID.question.json` and waits for `ID.answer.json`, which whoever answers puts there whole
    (written beside it, then renamed).

    The directory is `endpoint`, by default `questions` in `state_dir`; it belongs to this user alone (0700). An answer
    is read once and removed; one to another question or of another digest is removed and does not count. Raises
    `ConfigError`.
    """

    def __init__(self, endpoint: str | None, timeout_s: float | None, *, state_dir: Path) -> None:
        place = Path(endpoint) if endpoint else state_dir / DIRECTORY
        if not place.is_absolute() or "\0" in str(place) or place.name in ("", ".."):
            raise ConfigError(
                'The endpoint of the permission channel "file" is a directory, by its absolute path.'
            )
        self._place = place
        self._timeout_s = timeout_s
        self._folder = Folder(place.parent, place.name)

    def ask(self, question: Question) -> Answer | None:
        """The answer, waited for in this thread. Raises `TimeoutError` when the time is over."""
        return in_a_thread(lambda: self.asked(question))

    async def asked(self, question: Question) -> Answer | None:
        """The answer; None when the directory cannot be used. Raises `TimeoutError` when the time is over."""
        try:
            await anyio.to_thread.run_sync(self._put, question)
            with anyio.fail_after(self._timeout_s):
                while True:
                    answer = await anyio.to_thread.run_sync(self._look, question)
                    if answer is not None:
                        return answer
                    await anyio.sleep(LOOK_S)
        except TimeoutError:
            raise
        except (JaatoError, OSError) as error:
            LOG.warning("The permission questions in %s cannot be asked: %s", self._place, error)
            return None
        finally:
            self._remove(question.id + QUESTION)
            self._remove(question.id + ANSWER)

    def _put(self, question: Question) -> None:
        private(self._place)
        self._sweep()
        self._folder.write(question.id + QUESTION, written(question), mode=0o600)

    def _look(self, question: Question) -> Answer | None:
        """The answer, if one is there; what is none is logged and removed, half of one is waited for."""
        name = question.id + ANSWER
        info = self._folder.stat(name)
        if info is None:
            return None
        try:
            if info.st_uid != os.geteuid() or not stat.S_ISREG(info.st_mode):
                raise ConfigError("it is no file of this user's")
            data = self._folder.read(name, MAX_ANSWER_BYTES) or b""
            if not data.rstrip().endswith(b"}"):
                return None  # still being written
            return read_answer(data, question, by="file")
        except JaatoError as error:
            LOG.warning("%s/%s does not count: %s", self._place, name, error)
            self._remove(name)
            return None

    def _sweep(self) -> None:
        """Remove answers nobody waits for any more, and questions whose time is over."""
        names = self._folder.names()
        open_ids = {name.removesuffix(QUESTION) for name in names if name.endswith(QUESTION)}
        for name in names:
            question_id, _, kind = name.partition(".")
            if not is_id(question_id, "q"):
                continue
            left = kind == ANSWER[1:] and question_id not in open_ids
            if left or (kind == QUESTION[1:] and self._is_over(name)):
                self._remove(name)

    def _is_over(self, name: str) -> bool:
        """Whether the deadline of a question has passed; whoever asked it has died, or it would be gone."""
        with contextlib.suppress(JaatoError, msgspec.MsgspecError, ValueError, TypeError, AttributeError):
            data = self._folder.read(name, MAX_QUESTION_BYTES) or b"{}"
            deadline = msgspec.json.decode(data).get("deadline")
            return deadline is not None and datetime.fromisoformat(deadline) < datetime.now(UTC)
        return False

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileMissing, JaatoError, OSError):
            self._folder.remove(name)


def private(place: Path) -> None:
    """Make the directory, or see that it is this user's alone. Raises `ConfigError`, OSError."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        place.mkdir(mode=0o700)
    info = place.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or stat.S_IMODE(info.st_mode) & 0o077:
        raise ConfigError(f"{place} is no directory of this user's alone; chmod 700 it, or name another.")
