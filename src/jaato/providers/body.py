"""The body of an answer, read within bounds and let go of in any case."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

import anyio

from jaato.errors import MalformedReply
from jaato.providers.faults import foreign

if TYPE_CHECKING:
    import httpx2

MAX_BODY_BYTES = 32 * 1024 * 1024
CODINGS = ("identity", "gzip", "deflate")
DRAIN_S = 0.05
CLOSE_S = 2.0


def strange_coding(response: httpx2.Response) -> str:
    """The content coding of an answer where it is none that is read here, or was asked for; else empty."""
    codings = response.headers.get("content-encoding", "").lower().replace(",", " ").split()
    return " ".join([coding for coding in codings if coding not in CODINGS])


async def read_body(response: httpx2.Response, place: str) -> bytes:
    """The whole body, decompressed; raises `MalformedReply` beyond `MAX_BODY_BYTES`."""
    body = bytearray()
    raw = response.aiter_bytes()
    async with aclosing(raw):
        async for data in raw:
            body += data
            if len(body) > MAX_BODY_BYTES:
                raise MalformedReply(
                    f"{place} sent a body of more than {MAX_BODY_BYTES:,} bytes; no model answers so."
                )
    return bytes(body)


async def begin_body(response: httpx2.Response, limit_bytes: int) -> bytes:
    """The beginning of a body, decompressed; what cannot be read is left out: it only explains an error."""
    body = bytearray()
    raw = response.aiter_bytes()
    async with aclosing(raw):
        try:
            async for data in raw:
                body += data
                if len(body) > limit_bytes:
                    break
        except foreign():
            pass
    return bytes(body[:limit_bytes])


async def drain(raw: AsyncGenerator[bytes, None]) -> None:
    """Read what is left of an ended answer, if it comes at once, so that the connection can be used again."""
    with anyio.move_on_after(DRAIN_S):
        try:
            async for _ in raw:
                pass
        except foreign():
            pass  # the answer is complete; only the reuse of the connection is lost


async def close(response: httpx2.Response) -> None:
    """Let go of a response even while the task is being cancelled."""
    with anyio.move_on_after(CLOSE_S, shield=True):
        await response.aclose()
