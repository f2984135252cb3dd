"""Who jaato is to an authorization server: configured, a document, registered, or acting for itself; never shown to another."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.mcp.oauth_servers import DOCUMENT, Authority, desk

from jaato.plugins.mcp.oauth.options import OAuthFault
from jaato.plugins.mcp.oauth.token_store import TokenStore


def test_a_client_document_is_preferred_to_registration(tmp_path: Path) -> None:
    """With a configured metadata URL, and a server that reads such documents, the URL is the client."""
    with desk(tmp_path, client_metadata_url=DOCUMENT) as at:
        at.authority.extra = {"client_id_metadata_document_supported": True}
        at.authority.clients[DOCUMENT] = {"any_port": True}
        assert anyio.run(at.call).status_code == 200
        assert at.authority.asked("/register") == []
        at.authority.extra = {}
        at.store = TokenStore(tmp_path / "other")
        assert anyio.run(at.call).status_code == 200
        assert len(at.authority.asked("/register")) == 1


@pytest.mark.parametrize(
    ("methods", "place"),
    [(["client_secret_basic"], "header"), (["client_secret_post"], "form"), (None, "header")],
)
def test_a_configured_client_shows_its_secret_as_the_server_wants_it(
    tmp_path: Path, methods: list[str] | None, place: str
) -> None:
    """A client from the configuration needs no registration; its secret goes into the header or the form."""
    with desk(tmp_path, clientId="mine", clientSecret="a secret: %") as at:
        at.authority.extra = {"token_endpoint_auth_methods_supported": methods}
        at.authority.clients["mine"] = {"any_port": True, "client_secret": "a secret: %"}
        if place == "header":
            at.authority.clients["mine"]["client_secret"] = "a%20secret%3A%20%25"
        assert anyio.run(at.call).status_code == 200
        assert ("client_secret" in at.authority.asked("/token")[0].form) is (place == "form")
        assert at.authority.asked("/register") == []


def test_a_server_that_registers_with_a_secret_is_shown_it(tmp_path: Path) -> None:
    """Where public clients are not taken, the secret of the registration is used, for the refresh as well."""
    with desk(tmp_path) as at:
        at.authority.extra = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
        at.authority.life = 0.001
        assert anyio.run(at.call).status_code == 200
        assert anyio.run(at.call, at.auth(None)).status_code == 200
        assert at.authority.refreshed == 1


def test_client_credentials_need_nobody(tmp_path: Path) -> None:
    """A client that acts for itself gets its tokens with its secret alone, and new ones when they end."""
    with desk(tmp_path, grant="client_credentials", client_id="robot", client_secret="s3cret") as at:
        at.authority.clients["robot"] = {"client_secret": "s3cret"}
        at.authority.life = 0.001
        at.server.needs = ("run",)
        assert anyio.run(at.call, at.auth(None)).json() == {"scope": "run"}
        assert anyio.run(at.call, at.auth(None)).json() == {"scope": "run"}
        assert [one.form["grant_type"] for one in at.authority.asked("/token")] == ["client_credentials"] * 2


def test_client_credentials_with_a_key_sign_for_the_issuer(tmp_path: Path) -> None:
    """A client with a private key shows a short-lived signature made out to the issuer."""
    import jwt
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    with desk(tmp_path, grant="client_credentials", client_id="robot", private_key=text) as at:
        at.authority.clients["robot"] = {}
        assert anyio.run(at.call, at.auth(None)).status_code == 200
        shown = at.authority.asked("/token")[0].form["client_assertion"]
        claims = jwt.decode(shown, key.public_key(), algorithms=["ES256"], audience=at.authority.issuer)
        assert claims["iss"] == claims["sub"] == "robot"
        at.oauth["private_key"] = "-----BEGIN nothing"
        at.store = TokenStore(tmp_path / "other")
        with pytest.raises(OAuthFault, match="private_key cannot sign") as caught:
            anyio.run(at.call, at.auth(None))
        assert "BEGIN" not in str(caught.value)


def test_a_changed_authorization_server_gets_a_client_and_a_token_of_its_own(tmp_path: Path) -> None:
    """When a server names another issuer, nothing of the old one is shown there; a configured client is not moved."""
    with desk(tmp_path) as at, (other := Authority()).at_work():
        auth = at.auth(at.browse)
        assert anyio.run(at.call, auth).status_code == 200
        old = at.authority
        at.server.authority = other
        assert anyio.run(at.call, auth).status_code == 200
        assert len(other.asked("/register")) == 1
        secrets = [*old.tokens, *old.refreshes]
        assert not any(secret in str(other.seen) for secret in secrets)


def test_a_configured_client_stays_with_its_issuer(tmp_path: Path) -> None:
    """A secret from the configuration is never shown to an authorization server the login was not made with."""
    with desk(tmp_path, client_id="mine", client_secret="s3cret") as at, (other := Authority()).at_work():
        at.authority.clients["mine"] = {"any_port": True, "client_secret": "s3cret"}
        assert anyio.run(at.call).status_code == 200
        at.server.authority = other
        with pytest.raises(OAuthFault, match="changed its authorization server"):
            anyio.run(at.call)
        at.oauth["issuer"] = at.authority.issuer
        with pytest.raises(OAuthFault, match="not from the configured issuer"):
            anyio.run(at.call)
        assert not any("s3cret" in str(one) for one in other.seen)


def test_a_configured_redirect_is_where_the_answer_goes(tmp_path: Path) -> None:
    """A client that was registered with another host name or path is answered there, at a fixed port or at any."""
    with desk(tmp_path, clientId="mine", redirectUri="http://localhost/oauth/done") as at:
        at.authority.clients["mine"] = {"any_port": True}
        assert anyio.run(at.call).status_code == 200
        asked = at.authority.asked("/authorize")[0].query["redirect_uri"]
        assert asked.startswith("http://localhost:")
        assert asked.endswith("/oauth/done")


def test_a_fixed_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    """With a port from the configuration no other will do."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken, desk(tmp_path) as at:
        at.oauth["callbackPort"] = taken.getsockname()[1]
        with pytest.raises(OAuthFault, match="No port of this machine"):
            anyio.run(at.call)
