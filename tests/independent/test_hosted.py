"""`jaato run` with each hosted dialect against a model server that other people wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.independent.aimock import Aimock
from tests.independent.conversation import conversation
from tests.independent.running import ANTHROPIC, DIALECTS, Desk, Dialect

every = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
USAGE = {"input_tokens": 120, "output_tokens": 7, "prompt_tokens": 120, "completion_tokens": 7}
BUDGETED = ANTHROPIC._replace(model="claude-haiku-4-5")
"""A generation whose thinking is asked for with a budget, the form that the server checks."""
SENTENCE = "Grüße: the answer came in pieces, and every piece — 🙂 too — is here."


def call(name: str, arguments: dict[str, Any], label: str) -> dict[str, Any]:
    """A call in the server's own form."""
    return {"name": name, "arguments": json.dumps(arguments), "id": label}


def results(entry: dict[str, Any]) -> list[str]:
    """The results of calls in a request, in order."""
    return [message["content"] for message in conversation(entry) if message["role"] == "tool"]


@every
def test_text_streams(dialect: Dialect, server: Aimock, desk: Desk) -> None:
    """The answer arrives in the server's own pieces, whole, with its usage, asked for in the dialect's own place."""
    server.script({"content": SENTENCE, "usage": USAGE}, chunkSize=9)
    outcome = desk.run(dialect, "say it")
    assert outcome.code == 0, outcome.err
    pieces = outcome.said()
    assert "".join(pieces) == SENTENCE
    assert len(pieces) > 3
    (turn,) = outcome.of("turn.completed")
    assert (turn["reason"], turn["model_calls"]) == ("stop", 1)
    assert turn["usage"] == {"input_tokens": 120, "output_tokens": 7}
    (asked,) = server.asked()
    assert asked["path"].split("?")[0].removeprefix("http://api.openai.com") == dialect.path
    assert asked["body"]["model"] == dialect.model
    assert conversation(asked) == [{"role": "user", "content": "say it"}]


def test_plain_output(server: Aimock, desk: Desk) -> None:
    """The answer alone is on stdout; the vendors' variables for the base URL lead to the server as --base-url does."""
    server.add([{"match": {}, "response": {"content": SENTENCE}}])
    dialects = [dialect.by_variable() for dialect in DIALECTS]
    for name, outcome in desk.run_all("say it", dialects, output="text").items():
        assert (outcome.code, outcome.out) == (0, SENTENCE + "\n"), (name, outcome.err)
    assert {entry["body"]["model"] for entry in server.asked()} == {dialect.model for dialect in DIALECTS}


@every
def test_one_call(dialect: Dialect, server: Aimock, desk: Desk) -> None:
    """A call runs, and its result reaches the server in the next request, as the answer to that very call."""
    (desk.workspace / "note.txt").write_text("the word is heliotrope\n")
    server.script(
        {"toolCalls": [call("readFile", {"path": "note.txt"}, "call_note")]}, {"content": "heliotrope"}
    )
    outcome = desk.run(dialect, "which word?")
    assert (outcome.code, "".join(outcome.said())) == (0, "heliotrope"), outcome.err
    first, second = server.asked()
    assert conversation(first) == [{"role": "user", "content": "which word?"}]
    user, assistant, result = conversation(second)
    assert user == {"role": "user", "content": "which word?"}
    (made,) = assistant["tool_calls"]
    assert made["id"] == "call_note" == result["tool_call_id"]
    assert (made["function"]["name"], json.loads(made["function"]["arguments"])) == (
        "readFile",
        {"path": "note.txt"},
    )
    assert "the word is heliotrope" in result["content"]
    assert "readFile" in [entry["function"]["name"] for entry in first["body"]["tools"]]


@every
def test_parallel_calls(dialect: Dialect, server: Aimock, desk: Desk) -> None:
    """Three calls of one reply all run, and the server reads their results in the order it asked."""
    for name in ("one", "two", "three"):
        (desk.workspace / name).write_text(f"content of {name}\n")
    names = ("two", "three", "one")
    made = [call("readFile", {"path": name}, f"call_{name}") for name in names]
    server.script({"content": "I read all three.", "toolCalls": made}, {"content": "done"})
    outcome = desk.run(dialect, "read them")
    assert (outcome.code, outcome.said()[-1]) == (0, "done"), outcome.err
    _, second = server.asked()
    _user, assistant, *answers = conversation(second)
    assert assistant["content"] == "I read all three."
    assert [made["id"] for made in assistant["tool_calls"]] == [f"call_{name}" for name in names]
    assert [answer["tool_call_id"] for answer in answers] == [f"call_{name}" for name in names]
    for name, answer in zip(names, answers, strict=True):
        assert f"content of {name}" in answer["content"]
    ends = outcome.of("tool.call_end")
    assert sorted(end["tool"] for end in ends) == ["readFile"] * 3


@every
def test_discovery_writes_a_file(dialect: Dialect, server: Aimock, desk: Desk) -> None:
    """A tool that was not declared is found, activated and called; what was declared before stays as it was."""
    server.script(
        {"toolCalls": [call("list_tools", {"queries": ["create a file"]}, "call_1")]},
        {"toolCalls": [call("get_tool_schemas", {"names": ["writeNewFile"]}, "call_2")]},
        {"toolCalls": [call("writeNewFile", {"path": "out/new.txt", "content": "made\n"}, "call_3")]},
        {"content": "written"},
    )
    outcome = desk.run(dialect, "write it")
    assert (outcome.code, "".join(outcome.said())) == (0, "written"), outcome.err
    assert (desk.workspace / "out" / "new.txt").read_text() == "made\n"
    asked = server.asked()
    declared = [[entry["function"]["name"] for entry in one["body"]["tools"]] for one in asked]
    assert "writeNewFile" not in declared[0]
    assert declared[0] == declared[1]
    assert declared[2] == declared[3] == [*declared[0], "writeNewFile"]
    found, schemas, written = results(asked[3])
    assert "writeNewFile" in found
    assert '"content"' in schemas.replace("\\", "")
    assert "new.txt" in written


def test_one_session_in_every_dialect(server: Aimock, desk: Desk) -> None:
    """A session goes on in each dialect in turn, calls included, and each server end reads the same history."""
    (desk.workspace / "note.txt").write_text("heliotrope\n")
    for number, dialect in enumerate(DIALECTS):
        match = {"model": dialect.model, "userMessage": f"question {number}"}
        made = {"toolCalls": [call("readFile", {"path": "note.txt"}, f"call_{number}")]}
        server.add(
            [
                {"match": match | {"hasToolResult": False}, "response": made},
                {"match": match | {"hasToolResult": True}, "response": {"content": f"answer {number}"}},
            ]
        )
    flags: list[str] = []
    for number, dialect in enumerate((*DIALECTS[1:], DIALECTS[0])):
        outcome = desk.run(dialect, f"question {DIALECTS.index(dialect)}", *flags)
        assert (outcome.code, "".join(outcome.said())) == (0, f"answer {DIALECTS.index(dialect)}"), (
            outcome.err
        )
        flags = ["--continue"]
        read = conversation(server.asked()[-1])
        assert [message["role"] for message in read] == [
            "user",
            "assistant",
            "tool",
            "assistant",
        ] * number + [*("user", "assistant", "tool")]
        texts = [message["content"].split("\n")[0] for message in read if message["role"] == "user"]
        assert texts == [
            f"question {DIALECTS.index(one)}" for one in (*DIALECTS[1:], DIALECTS[0])[: number + 1]
        ]
        assert all("heliotrope" in text for text in results(server.asked()[-1]))


def test_thinking_is_kept(server: Aimock, desk: Desk) -> None:
    """Anthropic's thinking goes back with the call it led to; the server refuses a conversation without it."""
    made = {
        "toolCalls": [call("readFile", {"path": "note.txt"}, "toolu_1")],
        "reasoning": "I must read the note.",
    }
    made["reasoningSignature"] = "c2lnbmVkIGJ5IHRoZSBzZXJ2ZXI="
    made["redactedThinking"] = ["ZW5jcnlwdGVk"]
    server.script(made, {"content": "heliotrope"})
    (desk.workspace / "note.txt").write_text("heliotrope\n")
    outcome = desk.run(BUDGETED, "which word?", "--effort", "high")
    assert (outcome.code, "".join(outcome.said())) == (0, "heliotrope"), outcome.err
    assert "".join(outcome.said("thinking")) == "I must read the note."
    assert [entry["response"]["status"] for entry in server.asked()] == [200, 200]


def test_the_server_checks_thinking(server: Aimock) -> None:
    """The check behind the test above is real: the same conversation without the thinking is refused."""
    blocks: list[dict[str, Any]] = [{"type": "tool_use", "id": "toolu_1", "name": "readFile", "input": {}}]
    turns = [
        {"role": "user", "content": "which word?"},
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}]},
    ]
    body: dict[str, Any] = {"model": BUDGETED.model, "max_tokens": 9_000, "messages": turns}
    body["thinking"] = {"type": "enabled", "budget_tokens": 2_048}
    server.add([{"match": {}, "response": {"content": "fine"}}])
    assert server.post("/v1/messages", body).status_code == 400
    blocks.insert(0, {"type": "thinking", "thinking": "hm", "signature": "c2ln"})
    assert server.post("/v1/messages", body).status_code == 200


def test_thoughts_are_shown(server: Aimock, desk: Desk) -> None:
    """What the model thinks is told apart from what it says, in every dialect."""
    server.add([{"match": {}, "response": {"content": "Two.", "reasoning": "One and one."}, "chunkSize": 4}])
    for name, outcome in desk.run_all("add", flags=("--effort", "high")).items():
        assert outcome.code == 0, (name, outcome.err)
        assert ("".join(outcome.said()), "".join(outcome.said("thinking"))) == ("Two.", "One and one."), name
