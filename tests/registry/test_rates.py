"""How often somebody may ask, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.registry.test_keys import OWNER, keyed, serve

from jaato.errors import ConfigError
from jaato.server.auth.gate import allow_hosts
from jaato.server.registry.keys import AllowAnyone, add_key
from jaato.server.registry.limits import Rate, RateLimiter, parse_rate
from jaato.testing.arp.peer import Served, fails


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
        for path in ("/healthz", "/version"):  # a probe is no use of the registry
            assert at.send("GET", path).status == 200

    serve(tmp_path, lambda port: AllowAnyone(allow_hosts("127.0.0.1", port), Rate(2, 3_600)), anyone)


def test_rates_and_their_memory() -> None:
    """A rate is written as a count and a time; buckets fill evenly, and only so many are remembered."""
    assert [parse_rate(text) for text in ("100/min", "5/s", "1000/12h", "7/2d")] == [
        Rate(100, 60),
        Rate(5, 1),
        Rate(1_000, 43_200),
        Rate(7, 172_800),
    ]
    for text in ("", "0/s", "5", "5/", "5/week", "-1/s", "1e3/s", "5/0s", "9" * 20 + "/s"):
        with pytest.raises(ConfigError, match="no rate"):
            parse_rate(text)
    asked = RateLimiter("key", max_callers=100)
    for number in range(1_000):
        asked.take(str(number), Rate(1, 60))
    assert asked.take("999", Rate(1, 60))[0] > 59
    assert asked.take("0", Rate(1, 60))[0] == 0
    assert len(asked._full_at) == 100
    assert asked.take("batch", Rate(10, 60), 6)[0] == 0
    assert 11 < asked.take("batch", Rate(10, 60), 6)[0] <= 12
    assert asked.take("batch", Rate(10, 60), 4)[0] == 0
