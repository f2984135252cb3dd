"""The registry as a server of HTTP/1.1."""

from __future__ import annotations

import gzip
import re
from contextlib import ExitStack, closing

from jaato.testing.arp.peer import Exchange, Served, Skip, fails, read, refuses, result_of

BURST = 200
LARGE_BYTES = 50_000_000


def names_each_request(at: Served) -> None:
    """`X-Request-Id` is given back, and made where there is none or it is none; also where the answer is no."""
    at.need(at.tool)
    for path in ("/v1/tools", at.at_tool, "/v1/tools/no_such_tool", "/nothing"):
        assert at.send("GET", path, x_request_id="mine-1").headers["x-request-id"] == "mine-1"
        made = {at.send("GET", path).headers["x-request-id"] for _ in range(2)}
        assert len(made) == 2
    assert at.invoke(at.tool, b"{", x_request_id="mine-2").headers["x-request-id"] == "mine-2"
    assert at.invoke(at.tool, at.call, x_request_id="x" * 5_000).headers["x-request-id"] != "x" * 5_000


def takes_trace_contexts(at: Served) -> None:
    """W3C `traceparent` may be there, and one that is none disturbs nothing."""
    at.need(at.tool)
    for value in ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0-0-0", "ff", "x" * 1_000):
        result_of(at.invoke(at.tool, at.call, traceparent=value), 200)


def keeps_connections(at: Served) -> None:
    """A connection serves one request after another, also after a refusal."""
    at.need(at.tool)
    with closing(at.connection()) as line:
        line.connect()
        first = line.sock
        for _ in range(3):
            assert at.on(line, "GET", "/v1/tools").status == 200
            assert at.on(line, "POST", f"{at.at_tool}:invoke", at.call).status == 200
            assert at.on(line, "POST", f"{at.at_tool}:invoke", b"{").status == 400
            assert at.on(line, "GET", "/v1/tools/no_such_tool").status == 404
            assert at.on(line, "DELETE", "/v1/tools").status == 405
        assert line.sock is first


def answers_in_order(at: Served) -> None:
    """Requests that are sent at once are answered in their order."""
    at.need(at.tool)
    post = [f"content-length: {len(at.call)}", "content-type: application/json"]
    parts: list[bytes] = []
    for number in range(12):
        id_ = f"x-request-id: n-{number}"
        if number % 2:
            parts += [at.head("POST", f"{at.at_tool}:invoke", id_, *post), at.call]
        else:
            parts.append(at.head("GET", at.at_tool, id_))
    replies = at.raw(b"".join(parts), *["GET"] * 12)
    assert [reply.headers["x-request-id"] for reply in replies] == [f"n-{n}" for n in range(12)]
    assert {reply.status for reply in replies} == {200}


def answers_head(at: Served) -> None:
    """`HEAD` has the headers of `GET` and no body, and the connection stays open."""
    at.need(at.tool)
    for path in ("/v1/tools", at.at_tool, "/v1/tools/no_such_tool"):
        got = at.send("GET", path)
        head, after = at.raw(at.head("HEAD", path) + at.head("GET", "/v1/tools"), "HEAD", "GET")
        assert (head.status, head.body) == (got.status, b"")
        assert head.headers["content-length"] == str(len(got.body))
        assert head.headers.get("etag") == got.headers.get("etag")
        assert after.status == 200


def takes_pieces(at: Served) -> None:
    """A body may come in chunks."""
    at.need(at.tool)
    head = at.head("POST", f"{at.at_tool}:invoke", "transfer-encoding: chunked")
    chunks = b"".join(b"%x\r\n%b\r\n" % (1, at.call[place : place + 1]) for place in range(len(at.call)))
    result_of(at.raw(head + chunks + b"0\r\n\r\n", "POST")[0], 200)


def says_go_on(at: Served) -> None:
    """A client that waits for `100 Continue` gets it."""
    at.need(at.tool)
    with closing(at.line()) as line:
        expects = ("expect: 100-continue", f"content-length: {len(at.call)}")
        line.sendall(at.head("POST", f"{at.at_tool}:invoke", *expects))
        response = line.recv(200)
        assert response.startswith(b"HTTP/1.1 100 "), f"{response!r}"
        line.sendall(at.call)
        result_of(read(line, "POST"), 200)


def refuses_large_bodies(at: Served) -> None:
    """A body over the bound is 413, before it has been sent, in a whole result."""
    at.need(at.tool)
    declared = at.head("POST", f"{at.at_tool}:invoke", f"content-length: {LARGE_BYTES}")
    fails(at.raw(declared, "POST")[0], 413, "request.too_large")
    with closing(at.line()) as line:
        line.sendall(at.head("POST", f"{at.at_tool}:invoke", "transfer-encoding: chunked"))
        try:
            for _ in range(LARGE_BYTES // 65_536):
                line.sendall(b"10000\r\n%b\r\n" % (b" " * 65_536))
        except OSError:
            return  # it has announced so, and waits for no more
        fails(read(line, "POST"), 413, "request.too_large")


def ends_when_told(at: Served) -> None:
    """`Connection: close` is heeded, and so is HTTP/1.0, which keeps none."""
    old = at.head("GET", "/v1/tools").replace(b"HTTP/1.1", b"HTTP/1.0")
    for data in (at.head("GET", "/v1/tools", "connection: close"), old):
        with closing(at.line()) as line:
            line.sendall(data)
            assert read(line).status == 200
            assert line.recv(1) == b""


def survives_what_is_no_http(at: Served) -> None:
    """What is no HTTP is answered with 400 or nothing, and other clients are served."""
    for data in (
        b"\r\n\r\n\x00\x01",
        b"GET /v1/tools\r\n\r\n",
        b"GET /v1/tools HTTP/9.9\r\n\r\n",
        at.head("POST", f"{at.at_tool}:invoke", "content-length: 3", "transfer-encoding: chunked"),
        at.head("POST", f"{at.at_tool}:invoke", "content-length: -3"),
        at.head("GET", "/v1/tools", "bad header"),
        at.head("GET", "/v1/tools", f"x: {'y' * 200_000}"),
        at.head("GET", "/" + "y" * 200_000),
        at.head("GET", "/v1/tools", *[f"x{number}: y" for number in range(5_000)]),
    ):
        with closing(at.line()) as line:
            try:
                line.sendall(data + b"\r\n")
                response = line.recv(100)
            except OSError:
                response = b""
            assert re.match(rb"HTTP/1.1 4\d\d |$", response), f"{response!r}"
    assert at.send("GET", "/v1/tools").status == 200


def knows_what_is_known(at: Served) -> None:
    """The list and the definitions have an `ETag`; a request that names it gets 304, without a body."""
    at.need(at.tool)
    for path in ("/v1/tools", at.at_tool):
        tag = at.send("GET", path).headers["etag"]
        for known in (tag, f'"other", {tag}', f"W/{tag}", "*"):
            reply = at.send("GET", path, if_none_match=known)
            assert (reply.status, reply.body) == (304, b""), f"{known}: {reply.status}"
            assert reply.headers["etag"] == tag
        assert at.send("GET", path, if_none_match='"other"').status == 200
    assert at.send("GET", "/v1/tools/no_such_tool", if_none_match="*").status == 404


def compresses_for_who_wants_it(at: Served) -> None:
    """A body is compressed only for a client that takes it so, and is then the same."""
    at.need(at.tool)
    plain = at.send("GET", "/v1/tools", accept_encoding="identity")
    assert "content-encoding" not in plain.headers
    for unwanted in ("", "br", "gzip;q=0", "*;q=0"):
        assert at.send("GET", "/v1/tools", accept_encoding=unwanted).body == plain.body
    refused = at.invoke(at.tool, gzip.compress(at.call), content_encoding="gzip")
    assert refused.status in (200, 415), f"a compressed request is answered {refused.status}"
    reply = at.send("GET", "/v1/tools", accept_encoding="br;q=0.5, gzip;q=0.8")
    if reply.headers.get("content-encoding") != "gzip":
        assert reply.body == plain.body
        raise Skip("its list is not compressed")
    assert gzip.decompress(reply.body) == plain.body
    assert reply.headers.get("etag") != plain.headers.get("etag") or "etag" not in reply.headers
    assert "accept-encoding" in reply.headers.get("vary", "").lower()


def takes_a_crowd(at: Served) -> None:
    """Many who come at once are all answered."""
    at.need(at.tool)
    with ExitStack() as stack:
        lines = [stack.enter_context(closing(at.line())) for _ in range(BURST)]
        for line in lines:
            line.sendall(at.head("GET", at.at_tool))
        assert [read(line).status for line in lines] == [200] * BURST


def asks_for_the_token(at: Served) -> None:
    """Where there is a token, a request without one gets 401 and how to give it."""
    if not at.token:
        raise Skip("no token is given (--token)")
    other = Served(at.url, patience_s=at.patience_s, seen=at.seen)
    for given in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic eDp5"}):
        reply = other.send("GET", "/v1/tools", **given)
        refuses(reply, 401, "auth.required")
        assert reply.headers["www-authenticate"].startswith("Bearer")
    fails(other.invoke(at.tool, at.call), 401, "auth.required")


def heeds_host_and_origin(at: Served) -> None:
    """A request in another name, or from a page of another origin, is not let in."""
    at.need(at.tool)
    assert at.send("GET", "/v1/tools", host="attacker.example").status in (400, 403, 421)
    assert at.send("GET", "/v1/tools", origin="https://attacker.example").status == 403
    fails(at.invoke(at.tool, at.call, origin="https://attacker.example"), 403, "auth.forbidden")


def takes_each_request_for_one(at: Served) -> None:
    """What two readers could read differently is refused, and nothing that stands behind it is carried out."""
    hidden = at.head("GET", "/v1/tools")
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(at.call), at.call)
    size, chunked = f"content-length: {len(at.call)}", "transfer-encoding: chunked"
    for given in (
        (size, chunked),
        (chunked, size),
        (size, "content-length: 3"),
        (f"content-length: +{len(at.call)}",),
        ("content-length: 0x17",),
        (chunked, "transfer-encoding: identity"),
        ("transfer-encoding: xchunked",),
        (f"content-length : {len(at.call)}",),
    ):
        with closing(at.line()) as line:
            line.sendall(at.head("POST", f"{at.at_tool}:invoke", *given) + chunks + hidden)
            reply = read(line, "POST")
            at.seen.append(Exchange(f"{given}", str(reply)))
            assert reply.status in (400, 501), f"{given} is answered {reply.status}"
            assert line.recv(1) == b"", f"{given}: what stands behind it is answered too"


def reads_the_body_of_an_upgrade(at: Served) -> None:
    """A request that offers another protocol is answered as it is: its body is its body."""
    at.need(at.tool)
    more = ("connection: upgrade", "upgrade: h2c", f"content-length: {len(at.call)}")
    both = at.head("POST", f"{at.at_tool}:invoke", *more) + at.call + at.head("GET", "/v1/tools")
    first, second = at.raw(both, "POST", "GET")
    result_of(first, 200)
    assert second.status == 200, f"what follows is answered {second.status}"


def wants_one_host(at: Served) -> None:
    """A request of HTTP/1.1 without `Host`, or with two, is 400."""
    line = next(one for one in at.head("GET", "/v1/tools").split(b"\r\n") if one.startswith(b"host:"))
    for given in (b"", line + b"\r\n" + line + b"\r\n"):
        (reply,) = at.raw(at.head("GET", "/v1/tools").replace(line + b"\r\n", given), "GET")
        assert reply.status == 400, f"{given!r} is answered {reply.status}"


CHECKS = (
    names_each_request,
    takes_trace_contexts,
    keeps_connections,
    answers_in_order,
    answers_head,
    takes_pieces,
    says_go_on,
    refuses_large_bodies,
    ends_when_told,
    survives_what_is_no_http,
    knows_what_is_known,
    compresses_for_who_wants_it,
    takes_a_crowd,
    asks_for_the_token,
    heeds_host_and_origin,
    takes_each_request_for_one,
    reads_the_body_of_an_upgrade,
    wants_one_host,
)
