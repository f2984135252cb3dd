"""A session with a sandbox, and an authority that commands are told to believe."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.network.running import OUTSIDE, Session


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    made = Session(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="package")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ssl.SSLContext]:
    """The PEM text of a private authority, and the TLS context of a server at `OUTSIDE` that it signed."""
    folder = tmp_path_factory.mktemp("authority")
    root, leaf = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test CA")])
    now = datetime.datetime.now(datetime.UTC)

    def signed(subject: x509.Name, key: ec.EllipticCurvePublicKey, *extensions: x509.ExtensionType) -> bytes:
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(
            now - datetime.timedelta(days=1)
        )
        builder = builder.not_valid_after(now + datetime.timedelta(days=1))
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(root, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    ca = signed(issuer, root.public_key(), x509.BasicConstraints(ca=True, path_length=None))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, OUTSIDE)])
    names = x509.SubjectAlternativeName(
        [x509.IPAddress(ipaddress.ip_address(OUTSIDE)), x509.DNSName("localhost")]
    )
    key = leaf.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "server.pem").write_bytes(key + signed(name, leaf.public_key(), names))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return ca.decode(), context
