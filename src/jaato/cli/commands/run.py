"""`jaato run`: run one prompt; the answer on stdout, everything else on stderr. Its result is folded from the events."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from jaato.abc.asker import Answer
from jaato.cli.arguments.values import clean_text, join_input, read_attachment, read_schema, session_create
from jaato.cli.connect import connect
from jaato.cli.exit_codes import DENIED, ERROR, INTERRUPTED, OK, discard_output, print_message
from jaato.cli.output.console import Console
from jaato.cli.output.printer import EventPrinter, SubagentNames, summary_line
from jaato.cli.signals import SignalPipe
from jaato.client.blocking import Client
from jaato.errors import (
    CancelledException,
    ConfigError,
    JaatoError,
    LimitReached,
    MalformedReply,
    ServerGone,
    from_code,
)
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
from jaato.protocol.events import (
    AgentStatusChanged,
    BackgroundUpdated,
    Event,
    MessageModel,
    SessionInfo,
    ToolCallEnd,
    TurnCompleted,
)
from jaato.protocol.frames import Done, Opened, Result
from jaato.protocol.ids import session_name
from jaato.protocol.messages import Usage
from jaato.settings import environment

MAX_SCHEMA_TRIES = 3
INCOMPLETE = {
    "refusal": "The model refused to continue.",
    "length": "The answer was truncated at the maximum length.",
}


class RunResult:
    """The result of a run: model, turns, last text, calls, and the background tasks still running."""

    def __init__(self) -> None:
        self.session_id = ""
        self.agent_id = ""
        self.provider = ""
        self.model = ""
        self.turns: list[TurnCompleted] = []
        self.subagent_turns: list[TurnCompleted] = []
        self.text = ""
        self.arguments: dict[str, dict[str, Any]] = {}
        """The arguments of each call, by its id."""
        self.tasks: dict[str, BackgroundUpdated] = {}
        self.began = False
        """Whether the prompt was sent; earlier turns do not belong to this run."""

    def open(self, session_id: str, agent_id: str, provider: str, model: str) -> None:
        """Set the session, once it is open."""
        self.session_id, self.agent_id, self.provider, self.model = session_id, agent_id, provider, model

    def __call__(self, event: Event) -> None:
        """Fold one event."""
        match event:
            case MessageModel():
                self.arguments |= {call.call_id: call.arguments for call in event.message.function_calls}
                if event.agent_id == self.agent_id:
                    self.text = event.message.text
            case TurnCompleted() if self.began:
                (self.turns if event.agent_id == self.agent_id else self.subagent_turns).append(event)
            case BackgroundUpdated(status="running"):
                self.tasks[event.task_id] = event
            case BackgroundUpdated():
                self.tasks.pop(event.task_id, None)

    def exit_code(self, *, denied_last: bool) -> int:
        """The exit code for the last turn. Raises the error that ended it."""
        turn = self.turns[-1]
        match turn.reason:
            case "error" | "limit":
                if turn.error is not None:
                    raise from_code(turn.error.code, turn.error.message)
                raise LimitReached("The turn reached its limit.")
            case "cancelled" | "interrupted":
                return INTERRUPTED
            case "refusal":
                return ERROR
            case "length":
                return LimitReached.exit_code
        return DENIED if denied_last else OK

    def document(
        self, denied: Sequence[ToolCallEnd], data: Any, code: int, problem: JaatoError | None
    ) -> dict[str, Any]:
        """The document of a run that ended: text, usage including that of subagents, denied calls and the error."""
        turns, all_turns = self.turns, [*self.turns, *self.subagent_turns]
        usage, cost = Usage(), 0.0
        for turn in all_turns:
            usage, cost = usage.plus(turn.usage), cost + (turn.cost_usd or 0.0)
        priced = all(turn.cost_usd is not None for turn in all_turns)
        return {
            "text": self.text if turns[-1].model_calls > 0 else "",
            "data": data,
            "session_id": self.session_id,
            "provider": self.provider,
            "model": self.model,
            "reason": turns[-1].reason,
            "exit_code": code,
            "usage": {name: getattr(usage, name) for name in usage.__struct_fields__},
            "cost_usd": cost if priced else None,
            "duration_s": round(sum(turn.duration_s for turn in turns), 3),
            "model_calls": sum(turn.model_calls for turn in all_turns),
            "tool_calls": sum(turn.tool_calls for turn in all_turns),
            "denied": [self._denial(event) for event in denied],
            "error": {"code": problem.code, "message": str(problem)} if problem else None,
        }

    def _denial(self, event: ToolCallEnd) -> dict[str, Any]:
        """A denied call as data."""
        permission = event.permission
        who = {} if event.agent_id == self.agent_id else {"agent_id": event.agent_id}
        return who | {
            "tool": event.tool,
            "arguments": self.arguments.get(event.call_id, {}),
            "reason": permission.reason if permission else "",
            "method": permission.method if permission else "",
        }


def failure_document(session_id: str, error: JaatoError) -> dict[str, Any]:
    """The document of a run that could not start, or whose answer is invalid."""
    return {
        "text": "",
        "data": None,
        "session_id": session_id or None,
        "reason": "error",
        "exit_code": error.exit_code,
        "error": {"code": error.code, "message": str(error)},
    }


def print_document(document: Any) -> None:
    """Print a JSON document on one line."""
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    sys.stdout.flush()


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
        self._client: Client
        self._signals: SignalPipe
        self._questions: Any = None
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
        self._ask(ClientConfig(answers=answers, deltas=deltas, info=False))
        if answers:
            from jaato.cli.repl.editor import LineReader
            from jaato.cli.repl.questions import Questions

            self._reader = LineReader()
            self._questions = Questions(self, self.console, self.names)
            self._questions.on_question = self._reader.discard
        files = [read_attachment(Path(image)) for image in self.args.image]
        self._client.on_progress = lambda event: self.console.progress(event.step, event.done, event.total)
        local, in_process = bool(self._client.welcome.state_dir), self._client.transport.in_process
        command = session_create(self.args, local=local, in_process=in_process, schema=self.schema)
        opened = self._ask(command)
        assert isinstance(opened, Opened)
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
            self._ask(SessionDetach(session_id=opened.session_id))
        return self._report(data)

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
        self.result.began = True
        once = "" if self._client.transport.in_process else Client.word()
        session_id = self.result.session_id
        text: str | None = prompt
        data: Any = None
        while text is not None:
            before = len(self.result.turns)
            self._ask(MessageSend(session_id=session_id, text=text, files=files, once=once))
            while len(self.result.turns) == before:
                self._wait()
            if self.result.turns[-1].reason == "stop" and self.names and not self._signals.count:
                self._ask(SessionSettle(session_id=session_id))
            data, text = self._validate()
            files, once = [], once and Client.word()
        return data

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

    def _handle_event(self, event: Event) -> None:
        match event:
            case SessionInfo():
                return
            case AgentStatusChanged(status="error", reason=str(reason)) if (
                event.agent_id == self.result.agent_id
            ):
                raise JaatoError(reason)  # the turn failed without an end
        self.result(event)
        try:
            if self.args.output == "events" and not self._output_closed:
                from jaato.protocol.codec import encode

                sys.stdout.write(encode(event).decode() + "\n")
                sys.stdout.flush()
            self.printer(event)
        except BrokenPipeError:
            self._close_output()
        if self._questions is not None:
            self._questions(event)

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

        self._client.begin(answer_command(self.result.session_id, question_id, answer))

    def _read_answer(self) -> None:
        more = self._reader.read_ready()
        while self._questions.current is not None and (line := self._reader.next()) is not None:
            self._questions.take(line)
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
