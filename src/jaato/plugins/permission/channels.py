"""Permission channels `console` and `queue`: questions as plain text in a terminal, or in a queue that a thread serves."""

from __future__ import annotations

import contextlib
import difflib
import json
import queue
import select
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from jaato.abc.asker import Answer, Asker, Question
from jaato.errors import ConfigError
from jaato.tools.invisible_text import escape_all
from jaato.tools.permissions.access import access_lines
from jaato.tools.permissions.policy_document import Channel

if TYPE_CHECKING:
    from jaato.plugins.permission.webhook_file_channels import WebhookNetwork

CHOICES = "[y]es [n]o [a]lways [t]urn [i]dle once never all [e]dit [c TEXT]"
KINDS = ("console", "queue", "webhook", "file")
MAX_LINES = 60
MAX_CHARS = 4_000


class ConsoleChannel:
    """Asks on the terminal. Without one, or at end of file, the call is denied as `no_channel`."""

    def __init__(
        self, timeout_s: float | None = None, *, stdin: TextIO | None = None, stdout: TextIO | None = None
    ) -> None:
        self._timeout_s = timeout_s
        self._stdin = stdin
        self._stdout = stdout

    def ask(self, question: Question) -> Answer | None:
        """Show the question and read one answer. Raises `TimeoutError` when the time is over."""
        stdin, stdout = self._stdin or sys.stdin, self._stdout or sys.stdout
        if stdin is None or stdin.closed or not stdin.isatty():
            return None
        discard_input(stdin)
        stdout.write(f"{question_text(question)}\n{CHOICES} > ")
        stdout.flush()
        line = self._line(stdin)
        if line is None:
            return None
        word, _, rest = line.strip().partition(" ")
        match word.lower():
            case "c" | "comment":
                return Answer(answer="c", comment=rest.strip() or None, by="console")
            case "e" | "edit":
                return self._parse_edit(rest, stdin, stdout)
        return Answer(answer=line.strip(), by="console")

    def _parse_edit(self, text: str, stdin: TextIO, stdout: TextIO) -> Answer | None:
        """The arguments as the user wants them, as one line of JSON."""
        if not text.strip():
            stdout.write("the arguments as JSON on one line > ")
            stdout.flush()
            line = self._line(stdin)
            if line is None:
                return None
            text = line
        try:
            arguments = json.loads(text)
        except (ValueError, RecursionError) as error:
            stdout.write(f"That is not JSON: {error}\n")
            arguments = None
        return Answer(answer="e", arguments=arguments if isinstance(arguments, dict) else None, by="console")

    def _line(self, stdin: TextIO) -> str | None:
        """One line; None at the end of the input."""
        if self._timeout_s is not None and not select.select([stdin], [], [], self._timeout_s)[0]:
            raise TimeoutError
        return stdin.readline() or None


def discard_input(stdin: TextIO) -> None:
    """Discard input that was typed before the question was shown."""
    import termios

    with contextlib.suppress(termios.error, OSError, ValueError):
        termios.tcflush(stdin.fileno(), termios.TCIFLUSH)


@dataclass(eq=False)
class Pending:
    """A question in a queue; `answer` settles it, once, from any thread."""

    question: Question
    _settled: threading.Event = field(default_factory=threading.Event)
    _answer: Answer | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(
        self,
        answer: str,
        *,
        arguments: dict[str, Any] | None = None,
        comment: str | None = None,
        by: str = "",
    ) -> None:
        """Answer it, in any of the spellings of the answers. Later answers do nothing."""
        with self._lock:
            if not self._settled.is_set():
                self._answer = Answer(answer=answer, arguments=arguments, comment=comment, by=by)
                self._settled.set()

    def abandon(self) -> None:
        """Settle it without an answer."""
        self._settled.set()

    def wait(self, timeout_s: float | None) -> Answer | None:
        """The answer. Raises `TimeoutError` when the time is over."""
        self._settled.wait(timeout_s)
        with self._lock:
            if not self._settled.is_set():
                self._settled.set()
                raise TimeoutError
            return self._answer


class QueueChannel:
    """Puts each question into the queue `questions`, from which the application answers; `close` denies what is open."""

    def __init__(self, timeout_s: float | None = None) -> None:
        self.questions: queue.Queue[Pending] = queue.Queue()
        self._timeout_s = timeout_s
        self._open: set[Pending] = set()
        self._closed = False

    def ask(self, question: Question) -> Answer | None:
        """Wait for the answer. Raises `TimeoutError` when the time is over."""
        if self._closed:
            return None
        pending = Pending(question)
        self._open.add(pending)
        try:
            self.questions.put(pending)
            if self._closed:
                return None
            return pending.wait(self._timeout_s)
        finally:
            self._open.discard(pending)

    def next(self, timeout_s: float | None = None) -> Pending | None:
        """The next question; None if there is none before the timeout."""
        try:
            return self.questions.get(timeout=timeout_s and max(0.0, timeout_s))
        except queue.Empty:
            return None

    def close(self) -> None:
        """Close the channel: pending questions are denied."""
        self._closed = True
        for pending in list(self._open):
            pending.abandon()


@dataclass(frozen=True)
class ChannelContext:
    """The context of channels that leave the process: the user's state directory, and how the network is reached."""

    state_dir: Path
    reach: WebhookNetwork


def make_channel(kind: str, channel: Channel, places: Callable[[], ChannelContext]) -> Asker:
    """The channel of this name, with the endpoint and time of a policy. Raises `ConfigError` for one that does not exist
    or cannot be used."""
    timeout_s = channel.timeout_s
    match kind:
        case "console":
            return ConsoleChannel(timeout_s)
        case "queue":
            return QueueChannel(timeout_s)
        case "webhook":
            from jaato.plugins.permission.webhook_file_channels import WebhookChannel

            there = places()
            return WebhookChannel(channel.endpoint, timeout_s, state_dir=there.state_dir, reach=there.reach)
        case "file":
            from jaato.plugins.permission.webhook_file_channels import FileChannel

            return FileChannel(channel.endpoint, timeout_s, state_dir=places().state_dir)
    raise ConfigError(f"There is no permission channel {kind!r}; use one of: {', '.join(KINDS)}.")


def question_text(question: Question) -> str:
    """Tool, arguments or change, what a yes opens, the part that needs asking, and what a lasting answer would cover."""
    lines = [f"May {escape_all(question.tool)} run?", *arguments_lines(question)]
    if question.access is not None:
        lines += ["  a yes opens:", *(f"    {line}" for line in access_lines(question.access))]
    lines.append(f"  why asked: {escape_all(question.reason)}")
    if question.shape is None:
        lines.append("  whatever is answered counts for this call only")
    else:
        lines.append("  always, turn and idle would cover: " + escape_all(question.shape.replace("\n", "; ")))
    return "\n".join(lines)


def arguments_lines(question: Question) -> list[str]:
    """The arguments one by one; a replacement as a diff."""
    arguments = dict(question.arguments)
    old, new = arguments.get("old"), arguments.get("new")
    diff: list[str] = []
    if isinstance(old, str) and isinstance(new, str):
        del arguments["old"], arguments["new"]
        changed = difflib.unified_diff(old.splitlines(), new.splitlines(), "old", "new", lineterm="")
        diff = [f"    {escape_all(line)}" for line in list(changed)[:MAX_LINES]]
    lines = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
        shown = text[:MAX_CHARS].split("\n")
        lines.append(f"  {escape_all(name)}: {escape_all(shown[0])}")
        lines += [f"    {escape_all(line)}" for line in shown[1:MAX_LINES]]
        hidden = len(text) - sum(len(line) + 1 for line in shown[:MAX_LINES]) + 1
        if hidden > 0:
            lines.append(f"    ... and {hidden:,} characters more, which are not shown")
    return [*lines, *diff]
