"""HTTP/1.1 as the server's doors read it: uvicorn's protocol over httptools, with heads, framing and waiting bounded."""

from __future__ import annotations

import json
import re

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from jaato.server.http.asgi import Refused, Scope
from jaato.server.http.connection import PatientProtocol
from jaato.server.http.framing import NO_HTTP, fault_of
from jaato.server.registry.requests import Request

MAX_HEAD_BYTES = 32_768
MAX_HEADERS = 100
EXCESS = 16
"""How many bytes of framing there may be for each of a body, beyond as many as a head has: chunks have lengths."""
MAX_SHOWN = 512
"""As much of a broken request is looked at to see what it was for."""
MAX_EMPTY_LINES = 4
"""Empty lines before a request, which some clients send after a body (RFC 9112, 2.2)."""
TOO_LONG = f"The head of a request has at most {MAX_HEAD_BYTES:,} bytes and {MAX_HEADERS} headers."
UNKNOWN = re.compile(rb"([!#-'*+.^-`|~0-9A-Za-z-]{1,32}) /")
"""Where a request begins whose method the parser has never heard of; it is a token (RFC 9110, 5.6.2)."""
STAND_IN = b"PATCH"


class BoundedProtocol(PatientProtocol):
    """Reads requests of bounded heads. What two readers could read differently is refused, in the words of the door it seems
    to be for."""

    url = b""
    _broken = False
    _in_head = _in_body = False
    """Whether the head of a request is being read; whether its body is."""
    _upgrading = _resumed = False
    """Whether a request asks for another protocol; whether the parser is shown again what a request has said of its body."""
    _requests = _head_bytes = _raw_bytes = _body_bytes = _empty_lines = 0
    _first = _held = _method = b""
    """How a request begins, as far as it is shown; half an empty line before it; its method, where the parser has a stand-in."""
    _owed: tuple[Refused, Scope] | None = None
    """What is to be refused once what came before it is answered."""

    # --- the connection ------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """A client says something."""
        if self._broken:
            return
        self._unset_keepalive_if_required()
        if self._in_head:
            self._first = (self._first + data)[:MAX_SHOWN]
        elif not self._in_body:
            self._first = data[:MAX_SHOWN]
        awaited = self._in_body
        self._feed(data)
        self._watch()
        if self._serves() and not (awaited and not self.cycle.message_event.is_set()):
            self.flow.pause_reading()  # until (more of) the body is asked for, which that of a stranger is not

    def handle_websocket_upgrade(self) -> None:
        """The connection becomes a WebSocket, which looks after itself."""
        self._upgraded = True
        self._forget()
        self.transport.set_write_buffer_limits()
        self.resume_writing()
        super().handle_websocket_upgrade()

    def on_response_complete(self) -> None:
        """An answer is written; what came behind it is next."""
        super().on_response_complete()
        if self._owed is not None and self._rests() and not self.transport.is_closing():
            (refused, scope), self._owed = self._owed, None
            self._unset_keepalive_if_required()
            self._say(refused, scope)
            self._watch()

    def hurry(self) -> None:
        """Refuse a head that does not end; close a connection that says nothing else."""
        if self._in_head and not self._broken and not self._serves():
            self._forget()
            self._refuse(Refused(408, "The request did not come in time; send it again."))
            self._watch()
        else:
            super().hurry()

    # --- what is read --------------------------------------------------------------------------------------------

    def _feed(self, data: bytes) -> None:
        before, size = self._requests, len(data)
        fresh = not (self._in_head or self._in_body)
        if fresh:
            data = self._after_empty_lines(data)
        while data and not self._broken and not self._upgraded:
            try:
                self.parser.feed_data(data)
                break
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
                self._change()
            except httptools.HttpParserInvalidMethodError:
                named = UNKNOWN.match(data) if fresh and self._requests <= before + 1 else None
                fresh = False
                if named is None:
                    self._refuse(Refused(400, NO_HTTP))
                else:  # one that the parser knows and nobody here answers
                    self._renew_parser()
                    self._method = named[1]
                    data = STAND_IN + data[named.end(1) :]
            except httptools.HttpParserCallbackError as error:
                self._refuse(
                    error.__context__ if isinstance(error.__context__, Refused) else Refused(400, NO_HTTP)
                )
            except httptools.HttpParserError:
                self._refuse(Refused(400, NO_HTTP))
        self._raw_bytes = 0 if self._requests != before else self._raw_bytes + size
        if self._broken:
            return
        if self._in_head and self._raw_bytes > MAX_HEAD_BYTES:
            self._refuse(Refused(431, TOO_LONG))
        elif (
            self._in_body and self._raw_bytes - self._body_bytes > MAX_HEAD_BYTES + EXCESS * self._body_bytes
        ):
            self._refuse(Refused(431, "This is more framing than body."))

    def _after_empty_lines(self, data: bytes) -> bytes:
        """What comes after empty lines, which are few and end as lines do."""
        data, self._held = self._held + data, b""
        while data.startswith(b"\r\n") and self._empty_lines < MAX_EMPTY_LINES:
            data, self._empty_lines = data[2:], self._empty_lines + 1
        if data == b"\r":
            self._held = data
            return b""
        if data.startswith((b"\r", b"\n")):
            self._refuse(Refused(400, NO_HTTP))
            return b""
        return data

    def _change(self) -> None:
        """A request asks for another protocol: a WebSocket, if nothing is being answered; any other is not spoken here, and
        the request is answered as if it had not asked (RFC 9110, 7.8). Its body still belongs to it: the parser, which takes
        it for the other protocol, is told of it again."""
        if self._should_upgrade():
            self._in_head = False
            if self._serves():
                self._refuse(Refused(400, "A WebSocket begins on a connection of its own."))
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
        """A request begins."""
        if self._resumed:
            return
        super().on_message_begin()
        self._in_head, self._in_body = True, False
        self._head_bytes = self._empty_lines = 0
        self._method = b""
        self._requests += 1

    def on_url(self, url: bytes) -> None:
        """Its target, or a piece of it. Raises `Refused` for a head that is too large."""
        if self._resumed:
            return
        super().on_url(url)
        self._head_bytes += len(url)
        if self._head_bytes > MAX_HEAD_BYTES:
            raise Refused(431, TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One of its headers, without the white space around its value (RFC 9110, 5.5); one that comes after the body is
        none (6.5.1). Raises `Refused` for one too many."""
        if self._resumed or self._in_body:
            return
        super().on_header(name, value.strip(b" \t"))
        self._head_bytes += len(name) + len(value) + 4
        if len(self.headers) > MAX_HEADERS or self._head_bytes > MAX_HEAD_BYTES:
            raise Refused(431, TOO_LONG)

    def on_headers_complete(self) -> None:
        """Its head is there. Raises `Refused` for one that others could read otherwise."""
        if self._resumed:
            self._resumed = False
            return
        version = self.parser.get_http_version()
        path, mark, query = self.url.partition(b"?")
        request = Request(self._method or self.parser.get_method(), path, self.headers, query)
        words = NO_HTTP if b"#" in self.url else fault_of(request, version)
        if words:
            raise Refused(400, words)
        self.url = b"/" * (not request.path.startswith(b"/")) + request.path + mark + query
        self.headers[:] = request.headers
        self.expect_100_continue = self.expect_100_continue and version != "1.0"
        self._upgrading = self.parser.should_upgrade()
        self._in_head, self._in_body = False, True
        self._raw_bytes = self._body_bytes = 0
        super().on_headers_complete()
        self.scope["method"] = request.method.decode("ascii")

    def on_body(self, body: bytes) -> None:
        """A piece of its body."""
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """It is whole."""
        if not self._upgrading:
            self._in_body = False
            super().on_message_complete()

    # --- what is refused -----------------------------------------------------------------------------------------

    def _refuse(self, refused: Refused) -> None:
        """Refuse what came, in its turn, and read nothing else."""
        self._broken = True
        scope: Scope = dict(self.scope) if self._in_body else self._begun_scope()
        if self._in_body and self._serves():
            if self.cycle.response_started:
                self.transport.abort()
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.pipeline:
                self.pipeline.popleft()
        if self._rests():
            self._say(refused, scope)
        else:
            self._owed = refused, scope

    def _rests(self) -> bool:
        """Whether all that was asked before is answered."""
        running = self._running
        return running is None or running.response_complete or running.disconnected

    def _begun_scope(self) -> Scope:
        """A request as far as it has been read, to word its refusal."""
        line = self._first
        if self._in_head and self.url:
            line = b"%b %b " % (self._method or self.parser.get_method(), self.url)
        return scope_of(line, self.headers if self._in_head else [])

    def _say(self, refused: Refused, scope: Scope) -> None:
        """Refuse in the words of the door it seems to be for."""
        body = json.dumps(self.config.form(scope, refused)).encode()
        named = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
        lines = [f"{name}: {value}\r\n".encode() for name, value in (named | refused.headers).items()]
        shown = b"" if scope["method"] == "HEAD" else body
        self.transport.write(b"".join([STATUS_LINE[refused.status], *lines, b"\r\n", shown]))
        if self.transport.can_write_eof():
            self.transport.write_eof()  # cut off in the middle of a word, the client would not read it
        else:
            self.transport.close()


def scope_of(line: bytes, headers: list[tuple[bytes, bytes]]) -> Scope:
    """As much of a request as its first line says, if it is one."""
    method, _, rest = line.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    return {
        "type": "http",
        "method": method.decode("latin-1"),
        "path": path.decode("latin-1"),
        "raw_path": path,
        "headers": headers,
    }
