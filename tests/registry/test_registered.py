"""Tools put over HTTP: put, found, called, replaced, deleted; what they may be, and under which condition."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import threading
from contextlib import closing
from pathlib import Path

import anyio
import anyio.to_thread
from tests.registry.registering import Registry, during, failed, fine, put_body, until, webhook
from tests.server.serving import served

from jaato.protocol.arp import decode_definition
from jaato.testing.arp.peer import Served, fails, refuses, result_of


def test_a_tool_that_is_put_is_found_and_called_at_once(tmp_path: Path) -> None:
    """PUT creates a tool, which is listed, described and called by sessions that had begun; then it is replaced, and deleted."""
    with webhook() as hook:

        def body(one: Registry) -> None:
            assert result_of(one.at.invoke("echo", {"args": {"text": "x"}}), 200)  # the session has begun
            before = one.at.send("GET", "/v1/tools")
            handler = {"type": "webhook", "url": hook.url, "headers": {"X-Api-Key": "hush-hush-hush"}}
            made = one.put(
                "say", put_body(handler, tags=["words"], returns={"type": "object"}, source={"team": "a"})
            )
            assert (made.status, made.headers["location"]) == (201, "/v1/tools/say?version=1.0.0")
            definition = decode_definition(made.body)
            assert (definition.name, definition.version, definition.tags) == ("say", "1.0.0", ["words"])
            assert isinstance(definition.source, dict)
            assert definition.source.items() >= {
                "team": "a", "registry": "jaato", "domain": "registered", "access": "network", "handler": "webhook",
            }.items()  # fmt: skip
            seen = one.get("say")
            assert (seen.body, seen.headers["etag"]) == (made.body, made.headers["etag"])
            assert one.get("say", if_none_match=made.headers["etag"]).status == 304
            after = one.at.send("GET", "/v1/tools", if_none_match=before.headers["etag"])
            assert (after.status, one.names()[-1]) == (200, "say")
            assert result_of(one.at.invoke("say", {"args": {"text": "a"}}), 200)["result"] == {"said": "a"}
            assert result_of(one.open.invoke("say", {"args": {"text": "b"}}), 200)["result"] == {"said": "b"}
            fails(one.at.invoke("say", {"args": {}}), 400, "tool.invalid_args")
            for reply in (made, seen, one.at.send("GET", "/v1/tools")):
                assert b"hush" not in reply.body
                assert b"in-the-url" not in reply.body

            other = one.put("say", put_body(None, description="Say it otherwise."))  # the handler stays
            assert (other.status, other.json["description"]) == (200, "Say it otherwise.")
            assert other.headers["etag"] != made.headers["etag"]
            assert (
                one.put("say", put_body(None, description="Say it otherwise.")).headers["etag"]
                == other.headers["etag"]
            )
            assert result_of(one.at.invoke("say", {"args": {"text": "c"}}), 200)["result"] == {"said": "c"}
            assert one.delete("say").status == 204
            refuses(one.get("say"), 404, "tool.not_found")
            fails(one.at.invoke("say", {"args": {"text": "a"}}), 404, "tool.not_found")
            refuses(one.delete("say"), 404, "tool.not_found")
            assert one.names() == ["echo", "calc", "time_now"]

        during(tmp_path, body)


def test_a_webhook_gets_a_signed_invocation(tmp_path: Path) -> None:
    """A webhook is posted an invocation of the contract with its ids, signed; its secret, where it has one, is the key."""
    secret = "qX7-hush-hush-9Zt"
    secret = "qX7-hush-hush-9Zt"
    with webhook() as hook:

        def body(one: Registry) -> None:
            one.put(
                "say",
                put_body(
                    {"type": "webhook", "url": hook.url, "headers": {"Authorization": f"Bearer {secret}"}}
                ),
            )
            one.put("own", put_body({"type": "webhook", "url": hook.url, "secret": "s" * 20}))
            given = {"args": {"text": "a"}, "context": {"user": "u"}, "trace": {"flow_id": "f", "n": 1}}
            trace = "0af7651916cd43dd8448eb211c80319c"
            for name in ("say", "own"):
                one.at.invoke(name, given, x_request_id="r-1", traceparent=f"00-{trace}-b7ad6b7169203331-01")
            own_key = (tmp_path / "state" / "registered-webhook-key").read_bytes().strip()
            for (headers, sent), key in zip(hook.seen, (own_key, b"s" * 20), strict=True):
                assert json.loads(sent) == {"schema_version": "0.1.0", **given}
                assert headers["x-request-id"] == "r-1"
                assert headers["idempotency-key"].startswith("c")
                assert headers["traceparent"].startswith(f"00-{trace}-")
                signed = headers["jaato-nonce"].encode() + b"." + sent
                wanted = "v1=" + hmac.new(key, signed, hashlib.sha256).hexdigest()
                assert headers["jaato-signature"] == wanted
            assert hook.seen[0][0]["authorization"] == f"Bearer {secret}"
            hook.answer = lambda _: failed(500, "no", f"{secret} is not known")
            assert secret not in json.dumps(one.at.invoke("say", given).json)
            assert (tmp_path / "state" / "registered-webhook-key").stat().st_mode & 0o777 == 0o600

        during(tmp_path, body)


def test_a_webhook_that_fails_is_told_apart(tmp_path: Path) -> None:
    """A refusal of the handler's, one that is not there, slow, redirecting, or answers anything but a result: each has a code."""
    with webhook() as hook:

        def body(one: Registry) -> None:
            one.put("say", put_body({"type": "webhook", "url": hook.url}))
            one.put("slow", put_body({"type": "webhook", "url": hook.url, "timeout_s": 0.05}))
            one.put("gone", put_body({"type": "webhook", "url": "http://127.0.0.1:9/"}))
            call = {"args": {"text": "a"}}
            hook.answer = lambda _: failed(500, "disk.full", "The disk is full.", retryable=True)
            error = fails(one.at.invoke("say", call), 500, "tool.execution_error")
            assert (error["retryable"], error["details"]) == (True, {"code": "disk.full", "tool_name": "say"})
            assert error["message"] == "The handler of say: The disk is full."
            for answer, words in (
                ((200, {"said": "a"}), "no result"),
                ((200, b"not json"), "no result"),
                ((302, b""), "redirects are not followed"),
                ((404, b"no"), "HTTP 404"),
                ((500, fine(1)[1]), "HTTP 500"),
                (
                    (200, b'{"schema_version":"0.1.0","ok":true,"metrics":{"latency_ms":1},"result":[NaN]}'),
                    "no result",
                ),
                ((200, b" " * 8_100_000), "of which none are used"),
            ):
                hook.answer = lambda _, answer=answer: answer  # type: ignore[misc]
                known = words.startswith(("redirects", "HTTP 404"))
                error = fails(
                    one.at.invoke("say", call),
                    500,
                    "tool.execution_error" if known else "tool.outcome_unknown",
                )
                assert words in error["message"]
                assert not error["retryable"]
            hook.answer = lambda _: (503, b"later")
            assert fails(one.at.invoke("say", call), 502, "tool.unreachable")["retryable"]
            assert fails(one.at.invoke("gone", call), 502, "tool.unreachable")["retryable"]
            for value in (None, False, 0, "text", [1, {"a": None}], "é"):
                hook.answer = lambda _, value=value: fine(value)  # type: ignore[misc]
                assert result_of(one.at.invoke("say", call), 200)["result"] == value
            hook.answer = lambda _: (hook.hold.wait(60), fine(1))[1]
            assert fails(one.at.invoke("slow", call), 504, "tool.timeout")["retryable"]
            hook.hold.set()

        during(tmp_path, body)


def test_changes_go_by_conditions(tmp_path: Path) -> None:
    """`If-None-Match: *` only creates, `If-Match` only changes what is as it was seen; of many at once exactly one wins."""
    hook = {"type": "webhook", "url": "http://127.0.0.1:9/"}

    def body(one: Registry) -> None:
        made = one.put("say", put_body(hook), if_none_match="*")
        assert made.status == 201
        etag = made.headers["etag"]
        refuses(one.put("say", put_body(hook), if_none_match="*"), 412, "request.precondition_failed")
        refuses(one.put("say", put_body(hook), if_match='"other"'), 412, "request.precondition_failed")
        refuses(one.put("say", put_body(hook), if_match=f"W/{etag}"), 412, "request.precondition_failed")
        refuses(one.put("new", put_body(hook), if_match="*"), 412, "request.precondition_failed")
        refuses(one.delete("say", if_match='"other"'), 412, "request.precondition_failed")
        assert one.get("say").headers["etag"] == etag
        statuses: list[int] = []

        def race(number: int) -> None:
            reply = one.put("say", put_body(hook, description=f"Try {number}."), if_match=f'"x", {etag}')
            statuses.append(reply.status)

        threads = [threading.Thread(target=race, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [200] + [412] * 11
        now = one.get("say", accept_encoding="gzip").headers["etag"]
        typed = one.put(
            "say", put_body(hook, parameters={"type": "object", "minProperties": 1, "default": True})
        )
        other = one.put(
            "say", put_body(hook, parameters={"type": "object", "minProperties": 1, "default": 1})
        )
        assert typed.headers["etag"] != other.headers["etag"]
        now = one.get("say", accept_encoding="gzip").headers["etag"]
        moved = one.put("say", put_body({**hook, "url": "http://127.0.0.1:8/"}), if_match=now)
        again = one.put("say", put_body(hook), if_match=now)
        assert (moved.status, again.status) == (200, 412)  # who only changes the handler changes the tool
        assert one.delete("say", if_match=moved.headers["etag"]).status == 204

    during(tmp_path, body)


def test_versions_stand_side_by_side(tmp_path: Path) -> None:
    """Each version is put, described, called and deleted by itself; the newest is meant where none is named."""
    with webhook() as hook:

        def body(one: Registry) -> None:
            hook.answer = lambda _: fine(hook.seen[-1][0]["x-version"])
            for version in ("1.0.0", "2.0.0", "1.5.0"):
                handler = {"type": "webhook", "url": hook.url, "headers": {"X-Version": version}}
                assert one.put("say", put_body(handler, version)).status == 201
            assert one.get("say").json["version"] == "2.0.0"
            assert one.get("say", "?version=1.0.0").json["version"] == "1.0.0"
            call = {"args": {"text": "a"}}
            assert result_of(one.at.invoke("say", call), 200)["result"] == "2.0.0"
            old = one.at.send("POST", "/v1/tools/say:invoke?version=1.0.0", call)
            assert result_of(old, 200)["result"] == "1.0.0"
            refuses(one.put("say", put_body(None, "1.0.0"), "?version=1.1.0"), 400, "tool.invalid_definition")
            etag = one.get("say", "?version=1.5.0").headers["etag"]
            refuses(
                one.put("say", put_body(None, "1.5.0"), if_match=etag), 412, "request.precondition_failed"
            )
            changed = one.put("say", put_body(None, "1.5.0", tags=["a"]), "?version=1.5.0", if_match=etag)
            assert changed.status == 200
            assert (
                one.put("say", put_body(hook_of(hook.url), "3"), "?version=3", if_none_match="*").status
                == 201
            )
            assert one.delete("say", "?version=2.0.0").status == 204
            assert one.get("say").json["version"] == "1.5.0"
            refuses(one.delete("say", "?version=2.0.0"), 404, "tool.not_found")
            assert result_of(one.at.invoke("say", call), 200)["result"] == "1.5.0"
            assert one.delete("say").status == 204
            refuses(one.get("say", "?version=1.0.0"), 404, "tool.not_found")

        during(tmp_path, body)


def hook_of(url: str) -> dict[str, object]:
    """A handler."""
    return {"type": "webhook", "url": url}


HOOK: dict[str, object] = {"type": "webhook", "url": "http://127.0.0.1:9/"}


def test_a_change_is_seen_through(tmp_path: Path) -> None:
    """A client that goes in the middle of a change leaves it whole, and holds up nobody's."""

    def body(one: Registry) -> None:
        data = json.dumps(put_body(HOOK)).encode()
        for number in range(5):
            with closing(one.at.line()) as line:
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # gone at once
                line.sendall(
                    one.at.head("PUT", f"/v1/tools/t{number}", f"content-length: {len(data)}") + data
                )
        assert one.put("say", put_body(HOOK)).status == 201
        put, deleted = (
            one.at.head("PUT", "/v1/tools/x", f"content-length: {len(data)}") + data,
            one.at.head("DELETE", "/v1/tools/x"),
        )
        replies = one.at.raw(put + deleted + one.at.head("GET", "/v1/tools/x"), "PUT", "DELETE", "GET")
        assert [reply.status for reply in replies] == [201, 204, 404]
        assert "content-length" not in replies[1].headers
        folder = tmp_path / "state" / "registered-tools"
        until(lambda: {file.name.split("@")[0] for file in folder.glob("*.json")} == set(one.names()[3:]))

    during(tmp_path, body)


def test_the_servers_own_door_takes_tools_too(tmp_path: Path) -> None:
    """On the one application tools are put, called and deleted as at an address of the registry's own."""

    async def main() -> None:
        environ = {"HOME": str(tmp_path), "JAATO_ALLOW_HOSTS": "127.0.0.1"}
        async with served(tmp_path, [], environ=environ) as server:
            at = Served(f"http://127.0.0.1:{server.port}", token=server.token)

            def body() -> None:
                with webhook() as hook:
                    made = at.send("PUT", "/v1/tools/say", put_body({"type": "webhook", "url": hook.url}))
                    assert (made.status, at.send("GET", "/v1/tools/say").body) == (201, made.body)
                    assert result_of(at.invoke("say", {"args": {"text": "a"}}), 200)["result"] == {
                        "said": "a"
                    }
                refuses(at.send("PUT", "/v1/tools/say", b"{"), 400, "request.invalid_json")
                gone = at.send("DELETE", "/v1/tools/say", if_match=made.headers["etag"])
                assert (gone.status, "content-length" in gone.headers) == (204, False)
                refuses(Served(at.url).send("PUT", "/v1/tools/say", put_body(HOOK)), 401, "auth.required")

            await anyio.to_thread.run_sync(body)

    anyio.run(main)
