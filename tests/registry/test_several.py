"""Several definitions at once."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from tests.registry.opened import Opened, during, made

from jaato.server.registry.listing import MAX_NAMES
from jaato.testing.arp.checks import NO_JSON
from jaato.testing.arp.peer import Reply, Served, is_error, refuses

NO_BATCH: tuple[Any, ...] = (
    *(
        {},
        [],
        "echo",
        7,
        {"names": None},
        {"names": "echo"},
        {"names": {}},
        {"names": [1]},
        {"names": [None]},
    ),
    *(
        {"names": [["echo"]]},
        {"names": [{}]},
        {"names": [{"name": 1}]},
        {"names": [{"name": "x", "version": ""}]},
    ),
    *({"names": ["echo"] * (MAX_NAMES + 1)}, {"names": [{"version": "1.0.0"}]}),
)


def batch(at: Served, body: Any, **headers: str) -> Reply:
    """The answer to `batchGet` with this body."""
    return at.send("POST", "/v1/tools:batchGet", body, **headers)


def test_several_definitions_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    """Each name has its result in its place, the definition as it is alone or why there is none; a name may stand twice,
    and with a version."""

    def body(one: Opened) -> None:
        one.put(made("many", "1.0.0"), made("many", "2.0.0"))
        at = one.at
        alone = {name: at.send("GET", f"/v1/tools/{name}").json for name in ("echo", "calc", "many")}
        old = at.send("GET", "/v1/tools/many?version=1.0.0").json
        names: list[Any] = [
            "calc",
            "nothing",
            "echo",
            "",
            "calc",
            "many",
            {"name": "many", "version": "1.0.0"},
        ]
        names += [{"name": "many"}, {"name": "many", "version": "3"}, "a/b", "ünï", "x" * 5_000]
        reply = batch(at, {"names": names, "more": 1})
        assert (reply.status, set(reply.json)) == (200, {"schema_version", "results"})
        results = reply.json["results"]
        assert [result.get("definition") for result in results] == [
            *(alone["calc"], None, alone["echo"], None, alone["calc"], alone["many"], old, alone["many"]),
            *[None] * 4,
        ]
        for result in results:
            assert len(result) == 1
            if "error" in result:
                is_error(result["error"], "tool.not_found")
        assert results[8]["error"]["details"] == {"versions": ["2.0.0", "1.0.0"], "tool_name": "many"}
        assert batch(at, {"names": []}).json["results"] == []
        most = batch(at, {"names": ["echo"] * MAX_NAMES}, accept_encoding="gzip")
        assert most.headers["content-encoding"] == "gzip"
        assert (
            json.loads(gzip.decompress(most.body))["results"] == [{"definition": alone["echo"]}] * MAX_NAMES
        )
        encoded = at.send("POST", "/v1/tools%3AbatchGet", {"names": ["echo"]})
        assert encoded.json["results"] == [{"definition": alone["echo"]}]

    during(tmp_path, body, domains=["core"])


def test_a_batch_is_no_lever(tmp_path: Path) -> None:
    """A few bytes that ask for much, again and again, are refused; the same things are had one by one."""

    def body(one: Opened) -> None:
        one.put(made("vast", text="Do something. " * 10_000))
        assert len(batch(one.at, {"names": ["vast"] * 50}).body) > 7_000_000
        refuses(batch(one.at, {"names": ["vast"] * 60}), 400, "request.invalid_shape")

    during(tmp_path, body, domains=["core"])


def test_what_is_no_batch_is_refused(tmp_path: Path) -> None:
    """What is no JSON, no list of names, or too much is a plain error, and so is another method."""

    def body(one: Opened) -> None:
        at = one.at
        for wrong in NO_JSON:
            refuses(batch(at, wrong), 400, "request.invalid_json")
        for wrong in NO_BATCH:
            refuses(batch(at, wrong), 400, "request.invalid_shape")
        large = at.head("POST", "/v1/tools:batchGet", "content-length: 1000001")
        refuses(at.raw(large, "POST")[0], 413, "request.too_large")
        refuses(
            batch(at, gzip.compress(b'{"names": []}'), content_encoding="gzip"),
            415,
            "request.unsupported_encoding",
        )
        for method in ("GET", "PUT", "DELETE", "HEAD"):
            reply = at.send(method, "/v1/tools:batchGet")
            assert (reply.status, reply.headers["allow"]) == (405, "POST")
        for path in ("/v1/tools:batchget", "/v1/tools:", "/v1/tools:batchGet/", "/v1/tools::batchGet"):
            refuses(at.send("POST", path, {"names": []}), 404, "route.not_found")

    during(tmp_path, body, domains=["core"])
