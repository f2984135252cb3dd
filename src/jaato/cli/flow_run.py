"""`jaato flow run` and `jaato flow replay --live`: a flow at work in this process."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from jaato.agent.session import Session
from jaato.cli.ending import ERROR, INTERRUPTED, OK, say
from jaato.cli.flow import file_of
from jaato.cli.flow_lines import Teller, screen_of, shown_run
from jaato.cli.kin import Kin
from jaato.cli.narrate import retry_text
from jaato.cli.options import blueprint_of, clean_text
from jaato.cli.run import read_piped
from jaato.cli.screen import Screen
from jaato.cli.signals import interruptible
from jaato.cli.table import print_json
from jaato.errors import CancelledException, ConfigError
from jaato.protocol.events import Event, Retry
from jaato.runtime.blueprint import Blueprint
from jaato.runtime.choose import Choice
from jaato.runtime.flow.again import Compared, ToldHands, TraceModel, compared
from jaato.runtime.flow.records import AnyRecord
from jaato.runtime.flow.result import FlowRun
from jaato.runtime.flow.trace import read_trace
from jaato.runtime.flow.work import Order, Work


def run(args: Namespace) -> int:
    """Carry out one instruction; the exit code says how it ended."""
    screen = screen_of()
    teller = Teller(screen)
    order = Order(
        instruction_of(args),
        blueprint(args, screen),
        registries_of(args),
        clean_text(args.token) or "",
        args.max_steps,
        trace_of(args),
        teller,
        lambda session: attend(session, screen),
    )
    done, fault = anyio.run(worked, order)
    shown_run(done, screen, as_json=args.json)
    if done.exit_code == INTERRUPTED:
        say("Interrupted; what was done is kept.")
    elif done.error is not None and done.error.message not in teller.told:
        say(done.error.message)
    if fault:
        say(fault)
        return done.exit_code or ERROR
    return done.exit_code


def again(args: Namespace) -> int:
    """Play a trace at the registries: the replies as they were, the tools called anew and compared."""
    trace = read_trace(file_of(args))
    screen = screen_of()
    model = TraceModel()
    heard: list[AnyRecord] = []
    teller = Teller(screen)

    def hear(record: AnyRecord) -> None:
        heard.append(record)
        teller(record)

    begun = trace.begun
    places = tuple(place.name if place.configured else place.url for place in begun.registries)
    order = Order(
        begun.instruction,
        replace(blueprint(args, screen), provider=model, model="trace"),
        registries_of(args) or places,
        clean_text(args.token) or "",
        begun.max_steps,
        heard=hear,
        attend=lambda session: attend(session, screen),
        hands=lambda live: ToldHands(live, model, trace),
    )
    done, _ = anyio.run(worked, order)
    rows = compared(trace.records, heard)
    if args.json:
        print_json({**done.document(), "compared": [row_of(row) for row in rows]})
    for row in rows:
        screen.note(f"{row.step_id} {row.tool}: {'the same' if row.same else 'not the same'}")
    if done.status in ("cancelled", "interrupted"):
        return INTERRUPTED
    if done.error is not None and done.error.message not in teller.told:
        say(done.error.message)
    return OK if rows_same(rows) and (done.ok or done.error == ending(trace.ended)) else ERROR


def ending(ended: Any) -> Any:
    """With what a flow ended."""
    return ended.error if ended is not None else None


def rows_same(rows: list[Compared]) -> bool:
    """Whether every tool gave the same."""
    return all(row.same for row in rows)


def row_of(row: Compared) -> dict[str, Any]:
    """A comparison as data."""
    before, now = (None if one is None else one.result for one in (row.before, row.now))
    return {"step_id": row.step_id, "tool": row.tool, "same": row.same, "before": before, "now": now}


async def worked(order: Order) -> tuple[FlowRun, str]:
    """The whole flow, and why its trace ends early; the first signal stops it."""
    with interruptible() as interrupts:
        work = Work(order)
        interrupts.stop = work.stop
        try:
            return await work.run(), work.fault
        except asyncio.CancelledError:
            raise CancelledException("Interrupted.") from None


def instruction_of(args: Namespace) -> str:
    """The instruction with what was piped in. Raises `ConfigError` when there is neither."""
    words = clean_text(" ".join(word for word in args.instruction if word != "-")) or ""
    piped = read_piped()
    text = "\n\n".join(part for part in (words.strip(), piped.strip("\n")) if part.strip())
    if not text:
        raise ConfigError('Say what is to be done: jaato flow run "INSTRUCTION", or pipe text into it.')
    return text


def trace_of(args: Namespace) -> Path | None:
    """Where the trace goes, if one is wanted. Raises `ConfigError` for a name that is empty, as that of an unset variable."""
    if args.trace is None:
        return None
    text = clean_text(args.trace)
    if not text:
        raise ConfigError("--trace needs the name of a file that is not there yet.")
    return Path(text)


def registries_of(args: Namespace) -> tuple[str, ...]:
    """The registries that are named."""
    return tuple(clean_text(one) or "" for one in args.registry)


def blueprint(args: Namespace, screen: Screen) -> Blueprint:
    """What the flow's session is to be."""

    def chosen(choice: Choice, model: str) -> None:
        screen.note(f"{choice.name} {model} ({choice.reason})", "dim")

    confirm: Any = None
    if asks(screen):
        from jaato.cli.asking import confirm as ask

        confirm = partial(ask, screen)
    return blueprint_of(args, chosen=chosen, progress=screen.progress, confirm=confirm)


def asks(screen: Screen) -> bool:
    """Whether somebody at a terminal can be asked."""
    return sys.stdin.isatty() and screen.err_is_terminal


def attend(session: Session, screen: Screen) -> Callable[[], None]:
    """Tell of tries that are repeated, and have the terminal, if there is one, answer the session's questions."""

    def tell(event: Event) -> None:
        if isinstance(event, Retry):
            screen.note(retry_text(event), "yellow")

    silence = session.journal.bus.listen(tell)
    if not asks(screen):
        return silence
    from jaato.cli.asking import attend_terminal

    leave = attend_terminal(session, screen, Kin())

    def stop() -> None:
        silence()
        leave()

    return stop
