"""Where requests of logging in may go: names are looked up once, what they lead to is checked, TLS is to the name."""

from __future__ import annotations

import ssl
from pathlib import Path

import anyio
import pytest
from tests.mcp.oauth_web import Web, as_json
from tests.providers import test_route

from jaato.plugins.mcp.oauth.options import OAuthFault, Unreachable
from jaato.plugins.mcp.oauth.requests import Wire, secure_url
from jaato.tools.network.addresses import AllowedHosts

authority = test_route.authority
NAMES = {
    "model.test": ["127.0.0.1"],
    "inside.test": ["10.1.2.3"],
    "cloud.test": ["169.254.169.254"],
    "both.test": ["1.1.1.1", "169.254.169.254"],
    "mapped.test": ["::ffff:169.254.169.254"],
}


async def resolve(host: str, _port: int) -> list[str]:
    """The names of this test."""
    if host not in NAMES:
        raise OSError(f"no {host}")
    return NAMES[host]


def fetched(server: str, url: str, allowed: AllowedHosts | None = None, **environ: str) -> dict[str, object]:
    """A document, as the login of this server gets it."""

    async def main() -> dict[str, object]:
        wire = Wire(secure_url(server, "It"), environ, allowed, resolve)
        return (await wire.get(secure_url(url, "It"), "It")).document("It")

    return anyio.run(main)


def test_tls_is_spoken_to_the_name_that_was_checked(authority: tuple[Path, ssl.SSLContext]) -> None:
    """A server at a private address is spoken to under its own name and port, with its certificate; nobody believed in
    is an error, and so is another port of it."""
    site = Web()
    site.server.socket = authority[1].wrap_socket(site.server.socket, server_side=True)
    site.routes["/x"] = lambda _: as_json({"a": 1})
    port = site.server.server_address[1]
    with site.at_work():
        at = f"https://model.test:{port}"
        assert fetched(at, f"{at}/x", SSL_CERT_FILE=str(authority[0])) == {"a": 1}
        with pytest.raises(Unreachable, match="cannot be reached"):
            fetched(at, f"{at}/x")
        with pytest.raises(OAuthFault, match="loopback address"):
            fetched("https://model.test:1", f"{at}/x", SSL_CERT_FILE=str(authority[0]))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("inside.test", "a private address"),
        ("cloud.test", "cloud keeps its secrets"),
        ("both.test", "cloud keeps its secrets"),
        ("mapped.test", "cloud keeps its secrets"),
        ("model.test", "a loopback address"),
    ],
)
def test_names_that_lead_inside_are_refused(name: str, why: str) -> None:
    """A name that leads to a private, metadata or loopback address is refused, whatever else it leads to."""
    with pytest.raises(OAuthFault, match=why):
        fetched("https://server.test", f"https://{name}/x")


def test_metadata_addresses_are_refused_to_the_server_itself() -> None:
    """Even the server's own name, and a setting that allows everything, do not open the cloud's secrets."""
    with pytest.raises(OAuthFault, match="cloud keeps its secrets"):
        fetched("https://cloud.test", "https://cloud.test/x", AllowedHosts.of(["*"]))


def test_a_server_on_this_machine_may_name_another_on_it_alone() -> None:
    """For a server on loopback other ports of this machine are open, the network behind is not."""
    site = Web()
    site.routes["/x"] = lambda _: as_json({"a": 1})
    with site.at_work():
        assert fetched("http://127.0.0.1:1/mcp", f"{site.origin}/x") == {"a": 1}
        with pytest.raises(OAuthFault, match="private address"):
            fetched("http://127.0.0.1:1/mcp", "https://inside.test/x")


def test_a_name_nobody_knows_may_be_tried_again() -> None:
    """An unknown name is a fault of the moment."""
    with pytest.raises(Unreachable) as caught:
        fetched("https://server.test", "https://nowhere.test/x")
    assert caught.value.retryable
