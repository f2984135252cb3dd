"""`jaato run`: one task, its answer on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from jaato.abc.asker import Answer
from jaato.cli.arguments.values import clean_text, schema_of_argument
from jaato.cli.connect import connect, lost
from jaato.cli.create_command import creation, file_at, response_to
from jaato.cli.ending import ERROR, INTERRUPTED, mute, say
from jaato.cli.output.printer import Kin, Narrator, closing_line
from jaato.cli.output.result import RunResult, failure_document, print_json
from jaato.cli.output.terminal import Screen
from jaato.cli.signals import SignalPipe
from jaato.client.blocking import Client
from jaato.errors import CancelledException, ConfigError, JaatoError, MalformedReply, ServerGone
from jaato.protocol.commands import (
    ClientConfig,
    Command,
    MessageSend,
    SessionAttach,
    SessionDetach,
    SessionSettle,
    SessionStop,
    SessionUpdate,
)
from jaato.protocol.events import AgentStatusChanged, Event, SessionInfo
from jaato.protocol.frames import Done, Opened, Result
from jaato.protocol.ids import session_name
from jaato.settings import environment

MAX_STDIN_BYTES = 4_000_000
STDIN_NOTICE_S = 1.0
SCHEMA_TRIES = 3
ENDED_EARLY = {
    "refusal": "The model refused to go on.",
    "length": "The answer was cut at its longest length.",
}


def main(args: Namespace) -> int:
    """Run one prompt to its end; the exit code says how it ended. With `--output json` every ending is one object."""
    run: Run | None = None
    try:
        run = Run(args, Screen(environment()))
        return run.run()
    except KeyboardInterrupt:
        error: JaatoError = CancelledException("Interrupted.")
    except JaatoError as problem:
        error = problem
    if args.output == "json":
        try:
            print_json(failure_document(run.result.session_id if run else "", error))
        except BrokenPipeError:
            mute()
    raise error


class Run:
    """A run from its arguments to its exit code, the same at a server and at a hub in this process. Ctrl-C stops the turn."""

    def __init__(self, args: Namespace, screen: Screen) -> None:
        self.args = args
        self.screen = screen
        self.schema = schema_of_argument(args.schema)
        self.result = RunResult()
        self.kin = Kin()
        quiet = args.output != "text" or self.schema is not None
        self.narrator = Narrator(screen, verbose=args.verbose, quiet_text=quiet, kin=self.kin)
        self._client: Client
        self._signals: SignalPipe
        self._questions: Any = None
        self._lines: Any = None
        self._stopped = False
        self._gone = False
        """Whether the reader of stdout has left."""
        self._validator: Any = None
        if self.schema is not None:
            from jaato.tools.schema import Validator

            self._validator = Validator(self.schema)
        self._tries = 0

    def run(self) -> int:
        """Everything between start and exit code."""
        for image in self.args.image:
            if not is_file(image):
                raise ConfigError(f"The image {image} is no file that can be read.")
        prompt = prompt_of(self.args)
        self._client = connect(self.args, self.screen)
        with self._client, SignalPipe() as self._signals:
            try:
                return self._run(prompt)
            except ServerGone as error:
                session_id = self.result.session_id
                raise (lost(error, session_id) if session_id else error) from None

    def _run(self, prompt: str) -> int:
        asks = sys.stdin.isatty() and self.screen.err_is_terminal
        whole = self.screen.whole_messages or self.args.output == "json" or self.schema is not None
        deltas = self.args.output == "events" or not whole or self.args.verbose
        self._wait_for(ClientConfig(answers=asks, deltas=deltas, info=False))
        if asks:
            self._ask_here()
        files = [file_at(Path(image)) for image in self.args.image]
        self._client.on_progress = lambda event: self.screen.progress(event.step, event.done, event.total)
        local, in_process = bool(self._client.welcome.state_dir), self._client.transport.in_process
        command = creation(self.args, local=local, in_process=in_process, schema=self.schema)
        opened = self._wait_for(command)
        assert isinstance(opened, Opened)
        self._open(opened)
        self._wait_for(SessionAttach(session_id=opened.session_id, after_seq=opened.before))
        name = session_name(clean_text(self.args.name))
        if name and name != opened.name:
            self._noticed(self._wait_for(SessionUpdate(session_id=opened.session_id, name=name)))
        try:
            data = self._converse(prompt, files)
        finally:
            for task in self.result.tasks.values():
                text = f"background task {task.task_id} ({task.tool}) still runs and is stopped now"
                self.screen.note(text, "yellow")
            self._wait_for(SessionDetach(session_id=opened.session_id))
        return self._report(data)

    def _open(self, opened: Opened) -> None:
        """Say which model answers, why, and where it works if that is not where it was asked to."""
        self.screen.note(f"{opened.provider} {opened.model} ({opened.reason})", "dim")
        self.result.open(opened.session_id, opened.agent_id, opened.provider, opened.model)
        self._noticed(opened)
        wanted = self.args.workspace
        if wanted and opened.workspace and os.path.realpath(wanted) != os.path.realpath(opened.workspace):
            self.screen.note(f"this session works in {opened.workspace}", "yellow")

    def _noticed(self, result: Result) -> None:
        """Say what the server wants known."""
        if isinstance(result, Opened | Done) and result.notice:
            self.screen.note(result.notice, "yellow")

    def _converse(self, prompt: str, files: list[Any]) -> Any:
        """The turn, and with a schema more of them until the answer fits. Gives the value the answer is."""
        self.result.began = True
        once = "" if self._client.transport.in_process else Client.word()
        session_id = self.result.session_id
        text: str | None = prompt
        data: Any = None
        while text is not None:
            before = len(self.result.turns)
            self._wait_for(MessageSend(session_id=session_id, text=text, files=files, once=once))
            while len(self.result.turns) == before:
                self._wait()
            if self.result.turns[-1].reason == "stop" and self.kin and not self._signals.count:
                self._wait_for(SessionSettle(session_id=session_id))
            data, text = self._fitting()
            files, once = [], once and Client.word()
        return data

    # --- events --------------------------------------------------------------------------------------------------

    def _wait_for(self, command: Command) -> Result:
        """The result of a command, while what happens is told. Raises `CancelledException` for a signal before there is a
        session whose turn could be stopped."""
        asked = self._client.begin(command)
        while (result := self._client.result(asked)) is None:
            self._wait()
        return result

    def _wait(self) -> None:
        """Wait until something comes: from the server, from the keyboard, or a signal; and take it."""
        if not self._client.waiting:
            asking = self._questions is not None and self._questions.current is not None
            awaited = [self._signals.descriptor, *([self._lines.descriptor] if asking else [])]
            ready = self._client.receive(awaited)
            self._signals.clear(ready)
            if self._signals.count and not self.result.session_id:
                raise CancelledException("Interrupted.")
            if self._signals.count and not self._stopped:
                self._stop()
            if asking and self._lines.descriptor in ready:
                self._typed()
        for event in self._client.arrived():
            self._told(event)

    def _told(self, event: Event) -> None:
        match event:
            case SessionInfo():
                return
            case AgentStatusChanged(status="error", reason=str(reason)) if (
                event.agent_id == self.result.agent_id
            ):
                raise JaatoError(reason)  # the turn has broken off, and will not end
        self.result(event)
        try:
            if self.args.output == "events" and not self._gone:
                from jaato.protocol.codec import encode

                sys.stdout.write(encode(event).decode() + "\n")
                sys.stdout.flush()
            self.narrator(event)
        except BrokenPipeError:
            self._reader_gone()
        if self._questions is not None:
            self._questions(event)

    def _reader_gone(self) -> None:
        """Nobody reads the answer any more: stop the work, keep what was done."""
        if self._gone:
            return
        self._gone = True
        mute()
        say("The reader of the output has gone; the turn was stopped and its history is kept.")
        self._stop()

    def _stop(self) -> None:
        self._stopped = True
        self._client.begin(SessionStop(session_id=self.result.session_id))

    # --- questions -----------------------------------------------------------------------------------------------

    def _ask_here(self) -> None:
        from jaato.cli.repl.questions import Questions
        from jaato.cli.repl.terminal_input import Lines

        self._lines = Lines()
        self._questions = Questions(self, self.screen, self.kin)
        self._questions.asked = self._lines.forget

    def respond(self, question_id: str, answer: Answer | list[str | None], /) -> None:
        """Give the server an answer; if another client was faster, its answer is told by the event."""
        self._client.begin(response_to(self.result.session_id, question_id, answer))

    def _typed(self) -> None:
        goes_on = self._lines.take()
        while self._questions.current is not None and (line := self._lines.next()) is not None:
            self._questions.take(line)
        if not goes_on:
            self._questions.end()
            self._questions = None
            self._client.begin(ClientConfig(answers=False))

    # --- the answer that was asked for ---------------------------------------------------------------------------

    def _fitting(self) -> tuple[Any, str | None]:
        """After a turn: the value the answer is, or what to say to the model that has not given one.

        Raises `MalformedReply` when it was told often enough.
        """
        if self._validator is None or self.result.turns[-1].reason != "stop":
            return None, None
        value, problem = self._parsed()
        if problem is None:
            return value, None
        self._tries += 1
        if self._tries >= SCHEMA_TRIES:
            raise MalformedReply(f"After {SCHEMA_TRIES} tries the answer does not fit the schema: {problem}")
        self.screen.note(f"the answer does not fit the schema ({problem}); asking again", "yellow")
        return None, f"That was not the JSON asked for: {problem}. Give only the JSON."

    def _parsed(self) -> tuple[Any, str | None]:
        from jaato.runtime.embedding.structured_output import parse

        try:
            value = parse(self.result.text, Any)
        except ValueError as error:
            return None, f"it is not JSON: {error}"
        issues = self._validator.issues(value)
        return value, "; ".join(f"{path or '/'} {text}" for path, text in issues[:5]) or None

    # --- the end -------------------------------------------------------------------------------------------------

    def _report(self, data: Any) -> int:
        """Print what is left to print, and the closing line; gives the exit code."""
        problem: JaatoError | None = None
        try:
            code = self.result.exit_code(denied_last=self.narrator.denied_last)
        except JaatoError as error:
            problem, code = error, error.exit_code
        if self._gone:
            code = ERROR
        elif self._signals.count:
            code = INTERRUPTED
        try:
            self._print(data, code, problem)
        except BrokenPipeError:
            self._reader_gone()
            code = ERROR
        reason = self.result.turns[-1].reason
        if problem is not None:
            say(str(problem))
        elif code == INTERRUPTED:
            say("Interrupted; what was done is kept.")
        elif reason in ENDED_EARLY:
            say(ENDED_EARLY[reason])
        line = closing_line(self.result.turns, self.result.session_id, self.result.below)
        self.screen.note(line, "dim")
        return code

    def _print(self, data: Any, code: int, problem: JaatoError | None) -> None:
        if self.args.output == "json":
            print_json(self.result.document(self.narrator.denied, data, code, problem))
        elif (
            self.schema is not None and self.args.output == "text" and self.result.turns[-1].reason == "stop"
        ):
            self.screen.text(json.dumps(data, ensure_ascii=False, indent=2) + "\n")
        self.screen.end_text()


def is_file(name: str) -> bool:
    """Whether there is a file of this name; one no file can have is none."""
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def prompt_of(args: Namespace) -> str:
    """The prompt with what was piped in. Raises `ConfigError` when there is neither."""
    words = clean_text(" ".join(word for word in args.prompt if word != "-")) or ""
    piped = read_piped()
    prompt = "\n\n".join(part for part in (words.strip(), piped.strip("\n")) if part.strip())
    if not prompt:
        raise ConfigError('Say what the agent should do: jaato run "PROMPT", or pipe text into it.')
    return prompt


def read_piped() -> str:
    """What was piped into the command; nothing when stdin is a terminal or closed."""
    try:
        if sys.stdin.isatty():
            return ""
        data = read_announced(sys.stdin.fileno())
    except (OSError, ValueError):
        return ""
    if len(data) > MAX_STDIN_BYTES:
        raise ConfigError(
            f"More than {MAX_STDIN_BYTES:,} bytes were piped in. Save them to a file and name it in the prompt."
        )
    return data.decode("utf-8", "replace")


def read_announced(descriptor: int) -> bytes:
    """Everything up to the end of stdin; if it is slow in coming, says for what the program waits."""
    import os
    import select

    try:
        if not select.select([descriptor], [], [], STDIN_NOTICE_S)[0]:
            print(
                "jaato: waiting for the end of stdin (</dev/null says there is none)",
                file=sys.stderr,
                flush=True,
            )
    except OSError:
        pass  # a file is always ready
    parts: list[bytes] = []
    left = MAX_STDIN_BYTES + 1
    while left > 0 and (data := os.read(descriptor, min(left, 1 << 20))):
        parts.append(data)
        left -= len(data)
    return b"".join(parts)
