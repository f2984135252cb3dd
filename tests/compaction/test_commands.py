"""`/context`, `/compact` and `/pin` in a chat, with a server and without one; `jaato context`; the same for `JaatoClient`."""

from __future__ import annotations

import contextvars
import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.cli.conftest import desk
from tests.cli.environment import CliEnvironment, say
from tests.cli.terminal import leave, talking
from tests.compaction.test_summaries import is_question
from tests.kit import call, plan, provider_of, recorded, runtime, session
from tests.spec.conftest import connect
from tests.spec.facades import Connect

from jaato.abc.compactor import GCConfig
from jaato.abc.provider import ModelRequest
from jaato.agent.compaction.account import account_lines, allocate
from jaato.agent.compaction.setup import CompactionSetup
from jaato.agent.compaction.strategies import HybridGCPlugin
from jaato.agent.session import Session
from jaato.errors import ConfigError, JaatoError
from jaato.protocol.codec import encode
from jaato.protocol.events import ContextUpdated, Event, GcCompleted, TurnCompleted
from jaato.protocol.messages import Usage
from jaato.providers.scripted import Answer, Step
from jaato.runtime.plugins.adapter import Toolset

__all__ = ["connect", "desk"]
LONG = "tide " * 2_000
SUMMARY = {"text": "They spoke of tides.", "purpose": "gc"}


@pytest.mark.parametrize("desk", ["process", "server"], indirect=True)
def test_a_chat_shows_compacts_and_pins(desk: CliEnvironment) -> None:
    """The context as bars, a compaction that frees, one that frees nothing, a pin that survives: at a terminal."""
    script = desk.script(say(LONG), say(LONG), SUMMARY, say("yes"))
    with talking(desk, *script) as child:
        for line, expected in (
            ("hello", "tide"),
            ("/pin the master is Jo", "Pinned as p1"),
            ("/pin", "p1 the master is Jo"),
            ("and now", "tide"),
            ("/context", r"limit: known of the model; free: [\d,]+ tokens"),
            ("/context all", "There is /context and /context json"),
            ("/context json", r'"context_limit":128000'),
            ("/compact the tides", r"compacted, from [\d,]+ to about [\d,]+ tokens"),
            ("/compact", "stays as it is: gc_hybrid freed nothing"),
            ("/pin remove p1", "Removed"),
            ("/pin", "Nothing is pinned"),
        ):
            child.expect("> $")
            child.sendline(line)
            child.expect(expected)
        assert leave(child) == 0
    session_id = desk.sessions()[0]["id"]
    made = [event for event in desk.events(session_id) if event["type"] == "gc.completed"]
    assert [bool(event.get("problem")) for event in made] == [False, True]
    assert "the master is Jo" in json.dumps(made[0]["added"])
    assert "They spoke of tides." in json.dumps(made[0]["added"])


@pytest.mark.parametrize("desk", ["process", "server"], indirect=True)
def test_a_chat_compacts_during_a_turn(desk: CliEnvironment) -> None:
    """During a turn `/compact` says when it will happen; it happens between two calls to the model, or when the turn ends."""
    wait = {"calls": [{"name": "run", "arguments": {"command": "sleep 1.5"}}]}
    script = desk.script(say(LONG), wait, SUMMARY, say(LONG), wait, say(LONG), SUMMARY, say("yes"))
    with talking(desk, *script, "--yes") as child:
        child.expect("> $")
        child.sendline("hello")
        child.expect("tide")
        child.expect("> $")
        child.sendline("work")
        child.expect("> run sleep")
        child.sendline("/compact")
        child.expect("compacted before its next call to the model")
        child.sendline("/compact the tides")
        child.expect("compacted before its next call to the model")
        child.expect(r"context compacted, [\d,]+ to about [\d,]+ tokens \(gc_hybrid: asked to by /compact\)")
        child.expect("tokens in")
        child.expect("> $")
        child.sendline("work again")
        child.expect("> run sleep")
        child.sendline("/compact")
        child.expect("compacted before its next call to the model")
        child.sendline("/stop")
        child.expect("Interrupted; completed work is kept")
        assert leave(child) == 0
    events = desk.events(desk.sessions()[0]["id"])
    kinds = [event["type"] for event in events]
    made = kinds.index("gc.completed")
    assert kinds.count("gc.completed") == 1
    assert "message.model" in kinds[made:][: kinds[made:].index("turn.completed")]
    assert "tool.call_end" in kinds[:made]
    assert "They spoke of tides." in json.dumps(events[made]["added"])


def test_a_compaction_waits_for_the_turn(tmp_path: Path) -> None:
    """A program that compacts during a turn waits for the pause after the running calls; a request during the last reply is
    met when the turn has ended; a call of the turn itself cannot wait; stopping the turn drops the request."""

    async def main() -> None:
        freed: list[bool] = []
        async with anyio.create_task_group() as group:

            async def work() -> str:
                with pytest.raises(JaatoError, match="request_compaction"):
                    await live.compact()
                context.run(group.start_soon, compact)
                await anyio.sleep(0.1)
                assert not freed
                return "done"

            async def compact() -> None:
                freed.append(await live.compact())

            def request(_: ModelRequest) -> Step:
                live.request_compaction()
                return say_long()

            def stop(_: ModelRequest) -> Step:
                live.request_compaction()
                live.stop()
                return say_long()

            context = contextvars.copy_context()
            summary = Step(text="Tides.", purpose="gc")
            script: list[Answer] = [say_long(), say_long(), call("work"), say_long(), request, stop, summary]
            async with session(tmp_path, script, tools=[work]) as live:
                use_hybrid(live)
                live.activate(["work"])
                for text in ("one", "two", "three", "four"):
                    await live.post(text)
                assert freed == [True]
                turn, compaction = TurnCompleted, GcCompleted
                kinds = [type(event) for event in recorded(live)]
                order = [kind for kind in kinds if kind in (turn, compaction)]
                assert order == [turn, turn, compaction, turn, turn, compaction]
                ended = await live.post("five")
                assert ended is not None
                assert ended.reason == "cancelled"
                assert sum(isinstance(event, GcCompleted) for event in recorded(live)) == 2
                assert not live.is_busy

    anyio.run(main)


def test_a_stored_session_has_its_account(desk: CliEnvironment) -> None:
    """`jaato context` prints bars within 80 columns, or JSON whose parts add up to the total that the provider counted."""
    usage = {"input_tokens": 5_000, "output_tokens": 1_234}
    done = desk.run("run", *desk.script(say(LONG, usage=usage)), "how high is the water")
    assert done.returncode == 0, done.stderr
    shown = desk.run("context")
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "6,234 of 128,000 tokens (4.9 %)" in shown.stdout
    assert "compacted at 80 %" in shown.stdout
    for name in ("system", "tools", "user", "assistant", "free"):
        assert any(line.startswith(name) for line in lines), name
    told = json.loads(desk.run("context", desk.sessions()[0]["id"], "--json").stdout)
    assert sum(block["tokens"] for block in told["blocks"]) == told["total_tokens"] == 6_234
    assert told["context_limit_source"] == "catalogue"
    kinds = {block["kind"] for block in told["blocks"]}
    assert {"system", "tools", "user", "assistant"} <= kinds
    for threshold in ("nan", "1000"):
        wrong = desk.run("context", environ={"JAATO_GC_THRESHOLD": threshold})
        assert wrong.returncode == 2
        assert "more than 0, at most 100" in wrong.stderr
    missing = desk.run("context", "s01zzz")
    assert missing.returncode == 2


def test_without_a_session_it_says_how_to_get_one(tmp_path: Path) -> None:
    """No store, no session of this directory: an error, not an empty table."""
    desk = CliEnvironment(tmp_path)
    assert "There are no sessions yet" in desk.run("context").stderr
    desk.run("run", *desk.script(say("x")), "hello")
    other = desk.run("context", cwd=desk.home)
    assert other.returncode == 2
    assert "No session has worked in" in other.stderr


def test_a_client_compacts_with_words_and_turns_it_off(connect: Connect) -> None:
    """`compact("words")` puts the words into the question; after `set_gc_plugin(None)`, also before the first message,
    nothing compacts."""
    summary = Step(text="Of tides.", purpose="gc")
    client = connect([say_long(), say_long(), summary, say_long()])
    client.send_message("one")
    client.send_message("two")
    assert client.compact("the tides")
    assert any("Of tides." in message.text for message in client.get_history())
    assert client.get_session().execute_user_command("context").count("\n") > 5
    client.set_gc_plugin(None)
    with pytest.raises(ConfigError, match="compaction is off"):
        client.compact()
    assert client.get_context_usage()["threshold_percent"] is None
    client.reset_session()
    assert client.get_session().get_context_usage()["threshold_percent"] is None


def say_long() -> Step:
    """A long reply."""
    return Step(text=LONG)


def use_hybrid(live: Session) -> None:
    """Compaction by the usual strategy."""
    live.compaction.use(CompactionSetup(HybridGCPlugin(), GCConfig()))


def test_the_words_reach_the_question(tmp_path: Path) -> None:
    """What the user asks the summary to keep stands in the question to the model; at most 300 characters of it."""

    async def main() -> None:
        async with session(tmp_path, [say_long()] * 3) as live:
            use_hybrid(live)
            for text in ("one", "two", "three"):
                await live.post(text)
            said = await live.run_command("compact", "the moorings")
            assert "The model gave no summary" in said
            (question,) = [request for request in provider_of(live).requests if is_question(request)]
            assert "keep in particular: the moorings" in question.messages[0].text

    anyio.run(main)


def test_every_reply_tells_what_the_context_consists_of(tmp_path: Path) -> None:
    """`context.updated` has the parts, which add up to the provider's count; to compute it costs no walk through the
    history."""

    async def main() -> None:
        seen: list[ContextUpdated] = []

        def listen(event: Event) -> None:
            if isinstance(event, ContextUpdated):
                seen.append(event)

        script = [Step(text="aye", usage=Usage(1_000 + 10 * n, 7)) for n in range(3)]
        made = runtime(tmp_path)
        made.registry.add_toolset(Toolset("harbour", None, instructions="Mind the tide. " * 10))
        async with made.create(plan(tmp_path, script)) as live:
            live.journal.bus.listen(listen)
            for n in range(3):
                await live.post(f"question {n}")
            assert [event.total_tokens for event in seen] == [1_007, 1_017, 1_027]
            for event in seen:
                assert sum(block.tokens for block in event.blocks) == event.total_tokens
                assert event.limit_source == "catalogue"
            names = {(block.kind, block.name) for block in seen[-1].blocks}
            assert ("instructions", "harbour") in names
            account = live.model.account
            messages = account.list_messages()
            assert len(messages) == 6
            conversation = [b.tokens for b in account.list_blocks() if b.kind in ("user", "assistant")]
            assert sum(row["tokens"] for row in messages) == sum(conversation)
            lines = account_lines(account.describe(80.0))
            assert max(map(len, lines)) <= 80
            del live.state.messages[
                :
            ]  # the parts are counted as they come, not by looking through the messages
            assert encode(live.model.account.list_blocks()) == encode(seen[-1].blocks)
        made.close()

    anyio.run(main)


@pytest.mark.parametrize(
    ("total", "weights", "sizes"),
    [
        (10, [1, 1, 1], [4, 3, 3]),
        (0, [1, 2], [0, 0]),
        (7, [0, 0], [7, 0]),
        (5, [], []),
        (100, [1, 0, 999], [0, 0, 100]),
    ],
)
def test_tokens_are_divided_without_a_rest(total: int, weights: list[int], sizes: list[int]) -> None:
    """The largest remainders get what rounding leaves."""
    assert allocate(total, weights) == sizes


def test_an_account_of_odd_figures_can_be_drawn() -> None:
    """More tokens than the limit, nothing at all, long names: every line fits."""
    fields: dict[str, Any] = {
        "model": "m" * 200,
        "context_limit": 1_000,
        "context_limit_source": "assumed",
        "total_tokens": 123_456_789,
        "percent_used": 12_345_678.9,
        "tokens_remaining": 0,
        "threshold_percent": 100.0,
        "blocks": [{"kind": "instructions", "name": "n" * 90, "tokens": 123_456_789}],
        "messages": [{"role": "assistant", "tokens": 123_456_789, "title": "t" * 60}],
    }
    assert max(map(len, account_lines(fields))) <= 80
    empty = {**fields, "total_tokens": 0, "blocks": [], "messages": [], "threshold_percent": None}
    assert "compaction is off" in "\n".join(account_lines(empty))
