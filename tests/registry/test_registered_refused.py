"""What is refused: bodies and handlers that can be no tool, who may not write, what rules deny."""

from __future__ import annotations

import json
from pathlib import Path

from tests.registry.registering import Registry, during, put_body, webhook

from jaato.server.registry.keys import add_key
from jaato.testing.arp.peer import Served, fails, refuses, result_of


def deep(levels: int) -> dict[str, object]:
    """A schema so deep."""
    schema: dict[str, object] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


HOOK: dict[str, object] = {"type": "webhook", "url": "http://127.0.0.1:9/"}
BAD: tuple[tuple[str, str], ...] = (
    ("/description", json.dumps(put_body(HOOK, description=" "))),
    ("/description", json.dumps(put_body(HOOK, description="x" * 4_001))),
    ("/description", json.dumps(put_body(HOOK, description="a\u202eb"))),
    ("/version", json.dumps(put_body(HOOK, "../1"))),
    ("/version", json.dumps(put_body(HOOK, ""))),
    ("/name", json.dumps(put_body(HOOK, name="other"))),
    ("/schema_version", json.dumps(put_body(HOOK, schema_version="2.0.0"))),
    ("/parameters", json.dumps(put_body(HOOK, parameters={"type": "nonsense"}))),
    ("/parameters/type", json.dumps(put_body(HOOK, parameters={"type": "array"}))),
    ("/parameters", json.dumps(put_body(HOOK, parameters={"type": "object", "$ref": "http://127.0.0.1/s"}))),
    ("/parameters", json.dumps(put_body(HOOK, parameters={"patternProperties": {"(a{1000}){1000}": {}}}))),
    ("/parameters", json.dumps(put_body(HOOK, parameters=deep(40)))),
    (
        "/parameters",
        json.dumps(put_body(HOOK, parameters={"properties": {f"p{n}": {} for n in range(30_000)}})),
    ),
    ("/returns", json.dumps(put_body(HOOK, returns={"type": 7}))),
    ("/tags", json.dumps(put_body(HOOK, tags=["a", "a"]))),
    ("/tags/0", json.dumps(put_body(HOOK, tags=["x" * 101]))),
    ("/source", json.dumps(put_body(HOOK, source={"a": "x" * 10_000}))),
    ("/source", json.dumps(put_body(HOOK, source={"a": 2**70}))),
    ("/handler", json.dumps(put_body(None))),
    ("/handler/timeout_s", json.dumps(put_body({**HOOK, "timeout_s": 0}))),
    ("/handler/timeout_s", json.dumps(put_body({**HOOK, "timeout_s": 1e9}))),
    ("/handler/url", json.dumps(put_body({**HOOK, "url": "file:///etc/passwd"}))),
    ("/handler/url", json.dumps(put_body({**HOOK, "url": "https://user:pass@host/"}))),
    ("/handler/headers", json.dumps(put_body({**HOOK, "headers": {"Host": "x"}}))),
    ("/handler/headers", json.dumps(put_body({**HOOK, "headers": {"A": "b\r\nC: d"}}))),
    ("/handler/headers", json.dumps(put_body({**HOOK, "headers": {"jaato-signature": "v1=0"}}))),
    ("/handler/secret", json.dumps(put_body({**HOOK, "secret": "short"}))),
    ("/handler/target", json.dumps(put_body({"type": "entry_point", "target": "os"}))),
)
NO_SHAPE = (
    "[]", "7", "{}", '{"a": 1e999}', json.dumps({**put_body(HOOK), "handler": None}), json.dumps(put_body({"type": "shell"})),
    json.dumps(put_body({"type": "webhook"})), json.dumps(put_body({**HOOK, "extra": 1})),
    json.dumps(put_body(HOOK, extra=1)), json.dumps(put_body(HOOK, parameters=[])), json.dumps(put_body(HOOK, tags="a")),
    json.dumps(put_body({**HOOK, "timeout_s": "1"})), json.dumps(put_body(HOOK, returns=None)),
)  # fmt: skip
NO_JSON = (
    b"", b"{", b"\xff", b'{"a": NaN}', b'{"description": "\\ud800"}', b'{"a": 1, "a": 2}', b"[" * 100_000,
    json.dumps(put_body(HOOK)).replace("1.0.0", "\x00").encode(), b'{"parameters": {"default": Infinity}}',
)  # fmt: skip
FORBIDDEN: tuple[dict[str, object], ...] = (
    {"type": "webhook", "url": "https://10.0.0.1/"},
    {"type": "webhook", "url": "http://169.254.169.254/latest"},
    {"type": "webhook", "url": "https://[::ffff:10.0.0.1]/"},
    {"type": "webhook", "url": "http://0x0a000001/"},
    {"type": "webhook", "url": "http://8.8.8.8/"},
    {"type": "entry_point", "target": "os:system"},
    {"type": "entry_point", "target": "tests.registry.targets:shout"},
    {"type": "mcp", "server": "none", "tool": "t"},
)


def test_what_can_be_no_tool_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    """Each wrong name, body and handler has its status and code, with every problem by its path."""

    def body(one: Registry) -> None:
        for path, text in BAD:
            reply = one.put("say", text.encode())
            refuses(reply, 400, "tool.invalid_definition")
            assert path in [issue["path"] for issue in reply.json["error"]["details"]["issues"]], (
                text[:200],
                reply.body[:400],
            )
        for text in NO_SHAPE:
            refuses(one.put("say", text.encode()), 400, "request.invalid_shape")
        unknown = one.put("say", put_body({"type": "lambda"}))
        assert all(kind in unknown.json["error"]["message"] for kind in ("webhook", "mcp", "entry_point"))
        for data in NO_JSON:
            refuses(one.put("say", data), 400, "request.invalid_json")
        for handler in FORBIDDEN:
            refuses(one.put("say", put_body(handler)), 403, "tool.handler_forbidden")
        for name in (
            "..",
            "%2e%2e",
            "a%2Fb",
            "a%00",
            "x" * 65,
            "%C3%A9",
            "a.b",
            "a@1",
            "mcp__s__t",
            "%ff",
            "a%20b",
        ):
            refuses(one.put(name, put_body(HOOK)), 400, "tool.invalid_definition")
        refuses(one.put("a/b", put_body(HOOK)), 404, "route.not_found")
        refuses(one.put("say", put_body(HOOK), "?version="), 400, "request.invalid_shape")
        refuses(one.put("say", b" " * 1_000_001), 413, "request.too_large")
        for name in ("echo", "calc"):
            refuses(one.put(name, put_body(HOOK)), 409, "tool.fixed")
            refuses(one.delete(name), 409, "tool.fixed")
        refuses(one.delete("a%2Fb"), 404, "tool.not_found")
        assert one.names() == ["echo", "calc", "time_now"]
        assert not [
            one for one in (tmp_path / "state" / "registered-tools").glob("*") if one.suffix == ".json"
        ]

    during(tmp_path, body)


def test_who_may_not_write_is_refused(tmp_path: Path) -> None:
    """Without a token no tool is registered or removed: 405 where no token is required, 401 where one is."""

    def body(one: Registry) -> None:
        for method in ("PUT", "DELETE"):
            reply = one.open.send(method, "/v1/tools/say", put_body(HOOK))
            refuses(reply, 405, "request.method_not_allowed")
            assert set(reply.headers["allow"].split(", ")) == {"GET", "HEAD"}
            reply = Served(one.at.url).send(method, "/v1/tools/say", put_body(HOOK))
            refuses(reply, 401, "auth.required")
            assert reply.headers["www-authenticate"].startswith("Bearer")
        allowed = one.at.send("POST", "/v1/tools/echo", {}).headers["allow"]
        assert {"GET", "HEAD", "PUT", "DELETE"} == set(allowed.split(", "))

    during(tmp_path, body)


def test_rules_outrank_who_puts_a_tool(tmp_path: Path) -> None:
    """What a rule denies stays denied; a registry that only reads changes nothing, and calls nothing that does more."""
    with webhook() as hook:

        def put(one: Registry) -> None:
            for name in ("say", "other"):
                assert one.put(name, put_body({"type": "webhook", "url": hook.url})).status == 201
            fails(one.at.invoke("say", {"args": {"text": "a"}}), 403, "permission.denied")
            assert result_of(one.at.invoke("other", {"args": {"text": "a"}}), 200)
            one.delete("say")
            assert one.put("say", put_body({"type": "webhook", "url": hook.url})).status == 201
            fails(one.at.invoke("say", {"args": {"text": "a"}}), 403, "permission.denied")

        def read(one: Registry) -> None:
            assert one.names()[-2:] == ["other", "say"]
            fails(one.at.invoke("other", {"args": {"text": "a"}}), 403, "permission.denied")
            refuses(one.put("new", put_body(HOOK)), 403, "permission.denied")
            refuses(one.delete("other"), 403, "permission.denied")

        during(tmp_path, put, deny=("say",))
        during(tmp_path, read, read_only=True)


def test_a_key_for_some_tools_writes_only_these(tmp_path: Path) -> None:
    """A key that sees some tools puts and deletes no others, and sees every version of its own."""

    def body(one: Registry) -> None:
        key = add_key(tmp_path / "state", "ci", ("tools:read", "tools:write"), ("mine_*",))
        at = Served(one.at.url, token=key)
        assert one.put("other", put_body(HOOK)).status == 201
        refuses(at.send("PUT", "/v1/tools/other", put_body(HOOK)), 403, "auth.forbidden")
        refuses(at.send("DELETE", "/v1/tools/other"), 404, "tool.not_found")
        for version in ("1.0.0", "2.0.0"):
            assert at.send("PUT", "/v1/tools/mine_a", put_body(HOOK, version)).status == 201
        assert at.send("GET", "/v1/tools/mine_a?version=1.0.0").status == 200
        assert [tool["name"] for tool in at.send("GET", "/v1/tools").json] == ["mine_a"]
        assert at.send("DELETE", "/v1/tools/mine_a").status == 204
        assert one.get("other").status == 200

    during(tmp_path, body)
