"""What is read of a configuration and of a challenge, and what is shown of either."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.errors import ConfigError
from jaato.plugins.mcp.oauth.login import challenge_of
from jaato.plugins.mcp.oauth.options import (
    Client,
    Options,
    Tokens,
    options_of,
    plain,
)


def test_what_holds_secrets_does_not_show_them() -> None:
    """Tokens, clients and options print without what is secret in them."""
    kept = [
        Tokens(access="SECRET", refresh="SECRET"),
        Client(client_id="x", kind="registered", secret="SECRET"),
        Options(client_id="x", client_secret="SECRET", private_key="SECRET"),
    ]
    assert "SECRET" not in f"{kept} {kept!r}"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"client_secret": "SECRET"}, "client_id is missing"),
        ({"clientSecert": "SECRET"}, "unknown field"),
        ({"client_id": 7}, "Expected `str"),
        ({"redirect_port": 99_999}, "redirect_port"),
        ({"redirect_uri": "http://evil.example/callback"}, "redirect_uri is"),
        ({"redirect_uri": "http://127.0.0.1:1/a?b"}, "redirect_uri is"),
        ({"client_metadata_url": "http://a/b"}, "https URL with a path"),
        ({"client_metadata_url": "https://a/"}, "https URL with a path"),
        ({"grant": "client_credentials", "client_id": "x"}, "needs client_id and client_secret"),
        ({"grant": "password"}, "Invalid enum value"),
        ({"scopes": ["a b"]}, "no scope"),
        ("yes", "oauth is an object"),
    ],
)
def test_options_that_cannot_be_used(given: Any, said: str) -> None:
    """A configuration that contradicts itself is refused in words that show no value."""
    with pytest.raises(ConfigError, match=said) as caught:
        options_of(given, "desk")
    assert "SECRET" not in str(caught.value)


def test_options_are_read_in_both_spellings() -> None:
    """Camel and snake case mean the same; what is empty is left out."""
    given = {"clientId": "x", "scope": "a b", "callbackPort": 8000, "client_secret": "", "metadataUrl": ""}
    assert options_of(given, "desk") == Options(client_id="x", scopes=["a", "b"], redirect_port=8000)
    assert options_of(None, "desk") == Options()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('Bearer scope="a b", resource_metadata="https://x/y"', ("", ("a", "b"), "https://x/y")),
        ("bearer error=insufficient_scope", ("insufficient_scope", (), "")),
        ("Negotiate abc==, Bearer scope=y", ("", ("y",), "")),
        ("Bearer", ("", (), "")),
        ("Bearer scope=a\x00b", ("", (), "")),
        ('Basic realm="x"', None),
        ("", None),
        ("Bearer " + "a=b," * 100_000, ("", (), "")),
        ('Bearer a="' + "\\" * 100_000, ("", (), "")),
    ],
)
def test_challenges(line: str, expected: tuple[str, tuple[str, ...], str] | None) -> None:
    """The Bearer challenge is read as far as it makes sense; of its scopes only what can be one is taken."""
    assert challenge_of({"www-authenticate": line}) == expected


@given(st.text(max_size=2_000))
def test_no_words_of_a_stranger_are_shown_as_they_are(text: str) -> None:
    """What is shown is one printable line of at most 201 characters."""
    assert plain(text).isprintable()
    assert len(plain(text)) <= 201
