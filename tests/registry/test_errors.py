"""The forms of errors: which are results and which are not, the tool they name, and the issues of arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.registry.opened import Opened, during

from jaato.plugins.arp.calls import refusal_of
from jaato.plugins.arp.errors import RegistryRefusal
from jaato.plugins.arp.http_client import ArpResponse
from jaato.protocol.arp import decode_error
from jaato.protocol.codec import encode
from jaato.server.registry.responses import MAX_NAME_CHARS, error_of
from jaato.testing.arp.peer import fails, result_of
from jaato.tools.schema import Validator

HEADING = "9. ARP Tool Registry (S2)"


@pytest.mark.spec("C9", HEADING)
def test_a_body_that_is_no_result_has_the_error_alone(tmp_path: Path) -> None:
    """GET, other routes, wrong methods, invalid JSON and shapes have `error` and nothing else; failed calls are results."""

    def body(one: Opened) -> None:
        at = one.at
        bad: tuple[tuple[str, str, Any, int, str], ...] = (
            ("GET", "/v1/tools/nothing", None, 404, "tool.not_found"),
            ("GET", "/v1/nothing", None, 404, "route.not_found"),
            ("PATCH", "/v1/tools", None, 405, "request.method_not_allowed"),
            ("GET", "/v1/tools/echo:invoke", None, 405, "request.method_not_allowed"),
            ("POST", "/v1/tools/echo:invoke", b"{", 400, "request.invalid_json"),
            ("POST", "/v1/tools/nothing:invoke", b"{", 400, "request.invalid_json"),
            ("POST", "/v1/tools/nothing:invoke", {}, 400, "request.invalid_shape"),
            ("POST", "/v1/tools/echo:invoke", {"args": 1}, 400, "request.invalid_shape"),
            ("POST", "/v1/tools/echo:invoke?version=", {"args": {}}, 400, "request.invalid_shape"),
            ("POST", "/v1/tools:batchInvoke", b"{", 400, "request.invalid_json"),
        )
        for method, path, data, status, code in bad:
            reply = at.send(method, path, data)
            assert (reply.status, set(reply.json), reply.json["error"]["code"]) == (
                status,
                {"error"},
                code,
            ), path
        fails(at.invoke("nothing", {"args": {}}), 404, "tool.not_found")
        fails(at.invoke("echo", {"args": {}}), 400, "tool.invalid_args")
        fails(at.invoke("calc", {"args": {"expression": "1/0"}}), 500, "tool.execution_error")

    during(tmp_path, body)


@pytest.mark.spec("C9", HEADING)
def test_errors_of_tools_name_the_tool(tmp_path: Path) -> None:
    """`details.tool_name` is in definitions, calls and batches, cut to a bounded length; other errors have none."""

    def body(one: Opened) -> None:
        at = one.at
        assert at.send("GET", "/v1/tools/nothing").json["error"]["details"] == {"tool_name": "nothing"}
        for name, arguments in (("nothing", {}), ("echo", {}), ("calc", {"expression": "1/0"})):
            error = at.invoke(name, {"args": arguments}).json["error"]
            assert error["details"]["tool_name"] == name
        long = "n" * 300
        assert at.invoke(long, {"args": {}}).json["error"]["details"]["tool_name"] == "n" * MAX_NAME_CHARS
        calls = [{"name": "nothing", "args": {}}, {"name": "echo", "args": {}}]
        results = at.send("POST", "/v1/tools:batchInvoke", {"calls": calls}).json
        assert [each["error"]["details"]["tool_name"] for each in results] == ["nothing", "echo"]
        results = at.send("POST", "/v1/tools:batchGet", {"names": ["nothing"]}).json["results"]
        assert results[0]["error"]["details"]["tool_name"] == "nothing"
        assert "details" not in at.invoke("echo", b"{").json["error"]

    during(tmp_path, body)


@pytest.mark.spec("C9", HEADING)
def test_issues_name_the_property_and_the_types(tmp_path: Path) -> None:
    """Each missing and each additional property is an issue of its own; a wrong type has `expected` and `actual`."""

    def body(one: Opened) -> None:
        error = fails(one.at.invoke("echo", {"args": {"b/c": 1, "d": 2}}), 400, "tool.invalid_args")
        issues = error["details"]["issues"]
        assert sorted(issue["path"] for issue in issues) == ["/b~1c", "/d", "/text"]
        assert all(set(issue) == {"path", "message"} for issue in issues)
        error = fails(one.at.invoke("echo", {"args": {"text": 1}}), 400, "tool.invalid_args")
        (issue,) = error["details"]["issues"]
        assert (issue["path"], issue["expected"], issue["actual"]) == ("/text", ["string"], "integer")
        error = fails(one.at.invoke("time_now", {"args": {"tz": 1}}), 400, "tool.invalid_args")
        (issue,) = error["details"]["issues"]
        assert (issue["path"], issue["expected"], issue["actual"]) == ("/tz", ["null", "string"], "integer")
        error = fails(one.at.invoke("calc", {"args": {"expression": ""}}), 400, "tool.invalid_args")
        (issue,) = error["details"]["issues"]
        assert (issue["path"], issue["expected"], issue["actual"]) == ("/expression", 1, 0)

    during(tmp_path, body)


@pytest.mark.parametrize(
    ("value", "actual"),
    [(None, "null"), (True, "boolean"), (1, "integer"), (1.5, "number"), ([], "array"), ({}, "object")],
)
def test_types_have_the_names_of_json(value: object, actual: str) -> None:
    """The actual type is that of JSON; the issue is still a path and a message."""
    (issue,) = Validator({"properties": {"a": {"type": "string"}}}).issues({"a": value})
    path, message = issue
    assert (path, bool(message), getattr(issue, "actual", "")) == ("/a", True, actual)


@pytest.mark.spec("C9", HEADING)
def test_null_stands_for_what_is_absent_and_calc_gives_numbers(tmp_path: Path) -> None:
    """`context`, `trace` and `tz` may be null; what is no number is an error of `calc`."""

    def body(one: Opened) -> None:
        at = one.at
        for more in ({"context": None}, {"trace": None}, {"context": None, "trace": None}):
            assert result_of(at.invoke("echo", {"args": {"text": "x"}, **more}), 200)["result"] == {
                "text": "x"
            }
        for zone in (None, ""):
            result = result_of(at.invoke("time_now", {"args": {"tz": zone}}), 200)["result"]
            assert result["tz"] == "UTC"
        for expression, value in (("2**60", 2**60), ("2**100", 2.0**100), ("1/4", 0.25)):
            result = result_of(at.invoke("calc", {"args": {"expression": expression}}), 200)["result"]
            assert result["value"] == value
        for expression in ("1 < 2", "[1, 2]", "10**400"):
            fails(at.invoke("calc", {"args": {"expression": expression}}), 500, "tool.execution_error")

    during(tmp_path, body)


@pytest.mark.spec("C9", HEADING)
def test_a_context_may_be_nested_deeply(tmp_path: Path) -> None:
    """A `context` of 256 levels passes and the call is in the log; more levels are an invalid shape, not a failure."""

    def body(one: Opened) -> None:
        for levels, status in ((200, 200), (256, 200), (257, 400), (900, 400), (50_000, 400)):
            for before, after in ((b'{"a":', b"}"), (b"[", b"]")):
                nested = before * (levels - 1) + b"{}" + after * (levels - 1)
                context = nested if before != b"[" else b'{"a":' + nested[1:-1] + b"}"
                reply = one.at.invoke("echo", b'{"args":{"text":"x"},"context":%b}' % context)
                assert reply.status == status, (levels, before, reply)
                assert reply.status == 200 or reply.json["error"]["code"].startswith("request.invalid_")

    during(tmp_path, body)


@pytest.mark.spec("C9", HEADING)
def test_both_forms_of_an_error_are_read() -> None:
    """The client reads `{"error": ...}` and the error alone, and keeps the code of a request that was no call."""
    error = error_of("request.invalid_shape", "No args.")
    for body in (error, {"error": error}):
        data = encode(body)
        assert decode_error(data) == error
        refusal = refusal_of("it", ArpResponse(400, {}, data))
        assert isinstance(refusal, RegistryRefusal)
        assert refusal.problem.code == "request.invalid_shape"
    for status, data in ((400, b"<html>"), (404, encode(error))):
        refusal = refusal_of("it", ArpResponse(status, {}, data))
        assert isinstance(refusal, RegistryRefusal)
        assert refusal.problem.code == "registry_refused"
