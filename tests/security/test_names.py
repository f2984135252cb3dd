"""What a server may be called, and whose pages may call it."""

from __future__ import annotations

import pytest
from tests.security.auth_server import Keep, status

HOSTS = [
    None,
    "",
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1",
    "127.0.0.1:1",
    "127.0.0.1:{port}.evil.example",
    "127.0.0.1.evil:{port}",
    "localhost:{port}@evil.example",
    "evil.example@localhost:{port}",
    "127.0.0.1.:{port}",
    "localhost.:{port}",
    "0.0.0.0:{port}",
    "[::]:{port}",
    "[::1]",
    "[::ffff:127.0.0.1]:{port}",
    "[0:0:0:0:0:0:0:1]:{port}",
    "2130706433:{port}",
    "0x7f.1:{port}",
    "127.1:{port}",
    "127.0.0.1:0{port}",
    "127.0.0.1:{port}/",
    "127.0.0.1:{port}\r\nHost: 127.0.0.1:{port}",
    "127.0.0.1:{port}\r\nHost: evil.example",
    "127.0.0.1:{port}, evil.example",
    "\xff127.0.0.1:{port}",
]


@pytest.mark.parametrize("host", HOSTS)
def test_a_name_that_is_not_ours_is_refused(keep: Keep, host: str | None) -> None:
    """A page that points its own name at this address (DNS rebinding) gets nothing, even with the token."""
    named = None if host is None else host.format(port=keep.port)
    for head in (
        keep.head("/health", token=keep.tokens["owner"], Host=named),
        keep.upgrade(token=keep.tokens["owner"], Host=named),
        keep.upgrade(Host=named),
    ):
        said = keep.ask(head)
        assert status(said) in (400, 421), said
        assert b"access-control" not in said.lower()


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LocalHost:{port}", "[::1]:{port}"])
def test_our_own_names_are_known_in_any_case(keep: Keep, host: str) -> None:
    """Names of hosts have no case."""
    head = keep.head("/health", token=keep.tokens["owner"], Host=host.format(port=keep.port))
    assert status(keep.ask(head)) == 200


@pytest.mark.parametrize(
    ("origin", "fine"),
    [
        ("null", False),
        ("NULL", False),
        ("", False),
        ("*", False),
        ("https://evil.example", False),
        ("http://localhost.evil.example:{port}", False),
        ("http://127.0.0.1:{port}.evil.example", False),
        ("http://127.0.0.1:{port}@evil.example", False),
        ("http://127.0.0.1:{port}/", False),
        ("http://127.0.0.1", False),
        ("http://127.0.0.1:1{port}", False),
        ("https://127.0.0.1:{port}", False),
        ("ws://127.0.0.1:{port}", False),
        ("file://", False),
        ("https://editor.example.evil", False),
        ("https://xeditor.example", False),
        ("https://editor.example:444", False),
        ("http://editor.example", False),
        ("https://editor.exampl\u0435", False),
        ("https://editor.example\r\nOrigin: https://evil.example", False),
        ("https://editor.example", True),
        ("HTTPS://Editor.Example", True),
        ("http://localhost:{port}", True),
        (None, True),
    ],
)
def test_pages_of_others_may_not_call(keep: Keep, origin: str | None, fine: bool) -> None:
    """An Origin counts whole: null, strangers and look-alikes are refused, with the token too; nobody is told of CORS."""
    said_origin = None if origin is None else origin.format(port=keep.port).encode().decode("latin-1")
    plain = keep.ask(keep.head("/health", token=keep.tokens["owner"], Origin=said_origin))
    opened = keep.ask(keep.upgrade(token=keep.tokens["owner"], Origin=said_origin))
    asked = keep.ask(keep.upgrade(Origin=said_origin))
    if fine:
        assert (status(plain), status(opened), status(asked)) == (200, 101, 101)
    else:
        assert {status(plain), status(opened), status(asked)} <= {400, 403}  # 400: said twice
    for said in (plain, opened, asked):
        assert b"access-control" not in said.lower()
