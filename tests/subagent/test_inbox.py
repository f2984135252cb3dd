"""Tasks in the background, and messages to agents at work."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.kit import call, say
from tests.subagent.acts import value
from tests.subagent.cast import stage

from jaato.abc.provider import ModelRequest
from jaato.protocol.events import (
    Event,
    MidTurnQueued,
)
from jaato.providers.scripted import Step


@pytest.mark.spec("S3", "Subagent Coordination", "S3.subagents.1")
@pytest.mark.spec("S4", "8. Subagents Share Runtime, Not State", "S4.share.2")
def test_a_background_task_is_told_through_the_inbox(tmp_path: Path) -> None:
    """delegate returns at once; the answer comes as a message of the child at the next pause, and can be asked for."""

    async def main() -> None:
        may_end, has_ended = anyio.Event(), anyio.Event()

        async def slow(request: ModelRequest) -> Step:
            await may_end.wait()
            return say("the answer is 42")

        async def wait(request: ModelRequest) -> Step:
            may_end.set()
            await has_ended.wait()
            return call("list_active_subagents")

        scripts = {
            "main": [
                call("delegate", task="think", name="deep", background=True),
                wait,
                call("get_subagent_result", agent_id="deep"),
                say("done"),
            ],
            "deep": [slow],
        }
        async with stage(tmp_path, scripts) as (live, _cast):

            def heard(event: Event) -> None:
                if isinstance(event, MidTurnQueued):
                    has_ended.set()

            live.journal.bus.listen(heard)
            await live.post("go")
            begun = value(live, 0)
            assert begun["status"] in ("waiting", "running")
            told = [m for m in live.state.messages if m.source == "child"]
            assert len(told) == 1
            assert told[0].text.startswith("[child] The subagent deep")
            assert "the answer is 42" in told[0].text
            assert value(live)["result"] == "the answer is 42"

    anyio.run(main)


def test_what_is_fetched_is_not_told_twice(tmp_path: Path) -> None:
    """A parent that waits for the result gets no message about it."""

    async def main() -> None:
        scripts = {
            "main": [
                call("delegate", task="x", name="one", background=True),
                call("get_subagent_result", agent_id="one", wait_s=30),
                say("done"),
            ],
            "one": [say("yes")],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            await live.post("go")
            assert value(live)["result"] == "yes"
            assert [m.source for m in live.state.messages if m.role == "user"] == ["user"]
            assert not live.inbox.messages

    anyio.run(main)


def test_a_subagent_can_be_continued(tmp_path: Path) -> None:
    """It remembers what was said; its second answer comes back like the first."""

    async def main() -> None:
        scripts = {
            "main": [
                call("delegate", task="say a", name="one"),
                call("continue_subagent", agent_id="one", message="and now b"),
                say("done"),
            ],
            "one": [say("a"), say("b")],
        }
        async with stage(tmp_path, scripts) as (live, cast):
            await live.post("go")
            assert value(live)["result"] == "b"
            assert cast.of("one")[1] == ["[parent] say a", "a", "[parent] and now b"]

    anyio.run(main)


def test_a_message_steers_a_subagent_at_work(tmp_path: Path) -> None:
    """send_to_subagent reaches it at its next pause, before it answers."""

    async def main() -> None:
        asked, sent = anyio.Event(), anyio.Event()

        async def work(request: ModelRequest) -> Step:
            asked.set()
            await sent.wait()
            return call("list_active_subagents")

        async def steer(request: ModelRequest) -> Step:
            await asked.wait()
            return call("send_to_subagent", agent_id="one", message="in French")

        async def release(request: ModelRequest) -> Step:
            sent.set()
            return call("get_subagent_result", agent_id="one", wait_s=30)

        scripts = {
            "main": [call("delegate", task="x", name="one", background=True), steer, release, say("done")],
            "one": [work, say("oui")],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            await live.post("go")
            assert value(live)["result"] == "oui"
            heard = [m.text for m in live.supervisor.subagents[value(live)["agent_id"]].record.state.messages]
            assert "[parent] in French" in heard

    anyio.run(main)


def test_a_task_is_not_over_while_tasks_below_it_run(tmp_path: Path) -> None:
    """A subagent that delegated in the background hears the answer before its own is taken."""

    async def main() -> None:
        scripts = {
            "main": [call("delegate", task="x", name="boss"), say("done")],
            "boss": [
                call("delegate", task="y", name="worker", background=True),
                say("I wait"),
                lambda request: say("heard: " + request.messages[-1].text.splitlines()[-1]),
            ],
            "worker": [say("worked")],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            await live.post("go")
            assert value(live)["result"] == "heard: worked"

    anyio.run(main)
