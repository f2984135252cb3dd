"""Patterns of hosts, and every spelling by which a program may try to mean another host than the one that is checked."""

from __future__ import annotations

import pytest

from jaato.tools.network.addresses import AddressRefused, parse_authority
from jaato.tools.network.proxy import DomainPatterns, DomainRefused


@pytest.mark.parametrize(
    ("pattern", "covered", "other"),
    [
        ("pypi.org", [("pypi.org", 443), ("pypi.org", 80)], [("pypi.org", 22), ("x.pypi.org", 443), ("evilpypi.org", 443)]),
        ("*.npmjs.org", [("registry.npmjs.org", 443), ("a.b.npmjs.org", 80)], [("npmjs.org", 443), ("xnpmjs.org", 443)]),
        ("host.example:8443", [("host.example", 8443)], [("host.example", 443)]),
        ("*", [("any.example", 443), ("1.1.1.1", 80)], [("any.example", 22)]),
        ("*:22", [("any.example", 22)], [("any.example", 443)]),
        ("PyPI.org.", [("pypi.org", 443)], []),
        ("bücher.example", [("xn--bcher-kva.example", 443)], []),
        ("[::1]:8080", [("::1", 8080)], [("::1", 443)]),
        ("0x7f.1:81", [("127.0.0.1", 81)], []),
    ],
)  # fmt: skip
def test_what_a_pattern_covers(
    pattern: str, covered: list[tuple[str, int]], other: list[tuple[str, int]]
) -> None:
    """A name covers itself, `*.` what is below it, both at 80 and 443 unless a port is named."""
    domains = DomainPatterns.of([pattern])
    assert all(domains.covers(*one) for one in covered)
    assert not any(domains.covers(*one) for one in other)


@pytest.mark.parametrize("pattern", ["", "*.", "**", "a*.example", "*.*.example", "a b", "http://x.example", "x.example/y",
                                     "u@x.example", "x.example:0", "x.example:99999", "[fe80::1%eth0]", "x\0.example"])  # fmt: skip
def test_a_pattern_that_names_no_host_is_refused(pattern: str) -> None:
    """The error says how a pattern is written."""
    with pytest.raises(DomainRefused, match=r"pypi\.org"):
        DomainPatterns.of([pattern])


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("PyPI.ORG:443", ("pypi.org", 443)),
        ("pypi.org.:443", ("pypi.org", 443)),
        ("bücher.example:443", ("xn--bcher-kva.example", 443)),
        ("ⓟypi.org:443", ("pypi.org", 443)),
        ("pypi。org:443", ("pypi.org", 443)),
        ("0177.0.0.1:80", ("127.0.0.1", 80)),
        ("0x7f000001:80", ("127.0.0.1", 80)),
        ("2130706433:80", ("127.0.0.1", 80)),
        ("127.1:80", ("127.0.0.1", 80)),
        ("[0:0:0:0:0:0:0:1]:80", ("::1", 80)),
    ],
)
def test_a_host_has_one_spelling(text: str, meant: tuple[str, int]) -> None:
    """What differs only in how it is written is one host, for the check and for the connection."""
    assert parse_authority(text) == meant


@pytest.mark.parametrize(
    "text",
    ["pypi.org", "pypi.org:", ":443", "pypi.org:0", "pypi.org:65536", "pypi.org:443:443", "pypi.org..:443", ".pypi.org:443",
     "pypi.org\0.evil.example:443", "evil.example%00.pypi.org:443", "pypi.org@evil.example:443", "evil.example#pypi.org:443",
     "evil.example/pypi.org:443", "evil.example?pypi.org:443", "evil.example\\pypi.org:443", "evil .pypi.org:443",
     "pypi.org\t:443", "pypi.org\r\nHost: x:443", "[::1%lo]:443", "[::1:443", "::1:443", "256.1.1.1:443", "1.2.3.4.5:443",
     "0x:0x:443", "09.1.1.1:443", "pypi.org:+443", "pypi.org:443 ", "a" * 64 + ".org:443", "[127.0.0.1]:443", "*:443",
     "\u202epypi.org:443"],
)  # fmt: skip
def test_what_two_programs_may_read_differently_is_no_host(text: str) -> None:
    """NUL, user names, percent signs, zone ids, second ports, empty labels and the like are refused, not repaired."""
    with pytest.raises(AddressRefused):
        parse_authority(text)
