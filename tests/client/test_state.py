"""The state that clients keep of a session."""

from __future__ import annotations

import time

from jaato.client.state import add_output
from jaato.protocol.events import AgentOutput
from jaato.protocol.events.state import AgentView


def appending_cpu_s(before: int) -> float:
    """The least CPU time of three tries to append 2,000 deltas to a text of so many characters."""
    tries = []
    for _ in range(3):
        agent = AgentView(id="a")
        agent.streaming["model"] = "x" * before
        deltas = [
            AgentOutput(
                session_id="s",
                agent_id="a",
                seq=0,
                timestamp="",
                source="model",
                mode="append",
                offset=before + 3 * number,
                text="abc",
            )
            for number in range(2_000)
        ]
        started = time.process_time()
        for delta in deltas:
            add_output(agent, delta)
        tries.append(time.process_time() - started)
        assert len(agent.streaming["model"]) == before + 6_000
    return min(tries)


def test_a_delta_does_not_copy_the_text_before_it() -> None:
    """What appending costs does not grow with the text that was streamed before."""
    assert appending_cpu_s(4_000_000) < 5 * appending_cpu_s(0)
