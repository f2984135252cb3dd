"""The queue before a way out: bounded, never waited for, ended within its time."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tests.tracing.write_spans import span

from jaato.runtime.tracing import Tally
from jaato.runtime.tracing.outlet import BATCH, Outlet, SinkFault
from jaato.runtime.tracing.spans import Span


class Gate:
    """A sink that lets nothing through until it is opened."""

    name = "the gate"
    linger_s = 0.0

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.entered = threading.Event()
        self.taken: list[str] = []
        self.closed = False
        self.fault: Exception | None = None

    def send(self, spans: Sequence[Span], closing: threading.Event) -> int:
        """Wait, then take them."""
        self.entered.set()
        assert self.opened.wait(20)
        if self.fault is not None:
            raise self.fault
        self.taken += [one.name for one in spans]
        return 0

    def close(self) -> None:
        """It is over."""
        self.closed = True


def trace_threads() -> int:
    """How many threads of outlets live."""
    return sum(thread.name == "jaato-trace" for thread in threading.enumerate())


def test_what_does_not_fit_is_dropped_and_counted() -> None:
    """While the sink hangs, no more than the capacity waits, newer spans are dropped and counted; what waited goes out in
    order when the sink is back, and no thread is left."""
    gate, tally = Gate(), Tally()
    outlet = Outlet(gate, tally, capacity=100)
    outlet.put([span(0)])
    assert gate.entered.wait(20)
    for first in range(1, 1001, 10):
        outlet.put([span(number) for number in range(first, first + 10)])
    assert outlet.dropped == 900
    gate.opened.set()
    outlet.close(20)
    assert gate.taken == [f"a {number}" for number in range(101)]
    assert (outlet.exported, tally.exported, tally.dropped) == (101, 101, 900)
    assert gate.closed
    assert trace_threads() == 0
    outlet.put([span(1)])
    assert tally.dropped == 901


def test_the_end_waits_no_longer_than_it_says() -> None:
    """A sink that hangs at the end is left behind: what it has not taken is counted as dropped, once."""
    gate, tally = Gate(), Tally()
    outlet = Outlet(gate, tally)
    outlet.put([span(number) for number in range(BATCH + 5)])
    assert gate.entered.wait(20)
    outlet.close(0.01)
    assert (tally.dropped, tally.exported) == (BATCH + 5, 0)
    gate.opened.set()
    outlet.close(20)
    assert (tally.dropped, tally.exported) == (BATCH + 5, 0)
    assert trace_threads() == 0


def test_a_fault_is_said_once_until_it_is_over() -> None:
    """A sink that fails is said once, whatever it raises; when it works again and fails again, it is said again."""
    gate = Gate()
    gate.opened.set()
    outlet = Outlet(gate)
    said: list[str | None] = []
    for fault in (SinkFault("broken."), ValueError("odd"), None, SinkFault("broken again.")):
        gate.fault = fault
        gate.entered.clear()
        before = outlet.dropped + outlet.exported
        outlet.put([span(1)])
        while outlet.dropped + outlet.exported == before:
            gate.entered.wait(0.01)
    outlet.close(20)
    while (words := outlet.news()) is not None:
        said.append(words)
    assert said == [
        "Spans do not get to the gate: broken.",
        "Spans do not get to the gate: broken again.",
    ]
    assert (outlet.exported, outlet.dropped) == (1, 3)


def test_an_outlet_nobody_uses_has_no_thread() -> None:
    """Without a span there is no thread, and nothing to wait for at the end."""
    outlet = Outlet(Gate())
    outlet.put([])
    assert trace_threads() == 0
    outlet.close()
