"""`Agent.run(model=…)`: another model for one run, of the same provider or of another one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import FAST, call, say
from tests.providers.histories import check_anthropic, check_openai
from tests.providers.server import Answer as HttpAnswer
from tests.providers.server import Server, events, serve, stream
from tests.runtime.agents import agent

from jaato import Agent, ConfigError, Model, ProviderError
from jaato.protocol.events import Event, SessionUpdated
from jaato.providers.scripted import ScriptedProvider

TOKENS = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def weigh(what: str) -> str:
    """Weigh something."""
    return f"{what} is heavy"


def openai_reply(text: str, call_id: str = "") -> HttpAnswer:
    """A reply of the chat interface: text, or a call of `weigh`."""
    function = {"name": "weigh", "arguments": json.dumps({"what": text})}
    calls = [{"index": 0, "id": call_id, "type": "function", "function": function}]
    delta: dict[str, Any] = {"tool_calls": calls} if call_id else {"content": text}
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if call_id else "stop"}
    pieces = [{"choices": [{"index": 0, "delta": delta}]}, {"choices": [end], "usage": TOKENS}]
    return stream(*events(*pieces, "[DONE]"))


def anthropic_reply(text: str, call_id: str = "") -> HttpAnswer:
    """A reply of the messages interface: text, or a call of `weigh`."""
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": text}
    if call_id:
        block = {"type": "tool_use", "id": call_id, "name": "weigh", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps({"what": text})}
    usage = {"input_tokens": 70, "output_tokens": 1}
    start = {"id": "msg", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    pieces: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use" if call_id else "end_turn"},
            "usage": {"output_tokens": 7},
        },
        {"type": "message_stop"},
    ]
    return stream(*[f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in pieces])


def two_vendors(path: Path, own: Server, other: Server, **more: Any) -> Agent:
    """An agent with `weigh` alone, and keys for two providers."""
    workspace = path / "work"
    workspace.mkdir(exist_ok=True)
    environ = {
        "HOME": str(path),
        "PATH": "/usr/bin:/bin",
        "OPENAI_API_KEY": "sk-own",
        "OPENAI_BASE_URL": own.url,
        "ANTHROPIC_API_KEY": "sk-other",
        "ANTHROPIC_BASE_URL": other.url,
        "JAATO_CONTEXT_LIMIT": "100000",
    }
    places: dict[str, Any] = {"workspace": workspace, "state_dir": path / "state", "environ": environ}
    return Agent(
        model="gpt-5.4", provider="openai", tools=[weigh], builtin_tools=False, retry=FAST, **places, **more
    )


def test_another_provider_answers_one_run(tmp_path: Path) -> None:
    """The conversation with its calls is said in the other dialect and back, call ids paired; the log names who answered, and
    usage counts by model."""

    async def main() -> None:
        own_answers = [openai_reply("a ship", "call_1"), openai_reply("Heavy."), openai_reply("Both.")]
        others = [anthropic_reply("a feather", "toolu_1"), anthropic_reply("Light.")]
        async with serve(*own_answers) as own, serve(*others) as other:
            async with two_vendors(tmp_path, own, other) as live:
                changes: list[SessionUpdated] = []

                def listen(event: Event) -> None:
                    if isinstance(event, SessionUpdated):
                        changes.append(event)

                live.live.journal.bus.listen(listen)
                assert (await live.run("Weigh a ship.")).text == "Heavy."
                result = await live.run("And a feather.", model="anthropic/claude-sonnet-4-5")
                assert result.text == "Light."
                answered = [(one.provider, one.model) for one in result.messages if one.role == "assistant"]
                theirs = ("anthropic", "claude-sonnet-4-5")
                assert answered == [("openai", "gpt-5.4")] * 2 + [theirs] * 2
                assert (await live.run("Which?")).text == "Both."
                assert [(one.provider, one.model) for one in changes] == [theirs, ("openai", "gpt-5.4")]
                assert (live.live.state.provider, live.live.state.model) == ("openai", "gpt-5.4")
                usage = await live.live.run_command("usage", "model")
                rows = {words[1]: words for words in map(str.split, usage.splitlines()) if len(words) > 3}
                assert rows["gpt-5.4"][2:4] == ["3", "300"]
                assert rows["claude-sonnet-4-5"][2:4] == ["2", "140"]
            for request in other.requests:
                assert request.headers["x-api-key"] == "sk-other"
            said = [check_anthropic(request.body) for request in other.requests]
            assert said[-1]["model"] == "claude-sonnet-4-5"
            assert [tool["name"] for tool in said[0]["tools"]] == ["weigh"]
            for request in own.requests:
                check_openai("openai_chat", request.body)
            last = own.requests[-1].json()["messages"]
            asked = [one["id"] for message in last for one in message.get("tool_calls", ())]
            assert [message["tool_call_id"] for message in last if message["role"] == "tool"] == asked
            assert len(asked) == 2

    anyio.run(main)


def test_a_model_may_be_given_with_its_provider(tmp_path: Path) -> None:
    """`Model` names the provider or is given one, which stays open; another script is another provider; the own provider's name
    stands for the own provider."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"text": text} for text in ("-", "-", "scripted")]))

    async def main() -> None:
        own = ScriptedProvider([say("own"), say("own again")], keep_requests=True)
        given = ScriptedProvider([say("-"), say("given")], keep_requests=True)
        given.name = "mine"
        async with agent(tmp_path, [], provider=own, model="usual") as live:
            assert (await live.run("1", model=Model("fast"))).text == "own"
            assert (await live.run("2", model=Model("big", given))).text == "given"
            assert (await live.run("3", model=Model(str(script), "scripted"))).text == "scripted"
            told = [(one.provider, one.model) for one in live.live.state.messages if one.role == "assistant"]
            assert told == [("scripted", "fast"), ("mine", "big"), ("scripted", str(script))]
            assert [request.model for request in given.requests] == ["big"]
            assert [request.model for request in own.requests] == ["fast"]
            assert live.live.state.model == "usual"
            assert live.live.model.provider is own

    anyio.run(main)


def test_which_provider_a_text_means(tmp_path: Path) -> None:
    """Where the own models are named like `openai/gpt-4.1`, a text is one of these; a prefix that is no provider is part of
    the name."""

    async def main() -> None:
        for own, options, expected in (
            ("github_models", {}, "openai/gpt-4.1"),
            ("openai", {"base_url": "http://127.0.0.1:9/v1"}, "anthropic/claude"),
            ("scripted", {}, "qwen/qwen3"),
        ):
            provider = ScriptedProvider([say("x")], keep_requests=True)
            provider.name = own
            workspace = tmp_path / own
            workspace.mkdir()
            async with agent(workspace, [], provider=provider, model="usual", **options) as live:
                await live.run("1", model=expected)
            assert [request.model for request in provider.requests] == [expected]

    anyio.run(main)


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        (Model("m", "nobody"), "There is no provider 'nobody'"),
        (Model("m", 3), "Model\\(name, provider\\)"),  # type: ignore[arg-type]
        (Model(" ", "openai"), "the name of a model"),
        (Model(3), "the name of a model"),  # type: ignore[arg-type]
        ("anthropic/", "the name of a model"),
        ("", "the name of a model"),
        (b"m", "the name of a model"),
    ],
    ids=repr,
)
def test_a_model_that_cannot_answer(tmp_path: Path, model: Any, problem: str) -> None:
    """The error says what is missing; nothing is recorded, and the next run is answered by the agent's own."""

    async def main() -> None:
        async with agent(tmp_path, [say("fine")], model="usual") as live:
            with pytest.raises(ConfigError, match=problem):
                await live.run("1", model=model)
            assert not live.live.state.messages
            assert (await live.run("2")).text == "fine"

    anyio.run(main)


def test_an_error_of_the_other_provider_ends_its_run_alone(tmp_path: Path) -> None:
    """A provider that cannot be reached raises as ever; the agent's own answers again afterwards."""

    async def main() -> None:
        other = ScriptedProvider([say("-"), call("get_environment")])
        other.name = "other"
        async with agent(tmp_path, [say("one"), say("two")], model="usual") as live:
            await live.run("1")
            with pytest.raises(ProviderError, match="script is over"):
                await live.run("2", model=Model("m", other))
            assert (await live.run("3")).text == "two"
            assert live.live.state.provider == "scripted"

    anyio.run(main)


def test_an_option_that_does_not_exist(tmp_path: Path) -> None:
    """It is named, with those that exist, before anything is begun."""
    one = agent(tmp_path, [say("x")])
    with pytest.raises(TypeError, match="no option 'modle'; there are output_type, images, model"):
        one.run_sync("x", modle="m")  # type: ignore[call-overload]
    assert one.session is None
    assert not (tmp_path / "state").exists()
