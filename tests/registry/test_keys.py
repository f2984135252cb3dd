"""Keys of a registry: who comes in, what may be done, which tools there are, how often."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from jaato.errors import ConfigError
from jaato.runtime.session_options import SessionOptions
from jaato.server.auth.gate import allow_hosts
from jaato.server.auth.tokens import SingleToken, generate_secret
from jaato.server.registry import keys as guards
from jaato.server.registry.application import bind_listener, open_registry, serving
from jaato.server.registry.keys import NAME, AllowAnyone, Guard, Keys, RequireKey, add_key, keys_in
from jaato.testing.arp.peer import Reply, Served, fails, result_of

OWNER = "o" * 43


def serve(path: Path, guard: Callable[[int], Guard], body: Callable[[Served], None]) -> None:
    """Run `body` in a thread while a registry serves `core` under this guard."""

    async def main() -> None:
        registry = open_registry(
            SessionOptions(workspace=path, state_dir=path / "state", environ={"HOME": str(path)})
        )
        listener = bind_listener("127.0.0.1", 0)
        port = listener.getsockname()[1]
        try:
            async with serving(registry, guard(port), listener):
                await anyio.to_thread.run_sync(body, Served(f"http://127.0.0.1:{port}"))
        finally:
            await registry.callers.close()

    anyio.run(main)


def keyed(state: Path) -> Callable[[int], RequireKey]:
    """A guard over the keys of a directory."""
    return lambda port: RequireKey(allow_hosts("127.0.0.1", port), SingleToken(OWNER), Keys(state))


def refused(reply: Reply, status: int, code: str) -> Reply:
    """A refusal where no call was meant."""
    assert (reply.status, reply.json["error"]["code"]) == (status, code), reply
    return reply


@pytest.mark.spec("C9", "9. ARP Tool Registry (S2)")
def test_a_key_gives_what_it_names(tmp_path: Path) -> None:
    """Scopes, tools and time of a key hold on every route, also where the call is refused by a whole result."""
    state = tmp_path / "state"
    reads = add_key(state, "reads", ["tools:read"])
    some = add_key(state, "some", ["tools:read", "tools:invoke"], ["c*", "time_?ow"])
    past = add_key(state, "past", ["tools:read"], expires=time.time() - 1)
    assert len({reads, some, past}) == 3
    assert all(key.startswith("jrk_") and len(key) == 47 for key in (reads, some, past))
    kept = (state / NAME).read_bytes()
    assert not any(key.encode() in kept for key in (reads, some, past))
    assert (state / NAME).stat().st_mode & 0o777 == 0o600

    def body(at: Served) -> None:
        one = {"args": {"text": "x"}}
        none = refused(at.send("GET", "/v1/tools"), 401, "auth.required")
        assert none.headers["www-authenticate"] == 'Bearer realm="jaato tool registry"'
        for wrong in ("jrk_" + "A" * 43, some[:-1], some.swapcase(), "", "ü", "x" * 3_000):
            found = refused(
                at.send("GET", "/v1/tools", authorization=f"Bearer {wrong}".encode().decode("latin-1")),
                401,
                "auth.required",
            )
            assert ('error="invalid_token"' in found.headers["www-authenticate"]) == bool(wrong)
        over = refused(replace(at, token=past).send("GET", "/v1/tools"), 401, "auth.required")
        assert "ask for another" in over.json["error"]["message"]
        error = fails(at.invoke("echo", one), 401, "auth.required")
        assert error["retryable"] is False

        reader = replace(at, token=reads)
        assert len(reader.send("GET", "/v1/tools").json) == 3
        reply = reader.invoke("echo", one)
        fails(reply, 403, "auth.forbidden")
        assert reply.headers["www-authenticate"] == (
            'Bearer realm="jaato tool registry", error="insufficient_scope", scope="tools:invoke"'
        )

        assert replace(at, token=OWNER).invoke("echo", one).status == 200
        sees = replace(at, token=some)
        assert [tool["name"] for tool in sees.send("GET", "/v1/tools").json] == ["calc", "time_now"]
        assert result_of(sees.invoke("calc", {"args": {"expression": "6*7"}}), 200)["result"]["value"] == 42
        figures = sees.send("GET", "/metrics").body
        assert b'tool="calc"' in figures
        assert b'tool="echo"' not in figures
        found = sees.send("GET", "/v1/tools?q=echo+text+calc").json
        assert "echo" not in [tool["name"] for tool in found]
        absent = refused(sees.send("GET", "/v1/tools/echo"), 404, "tool.not_found")
        never = refused(sees.send("GET", "/v1/tools/nothing"), 404, "tool.not_found")
        assert absent.json["error"]["message"].replace("echo", "nothing") == never.json["error"]["message"]
        fails(sees.invoke("echo", one), 404, "tool.not_found")

        owner = replace(at, token=OWNER)
        assert result_of(owner.invoke("echo", one), 200)["result"] == {"text": "x"}
        tag = owner.send("GET", "/v1/tools").headers["etag"]
        assert tag != sees.send("GET", "/v1/tools").headers["etag"]
        assert sees.send("GET", "/v1/tools", if_none_match=tag).status == 200

    serve(tmp_path, keyed(state), body)


def test_what_is_taken_away_stops_at_once(tmp_path: Path) -> None:
    """A key that was removed lets in no more, nor do those of a file that others can read or that is gone; the owner stays."""
    state = tmp_path / "state"
    reads, some = (add_key(state, name, ["tools:read"]) for name in ("reads", "some"))

    def body(at: Served) -> None:
        reader, sees, owner = (replace(at, token=token) for token in (reads, some, OWNER))
        assert reader.send("GET", "/v1/tools").status == sees.send("GET", "/v1/tools").status == 200
        keys_in(state).remove("some")
        with closing(sees.connection()) as line:
            refused(sees.on(line, "GET", "/v1/tools"), 401, "auth.required")
        (state / NAME).chmod(0o644)
        refused(reader.send("GET", "/v1/tools"), 401, "auth.required")
        (state / NAME).unlink()
        refused(reader.send("GET", "/v1/tools"), 401, "auth.required")
        assert owner.send("GET", "/v1/tools").status == 200

    serve(tmp_path, keyed(state), body)


def test_wrong_keys_are_slowed_and_right_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address that tries many keys is told to come later; whoever has one from there comes in all the same."""
    state = tmp_path / "state"
    key = add_key(state, "right", ["tools:read"])
    monkeypatch.setattr("jaato.server.auth.gate.MAX_PENDING", 20)
    monkeypatch.setattr("jaato.server.auth.gate.LEAK_PER_S", 0.001)

    def body(at: Served) -> None:
        wrong = replace(at, token="jrk_wrong")
        assert {wrong.send("GET", "/v1/tools").status for _ in range(20)} == {401}
        late = refused(wrong.send("GET", "/v1/tools"), 429, "request.too_many")
        assert late.headers["retry-after"] == "1"
        assert replace(at, token=key).send("GET", "/v1/tools").status == 200
        assert replace(at, token=OWNER).send("GET", "/v1/tools").status == 200

    serve(tmp_path, keyed(state), body)


def test_what_no_key_may_be(tmp_path: Path) -> None:
    """AllowedHosts, scopes, patterns and rates are checked when a key is made; a file that is none lets nobody in."""
    for name, scopes, tools, rate in (
        ("", ["tools:read"], [], None),
        ("a b", ["tools:read"], [], None),
        ("n", [], [], None),
        ("n", ["tools:all"], [], None),
        ("n", ["tools:read"], ["x" * 129], None),
        ("n", ["tools:read"], ["x"] * 101, None),
        ("n", ["tools:read"], [], "often"),
    ):
        with pytest.raises(ConfigError):
            add_key(tmp_path, name, scopes, tools, None, rate)
    key = add_key(tmp_path, "n", ["tools:read"])
    with pytest.raises(ConfigError, match="already"):
        add_key(tmp_path, "n", ["tools:read"])
    keys = Keys(tmp_path)
    assert keys.authenticate(key) is not None
    assert keys.verify_key("/v1/tools/x", key) is not None
    assert [keys.verify_key(path, key) for path in ("/v1/connect", "/v1/toolsx", "/mcp", "/health", "/")] == [
        None
    ] * 5
    for content in (
        b"",
        b"[]",
        b'{"version":1}',
        b'{"version":1,"keys":[{"name":"n"}]}',
        b"\xff",
        b"{" * 99_999,
    ):
        (tmp_path / NAME).write_bytes(content)
        assert keys.authenticate(key) is None
        assert keys.authenticate("") is None
        assert keys.is_required


def test_a_door_that_cannot_know_its_owner_is_closed(tmp_path: Path) -> None:
    """Where the owner's token cannot be read, nobody is let in; the answer says where to look, not what is wrong."""
    add_key(tmp_path, "n", ["tools:read"])

    def broken() -> RequireKey:
        raise ConfigError("secret words")

    def guard(port: int) -> Guard:
        return guards.AllowUntilKeys(AllowAnyone(allow_hosts("127.0.0.1", port)), Keys(tmp_path), broken)

    def body(at: Served) -> None:
        assert (
            "secret"
            not in refused(at.send("GET", "/v1/tools"), 503, "registry.unavailable").json["error"]["message"]
        )

    serve(tmp_path, guard, body)


def test_a_secret_can_be_given_on_a_command_line() -> None:
    """`--token SECRET` is a token and no option: no secret that is made begins with a dash."""
    made = {generate_secret() for _ in range(2_000)}
    assert len(made) == 2_000
    assert not any(secret.startswith("-") for secret in made)
