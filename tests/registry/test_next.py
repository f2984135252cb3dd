"""The later generation of the contract, under its prefix: the same tools and calls in its words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import jsonschema_rs
import pytest
from tests.contract import showing
from tests.registry.opened import Opened, during
from tests.server.serving import served

from jaato.protocol.arp import InvalidJson, InvalidShape
from jaato.protocol.arp_next import decode_request
from jaato.server.registry.keys import add_key
from jaato.testing.arp.peer import Reply, Served

OBJECT = {"type": "object"}
TEXT = {"type": "string"}
DETAIL = {
    "type": "object",
    "required": ["code", "message"],
    "additionalProperties": False,
    "properties": {"code": TEXT, "message": TEXT, "details": OBJECT, "retryable": {"type": "boolean"}},
}


def closed(required: str, **properties: object) -> jsonschema_rs.Draft202012Validator:
    """An object with these properties and no others."""
    return jsonschema_rs.Draft202012Validator(
        {
            "type": "object",
            "required": required.split(),
            "properties": properties,
            "additionalProperties": False,
        }
    )


DEFINITION = closed(
    "tool_id name input_schema source",
    tool_id=TEXT,
    name=TEXT,
    description=TEXT,
    input_schema=OBJECT,
    output_schema=OBJECT,
    source={"enum": ["registry_local", "remote"]},
)
RESULT = closed(
    "invocation_id ok",
    invocation_id=TEXT,
    ok={"type": "boolean"},
    result=OBJECT,
    error=DETAIL,
    duration_ms={"type": "integer", "minimum": 0},
)
ENVELOPE = closed("error", error=DETAIL)
HEALTH = closed("status time", status={"enum": ["ok", "degraded", "down"]}, time=TEXT)
VERSION = closed(
    "service_name service_version supported_api_versions",
    service_name=TEXT,
    service_version=TEXT,
    supported_api_versions={"type": "array", "items": TEXT},
)


def of(form: jsonschema_rs.Draft202012Validator, reply: Reply, status: int = 200) -> Any:
    """The body of an answer, which has this form."""
    assert reply.status == status, reply
    problems = [error.message for error in form.iter_errors(reply.json)]
    assert not problems, problems
    return reply.json


def refused(reply: Reply, status: int, code: str) -> Any:
    """Why no call was made."""
    error = of(ENVELOPE, reply, status)["error"]
    assert error["code"] == code, error
    return error


def invoke(at: Served, body: object, **headers: str) -> Reply:
    """A call."""
    return at.send("POST", "/next/v1/tool-invocations", body, **headers)


def asked(name: str, **args: object) -> dict[str, object]:
    """The body of a call."""
    return {"invocation_id": "inv_1", "tool_id": name, "args": args}


def test_its_routes(tmp_path: Path) -> None:
    """The list has whole definitions, a call names its tool in its body; what it gives, and why it fails, is in one result."""

    def body(one: Opened) -> None:
        at = one.at
        of(HEALTH, at.send("GET", "/next/v1/health"))
        assert of(VERSION, at.send("GET", "/next/v1/version"))["supported_api_versions"] == ["v1"]
        reply = at.send("GET", "/next/v1/tools")
        assert at.send("GET", "/next/v1/tools", if_none_match=reply.headers["etag"]).status == 304
        tools = {tool["tool_id"]: tool for tool in reply.json}
        assert list(tools) == [tool["name"] for tool in at.send("GET", "/v1/tools").json]
        for name, tool in tools.items():
            DEFINITION.validate(tool)
            assert of(DEFINITION, at.send("GET", f"/next/v1/tools/{name}")) == tool
            assert tool["input_schema"] == at.send("GET", f"/v1/tools/{name}").json["parameters"]
        assert tools["pair"]["output_schema"] == {
            "type": "object",
            "properties": {"value": {"type": "integer"}},
            "required": ["value"],
        }

        echoed = of(
            RESULT, invoke(at, asked("echo", text="hello"), x_request_id="r-1", accept="text/event-stream")
        )
        assert (echoed["invocation_id"], echoed["ok"], echoed["result"]) == ("inv_1", True, {"text": "hello"})
        named = {
            "invocation_id": "ü",
            "tool_name": "pair",
            "args": {"a": 1, "b": 2},
            "context": {},
            "caller": 1,
        }
        assert of(RESULT, invoke(at, named))["result"] == {"value": 3}
        for call, code in (
            (asked("echo"), "tool.invalid_args"),
            (asked("calc", expression="1/0"), "tool.execution_error"),
            (asked("broken"), "tool.handler_error"),
            (asked("locked"), "permission.denied"),
        ):
            reply = invoke(at, call)
            failed = of(RESULT, reply)
            assert (failed["ok"], failed["error"]["code"]) == (False, code)
            assert "result" not in failed
            assert showing.SECRET.encode() not in reply.body
        issues = of(RESULT, invoke(at, asked("echo")))["error"]["details"]["issues"]
        assert [issue["path"] for issue in issues] == [""]

    during(tmp_path, body, ["core", showing.__file__], deny=("locked",))


def test_what_is_no_call(tmp_path: Path) -> None:
    """Where no call is made there is a status, and an error in an envelope."""

    def body(one: Opened) -> None:
        at = one.at
        refused(invoke(at, asked("nothing")), 404, "tool.not_found")
        refused(at.send("GET", "/next/v1/tools/nothing"), 404, "tool.not_found")
        for path in ("/next/v1/tools/", "/next/v1/", "/next/v1/tools/a/b", "/next/v1/nothing"):
            refused(at.send("GET", path), 404, "route.not_found")
        for method, path in (("GET", "tool-invocations"), ("POST", "tools"), ("DELETE", "tools/echo")):
            reply = at.send(method, f"/next/v1/{path}")
            refused(reply, 405, "request.method_not_allowed")
            assert reply.headers["allow"]
        refused(invoke(at, b"x" * 1_000_001), 413, "request.too_large")
        refused(invoke(at, b"{}", content_encoding="gzip"), 415, "request.unsupported_encoding")
        for data in (b"", b"{", b"\xff", b'{"invocation_id":"i","tool_id":"echo","args":{"a":NaN}}'):
            refused(invoke(at, data), 400, "request.invalid_json")
        shapes: tuple[object, ...] = (
            [],
            {},
            {"invocation_id": "inv_123", "args": {}},
            {**asked("echo"), "args": []},
        )
        for shape in shapes:
            refused(invoke(at, shape), 400, "request.invalid_shape")
        assert at.send("GET", "/next").status == at.send("GET", "/next/v2/tools").status == 404

    during(tmp_path, body)


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b'{"invocation_id":"i","tool_id":"a","args":{}}', None),
        (b'{"invocation_id":"i","tool_name":"a","args":{},"extensions":{}}', None),
        (b'{"invocation_id":"i","tool_name":"a","tool_id":"a","args":{}}', None),
        (b'{"invocation_id":"i","tool_name":"a","tool_id":"b","args":{}}', None),
        (b'{"invocation_id":"","tool_id":"a","args":{}}', InvalidShape),
        (b'{"invocation_id":1,"tool_id":"a","args":{}}', InvalidShape),
        (b'{"tool_id":"a","args":{}}', InvalidShape),
        (b'{"invocation_id":"i","tool_id":"a"}', InvalidShape),
        (b'{"invocation_id":"i","tool_id":"a","args":null}', InvalidShape),
        (b'{"invocation_id":"i","tool_id":"a","args":{},"context":[]}', InvalidShape),
        (b'{"invocation_id":"i","tool_id":"a","args":{},"args":{}}', InvalidJson),
        (b'{"invocation_id":"\\ud800","tool_id":"a","args":{}}', InvalidJson),
        (json.dumps({"invocation_id": "i" * 201, "tool_id": "a", "args": {}}).encode(), InvalidShape),
    ],
)
def test_what_a_call_may_be(data: bytes, wrong: type[Exception] | None) -> None:
    """A call has an id, one tool and an object of arguments; what else stands there is not looked at."""
    if wrong is None:
        assert decode_request(data).args == {}
        return
    with pytest.raises(wrong):
        decode_request(data)


def test_it_is_a_door_of_the_server_too(tmp_path: Path) -> None:
    """On the server it is for the owner, and for who has a key of the registry's, who comes in nowhere else."""

    async def main() -> None:
        async with served(tmp_path, []) as server:
            key = add_key(tmp_path / "state", "ci", ["tools:read", "tools:invoke"], ["echo"], rate="100/min")

            def body() -> None:
                at = Served(f"http://127.0.0.1:{server.port}")
                of(ENVELOPE, at.send("GET", "/next/v1/tools"), 401)
                mine = replace(at, token=key)
                reply = mine.send("GET", "/next/v1/tools")
                assert [tool["tool_id"] for tool in reply.json] == ["echo"]
                assert reply.headers["ratelimit-policy"] == '"key";q=100;w=60'
                assert of(RESULT, invoke(mine, asked("echo", text="x")))["ok"]
                refused(invoke(mine, asked("calc", expression="1")), 404, "tool.not_found")
                assert mine.send("GET", "/v1/tools").json[0]["name"] == "echo"
                for path in ("/health", "/metrics", "/v1/connect", "/mcp"):
                    assert mine.send("GET", path).status == 401

            await anyio.to_thread.run_sync(body)

    anyio.run(main)
