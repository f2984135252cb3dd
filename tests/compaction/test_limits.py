"""The limit of a model's context: set, known, asked of its server, learned from a refusal, or assumed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.compaction.model_server import Messages, ModelServer, model_server, tool_call
from tests.compaction.test_room import collections
from tests.providers.server import Answer, answer, serve

from jaato import Agent
from jaato.abc.compactor import GCConfig
from jaato.agent.compaction.strategies import HybridGCPlugin
from jaato.agent.compaction.window import ASSUMED_TOKENS, ContextLimit, ContextLimits, resolve_limit
from jaato.agent.state import State
from jaato.errors import ConfigError, ProviderError
from jaato.protocol.events import Retry, SessionUpdated
from jaato.protocol.messages import ToolCall
from jaato.providers.profiles import make_provider
from jaato.runtime.session_factory import context_limits
from jaato.settings import load

MODEL = "vessel-7b"


@asynccontextmanager
async def agent_at(
    server: ModelServer, path: Path, session: str | None = None, **more: Any
) -> AsyncIterator[Agent]:
    """An agent whose model is behind a server; everything it keeps is below `path`."""
    workspace = path / "work"
    workspace.mkdir(exist_ok=True)
    environ = {"HOME": str(path), **more.pop("environ", {})}
    async with Agent(
        model=MODEL,
        provider="openai",
        base_url=f"{server.url}/v1",
        api_key="sk-none",
        workspace=workspace,
        state_dir=path / "state",
        session=session,
        environ=environ,
        plugins=(),
        **more,
    ) as agent:
        yield agent


def answering(_messages: Messages) -> dict[str, Any]:
    """A model that says one thing."""
    return {"content": "Aye."}


@pytest.mark.parametrize(
    ("row", "limit"),
    [
        ({"context_length": 65_536}, 65_536),
        ({"max_model_len": 16_384}, 16_384),
        ({"context_window": 131_072}, 131_072),
        ({"max_context_length": 8_192}, 8_192),
        ({"meta": {"n_ctx_train": 32_768}}, 32_768),
        ({"context_length": None, "max_model_len": 4_096}, 4_096),
        ({"context_length": "long"}, None),
        ({"context_length": True}, None),
        ({"context_length": -1}, None),
        ({}, None),
    ],
)
def test_a_compatible_server_says_what_fits(row: dict[str, Any], limit: int | None) -> None:
    """Each of the fields that servers use is read; the server is asked once, also where it says nothing."""
    listed = answer({"object": "list", "data": [{"id": "other", "context_length": 1}, {"id": MODEL, **row}]})
    assert asked("openai", "/v1/models", listed) == limit


@pytest.mark.parametrize(
    ("shown", "limit"),
    [
        ({"model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40_960}}, 40_960),
        (
            {"parameters": "stop x\nnum_ctx    8192\n", "model_info": {"qwen3.context_length": 40_960}},
            8_192,
        ),
        ({"model_info": {"qwen3.context_length": "long"}}, None),
        ({}, None),
    ],
)
def test_an_ollama_says_what_fits(shown: dict[str, Any], limit: int | None) -> None:
    """`/api/show` tells the parameter the model is run with, else what it was trained for."""
    assert asked("ollama", "/api/show", answer(shown)) == limit


@pytest.mark.parametrize("broken", [answer("no", 500), answer("<html>", 200), answer({"data": 7})])
def test_a_server_that_fails_is_asked_once(broken: Answer) -> None:
    """The error is raised to whoever asked; after it nothing is known, and the server is left in peace."""

    async def main() -> None:
        async with serve(broken) as server:
            provider = make_provider("openai", environ={}, base_url=f"{server.url}/v1", api_key="k")
            try:
                with pytest.raises(ProviderError):
                    await provider.fetch_context_limit(MODEL)
                assert await provider.fetch_context_limit(MODEL) is None
                assert len(server.requests) == 1
            finally:
                await provider.aclose()

    anyio.run(main)


def asked(name: str, path: str, told: Answer) -> int | None:
    """What a provider learns of a server that answers like this."""

    async def main() -> int | None:
        async with serve(told) as server:
            provider = make_provider(name, environ={}, base_url=f"{server.url}/v1", api_key="k")
            try:
                found = await provider.fetch_context_limit(MODEL)
                assert await provider.fetch_context_limit(MODEL) == found
                assert [request.path for request in server.requests] == [path]
                return found
            finally:
                await provider.aclose()

    return anyio.run(main)


@pytest.mark.spec("C7", "Context, sessions, enrichment", "C7.context.8")
def test_the_first_known_limit_counts_and_a_refusal_only_lowers_it() -> None:
    """Settings before the catalogue before the server; what was learned before all, unless it is larger."""
    limits = ContextLimits((("vendor/ves*", 9_000), ("other*", 1_000)), 20_000)
    state = State(model="vendor/vessel")
    assert resolve_limit(state, limits, 7_000, 8_000) == ContextLimit(9_000, "setting")
    state.model = "boat"
    assert resolve_limit(state, limits, 7_000, 8_000) == ContextLimit(20_000, "setting")
    assert resolve_limit(state, ContextLimits(), 7_000, 8_000) == ContextLimit(7_000, "catalogue")
    assert resolve_limit(state, ContextLimits(), None, 8_000) == ContextLimit(8_000, "server")
    assert resolve_limit(state, ContextLimits(), None, None) == ContextLimit(ASSUMED_TOKENS, "assumed")
    state.learned_limit = 6_000
    assert resolve_limit(state, limits, 7_000, 8_000) == ContextLimit(6_000, "learned")
    state.learned_limit = 64_000
    assert resolve_limit(state, limits, 7_000, 8_000) == ContextLimit(20_000, "setting")
    assert resolve_limit(state, ContextLimits(), None, None) == ContextLimit(64_000, "learned")


def test_limits_are_settings() -> None:
    """For all models, or for those of a pattern; nonsense is refused with the way to write it."""
    settings = load(environ={"JAATO_CONTEXT_LIMIT": "16000", "JAATO_CONTEXT_LIMITS": "qwen*=32768, a/b=8000"})
    limits = context_limits(settings)
    assert (limits.find("qwen3:8b"), limits.find("a/b"), limits.find("x")) == (32_768, 8_000, 16_000)
    for wrong in ({"JAATO_CONTEXT_LIMITS": "qwen"}, {"JAATO_CONTEXT_LIMITS": "q=many"}):
        with pytest.raises(ConfigError, match="MODEL=TOKENS"):
            context_limits(load(environ=wrong))
    with pytest.raises(ConfigError, match="at least 256"):
        context_limits(load(environ={"JAATO_CONTEXT_LIMIT": "10"}))


@pytest.mark.spec("C7", "Context, sessions, enrichment", "C7.context.8")
def test_the_server_is_asked_beside_the_first_request(tmp_path: Path) -> None:
    """A listing that takes long delays nothing; once it is there the limit is the server's, for the next session too."""

    async def main() -> None:
        async with model_server(20_000, answering) as server:
            listed = answer({"data": [{"id": MODEL, "max_model_len": 20_000}]})
            listing = asyncio.Event()
            server.other["/v1/models"] = Answer([listing, *listed.steps])
            async with agent_at(server, tmp_path) as agent:
                await agent.run("Ahoy.")
                assert agent.live.model.limit == ContextLimit(ASSUMED_TOKENS, "assumed")
                listing.set()
                with anyio.fail_after(60):
                    while agent.live.model.limit.source == "assumed":
                        await anyio.sleep(0.05)
                assert agent.live.model.limit == ContextLimit(20_000, "server")
                await agent.run("Again.")
                assert server.paths.count("/v1/models") == 1
                assert agent.live.model.account.describe(80.0)["context_limit_source"] == "server"

    anyio.run(main)


def weighing(count: int, size: int) -> Any:
    """A model that weighs `count` parts, one after the other, and the tool it does it with; and the parts weighed."""
    weighed: list[int] = []

    def weigh(part: int) -> str:
        """Weigh a part."""
        weighed.append(part)
        return f"part {part}: " + "heavy " * (size // 6)

    def speak(messages: Messages) -> dict[str, Any]:
        if "<conversation>" in str(messages[-1]["content"]):
            return {"content": "Parts were weighed."}
        number = len(weighed) + 1
        return tool_call("weigh", number, part=number) if number <= count else {"content": "All weighed."}

    return speak, weigh, weighed


@pytest.mark.spec("C7", "Context, sessions, enrichment", "C7.context.9")
@pytest.mark.parametrize(
    "refusal",
    [
        "This model's maximum context length is {limit} tokens. However, you requested {tokens} tokens.",
        "Your input exceeds the context window of this model.",
    ],
    ids=["with the limit", "without it"],
)
def test_a_refusal_teaches_the_limit_and_the_request_is_made_once_more(tmp_path: Path, refusal: str) -> None:
    """The turn goes to its end, no call runs twice, and a resumed session still knows the limit."""

    async def main() -> None:
        speak, weigh, weighed = weighing(30, 4_000)
        async with model_server(9_000, speak, refusal) as server:
            async with agent_at(server, tmp_path, tools=[weigh]) as agent:
                told: list[Retry] = []
                agent.live.journal.bus.listen(lambda e: told.append(e) if isinstance(e, Retry) else None)
                result = await agent.run("Weigh thirty parts.")
                assert result.text == "All weighed."
                assert len(told) == server.refused
                assert told[0].error.code == "context_overflow"
                session_id = agent.live.state.session_id
                learned = agent.live.model.limit
                assert learned.source == "learned"
                assert learned.tokens <= 9_000
                made = collections(agent.live)
                assert made[0].learned_limit == learned.tokens
                assert "too long" in made[0].reason
            assert weighed == list(range(1, 31))
            assert 1 <= server.refused <= 2
            async with agent_at(server, tmp_path, session_id, tools=[weigh]) as again:
                assert again.live.model.limit == learned

    anyio.run(main)


def test_a_refusal_far_below_the_limit_teaches_none(tmp_path: Path) -> None:
    """Where the refusal names no limit and the context was less than half full, something else was too large."""

    async def main() -> None:
        refusal = "Your input exceeds the context window of this model."
        environ = {"JAATO_CONTEXT_LIMIT": "100000"}
        async with (
            model_server(4_000, answering, refusal) as server,
            agent_at(server, tmp_path, environ=environ) as agent,
        ):
            with pytest.raises(ProviderError):
                await agent.run("wave " * 6_000)
            assert server.refused >= 1
            assert agent.live.model.limit == ContextLimit(100_000, "setting")

    anyio.run(main)


def test_another_model_has_not_learned_the_limit_of_the_one_before() -> None:
    """A change of the model forgets it, of the mode alone does not."""
    state = State(agent_id="a", model="boat", learned_limit=6_000)
    head: dict[str, Any] = {"session_id": "s", "agent_id": "a"}
    state.apply(SessionUpdated(**head, seq=1, mode="auto"))
    assert state.learned_limit == 6_000
    state.apply(SessionUpdated(**head, seq=2, model="ship"))
    assert state.learned_limit is None


@pytest.mark.spec("C7", "Context, sessions, enrichment", "C7.context.9")
def test_what_cannot_be_made_to_fit_ends_the_turn_with_advice(tmp_path: Path) -> None:
    """One message that is larger than the model's context: the request is not made again, the session stays usable."""

    async def main() -> None:
        async with model_server(4_000, answering) as server, agent_at(server, tmp_path) as agent:
            with pytest.raises(ProviderError, match=r"4,000 tokens.*shorten the last message"):
                await agent.run("wave " * 6_000)
            assert server.refused == 1
            assert agent.live.model.limit == ContextLimit(4_000, "learned")

    anyio.run(main)


def test_without_compaction_a_refusal_ends_the_turn_and_says_how_to_turn_it_on(tmp_path: Path) -> None:
    """`gc = none`: nothing is compacted, nothing asked again."""

    async def main() -> None:
        environ = {"JAATO_GC": "none"}
        async with (
            model_server(4_000, answering) as server,
            agent_at(server, tmp_path, environ=environ) as agent,
        ):
            with pytest.raises(ProviderError, match="setting gc"):
                await agent.run("wave " * 6_000)
            assert server.refused == 1
            assert collections(agent.live) == []

    anyio.run(main)


def test_results_that_the_model_has_not_seen_are_cut_to_what_fits(tmp_path: Path) -> None:
    """One call whose result alone is larger than the context: its head and tail are sent, the handle has all of it."""

    async def main() -> None:
        speak, weigh, weighed = weighing(1, 28_000)
        async with model_server(4_000, speak) as server:
            environ = {"JAATO_CONTEXT_LIMIT": "4000"}
            async with agent_at(server, tmp_path, tools=[weigh], environ=environ) as agent:
                result = await agent.run("Weigh it.")
                assert result.text == "All weighed."
                (part,) = [
                    part for m in agent.live.state.messages for part in m.parts if part.function_response
                ]
                cut = part.function_response
                assert cut is not None
                assert cut.handle is not None
                assert "characters left out" in str(cut.content[0].text)
                whole = agent.live.tools.results.read(cut.handle, 0, 100_000)
                assert len(whole) == len(weigh(1))
            assert weighed[0] == 1

    anyio.run(main)


@pytest.mark.spec("C7", "Context, sessions, enrichment", "C7.context.7")
def test_the_strategy_is_the_hybrid_one_at_eighty_percent(tmp_path: Path) -> None:
    """Without a setting `gc_hybrid` compacts at 80 %; the threshold alone can be set."""

    async def main() -> None:
        async with model_server(4_000, answering) as server:
            for environ, threshold in (({}, 80.0), ({"JAATO_GC_THRESHOLD": "55"}, 55.0)):
                async with agent_at(server, tmp_path, environ=environ) as agent:
                    setup = agent.live.compaction.setup
                    assert setup is not None
                    assert isinstance(setup.strategy, HybridGCPlugin)
                    assert setup.config == GCConfig(threshold)
                    assert agent.live.compaction.threshold_percent == threshold

    anyio.run(main)


def test_calls_are_not_lost_in_a_refusal(tmp_path: Path) -> None:
    """Every call of the history has its result after a refusal in mid-turn."""

    async def main() -> None:
        speak, weigh, _ = weighing(12, 6_000)
        async with model_server(8_000, speak) as server, agent_at(server, tmp_path, tools=[weigh]) as agent:
            await agent.run("Weigh twelve parts.")
            for messages in server.asked:
                called = [call["id"] for m in messages for call in m.get("tool_calls") or ()]
                answered = [m["tool_call_id"] for m in messages if m["role"] == "tool"]
                assert called == answered
            calls = [
                part for m in agent.live.state.messages for part in m.parts if isinstance(part, ToolCall)
            ]
            assert calls

    anyio.run(main)
