"""Permission channels `webhook` and `file`: signed JSON documents that are posted, or files in a private directory."""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import stat
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct

from jaato.abc.asker import Answer, Question
from jaato.errors import ConfigError, JaatoError
from jaato.log import logger
from jaato.protocol.ids import is_id
from jaato.tools.filesystem.errors import FileMissing
from jaato.tools.filesystem.private_directory import PrivateDirectory
from jaato.tools.invisible_text import printable_line
from jaato.tools.network.addresses import AllowedHosts, Url, parse_url
from jaato.tools.network.pinned_connect import CheckedResolver, exchange, read_bounded, request_to
from jaato.tools.network.proxy_settings import is_loopback
from jaato.tools.network.webhooks import SIGNATURE, key_of, signature
from jaato.tools.permissions.access import access_lines
from jaato.tools.task_records import start_thread

if TYPE_CHECKING:
    import httpcore2

MAX_COMMENT_CHARS = 10_000
LOG = logger("permission")
KEY = "webhook-key"
MAX_ANSWER_BYTES = 65_536
TIMEOUT_S = 60.0
DIRECTORY = "questions"
QUESTION, ANSWER = ".question.json", ".answer.json"
MAX_QUESTION_BYTES = 16_000_000
LOOK_S = 0.1


class AnswerDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """An answer as it comes: `question_id` and `digest` are those of the question."""

    question_id: str
    digest: str
    answer: str
    nonce: str | None = None
    arguments: dict[str, Any] | None = None
    comment: str | None = None
    by: str = ""


DECODER: msgspec.json.Decoder[AnswerDocument] = msgspec.json.Decoder(AnswerDocument)


def encode_question(question: Question, **more: str) -> bytes:
    """A question as a document; `opens` says in words what a yes opens."""
    document = {name: value for name, value in msgspec.to_builtins(question).items() if name != "id"}
    opens = access_lines(question.access) if question.access is not None else []
    return msgspec.json.encode({"version": 1, "question_id": question.id, **document, "opens": opens, **more})


def read_answer(data: bytes, question: Question, *, by: str, nonce: str | None = None) -> Answer:
    """The answer a document gives to this question. Raises `ConfigError` for what is none, or is to another one."""
    try:
        given = DECODER.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ConfigError(f"it is no answer: {error}") from None
    if (given.question_id, given.digest, given.nonce) != (question.id, question.digest, nonce):
        raise ConfigError("it is the answer to another question")
    comment = given.comment[:MAX_COMMENT_CHARS] if given.comment else None
    who = printable_line(given.by[:200])
    return Answer(
        answer=given.answer[:100],
        arguments=given.arguments,
        comment=comment,
        by=f"{by} ({who})" if who else by,
    )


def run_in_thread(work: Callable[[], Awaitable[Answer | None]]) -> Answer | None:
    """Run a coroutine in a thread of its own and wait for its result; the caller may have an event loop or none."""

    async def run() -> Answer | None:
        return await work()

    answer: Answer | None = start_thread(lambda: anyio.run(run)).result()
    return answer


@dataclass(frozen=True)
class WebhookNetwork:
    """How the network is reached: the environment's proxies and certificates, and the private addresses allowed."""

    environ: Mapping[str, str]
    allowed: AllowedHosts = AllowedHosts()


class WebhookChannel:
    """Posts each question to `endpoint` and waits for the answer in the response, at most `timeout_s` (60 s).

    Both bodies are signed with the key in `state_dir`/webhook-key; an answer names question, digest and nonce of its
    question, so none can be made up, moved to another call, or used again. Redirects are not followed; only https is
    used, but on this machine; private addresses only when the setting `allow_hosts` names them. Raises `ConfigError`.
    """

    def __init__(
        self, endpoint: str | None, timeout_s: float | None, *, state_dir: Path, reach: WebhookNetwork
    ) -> None:
        if not endpoint:
            raise ConfigError('The permission channel "webhook" needs an endpoint: the address to post to.')
        try:
            self._url = parse_url(endpoint)
        except JaatoError as error:
            raise ConfigError(f"The endpoint of the permission channel: {error}") from None
        if self._url.scheme != "https" and not is_loopback(self._url.host):
            raise ConfigError(f"The permission channel posts to {self._url.host} over plain http; use https.")
        self._timeout_s = timeout_s or TIMEOUT_S
        self._state_dir = state_dir
        self._reach = reach

    def ask(self, question: Question) -> Answer | None:
        """The answer, waited for in this thread. Raises `TimeoutError` when the time is over."""
        return run_in_thread(lambda: self.ask_async(question))

    async def ask_async(self, question: Question) -> Answer | None:
        """The answer; None when none that counts comes. Raises `TimeoutError` when the time is over."""
        try:
            with anyio.fail_after(self._timeout_s):
                return await self._exchange(
                    question, await anyio.to_thread.run_sync(key_of, self._state_dir / KEY)
                )
        except TimeoutError:
            raise
        except (JaatoError, OSError) as error:
            LOG.warning("The permission webhook cannot be asked: %s", error)
            return None

    async def _exchange(self, question: Question, key: bytes) -> Answer | None:
        import httpcore2

        nonce = secrets.token_hex(16)
        sent = datetime.now(UTC).isoformat(timespec="milliseconds")
        body = encode_question(question, nonce=nonce, sent=sent)
        headers = {"Content-Type": "application/json", SIGNATURE: signature(key, nonce, body)}
        request = make_request(self._url, headers, body)
        dialer = CheckedResolver(self._reach.allowed)
        try:
            async with exchange(self._url, request, dialer, self._reach.environ) as (response, _):
                data = await read_body(response)
        except (httpcore2.NetworkError, httpcore2.ProxyError, httpcore2.TimeoutException) as error:
            raise ConfigError(f"{self._url.authority} cannot be reached: {str(error)[:200]}") from None
        except httpcore2.ProtocolError:
            raise ConfigError(f"{self._url.authority} did not keep to HTTP.") from None
        signed = SIGNATURE.lower().encode()
        given = next((value for name, value in response.headers if name.lower() == signed), b"")
        if not hmac.compare_digest(given, signature(key, nonce, data).encode()):
            raise ConfigError(f"{self._url.authority} has not signed its answer with the key in {KEY}.")
        return read_answer(data, question, by=f"webhook {self._url.host}", nonce=nonce)


def make_request(url: Url, headers: Mapping[str, str], body: bytes) -> httpcore2.Request:
    """The request as it goes out; nothing packed is asked for, so nothing unfolds."""
    every = {**headers, "Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "jaato"}
    return request_to(url, "POST", (every | {"Content-Length": str(len(body))}).items(), body)


async def read_body(response: httpcore2.Response) -> bytes:
    """The body of a good answer. Raises `ConfigError` for any other status, a redirect too, and for too much."""
    if response.status != 200:
        raise ConfigError(f"it answers with status {response.status}, and only 200 is an answer.")
    data, is_cut = await read_bounded(response, MAX_ANSWER_BYTES)
    if is_cut:
        raise ConfigError(f"its answer is longer than {MAX_ANSWER_BYTES:,} bytes.")
    return data


class FileChannel:
    """Writes each question as `ID.question.json` and waits for `ID.answer.json`, which must be written atomically
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
        self._folder = PrivateDirectory(place.parent, place.name)

    def ask(self, question: Question) -> Answer | None:
        """The answer, waited for in this thread. Raises `TimeoutError` when the time is over."""
        return run_in_thread(lambda: self.ask_async(question))

    async def ask_async(self, question: Question) -> Answer | None:
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
        ensure_private_directory(self._place)
        self._sweep()
        self._folder.write(question.id + QUESTION, encode_question(question), mode=0o600)

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
        """Remove stale answers, and questions whose deadline has passed."""
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
        """Whether the deadline of a question has passed; the process that asked it was killed, or it would be gone."""
        with contextlib.suppress(JaatoError, msgspec.MsgspecError, ValueError, TypeError, AttributeError):
            data = self._folder.read(name, MAX_QUESTION_BYTES) or b"{}"
            deadline = msgspec.json.decode(data).get("deadline")
            return deadline is not None and datetime.fromisoformat(deadline) < datetime.now(UTC)
        return False

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileMissing, JaatoError, OSError):
            self._folder.remove(name)


def ensure_private_directory(place: Path) -> None:
    """Make the directory, or see that it is this user's alone. Raises `ConfigError`, OSError."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        place.mkdir(mode=0o700)
    info = place.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or stat.S_IMODE(info.st_mode) & 0o077:
        raise ConfigError(f"{place} is no directory of this user's alone; chmod 700 it, or name another.")
