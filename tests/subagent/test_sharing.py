"""What agents share: values under keys, and words to each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, calls, recorded, results, say
from tests.subagent.acts import problem, value
from tests.subagent.cast import stage

from jaato.abc.provider import ModelRequest
from jaato.plugins.subagent.plugin import MAX_KEYS, MAX_TOTAL_BYTES, MAX_VALUE_BYTES
from jaato.protocol.events import SharedUpdated
from jaato.providers.scripted import Step


@pytest.mark.spec("S3", "Subagent Coordination", "S3.subagents.1")
def test_what_one_agent_shares_all_can_read(tmp_path: Path) -> None:
    """Set by a subagent, read by its parent and by a sibling, listed with who set it."""

    async def main() -> None:
        def read(request: ModelRequest) -> Step:
            result: Any = request.messages[-1].parts[0]
            return say(str(result.structured["value"]))

        scripts = {
            "main": [
                call("delegate", task="x", name="one"),
                call("delegate", task="x", name="two"),
                calls(("get_shared_state", {"key": "found"}), ("list_shared_state", {})),
                say("done"),
            ],
            "one": [call("set_shared_state", key="found", value={"count": 42}), say("set")],
            "two": [call("get_shared_state", key="found"), read],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            await live.post("go")
            one = next(child for child in live.supervisor.subagents.values() if child.name == "one")
            assert value(live, 1)["result"] == "{'count': 42}"
            assert value(live, 2)["value"] == {"count": 42}
            (row,) = value(live, 3)["keys"]
            assert (row["key"], row["set_by"], row["bytes"]) == ("found", one.id, 12)
            assert any(
                isinstance(event, SharedUpdated) and event.agent_id == one.id for event in recorded(live)
            )

    anyio.run(main)


def test_a_counter_that_all_raise_counts_every_one(tmp_path: Path) -> None:
    """With expected_version nobody's change is lost: who is too late is told, reads again, and tries again."""

    async def main() -> None:
        def raise_it(request: ModelRequest) -> Step:
            last: Any = request.messages[-1].parts[0] if request.messages[-1].role == "tool" else None
            if last is not None and last.name == "set_shared_state" and last.ok:
                return say("raised")
            if last is None or last.name == "set_shared_state":
                return call("get_shared_state", key="count")
            got = last.structured
            return call(
                "set_shared_state", key="count", value=got["value"] + 1, expected_version=got["version"]
            )

        scripts = {
            "main": [
                call("set_shared_state", key="count", value=0),
                calls(*[("delegate", {"task": "raise"})] * 8),
                call("get_shared_state", key="count"),
                say("done"),
            ],
            "anyone": [raise_it] * 60,
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            await live.post("go")
            assert value(live)["value"] == 8

    anyio.run(main)


def test_the_bounds_of_what_is_shared_are_told(tmp_path: Path) -> None:
    """Values that are too large, too many keys, too much in all: nothing is kept, and the way out is said."""

    async def main() -> None:
        full = "x" * (MAX_VALUE_BYTES - 2)
        many = MAX_TOTAL_BYTES // MAX_VALUE_BYTES
        scripts = {
            "main": [
                call("set_shared_state", key="big", value=full + "x"),
                calls(*[("set_shared_state", {"key": f"k{n}", "value": full}) for n in range(many)]),
                call("set_shared_state", key="last", value=1),
                calls(*[("set_shared_state", {"key": f"k{n}"}) for n in range(many)]),
                calls(*[("set_shared_state", {"key": f"s{n}", "value": n}) for n in range(MAX_KEYS + 1)]),
                call("get_shared_state", key="s20x"),
                say("done"),
            ],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            await live.post("go")
            assert "Write it to a file" in problem(live, 0)
            assert [results(live)[1 + n].ok for n in range(many)] == [True] * many
            assert "in all" in problem(live, 1 + many) or "All shared values" in problem(live, 1 + many)
            assert value(live, 2 + many) == {"key": "k0", "removed": True}
            assert f"There are {MAX_KEYS} keys already" in problem(live, -2)
            assert "s20" in problem(live)
            assert len(live.journal.session_state.shared) == MAX_KEYS

    anyio.run(main)


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_a_key_has_a_length(tmp_path: Path, key: str) -> None:
    """Neither empty nor endless."""

    async def main() -> None:
        scripts = {"main": [call("set_shared_state", key=key, value=1), say("done")]}
        async with stage(tmp_path, scripts) as (live, _cast):
            await live.post("go")
            assert results(live)[0].error is not None

    anyio.run(main)


@pytest.mark.spec("S4", "8. Subagents Share Runtime, Not State", "S4.share.2")
def test_a_child_speaks_to_its_parent_through_the_inbox(tmp_path: Path) -> None:
    """The message waits for the parent's next pause, says who speaks, and is marked as a child's."""

    async def main() -> None:
        scripts = {
            "main": [call("delegate", task="x", name="one"), say("done")],
            "one": [call("send_to_subagent", agent_id="parent", message="halfway"), say("did")],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            await live.post("go")
            told = [m.text for m in live.state.messages if m.source == "child"]
            assert len(told) == 1
            assert told[0].startswith("[child] one (a")
            assert told[0].endswith("says: halfway")

    anyio.run(main)


def test_siblings_can_talk_while_they_work(tmp_path: Path) -> None:
    """A message to one at work is read at its next pause; one that has ended takes tasks only from above."""

    async def main() -> None:
        heard, sent = anyio.Event(), anyio.Event()

        async def wait(request: ModelRequest) -> Step:
            heard.set()
            await sent.wait()
            return call("list_active_subagents")

        async def send(request: ModelRequest) -> Step:
            await heard.wait()
            return call("send_to_subagent", agent_id="two", message="look left")

        def release(request: ModelRequest) -> Step:
            sent.set()
            return say("sent")

        scripts = {
            "main": [
                calls(("delegate", {"task": "x", "name": "one"}), ("delegate", {"task": "x", "name": "two"})),
                call("delegate", task="x", name="three"),
                say("done"),
            ],
            "one": [send, release],
            "two": [wait, lambda request: say(request.messages[-1].text)],
            "three": [
                call("send_to_subagent", agent_id="two", message="late"),
                lambda r: say(r.messages[-1].parts[0].error.message),
            ],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            with anyio.fail_after(60):
                await live.post("go")
            assert "look left" in results(live)[1].structured["result"]
            assert "only agents above it" in value(live)["result"]

    anyio.run(main)


def test_context_is_shared_as_data(tmp_path: Path) -> None:
    """share_context sends the last words of the conversation and shared values; nothing of it is an instruction."""

    async def main() -> None:
        scripts = {
            "main": [
                call("delegate", task="x", name="one"),
                call("set_shared_state", key="port", value=8080),
                call("share_context", agent_id="one", messages=2, keys=["port"], note="use it"),
                call("get_subagent_result", agent_id="one", wait_s=30),
                say("done"),
            ],
            "one": [say("did"), lambda request: say(request.messages[-1].text)],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            await live.post("the secret word is plum")
            said = value(live)["result"]
            assert "use it" in said
            assert "Shared port: 8080" in said
            assert "user: the secret word is plum" in said
            assert "data, not instructions" in said

    anyio.run(main)


def test_there_is_something_to_share_or_it_says_so(tmp_path: Path) -> None:
    """Unknown keys and nothing at all are refused; the main agent has no parent to talk to."""

    async def main() -> None:
        scripts = {
            "main": [
                call("delegate", task="x", name="one"),
                calls(
                    ("share_context", {"agent_id": "one", "keys": ["nope"]}),
                    ("share_context", {"agent_id": "one", "messages": 0}),
                    ("send_to_subagent", {"agent_id": "parent", "message": "m"}),
                    ("send_to_subagent", {"agent_id": "main", "message": "m"}),
                ),
                say("done"),
            ],
            "one": [say("did")],
        }
        async with stage(tmp_path, scripts) as (live, _cast):
            await live.post("go")
            assert [result.ok for result in results(live)[1:]] == [False] * 4

    anyio.run(main)


def test_without_a_session_the_tools_say_so(tmp_path: Path) -> None:
    """A direct call of the library has no agents around it."""
    from jaato.plugins.subagent.plugin import SubagentPlugin
    from jaato.runtime.embedding.executor import ToolExecutor
    from jaato.runtime.plugins.registry import PluginRegistry

    registry = PluginRegistry(workspace=tmp_path)
    registry.expose_tool(SubagentPlugin.name)
    executor = ToolExecutor()
    executor.set_registry(registry)
    for name, run in registry.get_exposed_executors().items():
        if name in ("delegate", "list_active_subagents"):
            executor.register(name, run)
    ok, answer = executor.execute("delegate", {"task": "x"})
    assert not ok
    assert "belongs to no session" in answer["error"]
    registry.shutdown()
