"""What a registry says of itself, to whom, and whether its OpenAPI document is of what there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import jsonschema_rs
from tests.contract.test_contract import registry
from tests.registry.opened import Opened, during, made
from tests.server.serving import served

import jaato
from jaato.server.registry.catalog import ServedTools
from jaato.server.registry.invoke import MAX_BATCH
from jaato.server.registry.listing import CURSOR, MAX_NAMES
from jaato.server.registry.metrics import MAX_TOOLS, OTHERS, RegistryMetrics
from jaato.server.registry.openapi import build_document
from jaato.server.registry.requests import (
    MAX_LIMIT,
    MAX_TAG_CHARS,
    MAX_TAGS,
    MAX_TEXT_CHARS,
    SCOPES,
    route_of,
)
from jaato.server.registry.results import HANDLE, MAX_PART_BYTES
from jaato.testing.arp.peer import Served, fails, refuses

LINE = re.compile(r'([a-z_]+)(\{(?:[a-z]+="(?:[^"\\\n]|\\.)*",?)*\})? ([0-9.e+-]+)')


def values(text: str) -> dict[str, float]:
    """The values of a text in Prometheus' format, every line of which has to be right."""
    found: dict[str, float] = {}
    told: set[str] = set()
    for line in text.splitlines():
        if line.startswith("#"):
            told.add(line.split()[2])
            continue
        match = LINE.fullmatch(line)
        assert match is not None, line
        assert match[1] in told or match[1].rsplit("_", 1)[0] in told, line
        assert match[1] + (match[2] or "") not in found
        found[match[1] + (match[2] or "")] = float(match[3])
    return found


def test_a_registry_says_how_it_is_and_what_it_did(tmp_path: Path) -> None:
    """Health, version and figures: requests by route, method and status, calls by tool and outcome, and their times."""

    def body(one: Opened) -> None:
        at = one.at
        for path in ("/healthz", "/health"):
            health = at.send("GET", path)
            assert (health.status, health.json["status"], health.json["tools"]) == (200, "ok", 3)
            assert health.headers["cache-control"] == "no-store"
        version = at.send("GET", "/version").json
        assert version == {"name": "jaato", "version": jaato.__version__, "schema_version": "0.1.0"}
        for path in ("/healthz", "/version", "/metrics", "/openapi.json"):
            head = at.send("HEAD", path)
            assert (head.status, head.body) == (200, b"")
            reply = at.send("POST", path, b"{}")
            refuses(reply, 405, "request.method_not_allowed")
            assert reply.headers["allow"] == "GET, HEAD"
        for path in ("/healthz/", "/healthzz", "/Version", "/openapi", "/metrics.json", "/"):
            refuses(at.send("GET", path), 404, "route.not_found")

        for text in ("2+2", "2+2", "1/0"):
            at.invoke("calc", {"args": {"expression": text}})
        at.invoke("calc", {"args": {}})
        at.invoke("calc", b"{")
        at.invoke("nothing", {"args": {}})
        at.send("PATCH", "/v1/tools")
        reply = at.send("GET", "/v1/tools:metrics")
        assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        found = values(reply.body.decode())
        calls = {key: value for key, value in found.items() if "calls_total" in key}
        assert calls == {
            'jaato_registry_calls_total{tool="calc",outcome="ok"}': 2,
            'jaato_registry_calls_total{tool="calc",outcome="tool.execution_error"}': 1,
            'jaato_registry_calls_total{tool="calc",outcome="tool.invalid_args"}': 1,
            'jaato_registry_calls_total{tool="calc",outcome="request.invalid_json"}': 1,
        }
        requests = 'jaato_registry_requests_total{route="%s",method="%s",status="%s"}'
        assert found[requests % ("invoke", "POST", 200)] == 2
        assert found[requests % ("invoke", "POST", 404)] == 1
        assert found[requests % ("list", "*", 405)] == 1
        assert found[requests % ("none", "*", 404)] == 6
        assert found['jaato_registry_request_seconds_count{route="invoke"}'] == 6
        assert found['jaato_registry_request_seconds_bucket{route="invoke",le="+Inf"}'] == 6
        assert found["jaato_registry_tools"] == 3
        assert found["jaato_registry_sessions"] == 1

    during(tmp_path, body, domains=["core"])


def test_what_is_counted_is_bounded() -> None:
    """However many tools are called, and whatever they are called, the figures stay readable and as many."""
    figures = RegistryMetrics()
    for number in range(MAX_TOOLS + 50):
        figures.record_call(f"tool_{number}", "")
    figures.record_call("tool_0", "tool.timeout")
    assert len(figures.calls) == MAX_TOOLS + 2
    assert figures.calls[OTHERS, "ok"] == 50
    figures.calls['we"ird\\\nname', "ok"] = 1
    assert sum(
        value for key, value in values(figures.text(ServedTools([made("a")]), 0)).items() if "calls" in key
    ) == (MAX_TOOLS + 52)


def test_health_and_version_need_no_token_and_the_rest_does(tmp_path: Path) -> None:
    """Where a token is asked for, health and version are told without; the document then says that it is needed."""
    with registry(tmp_path, "--token") as said:
        where, _, path = said.partition(" at ")[2].partition("; the token is in ")
        at = Served(where)
        keyed = Served(where, token=Path(path).read_text().strip())
        for open_path in ("/healthz", "/health", "/version"):
            assert at.send("GET", open_path).status == 200
            assert at.send("HEAD", open_path).status == 200
        refuses(at.send("GET", "/healthz", host="attacker.example"), 421, "request.misdirected")
        assert at.send("POST", "/healthz", b"{}").status == 401
        for closed in ("/metrics", "/openapi.json", "/v1/tools:metrics", "/v1/tools:openapi", "/v1/tools"):
            refuses(at.send("GET", closed), 401, "auth.required")
            assert keyed.send("GET", closed).status == 200
        found = values(keyed.send("GET", "/metrics").body.decode())
        assert found['jaato_registry_requests_total{route="list",method="GET",status="401"}'] == 1
        told = keyed.send("GET", "/openapi.json").json["paths"]
        assert told["/v1/tools"]["get"]["security"] == [{"key": ["tools:read"]}]
        assert told["/healthz"]["get"]["security"] == [{}]


def test_on_the_one_application_everything_is_under_the_path_of_the_list(tmp_path: Path) -> None:
    """The server's own door answers pages, searches, batches and its document there; health and figures are its own."""

    async def main() -> None:
        async with served(tmp_path, []) as server:
            at = Served(f"http://127.0.0.1:{server.port}", token=server.token)

            def body() -> None:
                assert [one["name"] for one in at.send("GET", "/v1/tools?limit=1").json] == ["echo"]
                assert at.send("GET", "/v1/tools?q=arithmetic+expression").json[0]["name"] == "calc"
                got = at.send("POST", "/v1/tools:batchGet", {"names": ["echo"]}).json["results"]
                assert got[0]["definition"]["name"] == "echo"
                assert at.send("GET", "/v1/tools/echo?version=9").status == 404
                assert b"jaato_registry_requests_total" in at.send("GET", "/v1/tools:metrics").body
                paths = at.send("GET", "/v1/tools:openapi").json["paths"]
                assert all(path.startswith("/v1/tools") for path in paths)
                assert b"jaato_sessions_live" in at.send("GET", "/metrics").body
                refuses(Served(at.url).send("GET", "/v1/tools:metrics"), 401, "auth.required")
                for path in (
                    "/v1",
                    "/v1/nothing",
                    "/v1/tools/",
                    "/V1/tools",
                ):  # a client of the contract's may ask
                    refuses(at.send("GET", path), 404, "route.not_found")
                for path in ("/favicon.ico", "/healthz", "/v2/tools"):
                    reply = at.send("GET", path)
                    assert (reply.status, reply.json["error"]["code"]) == (404, "not_found"), path
                    assert "schema_version" not in reply.json

            await anyio.to_thread.run_sync(body)

    anyio.run(main)


def test_the_document_is_of_every_route_and_of_nothing_else(tmp_path: Path) -> None:
    """Each kind and method that is answered has its operation at its path, with the scope it needs; every reference
    leads somewhere, and what is answered fits what the document says."""
    told = build_document()
    operations = [
        (path, method, operation)
        for path, item in told["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    ]
    described = {}
    for path, method, operation in operations:
        route = route_of(path.replace("{name}", "x").encode())
        assert route is not None
        described[route.kind, method.upper().encode()] = operation["security"][0]
    assert described == {key: {} if scope is None else {"key": [scope]} for key, scope in SCOPES.items()}
    assert len({operation["operationId"] for *_, operation in operations}) == len(SCOPES)
    mounted = build_document(mounted=True)["paths"]
    assert mounted.keys() == {
        path.replace("/metrics", "/v1/tools:metrics").replace("/openapi.json", "/v1/tools:openapi")
        for path in told["paths"]
    } - {"/healthz", "/version"}
    assert all(route_of(path.replace("{name}", "x").encode()) for path in mounted)
    for reference in references(told):
        place: Any = told
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]

    def body(one: Opened) -> None:
        given = one.at.send("GET", "/openapi.json")
        assert given.json == told
        assert one.at.send("GET", "/openapi.json", if_none_match=given.headers["etag"]).status == 304
        for path, asked in (("/v1/tools", "/v1/tools"), ("/v1/tools/{name}", "/v1/tools/echo")):
            schema = told["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            whole = {**schema, "components": told["components"]}
            jsonschema_rs.validate(whole, one.at.send("GET", asked).json)

    during(tmp_path, body, domains=["core"])


def test_the_document_names_the_limits_that_apply() -> None:
    """The limits and patterns that the document states are those that the registry applies."""
    paths = build_document()["paths"]
    listed, read = (
        {one["name"]: one["schema"] for one in paths[path]["get"]["parameters"] if "name" in one}
        for path in ("/v1/tools", "/v1/tools:result")
    )
    assert listed["q"]["maxLength"] == MAX_TEXT_CHARS
    assert (listed["tag"]["maxItems"], listed["tag"]["items"]["maxLength"]) == (MAX_TAGS, MAX_TAG_CHARS)
    assert listed["limit"]["maximum"] == MAX_LIMIT
    assert listed["cursor"]["pattern"] == f"^{CURSOR.pattern}$"
    assert read["handle"]["pattern"] == f"^{HANDLE.pattern}$"
    assert f"{MAX_PART_BYTES:,}" in paths["/v1/tools:result"]["get"]["description"]
    assert f"up to {MAX_NAMES} " in paths["/v1/tools:batchGet"]["post"]["summary"]
    assert f"up to {MAX_BATCH} " in paths["/v1/tools:batchInvoke"]["post"]["summary"]


def references(value: Any) -> Iterator[str]:
    """Every `$ref` in a document."""
    match value:
        case dict():
            if isinstance(value.get("$ref"), str):
                yield value["$ref"]
            for one in value.values():
                yield from references(one)
        case list():
            for one in value:
                yield from references(one)


def test_the_path_of_a_call_is_no_page(tmp_path: Path) -> None:
    """Whatever is done to read the path of a call, it is a call: 405 with `Allow: POST`, or 404, never a definition."""

    def body(one: Opened) -> None:
        at = one.at
        for path in ("echo:invoke", "echo%3Ainvoke", "echo%3ainvoke", "%65cho:invoke", "no_such:invoke"):
            for method in ("GET", "HEAD", "PUT", "DELETE", "PATCH"):
                for query in ("", "?version=0.1.0", "?q=x"):
                    reply = at.send(method, f"/v1/tools/{path}{query}")
                    assert (reply.status, reply.headers["allow"]) == (405, "POST"), (method, path)
        for path in (
            "echo:invoke:invoke",
            "echo:Invoke",
            "echo:invok%65",
            "echo%253Ainvoke",
            "echo:invoke%00",
        ):
            assert at.send("GET", f"/v1/tools/{path}").status in (404, 405)
            assert at.send("POST", f"/v1/tools/{path}", {"args": {"text": "x"}}).status in (404, 405)
        for path in (
            "/v1/tools/echo:invoke/",
            "/v1/tools/:invoke",
            "/v1/tools/%3Ainvoke",
            "/v1/tools:invoke",
        ):
            assert at.send("POST", path, {"args": {"text": "x"}}).status == 404
        fails(at.send("POST", "/v1/tools/..%2Fecho:invoke", {"args": {}}), 404, "tool.not_found")

    during(tmp_path, body, domains=["core"])
