"""What a head says that a parser lets through and others read otherwise: refused, so that nobody's request hides in it."""

from __future__ import annotations

from jaato.server.registry.requests import Request

VERSIONS = ("1.1", "1.0")
NO_HTTP = "This is no HTTP/1.1 request."


def fault_of(request: Request, version: str) -> str:
    """What is wrong with a head: words that say so, or nothing. A target in absolute form is made a path."""
    if version not in VERSIONS:
        return NO_HTTP
    if request.method == b"CONNECT" and not request.path.startswith(b"/"):
        return "There is no tunnel here."
    if not request.path.startswith(b"/") and not local(request):
        return "Nothing but HTTP is spoken here."
    coding = request.header(b"transfer-encoding")
    if coding is not None:
        if version == "1.0":
            return "There are no chunks in HTTP/1.0."
        if request.header(b"content-length") is not None:
            return "A body has a length or comes in chunks, not both."
        if coding.strip().lower() != b"chunked":
            return "Chunks are the one transfer coding that is understood."
    elif version == "1.0":
        request.replace_headers([line for line in request.headers if line[0] != b"expect"])
    return ""


def local(request: Request) -> bool:
    """Make a path of a target as proxies send it; the name in it counts, not that in `Host` (RFC 9112, 3.2.2)."""
    scheme, sign, rest = request.path.partition(b"://")
    if not sign:
        return True  # it leads nowhere
    host, _, path = rest.partition(b"/")
    request.path = b"/" + path
    others = [line for line in request.headers if line[0] != b"host"]
    if len(others) == len(request.headers) - 1:  # none or two are wrong all the same
        request.replace_headers([*others, (b"host", host)])
    return scheme.lower() in (b"http", b"https")
