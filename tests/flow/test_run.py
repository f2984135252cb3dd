"""A flow with registries that keep to the contract: planned, carried out, answered, in the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from tests.arp.serving import definition, shop
from tests.arp.using import configure
from tests.contract.serving import opened
from tests.flow.using import ASKED, flow_of, flown, planned, trace_of
from tests.kit import call, say

from jaato.errors import ConfigError, PermissionDenied
from jaato.protocol.events import (
    MessageModel,
    MessageUser,
    PermissionRequested,
    ToolCallEnd,
    ToolCallStart,
    TurnCompleted,
)
from jaato.runtime.flow.flow import Flow
from jaato.runtime.flow.result import FlowRun


@pytest.mark.spec("S2", "Runtime integration")
def test_the_documented_integration(tmp_path: Path) -> None:
    """The planner gets the minimal view and nothing else, the schema of a chosen tool is fetched before it is called, and the
    call goes to our own registry with its arguments, and as a step of this flow in the registry's log."""
    script = [
        planned("calc", "echo"),
        call("calc", expression="6 * 7"),
        call("echo", text="42"),
        say("It is 42."),
    ]

    async def main() -> None:
        async with opened(tmp_path) as registry:
            done = await flown(tmp_path, script, registry.at.url)
            logged = await anyio.to_thread.run_sync(registry.log)
            theirs = [event for event in logged if isinstance(event, ToolCallStart)]
        run = done.run
        assert (run.status, run.answer, run.ok, run.exit_code) == ("ok", "It is 42.", True, 0)
        assert [step.step_id for step in run.steps] == ["plan", "step-1", "step-2", "chat"]
        assert [step.result for step in run.tool_steps] == [
            {"expression": "6 * 7", "value": 42},
            {"text": "42"},
        ]
        assert [step.args for step in run.tool_steps] == [{"expression": "6 * 7"}, {"text": "42"}]
        assert [event.arguments for event in theirs] == [step.args for step in run.tool_steps]
        assert [event.origin for event in theirs] == [
            {
                "request_id": step.request_id,
                "trace_id": run.trace_id,
                "flow_id": run.flow_id,
                "step_id": step.step_id,
                "idempotency_key": step.request_id,
            }
            for step in run.tool_steps
        ]
        assert (run.model_calls, run.usage.input_tokens, run.usage.output_tokens) == (4, 400, 40)
        plan, first, second, chat = done.requests
        assert not plan.tools
        assert "properties" not in plan.messages[0].text
        assert '"name":"calc"' in plan.messages[0].text
        assert [tool.name for tool in first.tools] == ["calc"]
        assert '"value":42' in second.messages[0].text
        assert not chat.tools
        assert '"value":42' in chat.messages[0].text
        assert '{"text":"42"}' in chat.messages[0].text
        log = done.log()
        assert [event.message.words for event in log if isinstance(event, MessageUser)] == [ASKED]
        assert [event.message.text for event in log if isinstance(event, MessageModel)][-1] == "It is 42."
        assert [event.tool for event in log if isinstance(event, ToolCallEnd)] == ["calc", "echo"]
        [turn] = [event for event in log if isinstance(event, TurnCompleted)]
        assert (turn.reason, turn.tool_calls, turn.model_calls) == ("stop", 2, 4)
        assert Flow.replay(done.trace) == run

    anyio.run(main)


@pytest.mark.spec("S2", "Runtime integration")
def test_only_what_is_needed_is_asked(tmp_path: Path) -> None:
    """A registry is asked for its list once, for the definition of the tool that the plan names and of no other, before its
    one call, which has arguments, context, trace, ids."""
    with shop(definition("forecast", "The weather in a city."), definition("departures")) as it:
        script = [planned("forecast"), call("forecast", text="Bern"), say("Rain.")]
        done = anyio.run(flown, tmp_path, script, it.url)
        assert [(one.method, one.path) for one in it.seen] == [
            ("GET", "/v1/tools"),
            ("GET", "/v1/tools/forecast"),
            ("POST", "/v1/tools/forecast:invoke"),
        ]
        [sent] = it.asked("POST")
    [step] = done.run.tool_steps
    assert sent.body["args"] == {"text": "Bern"}
    assert sent.body["trace"] == {"flow_id": done.run.flow_id, "step_id": "step-1"}
    assert sent.body["context"]["session_id"] == done.run.flow_id
    assert sent.headers["x-request-id"] == step.request_id
    assert sent.headers["traceparent"].split("-")[1] == done.run.trace_id
    assert (step.tool, step.registry, step.purpose) == (
        "forecast",
        it.url.removeprefix("http://"),
        "for forecast",
    )


@pytest.mark.spec("S2", "Runtime integration")
def test_arguments_are_validated_before_they_are_sent(tmp_path: Path) -> None:
    """Arguments that do not fit are not sent: the model gets every problem and has one more try; the second may be text."""
    with shop(definition("echo")) as it:
        script = [planned("echo"), call("echo", words="hm"), say('{"text": "right"}'), say("Done.")]
        done = anyio.run(flown, tmp_path, script, it.url)
        assert [one.body["args"] for one in it.asked("POST")] == [{"text": "right"}]
    [step] = done.run.tool_steps
    assert (step.status, step.attempts, step.args) == ("ok", 2, {"text": "right"})
    assert [issue["message"] for issue in step.issues] == ['"text" is a required property']
    again = done.requests[2]
    assert [message.role for message in again.messages] == ["user", "assistant", "tool"]
    [refused] = [part.function_response for part in again.messages[-1].parts]
    assert refused is not None
    assert refused.error is not None
    assert "text" in refused.error.message
    assert Flow.replay(done.trace) == done.run


def test_no_tool_is_needed(tmp_path: Path) -> None:
    """A plan without steps leads to the answer, and no registry is asked for more than its list."""
    with shop(definition("echo")) as it:
        done = anyio.run(flown, tmp_path, [planned(), say("Four.")], it.url)
        assert [one.path for one in it.seen] == ["/v1/tools"]
    assert (done.run.status, done.run.answer, done.run.tool_steps) == ("ok", "Four.", [])
    assert "No tool was called." in done.requests[-1].messages[0].text


def test_configured_registries_and_their_namesakes(tmp_path: Path) -> None:
    """Without names every configured registry is used; tools of one name are told apart by their registry's prefix."""
    with shop(definition("echo")) as one, shop(definition("echo"), run=lambda *_: "two") as two:
        configure(tmp_path, first=one.url, second={"url": two.url, "enabled": True})
        script = [planned("second__echo"), call("second__echo", text="x"), say("Done.")]
        done = anyio.run(flown, tmp_path, script)
        assert (len(one.asked("POST")), len(two.asked("POST"))) == (0, 1)
        assert [place.name for place in done.run.registries] == ["first", "second"]
        [step] = done.run.tool_steps
        assert (step.tool, step.registry, step.result) == ("second__echo", "second", "two")
        script = [planned("echo"), call("echo", text="x"), say("Done.")]
        done = anyio.run(flown, tmp_path, script, "first")
        assert [place.name for place in done.run.registries] == ["first"]
        url = two.url
        again = [planned("echo"), call("echo", text="x"), say("Done.")]
        assert anyio.run(flown, tmp_path, again, url, f"{url}/", url).run.status == "ok"
    for names, said in (
        (("third",), "no registry 'third'"),
        (("ftp://x",), "address"),
        ((one.url, two.url, "first"), "A token is for one registry"),
    ):
        with pytest.raises(ConfigError, match=said):
            anyio.run(flow_of(tmp_path, [], *names, token="t", trace=None).run, ASKED)
    nobody = tmp_path / "nobody"
    nobody.mkdir()
    with pytest.raises(ConfigError, match="no registry to use"):
        anyio.run(flow_of(nobody, []).run, ASKED)
    assert not (nobody / "flow.jsonl").exists()


def test_a_registry_that_is_not_trusted(tmp_path: Path) -> None:
    """A workspace's registry that nobody has trusted is not asked, by its name or among all; half a character in an instruction
    harms nothing."""
    with shop(definition("echo")) as it:
        configure(tmp_path, "workspace", near=it.url)
        with pytest.raises(PermissionDenied, match="jaato registry trust near"):
            anyio.run(flow_of(tmp_path, [], "near").run, ASKED)
        with pytest.raises(ConfigError, match="near needs trust"):
            anyio.run(flow_of(tmp_path, []).run, ASKED)
        assert not it.seen
        done = anyio.run(lambda: flown(tmp_path, [planned(), say("So.")], it.url, asked="\ud800 is half."))
        assert done.run.instruction == "? is half."
        assert Flow.replay(done.trace) == done.run


def test_a_person_decides(tmp_path: Path) -> None:
    """A call is carried out when its question is answered yes, by what was allowed, and not by a name of a tool of ours; a
    denied one ends the steps, and the answer says so."""
    asked: list[PermissionRequested] = []

    def answer(question: PermissionRequested) -> str:
        asked.append(question)
        return "y" if len(asked) == 1 else "n"

    script = [planned("echo", "echo"), call("echo", text="a"), call("echo", text="b"), say("Only the first.")]
    with shop(definition("echo"), definition("readFile")) as it:
        done = anyio.run(lambda: flown(tmp_path, script, it.url, yes=False, on_permission=answer))
        assert [one.body["args"]["text"] for one in it.asked("POST")] == ["a"]
        assert [question.arguments for question in asked] == [{"text": "a"}, {"text": "b"}]
        assert [step.status for step in done.run.steps] == ["ok", "ok", "denied", "ok"]
        assert (done.run.status, done.run.exit_code, done.run.answer) == ("denied", 4, "Only the first.")
        assert "failed (permission_denied)" in done.requests[-1].messages[0].text
        ours = [planned("readFile"), planned("readFile")]
        refused = anyio.run(lambda: flown(tmp_path, ours, it.url, yes=False, allow=["readFile"])).run
        assert refused.error is not None
        assert "there is no tool 'readFile'" in refused.error.message
        nobody = [planned("echo"), call("echo", text="c"), say("No.")]
        run: FlowRun = anyio.run(lambda: flown(tmp_path, nobody, it.url, yes=False)).run
        assert run.status == "denied"
        let = [planned("echo"), call("echo", text="d"), say("Yes.")]
        assert anyio.run(lambda: flown(tmp_path, let, it.url, yes=False, allow=["echo"])).run.status == "ok"
        assert [one.body["args"]["text"] for one in it.asked("POST")] == ["a", "d"]
        denied = [planned("echo"), call("echo", text="e"), say("No.")]
        assert anyio.run(lambda: flown(tmp_path, denied, it.url, deny=["echo"])).run.status == "denied"


def test_without_a_loop(tmp_path: Path) -> None:
    """A program without an event loop runs a flow as well; what is no instruction, or out of bounds, is refused."""
    with shop(definition("echo")) as it:
        script = [planned("echo"), call("echo", text="x"), say("Done.")]
        assert flow_of(tmp_path, script, it.url).run_sync("Say x.").answer == "Done."
        for flow, instruction in (
            (flow_of(tmp_path, [], it.url), "x"),
            (flow_of(tmp_path, [], it.url, trace=None), "  "),
            (flow_of(tmp_path, [], it.url, trace=None), "x" * 1_000_001),
            (flow_of(tmp_path, [], it.url, trace=None, max_steps=0), "x"),
            (flow_of(tmp_path, [], it.url, trace=None, max_steps=51), "x"),
            (flow_of(tmp_path, [], it.url, trace=tmp_path / "no" / "where"), "x"),
            (flow_of(tmp_path, [], it.url, trace=None, environ={"JAATO_DISABLED_PLUGINS": "arp"}), "x"),
        ):
            with pytest.raises(ConfigError):
                flow.run_sync(instruction)
        wrong: tuple[tuple[Any, Any, dict[str, Any]], ...] = (
            ("The instruction is text", None, {}),
            ("The instruction is text", b"x", {}),
            ("Flow's `registries` is a list", "x", {"registries": it.url}),
            ("Flow's `registries` has 1", "x", {"registries": [1]}),
            ("max_steps is a number", "x", {"max_steps": "3"}),
        )
        for words, given, more in wrong:
            flow = flow_of(tmp_path, [], it.url, trace=None)
            for name, value in more.items():
                setattr(flow, name, value)
            with pytest.raises(ConfigError, match=words):
                flow.run_sync(given)


def test_a_listener_that_fails(tmp_path: Path) -> None:
    """What hears the records and fails ends no flow: the call is made, and the trace is whole."""

    def fails(_record: object) -> None:
        raise ZeroDivisionError

    with shop(definition("echo")) as it:
        flow = flow_of(
            tmp_path, [planned("echo"), call("echo", text="x"), say("Done.")], it.url, on_record=fails
        )
        run = flow.run_sync("Say x.")
        assert (run.status, run.answer, len(it.asked("POST"))) == ("ok", "Done.", 1)
        assert Flow.replay(trace_of(tmp_path)) == run
        with pytest.raises(ConfigError):
            Flow(it.url).run_sync("x")
        assert len(it.asked("POST")) == 1
