"""Results that are large, or kept apart: whole in the answer, or read piece by piece by who made the call."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.registry.opened import Opened, during
from tests.registry.registering import Registry
from tests.registry.registering import during as registering

from jaato.errors import ToolError
from jaato.server.registry import results as behind
from jaato.server.registry.keys import add_key
from jaato.testing.arp.peer import Reply, Served, fails, refuses, result_of
from jaato.tools.call import Call
from jaato.tools.tool import tool

ROWS = {"rows": [{"number": number, "text": "é" * 50} for number in range(3_000)]}
LONG = "".join(f"{number} is wróng here\n" for number in range(6_000))
READ = re.compile(r"GET (/v1/tools:result\?handle=result:[0-9a-f]{64}) has all of it")


@tool(access="read")
def rows() -> dict[str, Any]:
    """Give many rows."""
    return ROWS


@tool(access="read")
def apart(call: Call) -> dict[str, Any]:
    """Give the beginning, and the handle of the rest."""
    return {"head": LONG[:20], "handle": call.keep(LONG.encode()), "image": call.keep(b"\xff\xd8" * 700)}


@tool(access="read")
def wrong() -> None:
    """Fail at length."""
    raise ToolError(LONG)


def pieces(at: Served, address: str) -> bytes:
    """What is at an address and at those it leads to."""
    found = []
    while address:
        reply = at.send("GET", address)
        assert reply.status == 200, reply
        found.append(reply.body)
        following = re.fullmatch(r'<(.+)>; rel="next"', reply.headers.get("link", ""))
        address = following[1] if following else ""
    return b"".join(found)


def test_large_results_are_whole_and_what_is_apart_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data of any size is in the answer, alone, in a batch and again by its key; what a tool or a long message leaves out is read
    where the answer says, in pieces of whole characters. No answer speaks of what only a model in a session has."""
    monkeypatch.setattr(behind, "MAX_PART_BYTES", 20_001)

    def body(one: Opened) -> None:
        once = {"idempotency_key": "k-1"}
        seen: list[Reply] = [one.at.invoke("rows", {"args": {}}), one.at.invoke("rows", {"args": {}}, **once)]
        seen.append(one.at.invoke("rows", {"args": {}}, **once))
        assert all(result_of(reply, 200)["result"] == ROWS for reply in seen)
        assert seen[2].headers["idempotent-replayed"] == "true"
        both = one.at.send("POST", "/v1/tools:batchInvoke", {"calls": [{"name": "rows", "args": {}}] * 2})
        assert [each["result"] for each in both.json] == [ROWS, ROWS]
        failed = fails(one.at.invoke("wrong", {"args": {}}), 500, "tool.execution_error")
        assert "readFile" not in json.dumps(failed)
        address = READ.search(failed["message"])
        assert address is not None
        assert pieces(one.at, address[1]).decode() == LONG
        result = result_of(one.at.invoke("apart", {"args": {}}), 200)["result"]
        place = f"/v1/tools:result?handle={result['handle']}"
        assert pieces(one.at, place).decode() == LONG
        assert one.at.send("GET", f"{place}&offset=5").body.startswith(LONG[5:9].encode())
        assert one.at.send("GET", f"{place}&offset=999999999").body == b""
        assert one.at.send("HEAD", place).headers["content-type"] == "text/plain; charset=utf-8"
        image = one.at.send("GET", f"/v1/tools:result?handle={result['image'].removeprefix('result:')}")
        assert (image.body, image.headers["content-type"]) == (b"\xff\xd8" * 700, "application/octet-stream")
        assert image.headers["x-content-type-options"] == "nosniff"
        for query in ("", "?handle=x", "?handle=result:../../x", f"?handle={result['image']}&offset=-1"):
            refuses(one.at.send("GET", f"/v1/tools:result{query}"), 400, "request.invalid_shape")
        refuses(one.at.send("GET", f"/v1/tools:result?handle={'0' * 64}"), 404, "result.not_found")
        refuses(one.at.send("POST", place, {}), 405, "request.method_not_allowed")

    during(tmp_path, body, tools=(rows, apart, wrong))


def test_results_are_read_by_who_made_the_call(tmp_path: Path) -> None:
    """A result is there for the key it was given to, also in a registry that was started since, and for no other; reading it
    needs the scope by which calls are made."""
    kept: list[str] = []
    state = tmp_path / "state"
    keys = {
        name: add_key(state, name, scopes)
        for name, scopes in (
            ("mine", ["tools:invoke"]),
            ("other", ["tools:invoke"]),
            ("reads", ["tools:read"]),
        )
    }

    def begin(one: Registry) -> None:
        mine = replace(one.at, token=keys["mine"])
        kept.append(result_of(mine.invoke("apart", {"args": {}}), 200)["result"]["handle"])
        look(one)

    def look(one: Registry) -> None:
        place = f"/v1/tools:result?handle={kept[0]}"
        answers = {name: replace(one.at, token=key).send("GET", place) for name, key in keys.items()}
        assert pieces(replace(one.at, token=keys["mine"]), place).decode() == LONG
        refuses(answers["other"], 404, "result.not_found")
        refuses(answers["reads"], 403, "auth.forbidden")
        refuses(one.at.send("GET", place), 404, "result.not_found")

    registering(tmp_path, begin, tools=(apart,))
    registering(tmp_path, look, tools=(apart,))
