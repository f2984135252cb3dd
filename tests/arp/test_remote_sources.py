"""Tools of registries and MCP servers served on: listed, described, called, changed, and never in a circle."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from tests.arp.serving import body, definition, failure, shop
from tests.arp.using import configure
from tests.mcp import small_server
from tests.registry.opened import Opened, opened

from jaato.plugins.arp import remote_registry as source
from jaato.runtime.session_options import SessionOptions
from jaato.server.auth.gate import allow_hosts
from jaato.server.registry.application import bind_listener, open_registry, serving
from jaato.server.registry.audit import Audit, AuditFilter
from jaato.server.registry.keys import AllowAnyone
from jaato.storage.sqlite import SqliteStore
from jaato.testing.arp.peer import Served, fails, refuses, result_of

ROOT = Path(__file__).parents[2]
TRACE = "0af7651916cd43dd8448eb211c80319c"
NAMES = {"echo", "calc", "time_now"}
"""What a registry has of its own."""


@asynccontextmanager
async def forwarding_registry(path: Path, **registries: Any) -> AsyncIterator[Opened]:
    """A registry that serves on what these have, and nothing of what looks after them."""
    path.mkdir(exist_ok=True)
    if registries:
        configure(path, **registries)
    async with opened(path, plugins=("arp",), yes=True) as one:
        await one.registry.remote_sources.begin()
        yield one


def names(at: Served) -> set[str]:
    """The tools of a list."""
    return {view["name"] for view in at.send("GET", "/v1/tools").json}


def test_a_registry_of_a_registry_of_a_registry(tmp_path: Path) -> None:
    """What one registry has, one that serves it on lists, describes as it was described there, and calls; so does one more."""
    said = definition(
        "forecast", "The weather in a city.", version="3.1.4", tags=["weather"], returns={"type": "object"}
    )

    def body_of(at: Served) -> None:
        listed = {view["name"]: view["description"] for view in at.send("GET", "/v1/tools").json}
        assert listed["forecast"] == "The weather in a city."
        told = at.send("GET", "/v1/tools/forecast")
        assert (told.status, told.headers["etag"][0]) == (200, '"')
        known = told.json
        assert {key: known[key] for key in ("version", "tags", "returns", "parameters", "description")} == {
            key: said[key] for key in ("version", "tags", "returns", "parameters", "description")
        }
        again = at.send("GET", "/v1/tools/forecast", if_none_match=told.headers["etag"])
        assert again.status == 304
        assert at.send("HEAD", "/v1/tools/forecast").headers["content-length"] == str(len(told.body))
        given = {
            "args": {"text": "Bern"},
            "context": {"user": "u"},
            "trace": {"flow_id": "f", "step_id": "s"},
        }
        result = result_of(at.invoke("forecast", given, traceparent=f"00-{TRACE}-b7ad6b7169203331-01"), 200)
        assert result["result"] == {"tool": "forecast", "text": "Bern"}
        seen = it.asked("POST")[-1]
        assert {key: seen.body[key] for key in given} == given
        assert seen.headers["traceparent"].split("-")[1] == TRACE
        error = fails(at.invoke("forecast", {"args": {}}), 400, "tool.invalid_args")
        assert error["details"]["issues"]
        assert at.send("GET", "/v1/tools/none").json["error"]["code"] == "tool.not_found"

    async def main() -> None:
        async with forwarding_registry(tmp_path / "a", shop=it.url) as one:
            await anyio.to_thread.run_sync(body_of, one.at)
            async with forwarding_registry(tmp_path / "b", near=one.at.url) as two:
                await anyio.to_thread.run_sync(body_of, two.at)
                assert await anyio.to_thread.run_sync(names, two.at) >= {"forecast", "echo", "near__echo"}

    with shop(said) as it:
        anyio.run(main)
        assert [one.body["args"] for one in it.asked("POST")] == [{"text": "Bern"}] * 2


def test_what_changes_there_shows_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that comes, goes or is another in a registry does so in one that serves it on; the rest keeps its bytes."""
    monkeypatch.setattr(source, "LIST_FRESH_S", 0.0)

    def body_of(at: Served) -> None:
        before = at.send("GET", "/v1/tools/calc").headers["etag"]
        assert names(at) == NAMES | {"forecast"}
        tag = at.send("GET", "/v1/tools").headers["etag"]
        assert at.send("GET", "/v1/tools", if_none_match=tag).status == 304
        it.tools["departures"] = definition("departures")
        assert at.send("GET", "/v1/tools/departures").json["name"] == "departures"
        assert names(at) == NAMES | {"forecast", "departures"}
        assert at.send("GET", "/v1/tools", if_none_match=tag).status == 200
        it.tools["arrivals"] = definition("arrivals")
        assert at.invoke("arrivals", {"args": {"text": "x"}}).status == 200
        del it.tools["forecast"]
        assert names(at) == NAMES | {"departures", "arrivals"}
        assert at.send("GET", "/v1/tools/forecast").status == 404
        assert fails(at.invoke("forecast", {"args": {}}), 404, "tool.not_found")
        assert at.send("GET", "/v1/tools/calc").headers["etag"] == before
        asked = len(it.asked("GET"))
        refuses(at.send("POST", "/v1/tools:cancel", {"request_id": "r-1"}), 404, "call.not_found")
        assert len(it.asked("GET")) == asked  # who ends a call waits for nobody

    async def main() -> None:
        async with forwarding_registry(tmp_path, shop=it.url) as one:
            await anyio.to_thread.run_sync(body_of, one.at)

    with shop(definition("forecast")) as it:
        anyio.run(main)


FAILURES: tuple[tuple[Any, str, int, str, bool], ...] = (
    (failure("tool.timeout", "Slow.", result=True, retryable=True), "504 X", 504, "tool.timeout", True),
    (failure("tool.timeout", "Slow.", result=True), "504 X", 504, "tool.timeout", False),
    (
        failure("tool.cancelled", "Off.", result=True, retryable=True),
        "503 X",
        503,
        "tool.cancelled",
        True,
    ),
    (failure("permission.denied", "No.", result=True), "403 X", 403, "permission.denied", False),
    (failure("quota.exceeded", "No more.", result=True), "429 X", 500, "tool.execution_error", False),
    (
        failure("tool.handler_error", "It raised.", result=True),
        "500 X",
        500,
        "tool.execution_error",
        False,
    ),
    (b"", "401 Unauthorized", 500, "tool.execution_error", False),
    (b"", "429 Too Many", 502, "tool.unreachable", True),
    (b"<html>", "200 OK", 500, "tool.outcome_unknown", False),
    (b"", "503 Away", 502, "tool.unreachable", True),
)
"""What a registry behind may answer, and what the one before it makes of that."""


def test_failures_of_others(tmp_path: Path) -> None:
    """What goes wrong with a registry behind keeps its meaning: not there now, refused, another's fault; no key of it leaks."""

    def body_of(at: Served) -> None:
        assert at.invoke("forecast", {"args": {"text": "x"}}).status == 200
        for answer, line, status, code, retryable in FAILURES:
            it.lies["POST"] = body(answer, line)
            error = fails(at.invoke("forecast", {"args": {"text": "x"}}), status, code)
            assert (line, error["retryable"]) == (line, retryable)
            assert "hunter2" not in json.dumps(error)
        with closing(SqliteStore(tmp_path / "state" / "jaato.db")) as store:
            logged = [one.outcome for one in Audit(store, AuditFilter(failed=True)).newest(len(FAILURES))]
        assert logged == [code for _, _, _, code, _ in FAILURES]  # the log says what the answer said
        it.lies["GET /v1/tools/other"] = body(b"", "500 Oops")
        told = at.send("GET", "/v1/tools/other")
        error = told.json["error"]
        assert (told.status, error["code"], error["retryable"]) == (502, "tool.unreachable", True)
        assert set(error) <= {"schema_version", "code", "message", "retryable", "details"}
        several = at.send("POST", "/v1/tools:batchGet", {"names": ["forecast", "other", "calc"]}).json[
            "results"
        ]
        assert [one.get("definition", one.get("error")).get("name") for one in several] == [
            "forecast",
            None,
            "calc",
        ]
        assert several[1]["error"]["code"] == "tool.unreachable"

    async def main() -> None:
        async with forwarding_registry(
            tmp_path, shop={"url": it.url, "headers": {"X-Key": "hunter2"}}
        ) as one:
            await anyio.to_thread.run_sync(body_of, one.at)

    with shop(definition("forecast"), definition("other")) as it:
        anyio.run(main)


def test_no_circle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two registries that serve each other's tools on one says so and goes without: no name grows with every look."""
    monkeypatch.setattr(source, "LIST_FRESH_S", 0.0)
    monkeypatch.setattr(source, "SOON_S", 0.3)
    monkeypatch.setattr(source, "ASK_WITHIN_S", 0.3)

    def look(*served: Served) -> None:
        first, second = served
        for _ in range(3):
            seen = [names(first), names(second)]
        assert sorted(len(one) for one in seen) == [
            4,
            8,
        ]  # each offers the one that was named, and not the other
        told = [result_of(at.invoke("registries", {"args": {}}), 200)["result"] for at in (first, second)]
        rows = [row for one in told for row in one["registries"]]
        assert [row["state"] for row in rows].count("unreachable") == 1
        assert "a circle" in next(row["why"] for row in rows if row["state"] == "unreachable")

    async def main() -> None:
        listeners = [bind_listener("127.0.0.1", 0), bind_listener("127.0.0.1", 0)]
        ports = [listener.getsockname()[1] for listener in listeners]
        async with AsyncExitStack() as stack:
            served: list[Served] = []
            for place, listener, port, other in zip("ab", listeners, ports, reversed(ports), strict=True):
                path = tmp_path / place
                path.mkdir()
                configure(path, other=f"http://127.0.0.1:{other}")
                described = SessionOptions(
                    workspace=path,
                    state_dir=path,
                    environ={"HOME": str(path)},
                    plugins=("arp",),
                    yes=True,
                    allow=("registries",),
                )
                registry = open_registry(described)
                stack.push_async_callback(registry.callers.close)
                await stack.enter_async_context(
                    serving(registry, AllowAnyone(allow_hosts("127.0.0.1", port)), listener)
                )
                served.append(Served(f"http://127.0.0.1:{port}"))
            await anyio.to_thread.run_sync(look, *served)

    anyio.run(main)


def test_mcp_servers_as_tools_of_a_registry(tmp_path: Path) -> None:
    """The tools of configured MCP servers are served with their schemas, also where nobody has started one before; what
    changes there shows, a server that cannot start is left out, and what one refuses is told. Of one that ends in the
    middle of a call it is not said that nothing was done."""
    described = tmp_path / "described.json"
    described.write_text("{}")
    program = {"command": sys.executable, "args": [str(Path(small_server.__file__)), str(described)]}
    broken = {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]}
    end = f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom tests.mcp import small_server as it; import os, pathlib"
    end += f"\nit.called = lambda *_: os._exit(3)\nit.main(pathlib.Path({str(described)!r}))"
    ends = {"command": sys.executable, "args": ["-c", end]}
    servers = {"small": program, "broken": broken, "ends": ends}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))

    def body_of(at: Served) -> None:
        assert names(at) - NAMES == {
            f"mcp__{server}__{name}" for server in ("small", "ends") for name in small_server.TOOLS
        }
        lost = fails(at.invoke("mcp__ends__greet", {"args": {"name": "x"}}), 500, "tool.outcome_unknown")
        assert (lost["retryable"], lost["details"]["code"]) == (False, "mcp_call_lost")
        for hidden in ("mcp_connect", "call_mcp_tool"):
            fails(at.invoke(hidden, {"args": {"server": "small"}}), 404, "tool.not_found")
        told = at.send("GET", "/v1/tools/mcp__small__greet").json
        assert told["parameters"] == small_server.TOOLS["greet"]
        assert told["source"]["domain"] == "mcp"
        result = result_of(at.invoke("mcp__small__greet", {"args": {"name": "you"}}), 200)
        assert result["result"] == "hi you"
        result = result_of(at.invoke("mcp__small__structured", {"args": {"number": 3}}), 200)
        assert result["result"] == {"double": 6}
        assert fails(at.invoke("mcp__small__greet", {"args": {}}), 400, "tool.invalid_args")["details"]
        error = fails(at.invoke("mcp__small__fail", {"args": {}}), 500, "tool.execution_error")
        assert error["details"]["code"] == "mcp_call_failed"

    async def main() -> None:
        async with opened(tmp_path, plugins=("mcp",), yes=True) as one:
            await one.registry.remote_sources.begin()
            await anyio.to_thread.run_sync(body_of, one.at)

    anyio.run(main)
