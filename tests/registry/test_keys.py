"""Keys of a registry: who comes in, what may be done, which tools there are, how often."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from jaato.errors import ConfigError
from jaato.runtime.blueprint import Blueprint
from jaato.server.names import names_of
from jaato.server.registry import guards
from jaato.server.registry.guards import Anyone, Guard, Keyed
from jaato.server.registry.keys import NAME, Keys, add_key, keys_in
from jaato.server.registry.listen import bound, serving
from jaato.server.registry.opening import open_registry
from jaato.server.registry.rate import Asked, Rate, rate_of
from jaato.server.secret import OneToken
from jaato.settings import environment
from jaato.testing.arp.peer import Reply, Served, fails, result_of

OWNER = "o" * 43


def serve(path: Path, guard: Callable[[int], Guard], body: Callable[[Served], None]) -> None:
    """Run `body` in a thread while a registry serves `core` under this guard."""

    async def main() -> None:
        door = open_registry(Blueprint(workspace=path, state_dir=path / "state", environ={"HOME": str(path)}))
        listener = bound("127.0.0.1", 0)
        port = listener.getsockname()[1]
        try:
            async with serving(door, guard(port), listener):
                await anyio.to_thread.run_sync(body, Served(f"http://127.0.0.1:{port}"))
        finally:
            await door.callers.close()

    anyio.run(main)


def keyed(state: Path) -> Callable[[int], Keyed]:
    """A guard over the keys of a directory."""
    return lambda port: Keyed(names_of("127.0.0.1", port), OneToken(OWNER), Keys(state))


def refused(reply: Reply, status: int, code: str) -> Reply:
    """A refusal where no call was meant."""
    assert (reply.status, reply.json["code"]) == (status, code), reply
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
        assert "ask for another" in over.json["message"]
        error = fails(at.invoke("echo", one), 401, "auth.required")
        assert error["retryable"] is False

        reader = replace(at, token=reads)
        assert len(reader.send("GET", "/v1/tools").json) == 3
        reply = reader.invoke("echo", one)
        fails(reply, 403, "auth.forbidden")
        assert reply.headers["www-authenticate"] == (
            'Bearer realm="jaato tool registry", error="insufficient_scope", scope="tools:invoke"'
        )

        sees = replace(at, token=some)
        assert [tool["name"] for tool in sees.send("GET", "/v1/tools").json] == ["calc", "time_now"]
        assert result_of(sees.invoke("calc", {"args": {"expression": "6*7"}}), 200)["result"]["value"] == 42
        found = sees.send("GET", "/v1/tools?q=echo+text+calc").json
        assert "echo" not in [tool["name"] for tool in found]
        absent = refused(sees.send("GET", "/v1/tools/echo"), 404, "tool.not_found")
        never = refused(sees.send("GET", "/v1/tools/nothing"), 404, "tool.not_found")
        assert absent.json["message"].replace("echo", "nothing") == never.json["message"]
        fails(sees.invoke("echo", one), 404, "tool.not_found")

        owner = replace(at, token=OWNER)
        assert result_of(owner.invoke("echo", one), 200)["result"] == {"text": "x"}
        tag = owner.send("GET", "/v1/tools").headers["etag"]
        assert tag != sees.send("GET", "/v1/tools").headers["etag"]
        assert sees.send("GET", "/v1/tools", if_none_match=tag).status == 200

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
    monkeypatch.setattr("jaato.server.failures.MOST", 20)

    def body(at: Served) -> None:
        wrong = replace(at, token="jrk_wrong")
        assert {wrong.send("GET", "/v1/tools").status for _ in range(20)} == {401}
        late = refused(wrong.send("GET", "/v1/tools"), 429, "request.too_many")
        assert late.headers["retry-after"] == "60"
        assert replace(at, token=key).send("GET", "/v1/tools").status == 200
        assert replace(at, token=OWNER).send("GET", "/v1/tools").status == 200

    serve(tmp_path, keyed(state), body)


def test_who_asks_too_often_is_told_when_to_come_back(tmp_path: Path) -> None:
    """A key's rate, or without keys an address's, says in every answer how it stands; beyond it there is 429 with `Retry-After`."""
    state = tmp_path / "state"
    key = add_key(state, "slow", ["tools:read", "tools:invoke"], rate="3/h")
    several = add_key(state, "several", ["tools:invoke"], rate="10/h")

    def body(at: Served) -> None:
        slow = replace(at, token=key)
        for left in (2, 1, 0):
            reply = slow.send("GET", "/v1/tools")
            assert reply.status == 200
            assert reply.headers["ratelimit-policy"] == '"key";q=3;w=3600'
            assert reply.headers["ratelimit"].startswith(f'"key";r={left};t=')
        reply = slow.invoke("echo", {"args": {"text": "x"}})
        error = fails(reply, 429, "request.too_many")
        assert error["retryable"] is True
        assert 1_190 < int(reply.headers["retry-after"]) <= 1_201
        assert reply.headers["ratelimit"].startswith('"key";r=0;t=')
        assert "ratelimit" not in replace(at, token=OWNER).send("GET", "/v1/tools").headers
        many = replace(at, token=several)
        calls = {"calls": [{"name": "echo", "args": {"text": "x"}}] * 4}
        for left in (6, 2):
            reply = many.send("POST", "/v1/tools:batchInvoke", calls)
            assert [one["ok"] for one in reply.json] == [True] * 4
            assert reply.headers["ratelimit"].startswith(f'"key";r={left};t=')
        late = many.send("POST", "/v1/tools:batchInvoke", calls)
        fails(late, 429, "request.too_many")
        assert int(late.headers["retry-after"]) > 60

    serve(tmp_path, keyed(state), body)

    def anyone(at: Served) -> None:
        assert [at.send("GET", "/v1/tools").status for _ in range(3)] == [200, 200, 429]

    serve(tmp_path, lambda port: Anyone(names_of("127.0.0.1", port), Rate(2, 3_600)), anyone)


def test_rates_and_their_memory() -> None:
    """A rate is written as a count and a time; buckets fill evenly, and only so many are remembered."""
    assert [rate_of(text) for text in ("100/min", "5/s", "1000/12h", "7/2d")] == [
        Rate(100, 60),
        Rate(5, 1),
        Rate(1_000, 43_200),
        Rate(7, 172_800),
    ]
    for text in ("", "0/s", "5", "5/", "5/week", "-1/s", "1e3/s", "5/0s", "9" * 20 + "/s"):
        with pytest.raises(ConfigError, match="no rate"):
            rate_of(text)
    asked = Asked("key", most=100)
    for number in range(1_000):
        asked.take(str(number), Rate(1, 60))
    assert asked.take("999", Rate(1, 60))[0] > 59
    assert asked.take("0", Rate(1, 60))[0] == 0
    assert len(asked._free_at) == 100
    assert asked.take("batch", Rate(10, 60), 6)[0] == 0
    assert 11 < asked.take("batch", Rate(10, 60), 6)[0] <= 12
    assert asked.take("batch", Rate(10, 60), 4)[0] == 0


def test_what_no_key_may_be(tmp_path: Path) -> None:
    """Names, scopes, patterns and rates are checked when a key is made; a file that is none lets nobody in."""
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
    assert keys.enter(key) is not None
    assert keys.enter_at("/v1/tools/x", key) is not None
    assert [keys.enter_at(path, key) for path in ("/v1/connect", "/v1/toolsx", "/mcp", "/health", "/")] == [
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
        assert keys.enter(key) is None
        assert keys.enter("") is None
        assert keys.wanted


def cli(env: dict[str, str], *words: str, status: int = 0) -> str:
    """What a command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "jaato", "registry", *words], env=env, capture_output=True, text=True
    )
    assert done.returncode == status, done.stderr
    return done.stdout


@contextmanager
def process(env: dict[str, str], home: Path) -> Iterator[Served]:
    """A registry that serves `core` as a program of its own."""
    command = [sys.executable, "-m", "jaato", "registry", "serve", "--port", "0", "--workspace", str(home)]
    command += ["--log", str(home / "log")]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stderr is not None
            line = running.stderr.readline()
            yield Served("http://127.0.0.1:" + line.rpartition(":")[2].split(";")[0].strip())
        finally:
            running.terminate()
            running.wait(20)


def test_the_first_key_closes_the_door(tmp_path: Path, desk_env: dict[str, str]) -> None:
    """A registry that lets anyone in lets in only keys from when the first is made, and stays closed when the last has gone."""
    with process(desk_env, tmp_path) as at:
        assert at.send("GET", "/v1/tools").status == 200
        key = cli(
            desk_env, "key", "add", "ci", "--tools", "echo", "--expires", "30d", "--rate", "9/s"
        ).strip()
        while at.send("GET", "/v1/tools").status == 200:
            threading.Event().wait(0.02)
        mine = replace(at, token=key)
        assert [tool["name"] for tool in mine.send("GET", "/v1/tools").json] == ["echo"]
        row = json.loads(cli(desk_env, "key", "list", "--json"))[0]
        assert (row["name"], row["tools"], row["rate"]) == ("ci", ["echo"], "9/s")
        assert row["scopes"] == ["tools:read", "tools:invoke"]
        assert mine.invoke("echo", {"args": {"text": "x"}}, x_request_id="made-1").status == 200
        call = json.loads(cli(desk_env, "log", "--key", "ci", "--json"))
        assert (call["request_id"], call["outcome"]) == ("made-1", "ok")
        cli(desk_env, "key", "remove", "ci")
        refused(mine.send("GET", "/v1/tools", x_request_id="gone-1"), 401, "auth.required")
        refused(at.send("GET", "/v1/tools"), 401, "auth.required")
    told = (tmp_path / "log").read_text()
    assert "Request gone-1 from 127.0.0.1: 401 for GET '/v1/tools'" in told
    assert key not in told
    cli(desk_env, "key", "remove", "ci", status=2)


@pytest.fixture
def desk_env(tmp_path: Path) -> dict[str, str]:
    """The environment of a user who has nothing yet."""
    path = {name: value for name, value in environment().items() if name in ("PATH", "PYTHONPATH")}
    return {**path, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "s")}


def test_a_door_that_cannot_know_its_owner_is_closed(tmp_path: Path) -> None:
    """Where the owner's token cannot be read, nobody is let in; the answer says where to look, not what is wrong."""
    add_key(tmp_path, "n", ["tools:read"])

    def broken() -> Keyed:
        raise ConfigError("secret words")

    def guard(port: int) -> Guard:
        return guards.Free(Anyone(names_of("127.0.0.1", port)), Keys(tmp_path), broken)

    def body(at: Served) -> None:
        assert (
            "secret" not in refused(at.send("GET", "/v1/tools"), 503, "registry.unavailable").json["message"]
        )

    serve(tmp_path, guard, body)
