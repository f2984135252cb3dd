"""Permission questions and clarifications reach the client's user, or nobody; never is there a hang."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as mcp
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from tests.mcp_server.serving import ERAS, House, answering, decides, text_of

from jaato.abc.asker import Clarification, Question
from jaato.protocol.events import PermissionGranted, PermissionRequested, PermissionResolved, ToolCallStart
from jaato.server.mcp.elicitation import (
    FormResponse,
    clarification_answers,
    clarification_form,
    permission_answer,
    permission_form,
)
from jaato.server.tool_sessions import Offer

WHOLE = Offer(whole=True)


def test_a_client_that_cannot_ask_is_refused_with_the_ways_to_allow(house: House) -> None:
    """Without elicitation a call that asks is denied at once, with the reason and the flag that allows it."""

    async def main() -> None:
        for mode in ERAS:
            async with house.visited(mode, offer=WHOLE) as client:
                refused = await client.call_tool("writeNewFile", {"path": "a.txt", "content": "x"})
                assert refused.is_error
                assert "no one can answer" in text_of(refused)
                assert "--allow" in text_of(refused)

    anyio.run(main)
    assert not (house.work / "a.txt").exists()


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.spec("C4", "Permissions")
def test_the_clients_user_is_asked_and_the_answer_counts_once(house: House, mode: str) -> None:
    """Each call is asked about, with its arguments; the call that was allowed runs once, the denied one never."""
    asked: list[str] = []
    user = answering(decides("allow"), decides("deny", comment="not that one"), asked=asked)

    async def main() -> None:
        async with house.visited(mode, offer=WHOLE, client={"elicitation_callback": user}) as client:
            done = await client.call_tool("writeNewFile", {"path": "a.txt", "content": "x\u202ey"})
            assert not done.is_error, text_of(done)
            denied = await client.call_tool("writeNewFile", {"path": "b.txt", "content": "x"})
            assert denied.is_error
            assert "not that one" in text_of(denied)

    anyio.run(main)
    assert "May writeNewFile run?" in asked[0]
    assert "content: x\\u202ey" in asked[0], "what could mislead the reader is written out"
    assert (house.work / "a.txt").exists()
    assert not (house.work / "b.txt").exists()
    events = house.events()
    assert len([event for event in events if isinstance(event, PermissionRequested)]) == 2
    assert [event.by for event in events if isinstance(event, PermissionResolved)] == ["tester 1"] * 2
    assert len([event for event in events if isinstance(event, ToolCallStart)]) == 1


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.spec("C4", "Permissions")
def test_always_and_never_last(house: House, mode: str) -> None:
    """A lasting answer of the client's user holds for the next client, which is not asked."""
    user = answering(decides("always allow"), decides("never allow"))

    async def main() -> None:
        async with house.visited(mode, offer=WHOLE, client={"elicitation_callback": user}) as client:
            assert not (await client.call_tool("createDirectory", {"path": "one"})).is_error
            assert (await client.call_tool("writeNewFile", {"path": "b", "content": ""})).is_error
        granted = [event.grant for event in house.events() if isinstance(event, PermissionGranted)]
        assert [(grant.tool, grant.effect) for grant in granted] == [
            ("createDirectory", "allow"),
            ("writeNewFile", "deny"),
        ]
        async with house.visited(mode, offer=WHOLE) as client:
            assert not (await client.call_tool("createDirectory", {"path": "two"})).is_error
            assert (await client.call_tool("writeNewFile", {"path": "b", "content": ""})).is_error

    anyio.run(main)


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    "answer",
    [
        mcp.ElicitResult(action="decline"),
        mcp.ElicitResult(action="cancel"),
        mcp.ElicitResult(action="accept", content={}),
        mcp.ElicitResult(action="accept", content={"decision": "ALLOW"}),
        mcp.ElicitResult(action="accept", content={"decision": True}),
        mcp.ElicitResult(action="decline", content={"decision": "allow"}),
    ],
)
def test_anything_but_a_plain_yes_is_a_no(house: House, mode: str, answer: mcp.ElicitResult) -> None:
    """A form that is declined, dismissed, empty or filled in with something else lets nothing run."""

    async def main() -> None:
        given = {"elicitation_callback": answering(answer)}
        async with house.visited(mode, offer=WHOLE, client=given) as client:
            assert (await client.call_tool("createDirectory", {"path": "one"})).is_error

    anyio.run(main)
    assert not (house.work / "one").exists()


def test_a_client_whose_form_fails_gets_a_denial(house: House) -> None:
    """A client of the older protocol that says it can ask, and fails, is told that nobody answered."""

    async def broken(_context: Any, _params: Any) -> mcp.ErrorData:
        return mcp.ErrorData(code=-32000, message="no window")

    async def main() -> None:
        given = {"elicitation_callback": broken}
        async with house.visited("legacy", offer=WHOLE, client=given) as client:
            refused = await client.call_tool("createDirectory", {"path": "one"})
            assert "no answer in time" in text_of(refused)

    anyio.run(main)


def test_an_answer_belongs_to_its_call(house: House) -> None:
    """The state of a question opens that very call, once: not with other arguments, not twice, not made up."""

    async def ask(client: Client, path: str) -> mcp.InputRequiredResult:
        result = await client.session.call_tool("createDirectory", {"path": path}, allow_input_required=True)
        assert isinstance(result, mcp.InputRequiredResult)
        return result

    async def reply(client: Client, path: str, asked: mcp.InputRequiredResult, state: str | None) -> Any:
        responses: mcp.InputResponses = {key: decides("allow") for key in asked.input_requests or {}}
        return await client.session.call_tool(
            "createDirectory",
            {"path": path},
            input_responses=responses,
            request_state=state,
            allow_input_required=True,
        )

    async def main() -> None:
        given = {"elicitation_callback": answering()}
        async with house.visited("auto", offer=WHOLE, client=given) as client:
            first = await ask(client, "one")
            for path, state in (
                ("two", first.request_state),
                ("one", "made-up"),
                ("one", first.request_state),
            ):
                with pytest.raises(MCPError, match="no longer open"):
                    await reply(client, path, first, state)

    anyio.run(main)
    assert list(house.work.iterdir()) == []


@pytest.mark.parametrize("mode", ERAS)
def test_a_tools_questions_reach_the_clients_user(house: House, mode: str) -> None:
    """request_clarification is a form with a field for each question; without a user it says that nobody is there."""
    asked: list[str] = []
    answer = mcp.ElicitResult(action="accept", content={"answer_1": "blue", "answer_2": ""})
    question = {"context": "Which paint?", "questions": [{"question": "Colour?"}, {"question": "How much?"}]}

    async def main() -> None:
        given = {"elicitation_callback": answering(answer, asked=asked)}
        async with house.visited(mode, offer=WHOLE, client=given) as client:
            assert "blue" in text_of(await client.call_tool("request_clarification", question))
        async with house.visited(mode, offer=WHOLE) as client:
            assert "blue" not in text_of(await client.call_tool("request_clarification", question))

    anyio.run(main)
    assert asked == ["Which paint?"]


def test_the_forms_themselves() -> None:
    """What is shown is bounded and counted, lasting answers are offered where they are possible, answers are read strictly."""
    long = Question(
        id="q", call_id="c", tool="run", arguments={"command": "x" * 100_000}, digest="", reason="why"
    )
    form = permission_form(long)
    assert len(form.message) < 9_000
    assert "92,000 more characters" in form.message
    assert form.schema["properties"]["decision"]["enum"] == ["allow", "deny"]
    assert permission_answer(None, "x").answer == "c"
    assert permission_answer(FormResponse("accept", {"decision": ["allow"]}), "x").answer == "n"
    questions = [
        {"question": f"q{number}", "choices": ["a", "a", "b"], "default": "z"} for number in range(50)
    ]
    asked = Clarification(id="q", call_id="c", context="", questions=questions)
    made = clarification_form(asked)
    assert len(made.schema["properties"]) == 20
    assert made.schema["properties"]["answer_1"] == {"type": "string", "title": "q0", "enum": ["a", "b"]}
    answers = clarification_answers(FormResponse("accept", {"answer_2": "b", "answer_3": 5}), asked)
    assert answers[:3] == [None, "b", None]
    assert len(answers) == 50
