"""`jaato run`: run one prompt; the answer on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import select
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import msgspec

from jaato.abc.asker import Answer
from jaato.cli.arguments.values import (
    clean_text,
    is_command,
    join_input,
    read_attachment,
    read_schema,
    session_create,
)
from jaato.cli.connect import connect
from jaato.cli.exit_codes import ERROR, INTERRUPTED, discard_output, print_message
from jaato.cli.output.console import Console
from jaato.cli.output.deltas import DeltaFilter
from jaato.cli.output.printer import EventPrinter, SubagentNames
from jaato.cli.output.run_result import RunResult, failure_document, print_document
from jaato.cli.output.wording import INCOMPLETE, summary_line
from jaato.cli.signals import SignalPipe
from jaato.client.blocking import Client
from jaato.errors import (
    CancelledException,
    ConfigError,
    JaatoError,
    MalformedReply,
    ServerGone,
    SessionBusy,
)
from jaato.protocol.commands import (
    ClientConfig,
    Command,
    MessageSend,
    SessionAttach,
    SessionCreate,
    SessionDetach,
    SessionSettle,
    SessionStop,
    SessionUpdate,
    TurnContinue,
    resume_command,
)
from jaato.protocol.events import AgentStatusChanged, Event, SessionInfo, SessionUpdated
from jaato.protocol.frames import Done, Opened, Result
from jaato.protocol.ids import session_name
from jaato.settings import environment

MAX_SCHEMA_TRIES = 3
MAX_MISSED = 900
"""Durable events that are fetched after a snapshot; the server sends about so many."""


def main(args: Namespace) -> int:
    """Run one prompt; with `--output json` every outcome is printed as one object."""
    run: Run | None = None
    try:
        run = Run(args, Console(environment()))
        return run.run()
    except KeyboardInterrupt:
        error: JaatoError = CancelledException("Interrupted.")
    except JaatoError as problem:
        error = problem
    if args.output == "json":
        try:
            print_document(failure_document(run.result.session_id if run else "", error))
        except BrokenPipeError:
            discard_output()
    raise error


class Run:
    """One run, at a server or in this process. Ctrl-C interrupts the turn."""

    def __init__(self, args: Namespace, console: Console) -> None:
        self.args = args
        self.console = console
        self.schema = read_schema(args.schema)
        self.result = RunResult()
        self.names = SubagentNames()
        quiet = args.output != "text" or self.schema is not None
        self.printer = EventPrinter(console, verbose=args.verbose, quiet_text=quiet, names=self.names)
        self._print = DeltaFilter(self.printer)
        self._client: Client
        self._config: ClientConfig
        self._creation: SessionCreate
        self._is_mode_switched = False
        self._signals: SignalPipe
        self._seq = 0
        """The last durable event that was handled."""
        self._joined_seq = 0
        """The last durable event of the session when it was attached to."""
        self._restarted = False
        """Whether the turn may have been interrupted by the end of the server."""
        self._questions: Any = None
        self._answers: dict[str, str] = {}
        """By its request, the question of each answer that the server has not taken yet."""
        self._reader: Any = None
        self._stopped = False
        self._output_closed = False
        """Whether the reader of stdout exited."""
        self._validator: Any = None
        if self.schema is not None:
            from jaato.tools.schema import Validator

            self._validator = Validator(self.schema)
        self._tries = 0

    def run(self) -> int:
        """Run the prompt and return the exit code."""
        for image in self.args.image:
            if not is_file(image):
                raise ConfigError(f"The image {image} is not a readable file.")
        prompt = read_prompt(self.args)
        if self.console.can_ask:
            from jaato.cli.local_download import offer_download

            offer_download(self.args, self.console)
        self._client = connect(self.args, self.console)
        with self._client, SignalPipe() as self._signals:
            try:
                return self._run(prompt)
            except ServerGone as error:
                if not self.result.session_id:
                    raise
                raise ServerGone(
                    f"{error} Recorded events are kept: `jaato attach {self.result.session_id}` resumes the session "
                    "when the server is running again."
                ) from None

    def _run(self, prompt: str) -> int:
        answers = self.console.can_ask
        whole = self.console.whole_messages or self.args.output == "json" or self.schema is not None
        deltas = self.args.output == "events" or not whole or self.args.verbose
        self._config = ClientConfig(answers=answers, deltas=deltas, info=False)
        if not self._client.transport.in_process:
            self._client.on_lost = self._reconnect
        self._ask(self._config)
        if answers:
            from jaato.cli.repl.editor import LineReader
            from jaato.cli.repl.questions import Questions

            self._reader = LineReader()
            self._questions = Questions(self, self.console, self.names)
            self._questions.on_question = self._reader.discard
        files = [read_attachment(Path(image)) for image in self.args.image]
        self._client.on_progress = self.printer
        local, in_process = bool(self._client.welcome.state_dir), self._client.transport.in_process
        self._creation = session_create(self.args, local=local, in_process=in_process, schema=self.schema)
        opened = self._ask(self._creation)
        assert isinstance(opened, Opened)
        self._seq = opened.before
        self._print_opened(opened)
        self._ask(SessionAttach(session_id=opened.session_id, after_seq=opened.before))
        name = session_name(clean_text(self.args.name))
        if name and name != opened.name:
            self._print_notice(self._ask(SessionUpdate(session_id=opened.session_id, name=name)))
        try:
            data = self._run_turns(prompt, files)
        finally:
            for task in self.result.tasks.values():
                text = f"background task {task.task_id} ({task.tool}) is still running and is stopped now"
                self.console.note(text, "yellow")
            self._detach()
        return self._report(data)

    def _detach(self) -> None:
        """Leave the session; without a connection the server does so by itself."""
        self._client.on_lost = None
        try:
            self._ask(SessionDetach(session_id=self.result.session_id))
        except ServerGone:
            pass

    def _print_opened(self, opened: Opened) -> None:
        """Print the model and why it was chosen, and the workspace if it is not the requested one."""
        self.console.note(f"{opened.provider} {opened.model} ({opened.reason})", "dim")
        self.result.open(opened.session_id, opened.agent_id, opened.provider, opened.model)
        self._print_notice(opened)
        wanted = self.args.workspace
        if wanted and opened.workspace and os.path.realpath(wanted) != os.path.realpath(opened.workspace):
            self.console.note(f"the workspace of this session is {opened.workspace}", "yellow")

    def _print_notice(self, result: Result) -> None:
        if isinstance(result, Opened | Done) and result.notice:
            self.console.note(result.notice, "yellow")

    def _run_turns(self, prompt: str, files: list[Any]) -> Any:
        """Run the turn, and with a schema further ones until the answer is valid; return the answer's value."""
        text: str | None = prompt
        data: Any = None
        while text is not None:
            self._run_turn(text, files)
            if self.result.turns[-1].reason == "stop" and self.names and not self._signals.count:
                self._settle()
            data, text = self._validate()
            files = []
        return data

    def _run_turn(self, text: str, files: list[Any]) -> None:
        """Send a message and wait for the end of its turn, which another process of the server may reach."""
        once = Client.word()
        self.result.expect(once)
        message = MessageSend(session_id=self.result.session_id, text=text, files=files, once=once)
        self._ask(msgspec.structs.replace(message, check_prompt=is_command(text)))
        while self.result.is_running:
            if self._restarted and self._seq >= self._joined_seq:
                self._continue()
            else:
                self._wait()

    def _settle(self) -> None:
        """Wait until the subagents have ended."""
        settle = SessionSettle(session_id=self.result.session_id)
        self._ask(settle)
        while self._restarted:
            self._continue()
            self._ask(settle)

    def _continue(self) -> None:
        """Resume what the end of the server interrupted, unless the answer to a question does."""
        self._restarted = False
        if self._questions is not None and self._questions.current is not None:
            return
        self.console.note("The turn is resumed; calls that had started are not repeated.", "yellow")
        try:
            self._ask(TurnContinue(session_id=self.result.session_id))
        except ConfigError:
            pass  # it had ended, or another client has resumed it

    # --- the server ----------------------------------------------------------------------------------------------

    def _reconnect(self, _lost: ServerGone) -> None:
        """Return to the server when it runs again. Raises `CancelledException` for a signal."""
        client = self._client
        self.console.end_text()
        self.console.note("Lost the connection to the server; reconnecting. Ctrl-C gives up.", "yellow")
        client.on_lost = None
        client.reconnect(self._wait_to_reconnect, self._rejoin)
        client.on_lost = self._reconnect
        self.console.note("Reconnected.", "green")

    def _wait_to_reconnect(self, seconds: float) -> None:
        if not self._signals.count:
            select.select([self._signals.descriptor], [], [], seconds)
        if self._signals.count:
            resume = f"; `jaato attach {self.result.session_id}` resumes it" if self.result.session_id else ""
            raise CancelledException(f"Interrupted; the session is kept{resume}.")

    def _rejoin(self) -> None:
        """Configure a new connection, and take the session again with what the command line has of it."""
        client, session_id = self._client, self.result.session_id
        client.ask(self._config)
        if not session_id:
            return
        again = resume_command(self._creation, session_id, is_mode_switched=self._is_mode_switched)
        try:
            opened = client.ask(again)
            assert isinstance(opened, Opened)
            self._restarted = self._restarted or not opened.again
        except SessionBusy:
            pass  # another client has resumed it
        if self._restarted:
            self._print.reset()
        joined = client.ask(SessionAttach(session_id=session_id, after_seq=self._seq))
        assert isinstance(joined, Opened)
        self._joined_seq = joined.seq

    # --- events --------------------------------------------------------------------------------------------------

    def _ask(self, command: Command) -> Result:
        """Send a command and handle events until its result arrives. Raises `CancelledException` for a signal before the
        session is open."""
        request = self._client.begin(command)
        while (result := self._client.result(request)) is None:
            self._wait()
        return result

    def _wait(self) -> None:
        """Wait for an event, a typed line or a signal, and handle it."""
        if not self._client.waiting:
            asking = self._questions is not None and self._questions.current is not None
            descriptors = [self._signals.descriptor, *([self._reader.descriptor] if asking else [])]
            ready = self._client.receive(descriptors)
            self._signals.clear(ready)
            if self._signals.count and not self.result.session_id:
                raise CancelledException("Interrupted.")
            if self._signals.count and not self._stopped:
                self._stop()
            if asking and self._reader.descriptor in ready:
                self._read_answer()
        for event in self._client.arrived():
            self._handle_event(event)
        self._take_refusals()

    def _handle_event(self, event: Event) -> None:
        if event.durable:
            if event.seq <= self._seq:
                return  # sent again after a connection was lost
            self._seq = event.seq
        match event:
            case SessionInfo():
                self._catch_up(event)
                return
            case AgentStatusChanged(status="error", reason=str(reason)) if (
                event.agent_id == self.result.agent_id
            ):
                raise JaatoError(reason)  # the turn failed without an end
            case SessionUpdated(switched=True):
                self._is_mode_switched = True
        self.result(event)
        try:
            if self.args.output == "events" and not self._output_closed:
                from jaato.protocol.codec import encode

                sys.stdout.write(encode(event).decode() + "\n")
                sys.stdout.flush()
            self._print(event)
        except BrokenPipeError:
            self._close_output()
        if self._questions is not None and self.result.began:
            self._questions(event)
            if self.console.covered:
                self._questions.redraw()

    def _catch_up(self, info: SessionInfo) -> None:
        """Handle what was missed where the server sends a snapshot in its place: the events, or the entries of the log when
        they are too many."""
        if info.state is None:
            return
        if info.state.seq - self._seq <= MAX_MISSED:
            self._client.begin(SessionAttach(session_id=info.session_id, after_seq=self._seq))
            return
        for entry in self._client.entries(info.session_id, self._seq, info.seq):
            self._handle_event(entry)
        self._seq = max(self._seq, info.state.seq)
        if self._questions is not None and self.result.began:
            self._questions.restore(list(info.state.questions.values()))

    def _close_output(self) -> None:
        """Interrupt the turn because the reader of stdout exited."""
        if self._output_closed:
            return
        self._output_closed = True
        discard_output()
        print_message("The reader of the output exited; the turn was interrupted, and the session is kept.")
        self._stop()

    def _stop(self) -> None:
        self._stopped = True
        self._client.begin(SessionStop(session_id=self.result.session_id))

    # --- questions -----------------------------------------------------------------------------------------------

    def respond(self, question_id: str, answer: Answer | list[str | None], /) -> None:
        """Send an answer; an event reports if another client answered before."""
        from jaato.cli.repl.questions import answer_command

        request = self._client.begin(answer_command(self.result.session_id, question_id, answer))
        self._answers[request] = question_id

    def _take_refusals(self) -> None:
        """Ask again where the server did not take an answer."""
        for request, question_id in list(self._answers.items()):
            try:
                if self._client.result(request) is None:
                    continue
            except JaatoError as error:
                if self._questions is not None:
                    self._questions.refuse(question_id, error)
            del self._answers[request]

    def _read_answer(self) -> None:
        more = self._reader.read_ready()
        while self._questions.current is not None and (line := self._reader.next()) is not None:
            if self._questions.take_line(self._reader, line):
                self._questions.refuse_paste()
        if not more:
            self._questions.end()
            self._questions = None
            self._client.begin(ClientConfig(answers=False))

    # --- structured output ---------------------------------------------------------------------------------------

    def _validate(self) -> tuple[Any, str | None]:
        """The value of the answer, or the message that asks the model for a valid one. Raises `MalformedReply` after
        `MAX_SCHEMA_TRIES`."""
        if self._validator is None or self.result.turns[-1].reason != "stop":
            return None, None
        value, problem = self._parse_answer()
        if problem is None:
            return value, None
        self._tries += 1
        if self._tries >= MAX_SCHEMA_TRIES:
            raise MalformedReply(
                f"The answer does not match the schema after {MAX_SCHEMA_TRIES} tries: {problem}"
            )
        self.console.note(f"the answer does not match the schema ({problem}); asking again", "yellow")
        return None, f"That was not the JSON asked for: {problem}. Give only the JSON."

    def _parse_answer(self) -> tuple[Any, str | None]:
        from jaato.runtime.embedding.structured_output import parse

        try:
            value = parse(self.result.text, Any)
        except ValueError as error:
            return None, f"it is not JSON: {error}"
        issues = self._validator.issues(value)
        return value, "; ".join(f"{path or '/'} {text}" for path, text in issues[:5]) or None

    # --- the end -------------------------------------------------------------------------------------------------

    def _report(self, data: Any) -> int:
        """Print the result and the summary; return the exit code."""
        problem: JaatoError | None = None
        try:
            code = self.result.exit_code(denied_last=self.printer.denied_last)
        except JaatoError as error:
            problem, code = error, error.exit_code
        if self._output_closed:
            code = ERROR
        elif self._signals.count:
            code = INTERRUPTED
        try:
            self._print_result(data, code, problem)
        except BrokenPipeError:
            self._close_output()
            code = ERROR
        reason = self.result.turns[-1].reason
        if problem is not None:
            print_message(str(problem))
        elif code == INTERRUPTED:
            print_message("Interrupted; completed work is kept.")
        elif reason in INCOMPLETE:
            print_message(INCOMPLETE[reason])
        line = summary_line(self.result.turns, self.result.session_id, self.result.subagent_turns)
        self.console.note(line, "dim")
        return code

    def _print_result(self, data: Any, code: int, problem: JaatoError | None) -> None:
        if self.args.output == "json":
            print_document(self.result.document(self.printer.denied, data, code, problem))
        elif (
            self.schema is not None and self.args.output == "text" and self.result.turns[-1].reason == "stop"
        ):
            self.console.text(json.dumps(data, ensure_ascii=False, indent=2) + "\n")
        self.console.end_text()


def is_file(name: str) -> bool:
    """Whether this is the path of a file; False for an invalid path."""
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def read_prompt(args: Namespace) -> str:
    """The prompt with the piped input. Raises `ConfigError` when both are empty."""
    prompt = join_input(args.prompt)
    if not prompt:
        raise ConfigError('There is no prompt: jaato run "PROMPT", or pipe text into it.')
    return prompt
