"""Registries that lie about a call, stall it or break it off: it is told with a code, and whether it may have been carried out."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.arp.serving import Lie, body, definition, done, endless, raw, shop, stalling
from tests.arp.using import configure, offered, plugins, use

from jaato.errors import JaatoError

OK = b"HTTP/1.1 200 OK\r\n"


RESULTS: dict[str, tuple[Lie, str, str]] = {
    "cut off": (
        raw(OK + b"Content-Length: 100\r\n\r\n{"),
        "registry_call_lost",
        "whether it was carried out",
    ),
    "no answer": (raw(b""), "registry_call_lost", "whether it was carried out is not known"),
    "stalls": (stalling(OK), "registry_call_lost", "within 0.5 s"),
    "endless": (endless(OK + b"\r\n[", b" " * 1_000_000), "registry_call_lost", "more than 16,000,000 bytes"),
    "no result": (body({"ok": True}), "registry_call_lost", "what is no result"),
    "yes and no": (
        body(
            done(1) | {"error": {"schema_version": "0.1.0", "code": "a", "message": "b", "retryable": False}}
        ),
        "registry_call_lost",
        "what is no result",
    ),
    "well, and 500": (body(done(1), "500 Oops"), "registry_call_lost", "went well, and HTTP 500"),
    "no number": (body(b'{"ok": true, "result": NaN}'), "registry_call_lost", "no result"),
    "a page": (body(b"<html>", "502 Bad Gateway"), "registry_failed", "HTTP 502"),
    "busy": (body(b"", "429 Too Many", Retry_After="soon"), "registry_busy", "try again later"),
    "moved": (
        body(b"", "307 Temporary Redirect", Location="http://10.0.0.1/"),
        "registry_failed",
        "not followed",
    ),
}


def test_a_result_that_is_none(tmp_path: Path) -> None:
    """Whatever a registry answers to a call: it is told with a code, and where it may have been carried out, that."""
    with shop(definition("echo")) as it:

        async def main() -> None:
            for kind, (lie, code, words) in RESULTS.items():
                configure(tmp_path, it={"url": it.url, "timeout_s": 0.5 if kind == "stalls" else 30})
                made = plugins(tmp_path)
                await offered(made)
                it.lies.pop("POST", None)
                assert await use(made, "echo", text="x") == {"tool": "echo", "text": "x"}
                it.lies["POST"] = lie
                with pytest.raises(JaatoError) as caught:
                    await use(made, "echo", text="x")
                problem = getattr(caught.value, "problem", caught.value)
                assert (kind, problem.code) == (kind, code)
                assert words in str(caught.value), kind
                made.shutdown()

        anyio.run(main)


def test_results_that_are_odd(tmp_path: Path) -> None:
    """A result of numbers too great, or of another kind than declared, is marked and harms nothing."""
    with shop(definition("echo", returns={"type": "integer"})) as it:
        configure(tmp_path, it=it.url)

        async def main() -> None:
            made = plugins(tmp_path)
            await offered(made)
            for answer, words in (
                (b"7", 7),
                (b'"seven"', "seven\n[This is not what the tool declares: "),
                (b"null", "null\n[This is not"),
                (b"1" * 400, "[The result is left out"),
                (b'{"a": "\\u202e"}', "[This is not what the tool declares"),
            ):
                whole = (
                    b'{"schema_version":"0.1.0","ok":true,"metrics":{"latency_ms":1},"result":'
                    + answer
                    + b"}"
                )
                it.lies["POST"] = body(whole)
                got = await use(made, "echo", text="x")
                assert got == words if isinstance(words, int) else str(words) in got
            made.shutdown()

        anyio.run(main)
