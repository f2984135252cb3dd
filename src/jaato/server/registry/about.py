"""What a registry says of itself: that it is well, which it is, and what it has counted."""

from __future__ import annotations

from functools import cache
from typing import Literal

from msgspec import Struct

import jaato
from jaato.protocol.arp import SCHEMA_VERSION
from jaato.protocol.codec import encode
from jaato.server.registry.answers import JSON, NOT_STORED, Answer
from jaato.server.registry.figures import Figures
from jaato.server.registry.pages import sent
from jaato.server.registry.request import LIST, Request, Who
from jaato.server.registry.shelf import Page, Shelf
from jaato.server.registry.sight import Sight

TEXT = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")


class Health(Struct, frozen=True):
    """That requests are answered, for how many seconds they have been, and with how many tools."""

    status: Literal["ok"]
    uptime_s: float
    tools: int


class Version(Struct, frozen=True):
    """Which registry this is, and which version of the contract it keeps to."""

    name: str
    version: str
    schema_version: str


def health(shelf: Shelf, figures: Figures) -> Answer:
    """It is well, or would not say so."""
    return said(Health("ok", round(figures.uptime_s, 1), len(shelf)))


def version() -> Answer:
    """Which it is."""
    return said(Version("jaato", jaato.__version__, SCHEMA_VERSION))


def metrics(shelf: Shelf, figures: Figures, sessions: int, sight: Sight | None) -> Answer:
    """What it has counted."""
    return Answer(200, figures.text(shelf, sessions, sight).encode(), [TEXT, NOT_STORED])


def described(who: Who, request: Request) -> Answer:
    """The OpenAPI document: of all there is, or of what is under the path of the list, where that is how it is asked for.
    Whoever needed a key reads that one is needed."""
    return sent(documented(not request.path.startswith(LIST), who.key != ""), request)


@cache
def documented(whole: bool, keyed: bool) -> Page:
    """The document, made when first asked for."""
    from jaato.server.registry.openapi.document import document

    return Page(encode(document(whole=whole, keyed=keyed)))


def said(value: Struct) -> Answer:
    """What is true now."""
    return Answer(200, encode(value), [JSON, NOT_STORED])
