"""TLS over the network, with a certificate of one's own, and clients that check it."""

from __future__ import annotations

import signal
import socket
import ssl
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from tests.security.auth_server import Keep, answer, awaited, status
from tests.security.certificates import certificate

from jaato.client.blocking import Client
from jaato.client.connection import connect
from jaato.errors import ConfigError, ConnectionFault, NotAllowed
from jaato.protocol.commands import SessionList
from jaato.server.http.tls import create_context


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the certificates are."""
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def secure(place: Path) -> Iterator[Keep]:
    """A server that speaks TLS on its port."""
    cert, key = certificate(place, "one")
    served = Keep(place / "keep", "--web-socket", ":0", "--tls-cert", str(cert), "--tls-key", str(key))
    yield served
    assert served.stop() == (0, "")


def test_clients_come_by_wss(secure: Keep, place: Path) -> None:
    """Both clients, with the certificate as its own authority; the address the server names is one of wss."""
    assert f"wss://127.0.0.1:{secure.port}" in secure.said
    for host in ("127.0.0.1", "localhost"):
        url = f"wss://{host}:{secure.port}"
        with Client(url, token=secure.tokens["viewer"], ca_file=place / "one.pem") as client:
            assert client.welcome.role == "viewer"
            client.ask(SessionList())

    async def main() -> None:
        url = f"wss://127.0.0.1:{secure.port}"
        async with connect(url, token=secure.tokens["owner"], ca_file=place / "one.pem") as client:
            await client.list()

    anyio.run(main)


def test_a_server_that_cannot_be_trusted_is_not_spoken_to(secure: Keep, place: Path) -> None:
    """Without the authority, or with another's, no token leaves the client; without TLS there is no answer either."""
    certificate(place, "other")
    url = f"wss://127.0.0.1:{secure.port}"
    token = secure.tokens["owner"]
    for ca in (None, place / "other.pem"):
        with pytest.raises(ConnectionFault, match="cannot be trusted"), Client(url, token=token, ca_file=ca):
            pass

        async def main(ca: Path | None = ca) -> None:
            async with connect(url, token=token, ca_file=ca):
                pass

        with pytest.raises(ConnectionFault, match="cannot be trusted"):
            anyio.run(main)
    (place / "empty.pem").write_text("")
    with pytest.raises(ConfigError, match="holds no certificates"), Client(url, ca_file=place / "empty.pem"):
        pass
    with pytest.raises(ConfigError, match="holds no certificates"), Client(url, ca_file=place / "none.pem"):
        pass
    with pytest.raises(ConnectionFault), Client(f"ws://127.0.0.1:{secure.port}", token=token):
        pass
    with pytest.raises(NotAllowed), Client(url, token="wrong", ca_file=place / "one.pem"):
        pass


def test_a_token_is_one_line(secure: Keep, place: Path) -> None:
    """As it comes from its file, with the line's end, it is taken; what would be another header is refused."""
    url = f"wss://127.0.0.1:{secure.port}"
    with Client(url, token=f" {secure.tokens['viewer']}\n", ca_file=place / "one.pem") as client:
        assert client.welcome.role == "viewer"
    for token in ("a\r\nX: y", "\u00e9", "a\0b"):
        with pytest.raises(ConfigError, match="no token"):
            Client(url, token=token)
    for address in ("ws://host:99999", "ws://[", "ws://token@host", "ws://host/?token=x", "ftp://host"):
        with pytest.raises(ConfigError):
            Client(address)


def tls(secure: Keep, place: Path, name: str = "one") -> ssl.SSLSocket:
    """A connection whose handshake is done."""
    context = ssl.create_default_context(cafile=place / f"{name}.pem")
    return context.wrap_socket(secure.dial(), server_hostname="127.0.0.1")


def test_the_same_gate_is_behind_it(secure: Keep, place: Path) -> None:
    """Tokens, names and origins count as they do without; the page of a TLS server is one of https."""
    origin = f"https://127.0.0.1:{secure.port}"
    cases = (
        (secure.head(token=secure.tokens["owner"], Origin=origin), 200),
        (secure.head(token=secure.tokens["owner"], Origin=origin.replace("https", "http")), 403),
        (secure.head(token="wrong"), 401),
        (secure.head(token=secure.tokens["owner"], Host="evil.example"), 421),
    )
    for data, expected in cases:
        with closing(tls(secure, place)) as line:
            line.sendall(data)
            assert status(answer(line)) == expected


def test_old_protocols_are_refused(secure: Keep) -> None:
    """TLS 1.1 and before are not spoken."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.minimum_version = ssl.TLSVersion.TLSv1
    with closing(secure.dial()) as raw, pytest.raises((ssl.SSLError, OSError)):
        context.wrap_socket(raw)


def test_handshakes_that_never_end_keep_nobody_out(secure: Keep, place: Path) -> None:
    """Hundreds who connect and say nothing, garbage, or half a greeting are bounded and make room."""
    lines: list[socket.socket] = []
    try:
        for number in range(500):
            line = secure.dial(number % 200 + 1)
            lines.append(line)
            line.sendall((b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n")[number % 3])
        with Client(
            f"wss://127.0.0.1:{secure.port}", token=secure.tokens["owner"], ca_file=place / "one.pem"
        ) as client:
            client.ask(SessionList())
        assert len(list(Path(f"/proc/{secure.process.pid}/fd").iterdir())) < 400
    except OSError as error:
        raise AssertionError("a connection was not taken") from error
    finally:
        for line in lines:
            line.close()


def test_what_comes_with_the_end_of_the_handshake_is_not_lost(secure: Keep, place: Path) -> None:
    """A client that sends its request in the same packet as the last of its handshake is answered."""
    context = ssl.create_default_context(cafile=place / "one.pem")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    made = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with closing(secure.dial()) as raw:
        while True:
            try:
                made.do_handshake()
                break
            except ssl.SSLWantReadError:
                raw.sendall(outgoing.read())
                incoming.write(raw.recv(65_536))
        made.write(secure.head(token=secure.tokens["owner"]))
        raw.sendall(outgoing.read())
        said = b""
        while b"HTTP/1.1 200" not in said:
            incoming.write(raw.recv(65_536))
            try:
                said += made.read(65_536)
            except ssl.SSLWantReadError:
                continue


def test_a_new_certificate_is_taken_by_a_hangup(tmp_path: Path) -> None:
    """SIGHUP reads the files anew, for new connections, whatever else is wrong; files that do not fit leave the old one in
    force."""
    cert, key = certificate(tmp_path, "first")
    (tmp_path / "before.pem").write_bytes(cert.read_bytes())
    keep = Keep(tmp_path / "keep", "--web-socket", ":0", "--tls-cert", str(cert), "--tls-key", str(key))
    try:
        second, second_key = certificate(tmp_path, "second")
        cert.write_bytes(second.read_bytes())
        keep.process.send_signal(signal.SIGHUP)
        assert keep.process.stderr is not None
        assert "cannot be used for TLS" in keep.process.stderr.readline()
        tls(keep, tmp_path, "before").close()
        key.write_bytes(second_key.read_bytes())
        (keep.state / "server-token").chmod(0o644)
        keep.process.send_signal(signal.SIGHUP)

        def renewed() -> bool:
            try:
                tls(keep, tmp_path, "second").close()
            except ssl.SSLError:
                return False
            return True

        awaited(renewed)
    finally:
        assert keep.stop()[0] == 0


def test_a_key_with_a_password_is_refused(tmp_path: Path) -> None:
    """Nobody is asked for it at a terminal."""
    cert, key = certificate(tmp_path, "locked", password=b"secret")
    with pytest.raises(ConfigError, match="cannot be used for TLS"):
        create_context(cert, key)
