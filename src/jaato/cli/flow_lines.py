"""A flow in lines: told on stderr as it goes, and as a page when it is over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from jaato.cli.call_lines import call_text, printable_line
from jaato.cli.screen import Screen, one_line
from jaato.protocol.messages import Problem
from jaato.runtime.flow.records import (
    AnyRecord,
    Called,
    Offered,
    PlanMade,
    Replied,
    StepBegun,
    StepEnded,
)
from jaato.runtime.flow.result import FlowRun, FlowStep
from jaato.settings import environment

SHORT_CHARS = 300


def screen_of() -> Screen:
    """The terminal, or what stands in its place."""
    return Screen(environment())


class Teller:
    """Tells each record of a flow on a line of its own, where there is something to tell."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self.told: set[str] = set()
        """The problems that were told; none is told twice."""

    def __call__(self, record: AnyRecord) -> None:
        """Tell one record."""
        note = self._screen.note
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
                note(f"> {call_text(call.name, call.arguments, self._screen.width - 2)}", "cyan")
            case Called() if record.result.error is not None:
                self._problem(record.result.error.message)
            case StepEnded(step_id="chat", status="ok"):
                return
            case StepEnded():
                self._ended(record)

    def _ended(self, record: StepEnded) -> None:
        spent = f"{record.duration_s:.2f} s"
        if record.status == "ok":
            self._screen.note(f"{record.step_id}: ok, {spent}", "dim")
        else:
            told = record.error is not None and record.error.message in self.told
            self._screen.note(f"{record.step_id}: {record.status}{'' if told else why(record.error)}", "red")
            self.told |= {record.error.message} if record.error is not None else set()

    def _problem(self, text: str) -> None:
        self._screen.note(f"  {printable_line(text)}", "yellow")
        self.told.add(text)


def shown_run(run: FlowRun, screen: Screen, *, as_json: bool) -> None:
    """How a flow ended: its answer on stdout, or the whole of it as JSON; a line about it on stderr."""
    if as_json:
        from jaato.cli.table import print_json

        print_json(run.document())
    elif run.answer:
        screen.text(run.answer)
        screen.end_text()
    screen.note(closing(run), "dim")


def closing(run: FlowRun) -> str:
    """A flow in one line."""
    tokens = f"{run.usage.input_tokens:,} in, {run.usage.output_tokens:,} out"
    cost = f" · ${run.cost_usd:.4f}" if run.cost_usd else ""
    steps = sum(step.status != "skipped" for step in run.tool_steps)
    return (
        f"{run.status} · {counted(steps, 'step')} · {counted(run.model_calls, 'model call')} · {tokens}{cost} · "
        f"{run.duration_s:.2f} s · {run.flow_id}"
    )


def page_of(run: FlowRun, *, full: bool) -> Iterator[str]:
    """A flow to be read."""
    yield f"flow {run.flow_id}, begun {run.begun_at}: {run.status}{why(run.error)}"
    yield f"instruction: {shortened(run.instruction, full=full)}"
    for place in run.registries:
        yield f"registry {place.name}: {place.url}"
    for problem in run.problems:
        yield f"problem: {problem}"
    if run.model:
        yield f"model: {run.provider} {run.model}"
    for step in run.steps:
        yield ""
        yield from step_lines(step, full=full)
    yield ""
    yield closing(run)


def step_lines(step: FlowStep, *, full: bool) -> Iterator[str]:
    """One step."""
    what = " ".join(part for part in (step.step_id, step.tool) if part)
    again = f", {step.attempts} replies" if step.attempts > 1 else ""
    yield f"{what}: {step.status}{why(step.error)} ({step.duration_s:.2f} s{again})"
    if step.purpose:
        yield f"  purpose:   {shortened(step.purpose, full=full)}"
    for issue in step.issues:
        yield f"  refused:   {issue['path'] or '/'} {shortened(issue['message'], full=full)}"
    if step.args is not None:
        yield f"  arguments: {shortened(step.args, full=full)}"
    if step.kind == "tool" and step.status == "ok":
        yield f"  result:    {shortened(step.result, full=full)}"
    if step.text:
        yield f"  answer:    {shortened(step.text, full=full)}"
    if step.request_id:
        yield f"  request:   {step.request_id}"


def shortened(value: Any, *, full: bool) -> str:
    """A value on one line; text in full where all of it is wanted."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if full else one_line(text, SHORT_CHARS)


def why(problem: Problem | None) -> str:
    """A problem as the end of a sentence."""
    return f": {printable_line(problem.message)}" if problem is not None else ""


def counted(number: int, noun: str) -> str:
    """So many of them."""
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"
