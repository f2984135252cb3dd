"""Registries that are wrong, each in one thing: a right one behind a pipe that changes what is said, by the first part of the path."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Fault:
    """What is put in the place of what, in what the registry says, or in what it is told; in a body, of the same length."""

    old: bytes
    new: bytes
    told: bool = False

    def apply(self, data: bytes) -> bytes:
        """The bytes with the fault."""
        return re.sub(self.old, self.new, data)


FAULTS: dict[str, dict[str, Fault]] = {
    "lists_views": {
        "another_key": Fault(rb'"description"', b'"descriptioN"'),
        "no_array": Fault(rb"\[\{(.*)\}\]", rb"{ \1 }"),
        "twice": Fault(rb'"calc"', b'"echo"'),
        "another_type": Fault(rb"application/json", b"text/plain"),
    },
    "gives_definitions": {
        "no_version": Fault(rb'"version"', b'"versioN"'),
        "null": Fault(rb'"tags":\["show"\]', b'"tags":null    '),
        "another_schema": Fault(rb'"0\.1\.0"', b'"0.2.0"'),
    },
    "defines_core": {"type": Fault(rb'"type":"string"', b'"type":"strinG"')},
    "does_not_define_what_is_not_there": {
        "status": Fault(rb" 404 Not Found", b" 400 Not Found"),
        "code": Fault(rb"tool\.not_found", b"tool.not_here!"[:14]),
    },
    "echoes": {"shouts": Fault(rb'\{"text":"h', b'{"text":"H')},
    "calculates": {"wrong": Fault(rb'"value":98', b'"value":99')},
    "calculates_nothing_else": {"runs": Fault(rb" 500 Internal", b" 200 Internal")},
    "tells_the_time": {"no_zone": Fault(rb"\+09:00", b"+08:00")},
    "takes_what_is_optional": {
        "no_context": Fault(rb'"context": \{', b'"schema_version":{', told=True),
        "no_trace": Fault(rb'"trace": \{', b'"trace": 7', told=True),
    },
    "calls_nothing_unknown": {"no_result": Fault(rb'"ok":false', b'"oK":false')},
    "refuses_what_is_no_json": {"code": Fault(rb"request\.invalid_json", b"request.invalid_jsoN")},
    "refuses_what_is_no_call": {"code": Fault(rb"request\.invalid_shape", b"request.invalid_body!"[:21])},
    "refuses_wrong_arguments": {
        "one_issue": Fault(rb'"/b"', b'"/a"'),
        "no_path": Fault(rb'"path"', b'"pathe'),
        "again": Fault(rb'"retryable":false', b'"retryable":true '),
    },
    "says_that_a_tool_failed": {"traceback": Fault(rb'"message":".{10}', b'"message":"Traceback ')},
    "keeps_exceptions_to_itself": {"told": Fault(rb"failed inside", b"hunter2 said ")},
    "denies": {"status": Fault(rb" 403 Forbidden", b" 401 Forbidden")},
    "has_no_other_routes": {
        "code": Fault(rb"route\.not_found", b"tools.not_found"),
        "open": Fault(rb" 404 ", b" 200 "),
    },
    "allows_only_its_methods": {"no_allow": Fault(rb"\r\nallow:", b"\r\nallows:")},
    "reads_escaped_names": {"reads_them_not": Fault(rb"%65", b"%2565", told=True)},
    "names_each_request": {
        "none": Fault(rb"\r\nx-request-id:", b"\r\nx-request:"),
        "one": Fault(rb"req-[0-9a-f]+", b"req-1"),
    },
    "takes_trace_contexts": {
        "stumbles": Fault(rb"(?i)\r\ntraceparent:", b"\r\ncontent-encoding:", told=True)
    },
    "keeps_connections": {"closes": Fault(rb"\r\ndate:", b"\r\nconnection: close\r\ndate:")},
    "answers_in_order": {"mixes": Fault(rb"x-request-id: n-3", b"x-request-id: n-4")},
    "answers_head": {"body": Fault(rb"^HEAD ", b"GET ", told=True)},
    "takes_pieces": {"no_chunks": Fault(rb"\r\ntransfer-encoding: chunked", b"\r\nte: chunked", told=True)},
    "says_go_on": {"says_nothing": Fault(rb"\r\nexpect:", b"\r\nx-expect:", told=True)},
    "refuses_large_bodies": {"takes_them": Fault(rb" 413 ", b" 200 ")},
    "ends_when_told": {"goes_on": Fault(rb"\r\nconnection: close", b"\r\nx-connection: x", told=True)},
    "survives_what_is_no_http": {"fails": Fault(rb" 400 Bad", b" 500 Bad")},
    "knows_what_is_known": {
        "forgets": Fault(rb"(?i)\r\nif-none-match:", b"\r\nx-none-match:", told=True),
        "no_tag": Fault(rb"\r\netag:", b"\r\nx-tag:"),
    },
    "compresses_for_who_wants_it": {
        "always": Fault(rb"(?i)\r\naccept-encoding: [^\r]*", b"\r\naccept-encoding: gzip", told=True),
        "no_vary": Fault(rb"\r\nvary:", b"\r\nx-vary:"),
    },
    "takes_a_crowd": {"is_busy": Fault(rb" 200 OK", b" 503 OK")},
    "heeds_host_and_origin": {"any_page": Fault(rb"(?i)\r\norigin:", b"\r\nx-origin:", told=True)},
    "takes_each_request_for_one": {
        "any_length": Fault(rb"\r\ncontent-length: 3", b"\r\nx-length: 3", told=True),
        "any_coding": Fault(rb"xchunked", b"chunked", told=True),
        "any_space": Fault(rb"\r\ncontent-length : (\d+)", rb"\r\ntransfer-encoding: chunked", told=True),
    },
    "reads_the_body_of_an_upgrade": {"leaves_it": Fault(rb"\r\ncontent-length: \d+", b"", told=True)},
    "wants_one_host": {"none": Fault(rb" HTTP/1\.1\r\n\r\n", b" HTTP/1.1\r\nhost: HERE\r\n\r\n", told=True)},
}
"""What is wrong, by the check that finds it."""


@contextmanager
def pipe(url: str) -> Iterator[str]:
    """A server that gives every connection on to the registry; gives its address. `/FAULT` before a path is its fault."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    here = f"127.0.0.1:{listener.getsockname()[1]}".encode()
    parts = urlsplit(url)
    threads: list[threading.Thread] = []

    def served() -> None:
        with suppress(OSError):
            while True:
                line = listener.accept()[0]
                thread = threading.Thread(
                    target=carry, args=(line, (parts.hostname, parts.port), here), daemon=True
                )
                threads.append(thread)
                thread.start()

    accepting = threading.Thread(target=served, daemon=True)
    accepting.start()
    try:
        yield f"http://{here.decode()}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join(60)
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)


PREFIX = re.compile(rb"^([A-Z]+) /([a-z_]+)/(\w+)(?=[/ ])", re.MULTILINE)


def carry(line: socket.socket, to: tuple[str, int], here: bytes) -> None:
    """Carry what is said on one connection both ways until one side ends."""
    with line, socket.create_connection(to) as server:
        fault: list[Fault] = []
        there = f"{to[0]}:{to[1]}".encode()

        def forth(data: bytes) -> bytes:
            if not fault and (found := PREFIX.search(data)):
                fault.append(FAULTS[found[2].decode()][found[3].decode()])
            data = PREFIX.sub(rb"\1 ", data)
            data = data.replace(b"?/", b"/")
            data = fault[0].apply(data) if fault and fault[0].told else data
            return re.sub(rb"(?i)\r\nhost: (?:HERE|" + re.escape(here) + rb")", b"\r\nhost: " + there, data)

        def back(data: bytes) -> bytes:
            return fault[0].apply(data) if fault and not fault[0].told else data

        other = threading.Thread(target=copy, args=(server, line, back), daemon=True)
        other.start()
        copy(line, server, forth)
        other.join(60)


def copy(source: socket.socket, target: socket.socket, change: Callable[[bytes], bytes]) -> None:
    """What one side says, changed, to the other."""
    with suppress(OSError):
        while data := source.recv(1 << 20):
            target.sendall(change(data))
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
