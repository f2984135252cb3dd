"""Registries that lie, flood, stall and break off: each is contained, what is wrong is said, the others work on."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.arp.serving import Lie, body, definition, endless, raw, shop, stalling
from tests.arp.using import configure, directory, offered, plugins, use

from jaato.errors import JaatoError
from jaato.plugins.arp.remote_registry import RemoteRegistry

OK = b"HTTP/1.1 200 OK\r\n"
VIEW = {"name": "echo", "description": "Say it again."}


def asked(path: Path, ask: Callable[[RemoteRegistry], Any], lies: dict[str, Lie], **entry: Any) -> str:
    """What is said of a registry that answers so, and honestly else."""
    with shop(definition("echo")) as it:
        it.lies |= lies
        configure(path, it={"url": it.url} | entry)

        async def main() -> str:
            source = directory(path).get_handle("it").source
            with pytest.raises(JaatoError) as caught, anyio.fail_after(60):
                await ask(source)
            return str(caught.value)

        return anyio.run(main)


LISTS: dict[str, tuple[Lie, str]] = {
    "slow headers": (stalling(OK + b"X-Slow: "), "did not answer in full within 0.3 s"),
    "no answer": (stalling(b""), "did not answer in full within 0.3 s"),
    "slow body": (stalling(OK + b"Content-Length: 100\r\n\r\n["), "did not answer in full within 0.3 s"),
    "endless headers": (endless(OK, b"X-More: 1\r\n" * 500), "did not keep to HTTP"),
    "endless body": (endless(OK + b"\r\n[", b" " * 65_536), "sends more than 8,000,000 bytes"),
    "a great length": (raw(OK + b"Content-Length: 99999999999\r\n\r\n["), "did not keep to HTTP"),
    "cut off": (raw(OK + b"Content-Length: 100\r\n\r\n["), "did not keep to HTTP"),
    "nothing": (raw(b""), "did not keep to HTTP"),
    "no HTTP": (raw(b"SSH-2.0-OpenSSH_9.0\r\n"), "did not keep to HTTP"),
    "compressed": (body(b"x", Content_Encoding="gzip"), "compressed"),
    "an object": (body({"tools": [VIEW]}), "cannot be used: This is not what is expected here"),
    "names of numbers": (body([{"name": 7, "description": "x"}]), "cannot be used"),
    "without description": (body([{"name": "echo"}]), "cannot be used"),
    "no number": (body(b'[{"name": "echo", "description": "x", "more": NaN}]'), "cannot be used"),
    "half a character": (body(b'[{"name": "\\ud800", "description": "x"}]'), "cannot be used"),
    "a name twice": (body(b'[{"name": "a", "name": "b", "description": "x"}]'), "the same name twice"),
    "deep": (body(b"[" * 100_000), "cannot be used"),
    "no text": (body(b"\xff\xfe"), "cannot be used"),
    "a page": (body(b"<html>", "404 Not Found"), "its url in"),
    "a fault": (body(b"oops", "500 Internal Server Error"), "answered HTTP 500 in place of its list"),
    "no key": (body({"x": 1}, "401 Unauthorized"), "refuses the key"),
    "too many": (body(b"", "429 Too Many Requests", Retry_After="7"), "try again in 7 s"),
    "no condition": (body(b"", "304 Not Modified"), "answered HTTP 304"),
    "to a private address": (
        body(b"", "302 Found", Location="http://169.254.169.254/latest/meta-data"),
        "redirects to http://169.254.169.254/latest/meta-data, which is not followed",
    ),
    "another protocol": (
        raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" + b"x" * 100),
        "did not keep to HTTP",
    ),
    "hints without end": (
        endless(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 100),
        "did not answer in full within 0.3 s",
    ),
    "trailers without end": (
        endless(OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n" * 500),
        "did not keep to HTTP",
    ),
    "two lengths": (raw(OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\n[]  "), "did not keep to HTTP"),
    "a coded body": (raw(OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), "did not keep to HTTP"),
    "to nowhere": (body(b"", "308 Permanent Redirect"), "redirects to nowhere"),
}


@pytest.mark.parametrize("kind", LISTS)
def test_a_list_that_is_none(tmp_path: Path, kind: str) -> None:
    """Whatever a registry answers in place of its list: it is said what, within the time and size that it has."""
    lie, words = LISTS[kind]
    within_s = 0.3 if "0.3" in words else 10.0
    said = asked(tmp_path, lambda source: source.fetch_list(), {"GET": lie}, timeout_s=within_s)
    assert words in said


def test_what_cannot_be_offered_is_left_out(tmp_path: Path) -> None:
    """Of 100,000 tools the first are taken; names that are blank, unseen, steps of a path or there twice are left out."""
    odd = [
        "",
        " x",
        "a\x1b[31m",
        "a\nb",
        "..",
        "\u202eevil",
        "x:invoke",
        "n" * 201,
        "twice",
        "twice",
        "é ok",
        "a/../b",
    ]
    views = [{"name": name, "description": "x\x07" * 3} for name in odd]
    views += [{"name": f"t{n}", "description": "y" * 10} for n in range(70_000)]
    with shop() as it:
        it.lies["GET"] = body(views)
        configure(tmp_path, it=it.url)

        async def main() -> None:
            source = directory(tmp_path).get_handle("it").source
            assert await source.fetch_list()
            names = {view.name for view in source.kept.views}
            assert names == {"é ok", "a/../b", *(f"t{n}" for n in range(10_000 - len(odd)))}
            assert source.kept.views[0].description == "x\\x07" * 3
            assert source.kept.dropped[0] == "60,012 tools beyond the first 10,000"
            assert len([text for text in source.kept.dropped if "has invisible characters" in text]) == 3

        anyio.run(main)


DEFINITIONS: dict[str, tuple[Any, str]] = {
    "another's": (definition("other"), "it is that of 'other'"),
    "another version": (definition("echo", schema_version="9.0.0"), "its schema_version is '9.0.0'"),
    "a list": (definition("echo", parameters={"type": "array"}), "are of type 'array', not object"),
    "no schema": (definition("echo", parameters={"type": "object", "properties": 7}), "not a JSON Schema"),
    "a reference": (
        definition("echo", parameters={"properties": {"a": {"$ref": "http://169.254.169.254/"}}}),
        "not part of the schema",
    ),
    "long": (definition("echo", parameters={"description": "x" * 300_000}), "more than 256,000 bytes"),
    "deep": (
        definition("echo", parameters=json.loads('{"not":' * 60 + "{}" + "}" * 60)),
        "nested too deeply",
    ),
    "unseen": (
        definition("echo", parameters={"properties": {"a\u202e": {}, "b": {"const": "\U000e0041"}}}),
        "have invisible characters (U+202E, U+E0041)",
    ),
    "no object": (definition("echo", parameters=[]), "cannot be used"),
    "null": (definition("echo", tags=None), "cannot be used"),
    "no version": (
        {key: value for key, value in definition("echo").items() if key != "version"},
        "cannot be used",
    ),
}


def test_a_definition_that_is_none(tmp_path: Path) -> None:
    """A definition that is not that of the tool, or whose parameters cannot be checked, is not used; the model is told. What
    is said of parameters hides nothing."""
    with shop(definition("echo")) as it:
        configure(tmp_path, it=it.url)

        async def main() -> None:
            for lie, words in DEFINITIONS.values():
                it.lies["GET /v1/tools/echo"] = body(lie)
                definitions = directory(tmp_path).get_handle("it").definitions
                with pytest.raises(JaatoError) as caught:
                    await definitions.get("echo")
                assert words in str(caught.value), lie
                assert "\n" not in str(caught.value)
            said = {"description": "Send\u200b\U000e0041 it.", "properties": {"a": {"title": "\u202e"}}}
            it.lies["GET /v1/tools/echo"] = body(definition("echo", parameters=said))
            known = await directory(tmp_path).get_handle("it").definitions.get("echo")
            assert known.definition.parameters == {
                "description": "Send\\u200b\\U000e0041 it.",
                "properties": {"a": {"title": "\\u202e"}},
            }

        anyio.run(main)


def test_one_bad_registry_among_good_ones(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where one registry stalls, one is dead and one lies, the tools of the others are there; what is wrong is said once."""
    with shop(definition("good")) as good, shop() as liar, shop() as slow:
        liar.lies["GET"] = body({"no": "list"})
        slow.lies["GET"] = stalling(b"")
        entries: dict[str, Any] = {"good": good.url, "liar": liar.url, "dead": "http://127.0.0.1:9"}
        configure(tmp_path, slow={"url": slow.url, "timeout_s": 0.2}, **entries)

        async def main() -> None:
            made = plugins(tmp_path)
            assert await offered(made) == ["good"]
            assert await offered(made) == ["good"]
            rows = {row["name"]: row for row in (await use(made, "registries"))["registries"]}
            assert {name: row["state"] for name, row in rows.items()} == {
                "good": "known",
                "liar": "unreachable",
                "dead": "unreachable",
                "slow": "unreachable",
            }
            assert "cannot be used" in rows["liar"]["why"]
            made.shutdown()

        with caplog.at_level(logging.WARNING, "jaato"):
            anyio.run(main)
        said = [record.getMessage() for record in caplog.records if "Registry" in record.getMessage()]
        assert len(said) == len(set(said)) == 3
        assert len(liar.seen) == 1


def test_a_growing_pause(tmp_path: Path) -> None:
    """A registry that fails is left alone for a while, each time longer, and at most so long; one answer and it is as new."""
    clock = [1000.0]
    with shop(definition("echo")) as it:
        configure(tmp_path, it=it.url)

        async def main() -> None:
            there = directory(tmp_path)
            config, cache_dir = there.sources["it"], there.context.cache_dir
            source = RemoteRegistry(config, cache_dir, there, lambda: clock[0])
            it.lies["GET"] = body(b"", "500 Oops")
            waits: list[float] = []
            for _ in range(12):
                assert not await source.refresh()
                waits.append(source.wait_s)
                assert not await source.refresh()
                if waits[-1] > 1.5:
                    with pytest.raises(JaatoError, match="times in a row and is asked again in"):
                        await source.invoke("echo", b"{}", ())
                assert len(it.seen) == len(waits)
                clock[0] += source.wait_s
            assert waits == sorted(waits)
            assert waits[-1] == 300
            it.lies.clear()
            assert await source.refresh()
            assert (source.state, source.wait_s) == ("known", 0)

        anyio.run(main)


def test_time_is_kept(tmp_path: Path) -> None:
    """A registry that sends a byte now and then has no more time than one that sends none."""

    def drip(handler: Any) -> None:
        while True:
            handler.wfile.write(b"H")
            time.sleep(0.02)

    said = asked(tmp_path, lambda source: source.fetch_list(), {"GET": drip}, timeout_s=0.3)
    assert "0.3 s" in said or "HTTP" in said


def test_what_a_tool_says_of_itself(tmp_path: Path) -> None:
    """Version and tags of a stranger's tool, which are shown and served on, are bounded and hide nothing."""
    odd = definition("echo", version="1\x1b[2J" + "0" * 100_000, tags=["a\u202eb", "c" * 1_000] * 500)

    async def main() -> None:
        made = plugins(tmp_path)
        await offered(made)
        found = made.catalog.find("echo")
        assert found is not None
        assert found.tool.remote is not None
        await found.tool.remote.complete(found.tool)
        assert found.tool.version.startswith("1\\x1b[2J000")
        assert len(found.tool.version) == len(found.tool.tags[1]) == len(found.tool.tags) == 100
        assert found.tool.tags[0] == "a\\u202eb"
        made.shutdown()

    with shop(odd) as it:
        configure(tmp_path, it=it.url)
        anyio.run(main)
