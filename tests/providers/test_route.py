"""Proxies and certificates: which way a host is reached, tried for real."""

from __future__ import annotations

import datetime
import ssl
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.providers.server import events, serve, stream, tunnel

from jaato.abc.provider import ModelRequest, Reply, ThinkingDelta
from jaato.errors import ConfigError, ConnectionFault
from jaato.protocol.messages import Message, Text
from jaato.providers.profiles import make_provider
from jaato.tools.network.proxy_settings import certificates, proxy_for, redact_url, split_url

HELLO = stream(*events({"choices": [{"delta": {"content": "Hello"}, "finish_reason": "stop"}]}, "[DONE]"))
PROXY = "http://proxy.test:3128"


def named(name: str) -> x509.Name:
    """A certificate subject."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def certificate(subject: str, public: ec.EllipticCurvePublicKey, signer: ec.EllipticCurvePrivateKey) -> bytes:
    """A certificate as PEM, signed by the private authority of the test."""
    now = datetime.datetime.now(datetime.UTC)
    authority = subject == "Test CA"
    builder = (
        x509.CertificateBuilder()
        .subject_name(named(subject))
        .issuer_name(named("Test CA"))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if authority:
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(usage, critical=True)
    else:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(subject)]), critical=False)
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    """The PEM file of a private authority, and the TLS context of a server for model.test it signed."""
    folder = tmp_path_factory.mktemp("authority")
    root, leaf = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    (folder / "ca.pem").write_bytes(certificate("Test CA", root.public_key(), root))
    key = leaf.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "server.pem").write_bytes(key + certificate("model.test", leaf.public_key(), root))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return folder / "ca.pem", context


async def ask(base_url: str, environ: Mapping[str, str]) -> str:
    """The text of one answer."""
    provider = make_provider("openai", environ=environ, base_url=base_url, api_key="sk-1")
    try:
        chunks = [
            chunk async for chunk in provider.stream(ModelRequest("m", [Message("user", [Text("hi")])]))
        ]
    finally:
        await provider.aclose()
    reply = chunks[-1]
    assert isinstance(reply, Reply)
    return reply.message.text


def test_through_a_proxy_to_a_server_of_a_private_authority(authority: tuple[Path, ssl.SSLContext]) -> None:
    """`HTTPS_PROXY` tunnels, `SSL_CERT_FILE` is believed, and the proxy sees neither key nor conversation."""
    ca, context = authority

    async def main() -> None:
        async with serve(HELLO, tls=context) as server, tunnel(server.port) as proxy:
            environ = {"HTTPS_PROXY": proxy.url.replace("//", "//me:secret@"), "SSL_CERT_FILE": str(ca)}
            assert await ask("https://model.test/v1", environ) == "Hello"
            assert proxy.asked == ["CONNECT model.test:443"]
            assert "authorization" not in proxy.headers[0]
            assert proxy.headers[0]["proxy-authorization"].startswith("Basic ")
            assert server.requests[0].headers["authorization"] == "Bearer sk-1"
            assert "proxy-authorization" not in server.requests[0].headers

    anyio.run(main)


def test_a_certificate_that_is_not_believed(authority: tuple[Path, ssl.SSLContext]) -> None:
    """Without `SSL_CERT_FILE` a private authority is not believed, and the message names the variable."""
    _, context = authority

    async def main() -> None:
        async with serve(HELLO, tls=context) as server, tunnel(server.port) as proxy:
            with pytest.raises(ConnectionFault, match="SSL_CERT_FILE"):
                await ask("https://model.test/v1", {"HTTPS_PROXY": proxy.url})
            assert server.requests == []

    anyio.run(main)


def test_a_certificate_of_another_name(authority: tuple[Path, ssl.SSLContext]) -> None:
    """A believed certificate of another host is refused; nothing is sent."""
    ca, context = authority

    async def main() -> None:
        async with serve(HELLO, tls=context) as server, tunnel(server.port) as proxy:
            environ = {"HTTPS_PROXY": proxy.url, "SSL_CERT_FILE": str(ca)}
            with pytest.raises(ConnectionFault, match="certificate"):
                await ask("https://other.test/v1", environ)
            assert server.requests == []

    anyio.run(main)


def test_a_proxy_that_refuses() -> None:
    """A proxy's refusal is named as such, without the proxy's password."""

    async def main() -> None:
        async with tunnel(0, refuse=407) as proxy:
            environ = {"HTTPS_PROXY": proxy.url.replace("//", "//me:secret@")}
            with pytest.raises(ConnectionFault, match="HTTPS_PROXY and NO_PROXY") as caught:
                await ask("https://model.test/v1", environ)
            assert proxy.url in str(caught.value)
            assert "secret" not in str(caught.value)

    anyio.run(main)


def test_plain_http_through_a_proxy() -> None:
    """`HTTP_PROXY` is given the whole URL of a plain request."""

    async def main() -> None:
        async with serve(HELLO) as server:
            assert await ask("http://model.test/v1", {"http_proxy": server.url}) == "Hello"
            assert server.requests[0].path == "http://model.test/v1/chat/completions"
            assert server.requests[0].headers["host"] == "model.test"

    anyio.run(main)


def test_a_proxy_whose_name_and_password_are_not_ascii() -> None:
    """The name is looked up as a browser does, and the password is sent in UTF-8."""

    async def main() -> None:
        async with serve(HELLO, HELLO) as server:
            wide = server.url.replace("127.0.0.1", "ｌｏｃａｌｈｏｓｔ")  # noqa: RUF001 the letters are meant
            for proxy in (wide.replace("//", "//me:gehe%C3%AFm@"), wide.replace("//", "//:geheïm@")):
                assert await ask("http://model.test/v1", {"HTTP_PROXY": proxy}) == "Hello"
            logins = [
                b64decode(one.headers["proxy-authorization"].removeprefix("Basic "))
                for one in server.requests
            ]
            assert logins == ["me:geheïm".encode(), ":geheïm".encode()]

    anyio.run(main)


def test_a_proxy_whose_host_is_none() -> None:
    """It is an error of the settings, which does not show the password."""

    async def main() -> None:
        with pytest.raises(ConfigError, match=r"a\.\.b:3128 cannot be used") as caught:
            await ask("http://model.test/v1", {"HTTP_PROXY": "http://me:secret@a..b:3128"})
        assert "secret" not in str(caught.value)

    anyio.run(main)


def test_a_proxy_with_tls_is_checked_as_a_server_is(authority: tuple[Path, ssl.SSLContext]) -> None:
    """`SSL_CERT_FILE` is read for it, in whichever case its scheme is written."""
    ca, context = authority

    async def main() -> None:
        async with serve(HELLO, tls=context) as server:
            proxy = server.url.replace("https", "HTTPS")
            with pytest.raises(ConnectionFault, match="mismatch"):
                await ask("http://model.test/v1", {"HTTP_PROXY": proxy, "SSL_CERT_FILE": str(ca)})

    anyio.run(main)


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("https://api.test/v1", {}, None),
        ("https://api.test/v1", {"HTTPS_PROXY": PROXY}, PROXY),
        ("https://api.test/v1", {"https_proxy": PROXY, "HTTPS_PROXY": "http://other"}, PROXY),
        ("https://api.test/v1", {"HTTP_PROXY": PROXY}, None),
        ("http://api.test/v1", {"HTTP_PROXY": PROXY}, PROXY),
        ("https://api.test/v1", {"ALL_PROXY": "proxy.test:3128"}, PROXY),
        ("https://api.test/v1", {"HTTPS_PROXY": ""}, None),
        ("http://localhost:11434", {"HTTP_PROXY": PROXY}, None),
        ("http://127.0.0.1:11434", {"HTTP_PROXY": PROXY}, None),
        ("http://[::1]:11434", {"HTTP_PROXY": PROXY}, None),
        ("https://api.test/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, None),
        ("https://api.test/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "other, api.test"}, None),
        ("https://API.test./v1", {"HTTPS_PROXY": PROXY, "no_proxy": "TEST"}, None),
        ("https://api.test/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": ".test"}, None),
        ("https://api.test/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "*.test"}, None),
        ("https://apitest/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "test"}, PROXY),
        ("https://api.test/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "api.test:8443"}, PROXY),
        ("https://api.test:8443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "api.test:8443"}, None),
        ("https://10.1.2.3/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, None),
        ("https://11.1.2.3/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, PROXY),
        ("https://[fd00::1]/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "fd00::/8"}, None),
    ],
)
def test_which_proxy(url: str, environ: dict[str, str], proxy: str | None) -> None:
    """The variables choose the proxy by scheme and host; this machine is always reached directly."""
    assert proxy_for(url, environ) == proxy


@pytest.mark.parametrize("proxy", ["socks5://me:secret@127.0.0.1:1080", "ftp://x", "http://"])
def test_a_proxy_that_cannot_be(proxy: str) -> None:
    """A proxy of another kind is an error that names the variable and shows no password."""
    with pytest.raises(ConfigError, match="HTTPS_PROXY") as caught:
        proxy_for("https://api.test", {"HTTPS_PROXY": proxy})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_certificates_that_are_not_there(variable: str, tmp_path: Path) -> None:
    """A variable that names no certificates is an error that names it."""
    with pytest.raises(ConfigError, match=rf"{variable} is .* does not exist"):
        certificates({variable: str(tmp_path / "none")})
    (tmp_path / "empty.pem").write_text("nothing")
    with pytest.raises(ConfigError, match="holds no certificates"):
        certificates({"SSL_CERT_FILE": str(tmp_path / "empty.pem")})


def test_without_variables_this_machine_decides() -> None:
    """By default certificates and host names are checked."""
    context = certificates({})
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_shown() -> None:
    """A URL is shown without user, password, query and fragment."""
    assert redact_url("https://me:p@ss@host.test:8/v1?key=secret#x") == "https://host.test:8/v1"


@pytest.mark.parametrize("url", ["api.test/v1", "ftp://api.test", "http://", "http://[::1", "http://a:99999"])
def test_a_base_url_that_is_none(url: str) -> None:
    """A base URL that is no http URL is an error that shows how to write one."""
    with pytest.raises(ConfigError, match="write it like https://host/v1"):
        split_url(url, "OPENAI_BASE_URL")


@pytest.mark.parametrize(
    ("key", "header"), [(None, "Basic bWU6cDpAc3M="), ("sk-1", "Bearer sk-1")], ids=["login", "key"]
)
def test_a_login_in_the_base_url(key: str | None, header: str) -> None:
    """User and password of a base URL, as a server behind a login wants them, are sent where no key takes their place."""

    async def main() -> None:
        async with serve(HELLO) as server:
            url = server.url.replace("://", "://me:p%3A%40ss@")
            provider = make_provider("openai", environ={}, base_url=url, api_key=key)
            async for chunk in provider.stream(ModelRequest("m", [Message("user", [Text("hi")])])):
                assert not isinstance(chunk, ThinkingDelta)
            await provider.aclose()
            (request,) = server.requests
            assert request.headers["authorization"] == header
            assert "@" not in request.headers["host"]
            assert "ss" not in repr(provider)

    anyio.run(main)


@pytest.mark.parametrize("base_url", ["http://a host/v1", "http://host.test/v 1", "http://0x7f.0.0.1.9/v1"])
def test_a_base_url_that_two_programs_may_read_differently(base_url: str) -> None:
    """It is an error of the configuration when a request is to be sent, and names the provider."""
    with pytest.raises(ConfigError, match="The base URL of openai cannot be used"):
        anyio.run(ask, base_url, {})


def test_the_host_header_of_an_address_and_a_port() -> None:
    """It is sent once, with the port, and with the length of the body."""

    async def main() -> None:
        async with serve(HELLO) as server:
            assert await ask(f"{server.url}/v1", {}) == "Hello"
            (request,) = server.requests
            assert request.headers["host"] == server.url.removeprefix("http://")
            assert int(request.headers["content-length"]) == len(request.body)

    anyio.run(main)
