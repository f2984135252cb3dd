"""The three routes, by what their answers say."""

from __future__ import annotations

import json
from typing import Any

from jaato.testing.arp.peer import Served, Skip, fails, refuses, result_of

DEFINITION = {
    "schema_version": str,
    "name": str,
    "description": str,
    "version": str,
    "parameters": dict,
    "returns": dict,
    "tags": list,
    "source": object,
}
ISSUE = {"path", "message", "expected", "actual"}
OPTIONAL = {"returns", "tags", "source"}
NO_JSON = (
    b"",
    b"{",
    b"hello",
    b"{'args': {}}",
    b'{"args": {"text": NaN}}',
    b'{"args": {"text": Infinity}}',
    b'{"args": {"text": -Infinity}}',
    b'{"args": {"text": "\\ud800"}}',
    b'{"args": {"text": "\xff"}}',
    b'{"args": {"text": "\xed\xa0\x80"}}',
    b'{"args": {"text": "a\nb"}}',
    b'{"args": {"text": "x"}} x',
    b'{"args": {"text": "x",}}',
    b'{"args": {"text": 01}}',
    b'\xef\xbb\xbf{"args": {"text": "x"}}',
    '{"args": {"text": "x"}}'.encode("utf-16"),
    b'{"args": {"text": "a", "text": "b"}}',
    b'{"args": {"text": "\\ude42\\ud83d"}}',
    b'{"args": {"text": "\xc0\x80"}}',
    b"[" * 100_000,
)
NO_CALL: tuple[Any, ...] = (
    {},
    [],
    "text",
    None,
    7,
    {"args": None},
    {"args": []},
    {"args": "text"},
    {"args": 1},
    {"arguments": {"text": "x"}},
    {"args": {"text": "x"}, "context": "here"},
    {"args": {"text": "x"}, "trace": ["f"]},
    {"args": {"text": "x"}, "schema_version": 1},
    {"args": {"text": "x"}, "schema_version": "99.0.0"},
)


def lists_views(at: Served) -> None:
    """`GET /v1/tools` gives a bare array of objects with exactly `name` and `description`, each name once."""
    reply = at.send("GET", "/v1/tools")
    assert reply.status == 200
    views = reply.json
    assert isinstance(views, list)
    for view in views:
        assert set(view) == {"name", "description"}, f"a view has the keys {sorted(view)}"
        assert all(isinstance(value, str) for value in view.values())
    names = [view["name"] for view in views]
    assert len(set(names)) == len(names), "a name is there twice"


def gives_definitions(at: Served) -> None:
    """`GET /v1/tools/{name}` gives the definition of every tool of the list; what is optional is absent, never null."""
    for view in at.send("GET", "/v1/tools").json[:50]:
        reply = at.send("GET", f"/v1/tools/{view['name']}")
        assert reply.status == 200
        found = reply.json
        assert set(DEFINITION) - OPTIONAL <= set(found) <= set(DEFINITION), f"it has the keys {sorted(found)}"
        for name, value in found.items():
            assert value is not None
            assert isinstance(value, DEFINITION[name]), f"{name} is {value!r:.100}"
        assert found["schema_version"] == "0.1.0"
        assert {key: found[key] for key in view} == view
        assert found["parameters"].get("type") == "object"


def defines_core(at: Served) -> None:
    """The tools of `core` take what the contract says they do."""
    at.need("echo", "calc", "time_now")
    for name, argument in (("echo", "text"), ("calc", "expression"), ("time_now", "tz")):
        parameters = at.send("GET", f"/v1/tools/{name}").json["parameters"]
        declared = parameters["properties"][argument]
        types = [one.get("type") for one in declared.get("anyOf", [declared])]
        assert any(one == "string" or "string" in (one or ()) for one in types)


def does_not_define_what_is_not_there(at: Served) -> None:
    """A definition of an unknown tool is 404 `tool.not_found`."""
    for name in ("no_such_tool", "no%20such%20tool", "a%2Fb", "%F0%9F%99%82", "%FF"):
        refuses(at.send("GET", f"/v1/tools/{name}"), 404, "tool.not_found")


def echoes(at: Served) -> None:
    """`echo` gives its text back, whatever characters are in it."""
    at.need("echo")
    for text in ("hello", "", "ünïcödé \U0001f642 \u2028", 'quotes " and \\ and \x01', "x" * 100_000):
        result = result_of(at.invoke("echo", {"args": {"text": text}}), 200)["result"]
        assert result == {"text": text}, f"{text[:20]!r} came back as {result!r:.100}"


def calculates(at: Served) -> None:
    """`calc` gives the expression and its value."""
    at.need("calc")
    for text, value in (("2*(3+4)**2", 98), ("0.1+0.2", 0.3), ("7/2", 3.5), ("-5 // 2", -3)):
        result = result_of(at.invoke("calc", {"args": {"expression": text}}), 200)["result"]
        assert result == {"expression": text, "value": value}, f"{result!r:.100}"


def calculates_nothing_else(at: Served) -> None:
    """`calc` runs no code, and takes no work without end."""
    at.need("calc")
    for text in ("__import__('os').getcwd()", "().__class__", "open('/etc/passwd')", "9**9**9**9", "[" * 900):
        fails(at.invoke("calc", {"args": {"expression": text}}), 500, "tool.execution_error")


def tells_the_time(at: Served) -> None:
    """`time_now` gives the zone and the time in it, in ISO 8601 with an offset."""
    at.need("time_now")
    from datetime import UTC, datetime, timedelta

    for zone in ("UTC", "Asia/Tokyo"):
        result = result_of(at.invoke("time_now", {"args": {"tz": zone}}), 200)["result"]
        assert set(result) == {"tz", "iso"}
        assert result["tz"] == zone
        moment = datetime.fromisoformat(result["iso"])
        assert moment.utcoffset() == timedelta(hours=9 if zone == "Asia/Tokyo" else 0)
        assert abs(datetime.now(UTC) - moment) < timedelta(days=1)


def takes_what_is_optional(at: Served) -> None:
    """`schema_version`, `context` and `trace` may be there; they are no arguments."""
    at.need(at.tool)
    optional: tuple[dict[str, Any], ...] = (
        {"schema_version": "0.1.0"},
        {"context": {"user": {"name": "ünï"}, "list": [1, None]}},
        {"trace": {"flow_id": "f-1", "step_id": "s-1"}},
    )
    given = json.loads(at.call)
    for more in (*optional, {**optional[0], **optional[1], **optional[2]}):
        result_of(at.invoke(at.tool, {**given, **more}), 200)


def calls_nothing_unknown(at: Served) -> None:
    """A call of an unknown tool is 404 `tool.not_found`."""
    for arguments in ("{}", '{"text": 1}'):
        fails(at.invoke("no_such_tool", b'{"args": %b}' % arguments.encode()), 404, "tool.not_found")


def refuses_what_is_no_json(at: Served) -> None:
    """A body that is no JSON, strictly, is 400 `request.invalid_json`."""
    at.need(at.tool)
    for body in NO_JSON:
        fails(at.invoke(at.tool, body), 400, "request.invalid_json")


def refuses_what_is_no_call(at: Served) -> None:
    """JSON that is no call is 400 `request.invalid_shape`."""
    at.need(at.tool)
    for body in NO_CALL:
        data = b"null" if body is None else body
        fails(at.invoke(at.tool, data), 400, "request.invalid_shape")


def refuses_wrong_arguments(at: Served) -> None:
    """Arguments that do not fit the schema are 400 `tool.invalid_args`, with every issue by its path."""
    wrong: list[tuple[str, dict[str, Any], set[str]]] = []
    if not at.pair:
        at.need("echo")
        wrong += [
            ("echo", {}, {"/text"}),
            ("echo", {"text": 1}, {"/text"}),
            ("echo", {"text": None}, {"/text"}),
        ]
    else:
        wrong += [(at.pair, {"a": "x", "b": []}, {"/a", "/b"}), (at.pair, {"a": 1.5}, {"/a", "/b"})]
    for tool, arguments, paths in wrong:
        error = fails(at.invoke(tool, {"args": arguments}), 400, "tool.invalid_args")
        issues = (error.get("details") or {}).get("issues")
        assert issues, f"{tool} {arguments}: no issues in {error!r:.200}"
        assert all({"path", "message"} <= set(one) <= ISSUE for one in issues), f"{issues!r:.200}"
        assert {one["path"] for one in issues} == paths, f"{tool} {arguments}: {issues!r:.300}"
        assert error["retryable"] is False


def says_that_a_tool_failed(at: Served) -> None:
    """A call that fails in the tool is 500 `tool.execution_error`, in words and without a traceback."""
    at.need("calc", "time_now")
    for text in ("1/0", "2 +", "sqrt(-1)"):
        error = fails(at.invoke("calc", {"args": {"expression": text}}), 500, "tool.execution_error")
        assert "Traceback" not in error["message"]
    fails(at.invoke("time_now", {"args": {"tz": "Nowhere/Atall"}}), 500, "tool.execution_error")


def keeps_exceptions_to_itself(at: Served) -> None:
    """A handler that raises is 500 `tool.handler_error`, and the answer has nothing of the exception."""
    if not at.raising:
        raise Skip("no tool is named whose handler raises (--raising)")
    reply = at.invoke(at.raising, {"args": {}})
    fails(reply, 500, "tool.handler_error")
    for word in (at.secret, "Traceback", 'File "', ".py"):
        assert not word or word.encode() not in reply.body


def denies(at: Served) -> None:
    """A call that is not permitted is 403 `permission.denied`, and a whole result."""
    if not at.denied:
        raise Skip("no tool is named that may not be called (--denied)")
    fails(at.invoke(at.denied, {"args": {}}), 403, "permission.denied")


def has_no_other_routes(at: Served) -> None:
    """Any other path is 404 `route.not_found`."""
    for path in (
        "/v1",
        "/v1/",
        "/v1/tools/",
        "/v1/tools/a/b",
        "/v1/tool",
        "/v1/toolsx",
        "/V1/tools",
        "/v1/tools/:invoke",
    ):
        refuses(at.send("GET", path), 404, "route.not_found")
    refuses(at.send("POST", f"/v1/{at.tool}:invoke", {"args": {}}), 404, "route.not_found")


def allows_only_its_methods(at: Served) -> None:
    """A wrong method is 405 `request.method_not_allowed`, and `Allow` says which are right."""
    at.need(at.tool)
    for method, path, allowed in (
        ("DELETE", "/v1/tools", {"GET", "HEAD"}),
        ("PATCH", "/v1/tools", {"GET", "HEAD"}),
        ("PATCH", at.at_tool, {"GET", "HEAD"}),
        ("POST", at.at_tool, {"GET", "HEAD"}),
        ("GET", f"{at.at_tool}:invoke", {"POST"}),
        ("PUT", f"{at.at_tool}:invoke", {"POST"}),
    ):
        reply = at.send(method, path)
        refuses(reply, 405, "request.method_not_allowed")
        named = {one.strip() for one in reply.headers.get("allow", "").split(",")}
        assert allowed <= named, f"{method} {path}: Allow is {reply.headers.get('allow')!r}"
        assert method not in named


def reads_escaped_names(at: Served) -> None:
    """A name in a path is percent-decoded."""
    at.need(at.tool)
    escaped = "".join(f"%{byte:02x}" for byte in at.tool.encode())
    assert at.send("GET", f"/v1/tools/{escaped}").json["name"] == at.tool
    assert at.send("GET", f"/v1/tools/{escaped.upper()}").json["name"] == at.tool
    result_of(at.invoke(escaped, at.call), 200)


CHECKS = (
    lists_views,
    gives_definitions,
    defines_core,
    does_not_define_what_is_not_there,
    echoes,
    calculates,
    calculates_nothing_else,
    tells_the_time,
    takes_what_is_optional,
    calls_nothing_unknown,
    refuses_what_is_no_json,
    refuses_what_is_no_call,
    refuses_wrong_arguments,
    says_that_a_tool_failed,
    keeps_exceptions_to_itself,
    denies,
    has_no_other_routes,
    allows_only_its_methods,
    reads_escaped_names,
)
