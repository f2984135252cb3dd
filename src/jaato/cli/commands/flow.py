"""`jaato flow`: carry out an instruction with the tools of registries; show a trace, and play it again."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from jaato.cli.arguments.values import clean_list, clean_text, join_input, workspace_of
from jaato.cli.exit_codes import ERROR, INTERRUPTED, OK, print_message
from jaato.cli.output.console import Console, one_line, print_json, print_line
from jaato.cli.output.wording import MAX_LINE_CHARS, call_text, retry_text
from jaato.errors import CancelledException, ConfigError, JaatoError
from jaato.protocol.events import Event, Retry
from jaato.protocol.messages import Problem
from jaato.runtime.flow.result import FlowRun, FlowStep, fold
from jaato.runtime.flow.trace import (
    AnyRecord,
    Called,
    Offered,
    PlanMade,
    Replied,
    StepBegun,
    StepEnded,
    Trace,
    read_trace,
)
from jaato.settings import environment
from jaato.settings.budgets import format_count, price_text

if TYPE_CHECKING:
    from jaato.agent.session import Session
    from jaato.runtime.flow.flow import FlowExecution
    from jaato.runtime.known_providers import ProviderChoice
    from jaato.runtime.session_options import SessionOptions

MAX_VALUE_CHARS = 300


def main(args: Namespace) -> int:
    """Run, replay or show a flow; with `--json` every outcome is printed as one document."""
    actions = {"run": run, "replay": replay}
    try:
        return actions.get(args.action, show)(args)
    except KeyboardInterrupt:
        error: JaatoError = CancelledException("Interrupted.")
    except JaatoError as problem:
        error = problem
    if args.json:
        print_json(
            {
                "status": "cancelled" if isinstance(error, CancelledException) else "failed",
                "exit_code": error.exit_code,
                "error": {"code": error.code, "message": str(error)},
            }
        )
    raise error


def run(args: Namespace) -> int:
    """Carry out one instruction."""
    from jaato.runtime.flow.flow import FlowExecution

    instruction = join_input(args.instruction)
    if not instruction:
        raise ConfigError('There is no instruction: jaato flow run "INSTRUCTION", or pipe text into it.')
    if args.trace == "":
        raise ConfigError("--trace needs the name of a new file.")
    printer = FlowPrinter()
    execution = FlowExecution(
        instruction,
        session_options(args, printer.console),
        tuple(clean_list(args.registry)),
        clean_text(args.token) or "",
        args.max_steps,
        None if args.trace is None else Path(clean_text(args.trace) or ""),
        printer,
        partial(attend, console=printer.console),
    )
    done = execute(execution)
    printer.print_run(done, as_json=args.json)
    if done.exit_code == INTERRUPTED:
        print_message("Interrupted; completed work is kept.")
    else:
        printer.print_error(done)
    if execution.fault:
        print_message(execution.fault)
    return done.exit_code or (ERROR if execution.fault else OK)


def replay(args: Namespace) -> int:
    """Replay a trace without model and registries, printed as the run was, and compare it with the recording."""
    from jaato.runtime.flow.replay import replay as play

    trace = open_trace(args)
    played = play(trace)
    printer = FlowPrinter()
    for record in trace.records:
        printer(record)
    printer.print_run(played.run, as_json=args.json)
    printer.print_error(played.run)
    if not played.whole:
        print_message("The trace is incomplete; what it contains matches the recording.")
        return ERROR
    printer.console.note("the replay matches the recording", "dim")
    return OK


def show(args: Namespace) -> int:
    """Print a trace in readable form."""
    trace = open_trace(args)
    done = fold(trace.records)
    if args.json:
        print_json(done.document())
        return OK
    for line in render_run(done, full=args.full):
        print_line(line)
    if trace.ended is None:
        print_message("The trace is incomplete.")
    return OK


def open_trace(args: Namespace) -> Trace:
    """Read the trace. Raises `ConfigError`, also for an empty name, as that of an unset variable."""
    if not args.file:
        raise ConfigError(
            "The file name is empty; name a trace that `jaato flow run --trace FILE` has written."
        )
    return read_trace(Path(clean_text(args.file) or ""))


def execute(execution: FlowExecution) -> FlowRun:
    """Run the flow; the first signal stops it."""
    import anyio

    from jaato.cli.signals import cancel_on_signal

    async def main() -> FlowRun:
        with cancel_on_signal(execution.stop):
            try:
                return await execution.run()
            except asyncio.CancelledError:
                raise CancelledException("Interrupted.") from None

    return anyio.run(main)


def session_options(args: Namespace, console: Console) -> SessionOptions:
    """The options of the flow's session."""
    from jaato.cli.repl.questions import confirm
    from jaato.protocol.specs import ModelSettings
    from jaato.runtime.session_options import SessionOptions

    def print_choice(choice: ProviderChoice, model: str) -> None:
        console.note(f"{choice.name} {model} ({choice.reason})", "dim")

    return SessionOptions(
        model=clean_text(args.model),
        provider=clean_text(args.provider),
        base_url=clean_text(args.base_url),
        interface=args.interface,
        settings=ModelSettings(temperature=args.temperature, effort=args.effort),
        workspace=workspace_of(args),
        name=clean_text(args.name),
        allow=tuple(args.allow),
        deny=tuple(args.deny),
        yes=args.yes,
        progress=console.progress,
        chosen=print_choice,
        confirm=partial(confirm, console) if console.can_ask else None,
    )


def attend(session: Session, console: Console) -> Callable[[], None]:
    """Print retries, and answer the session's questions from the terminal, if there is one; returns what stops it."""

    def on_event(event: Event) -> None:
        if isinstance(event, Retry):
            console.note(retry_text(event), "yellow")

    unsubscribe = session.journal.bus.listen(on_event)
    if not console.can_ask:
        return unsubscribe
    from jaato.cli.repl.questions import attend_terminal

    leave = attend_terminal(session, console)

    def stop() -> None:
        unsubscribe()
        leave()

    return stop


class FlowPrinter:
    """Prints the records of a flow as they are made, on stderr."""

    def __init__(self) -> None:
        self.console = Console(environment())
        self._printed: set[str] = set()
        """The problems that were printed, to print none twice."""

    def __call__(self, record: AnyRecord) -> None:
        """Print one record."""
        note = self.console.note
        match record:
            case Offered():
                for problem in record.problems:
                    self._print_problem(problem)
                if record.known or not record.problems:
                    note(format_count(record.known, "tool"), "dim")
            case PlanMade(steps=steps):
                note(f"plan: {', then '.join(step.tool for step in steps) or 'no tools'}")
            case StepBegun(kind="tool"):
                note(one_line(f"{record.step_id} {record.tool}: {record.purpose}", MAX_VALUE_CHARS))
            case Replied(call=call) if call is not None:
                note(f"> {call_text(call.name, call.arguments, self.console.width - 2)}", "cyan")
            case Called() if record.result.error is not None:
                self._print_problem(record.result.error.message)
            case StepEnded(step_id="chat", status="ok"):
                return
            case StepEnded(status="ok"):
                note(f"{record.step_id}: ok, {record.duration_s:.2f} s", "dim")
            case StepEnded(error=error):
                new = error is not None and error.message not in self._printed
                note(f"{record.step_id}: {record.status}{error_suffix(error) if new else ''}", "red")
                self._printed |= {error.message} if error is not None else set()

    def _print_problem(self, text: str) -> None:
        self.console.note(f"  {one_line(text, MAX_LINE_CHARS)}", "yellow")
        self._printed.add(text)

    def print_run(self, run: FlowRun, *, as_json: bool) -> None:
        """Print the answer, or the whole flow as JSON, on stdout, and a summary on stderr."""
        if as_json:
            print_json(run.document())
        elif run.answer:
            self.console.text(run.answer)
            self.console.end_text()
        self.console.note(summary_line(run), "dim")

    def print_error(self, run: FlowRun) -> None:
        """Print why a flow failed, unless that was printed."""
        if run.error is not None and run.error.message not in self._printed:
            print_message(run.error.message)


def summary_line(run: FlowRun) -> str:
    """A flow on one line: status, usage, time and id."""
    tokens = f"{run.usage.input_tokens:,} in, {run.usage.output_tokens:,} out"
    cost = f" · {price_text(run.cost_usd)}" if run.cost_usd else ""
    steps = sum(step.status != "skipped" for step in run.tool_steps)
    return (
        f"{run.status} · {format_count(steps, 'step')} · {format_count(run.model_calls, 'model call')} · {tokens}{cost} · "
        f"{run.duration_s:.2f} s · {run.flow_id}"
    )


def render_run(run: FlowRun, *, full: bool) -> Iterator[str]:
    """The lines of a flow."""
    yield f"flow {run.flow_id}, started {run.begun_at}: {run.status}{error_suffix(run.error)}"
    yield f"instruction: {shorten(run.instruction, full=full)}"
    for place in run.registries:
        yield f"registry {place.name}: {place.url}"
    for problem in run.problems:
        yield f"problem: {problem}"
    if run.model:
        yield f"model: {run.provider} {run.model}"
    for step in run.steps:
        yield ""
        yield from render_step(step, full=full)
    yield ""
    yield summary_line(run)


def render_step(step: FlowStep, *, full: bool) -> Iterator[str]:
    """The lines of one step."""
    name = " ".join(part for part in (step.step_id, step.tool) if part)
    again = f", {step.attempts} replies" if step.attempts > 1 else ""
    yield f"{name}: {step.status}{error_suffix(step.error)} ({step.duration_s:.2f} s{again})"
    if step.purpose:
        yield f"  purpose:   {shorten(step.purpose, full=full)}"
    for issue in step.issues:
        yield f"  invalid:   {issue['path'] or '/'} {shorten(issue['message'], full=full)}"
    if step.args is not None:
        yield f"  arguments: {shorten(step.args, full=full)}"
    if step.kind == "tool" and step.status == "ok":
        yield f"  result:    {shorten(step.result, full=full)}"
    if step.text:
        yield f"  answer:    {shorten(step.text, full=full)}"
    if step.request_id:
        yield f"  request:   {step.request_id}"


def shorten(value: Any, *, full: bool) -> str:
    """A value as text, on one truncated line unless `full`."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if full else one_line(text, MAX_VALUE_CHARS)


def error_suffix(problem: Problem | None) -> str:
    """A problem as a suffix."""
    return f": {one_line(problem.message, MAX_LINE_CHARS)}" if problem is not None else ""
