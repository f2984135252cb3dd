"""A call of a registry's tool is a call like any other: valid, permitted, cancelled, in the background, kept within bounds."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.arp.serving import TEXT, Refused, body, definition, failure, shop
from tests.arp.using import configure, offered, plugins, session, use
from tests.kit import call, recorded, results, say

from jaato.errors import InvalidArguments, JaatoError
from jaato.protocol.events import ToolCallEnd
from jaato.protocol.ids import span_id, trace_id
from jaato.tools.call import Call
from jaato.tools.permissions.gate import Gate, Policy

TAKES_BOTH = {
    **TEXT,
    "properties": {**TEXT["properties"], "city": {"type": "string"}},
    "required": ["text", "city"],
}


def found(*names: str) -> list[Any]:
    """The steps of a model that has tools described."""
    return [call("list_tools", queries=["say it again"]), call("get_tool_schemas", names=list(names))]


def test_permission(tmp_path: Path) -> None:
    """Without a rule a registry's tool asks, which nobody answers here; a rule for its name lets it run."""

    async def ask(policy: dict[str, Any]) -> Any:
        script = [*found("echo"), call("echo", text="x"), say("done")]
        async with session(tmp_path, script, policy=Policy.of(policy)) as live:
            await live.post("go")
            return results(live)[-1]

    with shop(definition("echo", "Say it again.")) as it:
        configure(tmp_path, it=it.url)
        rules = {"whitelist": {"tools": ["list_tools", "get_tool_schemas"]}}
        denied = anyio.run(ask, {"defaultPolicy": "deny", **rules})
        assert denied.error.code == "permission_denied"
        assert not it.asked("POST")
        allowed = {"whitelist": {"tools": ["list_tools", "get_tool_schemas", "echo"]}}
        assert anyio.run(ask, {"defaultPolicy": "deny", **allowed}).structured["text"] == "x"


def test_the_question(tmp_path: Path) -> None:
    """Who is asked for permission is told which registry would carry the call out, and where that is."""

    async def main() -> None:
        made = plugins(tmp_path)
        await offered(made)
        found = made.catalog.find("echo")
        assert found is not None
        reason = Gate(Policy.of({})).explain(Call("c", "echo", {}), found.tool).reason
        assert reason == f"no rule covers echo, which is carried out by the registry 'it' ({it.url})"
        made.shutdown()

    with shop(definition("echo")) as it:
        configure(tmp_path, it=it.url + "/")
        anyio.run(main)


def test_invalid_arguments_are_not_sent(tmp_path: Path) -> None:
    """Arguments are checked before anything is sent, by the definition as it was asked for."""

    async def main() -> None:
        script = [*found("echo"), call("echo", words="x"), say("done")]
        async with session(tmp_path, script) as live:
            await live.post("go")
            error = results(live)[-1].error
            assert error is not None
            assert (error.code, it.asked("POST")) == ("arguments_invalid", [])

    with shop(definition("echo", "Say it again.")) as it:
        configure(tmp_path, it=it.url)
        anyio.run(main)


@pytest.mark.spec("S2", "Discovery + validation behavior")
def test_errors(tmp_path: Path) -> None:
    """An error of the registry keeps its code, its words, its details and whether it can be tried again."""

    async def main() -> None:
        made = plugins(tmp_path)
        await offered(made)
        details = {"left": 3}
        lie = failure("quota.exceeded", "No\x1b more today.", result=True, retryable=True, details=details)
        for code in ("quota.exceeded", "EVIL code\n", "arguments_invalid", "permission_denied", "x" * 200):
            answer = lie | {"error": lie["error"] | {"code": code}}
            it.lies["POST"] = body(answer, "429 Too Many Requests")
            with pytest.raises(JaatoError) as caught:
                await use(made, "echo", text="x")
            problem = caught.value.problem  # type: ignore[attr-defined]
            assert problem.message == "The registry 'it': No\\x1b more today."
            kept = code == "quota.exceeded"
            assert problem.code == (code if kept else "registry_refused")
            assert problem.retryable
            assert {**details, **problem.details} == problem.details
            assert (problem.details.get("code", "")[:9] == code[:9]) is not kept
        it.lies.clear()
        with pytest.raises(JaatoError, match="It is broken"):
            await use(made, "echo", text="x")
        made.shutdown()

    def broken(_name: str, _args: Any) -> Any:
        raise Refused("It is broken.")

    with shop(definition("echo"), run=broken) as it:
        configure(tmp_path, it=it.url)
        anyio.run(main)


def test_a_definition_that_changes(tmp_path: Path) -> None:
    """Where the parameters have changed since they were described, the refusal has the new ones, and they count, also where
    the registry says by its ETag that nothing has changed."""

    def unchanged(handler: Any) -> None:
        known = handler.headers.get("If-None-Match")
        lie = body(b"", "304 Not Modified", ETag=known) if known else body(it.tools["echo"])
        lie(handler)

    async def main() -> None:
        made = plugins(tmp_path)
        await offered(made)
        assert await use(made, "echo", text="x") == {"tool": "echo", "text": "x"}
        it.tools["echo"] = definition("echo", parameters=TAKES_BOTH)
        it.lies["GET /v1/tools/echo"] = unchanged
        tool = made.catalog.find("echo")
        assert tool is not None
        with pytest.raises(JaatoError) as caught:
            await tool.tool.run({"text": "x"}, Call("c", "echo", {}))
        assert "Its parameters have changed since; now they are" in str(caught.value)
        assert '"city"' in str(caught.value)
        assert tool.tool.issues({"text": "x"})
        assert tool.tool.spec.parameters == TAKES_BOTH
        both = {"text": "x", "city": "Bern"}
        assert await use(made, "echo", **both) == {"tool": "echo", **both}
        it.lies.clear()
        del it.tools["echo"]
        with pytest.raises(JaatoError) as caught:
            await tool.tool.run(both, Call("c", "echo", {}))
        assert caught.value.problem.code == "tool.not_found"  # type: ignore[attr-defined]
        made.shutdown()

    with shop(definition("echo")) as it:
        configure(tmp_path, it=it.url)
        anyio.run(main)


def test_without_a_description(tmp_path: Path) -> None:
    """A program that calls a tool it has not asked about has it described on the way; wrong arguments are told the schema."""

    async def main() -> None:
        made = plugins(tmp_path)
        await offered(made)
        tool = made.catalog.find("echo")
        assert tool is not None
        with pytest.raises(InvalidArguments, match=r"The parameters are \{") as caught:
            await tool.tool.run({}, Call("c", "echo", {}))
        assert caught.value.issues
        assert not it.asked("POST")
        assert (await tool.tool.run({"text": "x"}, Call("", "echo", {}))).structured["text"] == "x"
        assert "x-request-id" not in it.seen[-1].headers
        with pytest.raises(JaatoError, match="at most 4,000,000 are sent"):
            await tool.tool.run({"text": "x" * 4_000_000}, Call("c", "echo", {}))
        made.shutdown()

    with shop(definition("echo")) as it:
        configure(tmp_path, it=it.url)
        anyio.run(main)


def test_a_registry_that_cannot_describe(tmp_path: Path) -> None:
    """A tool whose definition cannot be had is not activated; the model is told why, and the others are."""

    async def main() -> None:
        script = [*found("echo", "other"), say("done")]
        async with session(tmp_path, script) as live:
            await live.post("go")
            described = results(live)[-1].structured
            assert described["activated"] == ["other"]
            assert [row["name"] for row in described["schemas"]] == ["other"]
            assert "answered HTTP 500" in described["unreachable"]["echo"]

    with shop(definition("echo", "Say it again."), definition("other", "Say it again.")) as it:
        it.lies["GET /v1/tools/echo"] = body(b"", "500 Oops")
        configure(tmp_path, it=it.url)
        anyio.run(main)


def test_cancelled(tmp_path: Path) -> None:
    """A call that is cancelled closes its request, and the registry is told: with its key it might go on."""
    begun, closed = threading.Event(), threading.Event()

    def wait(handler: Any) -> None:
        begun.set()
        handler.connection.settimeout(60)
        if handler.rfile.read(1) == b"":
            closed.set()

    async def main() -> None:
        made = plugins(tmp_path)
        await offered(made)
        await use(made, "echo", text="x")
        it.lies["POST /v1/tools/echo:invoke"] = wait
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: use(made, "echo", text="x"))
            await anyio.to_thread.run_sync(begun.wait)
            tasks.cancel_scope.cancel()
        called = it.asked("POST", ":invoke")[-1].headers["x-request-id"]
        assert [one.body for one in it.asked("POST", ":cancel")] == [{"request_id": called}]
        assert await anyio.to_thread.run_sync(closed.wait, 20)
        made.shutdown()

    with shop(definition("echo")) as it:
        configure(tmp_path, it=it.url)
        anyio.run(main)


def test_in_the_background(tmp_path: Path) -> None:
    """A slow call goes on in the background, and its result comes when it is there."""
    go_on = threading.Event()

    def slow(_name: str, args: Any) -> Any:
        go_on.wait(60)
        return args

    async def main() -> None:
        script = [*found("echo"), call("echo", text="x"), say("done"), say("seen")]
        async with session(tmp_path, script) as live:
            for source in live.catalog.sources.values():
                await source()
            echo = live.catalog.find("echo")
            assert echo is not None
            echo.tool.background_after_s = 0.01
            await live.post("go")
            moved = results(live)[2]
            assert moved.structured["task_id"]
            go_on.set()

    with shop(definition("echo", "Say it again."), run=slow) as it:
        configure(tmp_path, it=it.url)
        try:
            anyio.run(main)
        finally:
            go_on.set()


def test_a_large_result(tmp_path: Path) -> None:
    """A large result stands behind a handle, as of any tool."""
    large = "0123456789" * 20_000

    async def main() -> None:
        script = [*found("echo"), call("echo", text="x"), say("done")]
        async with session(tmp_path, script) as live:
            await live.post("go")
            result = results(live)[-1]
            assert result.handle is not None
            assert sum(len(getattr(part, "text", "")) for part in result.content) < 40_000
            digest = hashlib.sha256(large.encode()).hexdigest()
            assert result.handle == f"result:{digest}"

    with shop(definition("echo", "Say it again."), run=lambda _name, _args: large) as it:
        configure(tmp_path, it=it.url)
        anyio.run(main)


def test_the_trace(tmp_path: Path) -> None:
    """A call goes out under the trace and the span that our own traces have for it, under its own id, and no repetition
    of it could be carried out twice."""

    async def main() -> None:
        script = [*found("echo"), call("echo", text="x"), say("done")]
        async with session(tmp_path, script) as live:
            await live.post("go")
            [seen] = it.asked("POST")
            end = [event for event in recorded(live) if isinstance(event, ToolCallEnd)][-1]
            session_id = live.state.session_id
            turn_id = seen.body["context"]["turn_id"]
            span = span_id(session_id, "execute_tool", end.call_id)
            assert seen.headers["traceparent"] == f"00-{trace_id(session_id, turn_id)}-{span}-01"
            assert seen.headers["x-request-id"] == seen.headers["idempotency-key"] == end.call_id
            assert seen.body["trace"] == {"flow_id": session_id, "step_id": f"{turn_id}/{end.call_id}"}
            assert seen.body["schema_version"] == "0.1.0"

    with shop(definition("echo", "Say it again.")) as it:
        configure(tmp_path, it=it.url)
        anyio.run(main)
