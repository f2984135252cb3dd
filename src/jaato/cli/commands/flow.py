"""`jaato flow`: carry out an instruction with the tools of registries; show a trace, and play it again."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from jaato.cli.arguments.values import blueprint_of, clean_text
from jaato.cli.ending import ERROR, INTERRUPTED, OK, say
from jaato.cli.output.printer import price_text, retry_text
from jaato.cli.output.renderers import call_text, printable_line
from jaato.cli.output.tables import counted, print_json, print_line
from jaato.cli.output.terminal import Screen, one_line
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
    read_trace,
)
from jaato.settings import environment

if TYPE_CHECKING:
    from jaato.agent.session import Session
    from jaato.runtime.flow.flow import FlowExecution
    from jaato.runtime.known_providers import ProviderChoice
    from jaato.runtime.session_options import SessionOptions

SHORT_CHARS = 300


def main(args: Namespace) -> int:
    """Run, replay or show; with `--json` every ending is one document."""
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
    """Carry out one instruction; the exit code says how it ended."""
    from jaato.cli.commands.run import read_piped
    from jaato.runtime.flow.flow import FlowExecution

    words = clean_text(" ".join(word for word in args.instruction if word != "-")) or ""
    parts = (words.strip(), read_piped().strip("\n"))
    printer = FlowPrinter()
    execution = FlowExecution(
        "\n\n".join(part for part in parts if part.strip()),
        blueprint(args, printer.screen),
        tuple(clean_text(one) or "" for one in args.registry),
        clean_text(args.token) or "",
        args.max_steps,
        None if args.trace is None else Path(clean_text(args.trace) or ""),
        printer,
        partial(attend, screen=printer.screen),
    )
    if not execution.instruction:
        raise ConfigError('Say what is to be done: jaato flow run "INSTRUCTION", or pipe text into it.')
    if args.trace == "":
        raise ConfigError("--trace needs the name of a file that is not there yet.")
    done = carry_out(execution)
    printer.print_run(done, as_json=args.json)
    if done.exit_code == INTERRUPTED:
        say("Interrupted; what was done is kept.")
    else:
        printer.print_error(done)
    if execution.fault:
        say(execution.fault)
    return done.exit_code or (ERROR if execution.fault else OK)


def replay(args: Namespace) -> int:
    """Play a trace again without model and registries, printed as the run was, and hold it against what was recorded."""
    from jaato.runtime.flow.replay import replay as play

    trace = read_trace(trace_file(args))
    played = play(trace)
    printer = FlowPrinter()
    for record in trace.records:
        printer(record)
    printer.print_run(played.run, as_json=args.json)
    printer.print_error(played.run)
    if not played.whole:
        say("The trace was cut off here; what is there plays as it was recorded.")
        return ERROR
    printer.screen.note("plays as it was recorded", "dim")
    return OK


def show(args: Namespace) -> int:
    """A trace as a page to be read."""
    trace = read_trace(trace_file(args))
    done = fold(trace.records)
    if args.json:
        print_json(done.document())
        return OK
    for line in render_run(done, full=args.full):
        print_line(line)
    if trace.ended is None:
        say("The trace was cut off here.")
    return OK


def trace_file(args: Namespace) -> Path:
    """The trace that is named. Raises `ConfigError` for a name that is empty, as that of an unset variable."""
    if not args.file:
        raise ConfigError("No file is named; name a trace that `jaato flow run --trace FILE` has written.")
    return Path(clean_text(args.file) or "")


def carry_out(execution: FlowExecution) -> FlowRun:
    """The whole flow; the first signal stops it."""
    import anyio

    from jaato.cli.signals import interruptible

    async def main() -> FlowRun:
        with interruptible() as interrupts:
            interrupts.stop = execution.stop
            try:
                return await execution.run()
            except asyncio.CancelledError:
                raise CancelledException("Interrupted.") from None

    return anyio.run(main)


def blueprint(args: Namespace, screen: Screen) -> SessionOptions:
    """What the flow's session is to be."""

    def chosen(choice: ProviderChoice, model: str) -> None:
        screen.note(f"{choice.name} {model} ({choice.reason})", "dim")

    confirm: Any = None
    if can_ask(screen):
        from jaato.cli.repl.questions import confirm as ask

        confirm = partial(ask, screen)
    return blueprint_of(args, chosen=chosen, progress=screen.progress, confirm=confirm)


def can_ask(screen: Screen) -> bool:
    """Whether somebody at a terminal can be asked."""
    return sys.stdin.isatty() and screen.err_is_terminal


def attend(session: Session, screen: Screen) -> Callable[[], None]:
    """Print retries, and have the terminal, if there is one, answer the session's questions; returns what ends that."""

    def on_event(event: Event) -> None:
        if isinstance(event, Retry):
            screen.note(retry_text(event), "yellow")

    silence = session.journal.bus.listen(on_event)
    if not can_ask(screen):
        return silence
    from jaato.cli.output.printer import Kin
    from jaato.cli.repl.questions import attend_terminal

    leave = attend_terminal(session, screen, Kin())

    def stop() -> None:
        silence()
        leave()

    return stop


class FlowPrinter:
    """Prints each record of a flow on a line of its own on stderr, where there is something to say."""

    def __init__(self) -> None:
        self.screen = Screen(environment())
        self._printed: set[str] = set()
        """The problems that were printed; none is printed twice."""

    def __call__(self, record: AnyRecord) -> None:
        """Print one record."""
        note = self.screen.note
        match record:
            case Offered():
                for problem in record.problems:
                    self._problem(problem)
                if record.known or not record.problems:
                    note(counted(record.known, "tool"), "dim")
            case PlanMade(steps=steps):
                note(f"plan: {', then '.join(step.tool for step in steps) or 'no tool is needed'}")
            case StepBegun(kind="tool"):
                note(one_line(f"{record.step_id} {record.tool}: {record.purpose}", SHORT_CHARS))
            case Replied(call=call) if call is not None:
                note(f"> {call_text(call.name, call.arguments, self.screen.width - 2)}", "cyan")
            case Called() if record.result.error is not None:
                self._problem(record.result.error.message)
            case StepEnded(step_id="chat", status="ok"):
                return
            case StepEnded(status="ok"):
                note(f"{record.step_id}: ok, {record.duration_s:.2f} s", "dim")
            case StepEnded(error=error):
                new = error is not None and error.message not in self._printed
                note(f"{record.step_id}: {record.status}{why(error) if new else ''}", "red")
                self._printed |= {error.message} if error is not None else set()

    def _problem(self, text: str) -> None:
        self.screen.note(f"  {printable_line(text)}", "yellow")
        self._printed.add(text)

    def print_run(self, run: FlowRun, *, as_json: bool) -> None:
        """How a flow ended: its answer on stdout, or the whole of it as JSON; a line about it on stderr."""
        if as_json:
            print_json(run.document())
        elif run.answer:
            self.screen.text(run.answer)
            self.screen.end_text()
        self.screen.note(closing_line(run), "dim")

    def print_error(self, run: FlowRun) -> None:
        """What a flow failed of, unless that was printed."""
        if run.error is not None and run.error.message not in self._printed:
            say(run.error.message)


def closing_line(run: FlowRun) -> str:
    """A flow in one line."""
    tokens = f"{run.usage.input_tokens:,} in, {run.usage.output_tokens:,} out"
    cost = f" · {price_text(run.cost_usd)}" if run.cost_usd else ""
    steps = sum(step.status != "skipped" for step in run.tool_steps)
    return (
        f"{run.status} · {counted(steps, 'step')} · {counted(run.model_calls, 'model call')} · {tokens}{cost} · "
        f"{run.duration_s:.2f} s · {run.flow_id}"
    )


def render_run(run: FlowRun, *, full: bool) -> Iterator[str]:
    """A flow to be read."""
    yield f"flow {run.flow_id}, begun {run.begun_at}: {run.status}{why(run.error)}"
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
    yield closing_line(run)


def render_step(step: FlowStep, *, full: bool) -> Iterator[str]:
    """One step."""
    name = " ".join(part for part in (step.step_id, step.tool) if part)
    again = f", {step.attempts} replies" if step.attempts > 1 else ""
    yield f"{name}: {step.status}{why(step.error)} ({step.duration_s:.2f} s{again})"
    if step.purpose:
        yield f"  purpose:   {shorten(step.purpose, full=full)}"
    for issue in step.issues:
        yield f"  refused:   {issue['path'] or '/'} {shorten(issue['message'], full=full)}"
    if step.args is not None:
        yield f"  arguments: {shorten(step.args, full=full)}"
    if step.kind == "tool" and step.status == "ok":
        yield f"  result:    {shorten(step.result, full=full)}"
    if step.text:
        yield f"  answer:    {shorten(step.text, full=full)}"
    if step.request_id:
        yield f"  request:   {step.request_id}"


def shorten(value: Any, *, full: bool) -> str:
    """A value on one line; text in full where all of it is wanted."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if full else one_line(text, SHORT_CHARS)


def why(problem: Problem | None) -> str:
    """A problem as the end of a sentence."""
    return f": {printable_line(problem.message)}" if problem is not None else ""
