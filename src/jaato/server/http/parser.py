"""HTTP/1.1 parsing: uvicorn's protocol over httptools, with limits on heads and framing, strict against request smuggling."""

from __future__ import annotations

import json
import re

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from jaato.server.http.asgi import Refused, Scope
from jaato.server.http.connection import LimitedProtocol
from jaato.server.registry.requests import Request

MAX_HEAD_BYTES = 32_768
MAX_HEADERS = 100
EXCESS = 16
"""The limit of framing bytes (chunk lengths) for each byte of a body, beyond `MAX_HEAD_BYTES`."""
MAX_PREFIX_BYTES = 512
"""How much of an invalid request is read to find its path, whose application formats the refusal."""
MAX_EMPTY_LINES = 4
"""Empty lines accepted before a request, which some clients send after a body (RFC 9112, 2.2)."""
TOO_LONG = f"The head of a request has at most {MAX_HEAD_BYTES:,} bytes and {MAX_HEADERS} headers."
UNKNOWN_METHOD = re.compile(rb"([!#-'*+.^-`|~0-9A-Za-z-]{1,32}) /")
"""The start of a request whose method the parser does not know; it is a token (RFC 9110, 5.6.2)."""
PLACEHOLDER = b"PATCH"


class BoundedProtocol(LimitedProtocol):
    """Parses requests with limited heads. What another parser could read differently is refused, in the error format of the
    application at its path."""

    url = b""
    _refused = False
    _in_head = _in_body = False
    """Whether the head, or the body, of a request is being parsed."""
    _upgrading = _resumed = False
    """Whether a request asks for an upgrade; whether a new parser is fed its framing headers again."""
    _requests = _head_bytes = _raw_bytes = _body_bytes = _empty_lines = 0
    _prefix = _partial_line = _method = b""
    """The first bytes of a request; an incomplete empty line before it; its method, where the parser got a placeholder."""
    _pending_refusal: tuple[Refused, Scope] | None = None
    """What is refused after the earlier, pipelined requests are answered."""

    # --- the connection ------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse data, and stop reading while a request is answered."""
        if self._refused:
            return
        self._unset_keepalive_if_required()
        if self._in_head:
            self._prefix = (self._prefix + data)[:MAX_PREFIX_BYTES]
        elif not self._in_body:
            self._prefix = data[:MAX_PREFIX_BYTES]
        body_expected = self._in_body
        self._feed(data)
        self._watch()
        if self._body_bytes and not (self._in_head or self._in_body):
            return  # the whole of a request and no more, whose application will ask for its body at once
        if self._is_serving() and not (body_expected and not self.cycle.message_event.is_set()):
            self.flow.pause_reading()  # until the application asks for (more of) the body

    def handle_websocket_upgrade(self) -> None:
        """The connection becomes a WebSocket, which has limits of its own."""
        self._upgraded = True
        self._stop_watching()
        self.transport.set_write_buffer_limits()
        self.resume_writing()
        super().handle_websocket_upgrade()

    def on_response_complete(self) -> None:
        """Send a pending refusal once its turn has come."""
        super().on_response_complete()
        if self._pending_refusal is not None and self._is_idle() and not self.transport.is_closing():
            (refused, scope), self._pending_refusal = self._pending_refusal, None
            self._unset_keepalive_if_required()
            self._send_refusal(refused, scope)
            self._watch()

    def on_request_timeout(self) -> None:
        """Refuse an incomplete head; close an idle connection."""
        if self._in_head and not self._refused and not self._is_serving():
            self._stop_watching()
            self._refuse(Refused(408, "The request was not complete in time; send it again."))
            self._watch()
        else:
            super().on_request_timeout()

    # --- parsing -------------------------------------------------------------------------------------------------

    def _feed(self, data: bytes) -> None:
        before, size = self._requests, len(data)
        at_start = not (self._in_head or self._in_body)
        if at_start:
            data = self._skip_empty_lines(data)
        while data and not self._refused and not self._upgraded:
            try:
                self.parser.feed_data(data)
                break
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
                self._handle_upgrade()
            except httptools.HttpParserInvalidMethodError:
                method = UNKNOWN_METHOD.match(data) if at_start and self._requests <= before + 1 else None
                at_start = False
                if method is None:
                    self._refuse(Refused(400, NO_HTTP))
                else:  # a method that no application here answers
                    self._renew_parser()
                    self._method = method[1]
                    data = PLACEHOLDER + data[method.end(1) :]
            except httptools.HttpParserCallbackError as error:
                self._refuse(
                    error.__context__ if isinstance(error.__context__, Refused) else Refused(400, NO_HTTP)
                )
            except httptools.HttpParserError:
                self._refuse(Refused(400, NO_HTTP))
        self._raw_bytes = 0 if self._requests != before else self._raw_bytes + size
        if self._refused:
            return
        if self._in_head and self._raw_bytes > MAX_HEAD_BYTES:
            self._refuse(Refused(431, TOO_LONG))
        elif (
            self._in_body and self._raw_bytes - self._body_bytes > MAX_HEAD_BYTES + EXCESS * self._body_bytes
        ):
            self._refuse(Refused(431, "The body has too much chunk framing."))

    def _skip_empty_lines(self, data: bytes) -> bytes:
        """What follows a few empty lines."""
        data, self._partial_line = self._partial_line + data, b""
        while data.startswith(b"\r\n") and self._empty_lines < MAX_EMPTY_LINES:
            data, self._empty_lines = data[2:], self._empty_lines + 1
        if data == b"\r":
            self._partial_line = data
            return b""
        if data.startswith((b"\r", b"\n")):
            self._refuse(Refused(400, NO_HTTP))
            return b""
        return data

    def _handle_upgrade(self) -> None:
        """Upgrade to a WebSocket, if no request is being answered. Other upgrades are ignored (RFC 9110, 7.8): the body
        still belongs to the request, so a new parser is fed the framing headers again."""
        if self._should_upgrade():
            self._in_head = False
            if self._is_serving():
                self._refuse(Refused(400, "A WebSocket needs a connection of its own."))
            else:
                self.handle_websocket_upgrade()
            return
        self._renew_parser()
        self._upgrading, self._resumed = False, True
        framing = [line for line in self.headers if line[0] in (b"content-length", b"transfer-encoding")]
        lines = b"".join(b"%b: %b\r\n" % line for line in framing)
        self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % lines)

    def _renew_parser(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it

    def on_message_begin(self) -> None:
        """Reset the counters of a request."""
        if self._resumed:
            return
        super().on_message_begin()
        self._in_head, self._in_body = True, False
        self._head_bytes = self._empty_lines = 0
        self._method = b""
        self._requests += 1

    def on_url(self, url: bytes) -> None:
        """Collect the target, or a piece of it. Raises `Refused` for a head that is too large."""
        if self._resumed:
            return
        super().on_url(url)
        self._head_bytes += len(url)
        if self._head_bytes > MAX_HEAD_BYTES:
            raise Refused(431, TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header, without white space around its value (RFC 9110, 5.5); trailers are dropped (6.5.1). Raises
        `Refused` for a head that is too large."""
        if self._resumed or self._in_body:
            return
        super().on_header(name, value.strip(b" \t"))
        self._head_bytes += len(name) + len(value) + 4
        if len(self.headers) > MAX_HEADERS or self._head_bytes > MAX_HEAD_BYTES:
            raise Refused(431, TOO_LONG)

    def on_headers_complete(self) -> None:
        """Check the head. Raises `Refused` for one that another parser could read differently."""
        if self._resumed:
            self._resumed = False
            return
        version = self.parser.get_http_version()
        path, mark, query = self.url.partition(b"?")
        request = Request(self._method or self.parser.get_method(), path, self.headers, query)
        fault = NO_HTTP if b"#" in self.url else find_fault(request, version)
        if fault:
            raise Refused(400, fault)
        self.url = b"/" * (not request.path.startswith(b"/")) + request.path + mark + query
        self.headers[:] = request.headers
        self.expect_100_continue = self.expect_100_continue and version != "1.0"
        self._upgrading = self.parser.should_upgrade()
        self._in_head, self._in_body = False, True
        self._raw_bytes = self._body_bytes = 0
        super().on_headers_complete()
        self.scope["method"] = request.method.decode("ascii")

    def on_body(self, body: bytes) -> None:
        """Pass on a piece of the body."""
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        if not self._upgrading:
            self._in_body = False
            super().on_message_complete()

    # --- refusals ------------------------------------------------------------------------------------------------

    def _refuse(self, refused: Refused) -> None:
        """Refuse a request after those before it are answered, and parse nothing else."""
        self._refused = True
        scope: Scope = dict(self.scope) if self._in_body else self._partial_scope()
        if self._in_body and self._is_serving():
            if self.cycle.response_started:
                self.transport.abort()
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.pipeline:
                self.pipeline.popleft()
        if self._is_idle():
            self._send_refusal(refused, scope)
        else:
            self._pending_refusal = refused, scope

    def _is_idle(self) -> bool:
        """Whether all earlier requests are answered."""
        running = self._running
        return running is None or running.response_complete or running.disconnected

    def _partial_scope(self) -> Scope:
        """The scope of a request as far as it is parsed."""
        line = self._prefix
        if self._in_head and self.url:
            line = b"%b %b " % (self._method or self.parser.get_method(), self.url)
        return scope_of(line, self.headers if self._in_head else [])

    def _send_refusal(self, refused: Refused, scope: Scope) -> None:
        """Write a refusal in the error format of the application at its path."""
        body = json.dumps(self.config.error_format(scope, refused)).encode()
        named = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
        lines = [f"{name}: {value}\r\n".encode() for name, value in (named | refused.headers).items()]
        content = b"" if scope["method"] == "HEAD" else body
        self.transport.write(b"".join([STATUS_LINE[refused.status], *lines, b"\r\n", content]))
        if self.transport.can_write_eof():
            self.transport.write_eof()  # a reset could discard the response before the client has read it
        else:
            self.transport.close()


def scope_of(line: bytes, headers: list[tuple[bytes, bytes]]) -> Scope:
    """The scope of a request of which only the first line is known."""
    method, _, rest = line.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    return {
        "type": "http",
        "method": method.decode("latin-1"),
        "path": path.decode("latin-1"),
        "raw_path": path,
        "headers": headers,
    }


VERSIONS = ("1.1", "1.0")
NO_HTTP = "This is not a valid HTTP/1.1 request."


def find_fault(request: Request, version: str) -> str:
    """What is wrong with a head, empty if nothing is. A target in absolute form becomes a path."""
    if version not in VERSIONS:
        return NO_HTTP
    if request.method == b"CONNECT" and not request.path.startswith(b"/"):
        return "CONNECT is not supported."
    if not request.path.startswith(b"/") and not make_local(request):
        return "Only http and https targets are supported."
    coding = request.header(b"transfer-encoding")
    if coding is not None:
        if version == "1.0":
            return "HTTP/1.0 has no Transfer-Encoding."
        if request.header(b"content-length") is not None:
            return "A request must not have both Content-Length and Transfer-Encoding."
        if coding.strip().lower() != b"chunked":
            return "Only the transfer coding chunked is supported."
    elif version == "1.0":
        request.replace_headers([line for line in request.headers if line[0] != b"expect"])
    return ""


def make_local(request: Request) -> bool:
    """Turn a target in absolute form, as sent to proxies, into a path; its host replaces that in `Host` (RFC 9112, 3.2.2).
    False for a scheme other than HTTP."""
    scheme, sign, rest = request.path.partition(b"://")
    if not sign:
        return True  # an unknown path
    host, _, path = rest.partition(b"/")
    request.path = b"/" + path
    others = [line for line in request.headers if line[0] != b"host"]
    if len(others) == len(request.headers) - 1:  # a missing or repeated Host is refused later
        request.replace_headers([*others, (b"host", host)])
    return scheme.lower() in (b"http", b"https")
