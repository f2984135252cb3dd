"""One parser says which host a URL means, for the check and for the connection."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.errors import ConfigError
from jaato.tools.network.addresses import (
    AddressRefused,
    AllowedHosts,
    canonical_host,
    check_address,
    effective_address,
    parse_url,
    refusal_reason,
)

LOOPBACK = [
    "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "0x7F.0.0.0x1", "017700000001",
    "127.0.0.1.", "\uff11\uff12\uff17.0.0.1", "①②⑦.0.0.1", "127。0。0。1", "0x7f。1",
]  # fmt: skip
REFUSED = [
    "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "169.254.1.1", "100.64.0.1",
    "100.100.100.200", "168.63.129.16", "0.0.0.0", "255.255.255.255", "224.0.0.1", "240.0.0.1", "192.0.0.192",
    "198.18.0.1", "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::10.0.0.1",
    "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1", "2001:0:0:0:0:0:80ff:fffe", "fc00::1",
    "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "2001:db8::1", "::ffff:0:169.254.169.254",
]  # fmt: skip
OPEN = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "2606:4700:4700::1111",
    "172.32.0.1",
    "100.128.0.1",
    "64:ff9b::808:808",
]


@pytest.mark.parametrize("text", LOOPBACK)
def test_every_spelling_of_an_address_is_that_address(text: str) -> None:
    """Decimal, octal, hexadecimal, short, wide and dotted spellings all mean 127.0.0.1."""
    assert parse_url(f"http://{text}/").host == "127.0.0.1"


@pytest.mark.parametrize("text", REFUSED)
def test_addresses_that_strangers_must_not_send_us_to(text: str) -> None:
    """Private, local, reserved, multicast, translated and metadata addresses are told."""
    assert refusal_reason(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", OPEN)
def test_addresses_of_the_open_internet(text: str) -> None:
    """What anyone may reach is not refused."""
    assert refusal_reason(ipaddress.ip_address(text)) is None


@given(st.integers(0, 2**32 - 1))
def test_numbers_are_read_as_the_system_reads_them(number: int) -> None:
    """However an IPv4 address is written, we mean what the system's own resolver would dial."""
    a, b, c, d = number >> 24, number >> 16 & 255, number >> 8 & 255, number & 255
    for text in (
        f"{number}",
        f"{number:#x}",
        f"{a}.{number & 0xFFFFFF}",
        f"{a:#o}".replace("0o", "0") + f".{b}.{c:#x}.{d}",
    ):
        assert socket.inet_aton(text) == ipaddress.IPv4Address(canonical_host(text)).packed


@given(st.integers(0, 2**32 - 1))
def test_an_address_inside_another_is_judged_as_what_it_means(number: int) -> None:
    """Every way to carry an IPv4 address in an IPv6 one has the verdict of the IPv4 address, or is refused itself."""
    inner = ipaddress.IPv4Address(number)
    for text in (f"::ffff:{inner}", f"64:ff9b::{inner}", f"2002:{number >> 16:x}:{number & 0xFFFF:x}::1"):
        outer = ipaddress.ip_address(text)
        assert effective_address(outer) == inner
        assert refusal_reason(outer) == refusal_reason(inner)


@pytest.mark.parametrize(
    "text",
    [
        "ftp://a/", "file:///etc/passwd", "javascript:alert(1)", "//a/", "http:/a", "http://", "http:///x", "http://a@b/",
        "http://a:b@c/", "http://a b/", "http://a\0.b/", "http://a\tb/", "http://a\n/", "http://a\\@b/", "http://a:b/",
        "http://a:0/", "http://a:99999/", "http://[::1/", "http://[::1%25eth0]/", "http://[::1%eth0]/", "http://a..b/",
        "http://.a/", "http://%31%32%37.0.0.1/", "http://1.2.3.4.5/", "http://256.1.1.1/",
        "http://127.0.0.09/", "http://-a.b/", "http://a/\x7f", "http://" + "a" * 70 + "/", "http://[1.2.3.4]/",
        "http://a:80:80/", "http://[::1]x/", "http://1.2.3.999999999999/", "http://xn--\u2603/", "gopher://a",
        "http://a/" + "x" * 9000,
    ],
)  # fmt: skip
def test_what_two_programs_could_read_differently_is_refused(text: str) -> None:
    """Other schemes, user names, control characters, broken hosts and ports are no URL of ours."""
    with pytest.raises(AddressRefused):
        parse_url(text)


def test_a_url_in_one_spelling() -> None:
    """Case, default ports, fragments, dots at the end and international names are settled."""
    assert str(parse_url("HTTP://EXAMPLE.org.:80/a?b#c")) == "http://example.org/a?b"
    assert str(parse_url("https://bücher.example:8443?q=ü")) == "https://xn--bcher-kva.example:8443/?q=%C3%BC"
    assert str(parse_url("http://[2606:4700::0:1111]/")) == "http://[2606:4700::1111]/"
    base = parse_url("https://a.example/x/y")
    assert str(parse_url("../z", base)) == "https://a.example/z"
    assert str(parse_url("//b.example/", base)) == "https://b.example/"


def test_what_the_user_allows() -> None:
    """A name, what is below it, an address, a network, with or without a port; metadata only by its very address."""
    private, metadata = ipaddress.ip_address("10.1.2.3"), ipaddress.ip_address("169.254.169.254")
    for entry, host, port, fits in (
        ("app.corp", "app.corp", 80, True),
        ("app.corp", "x.app.corp", 80, False),
        ("app.corp:8080", "app.corp", 80, False),
        ("*.corp", "x.app.corp", 80, True),
        ("*.corp", "corp", 80, False),
        ("*.corp", "evilcorp", 80, False),
        ("10.0.0.0/8", "any.name", 80, True),
        ("10.1.2.3", "any.name", 80, True),
        ("10.1.2.3:81", "any.name", 80, False),
        ("*", "any.name", 80, True),
        ("11.0.0.0/8", "any.name", 80, False),
    ):
        assert AllowedHosts.of([entry]).covers(host, port, private) is fits, entry
    for entry in ("*", "169.254.0.0/16", "metadata.internal"):
        assert not AllowedHosts.of([entry]).covers("metadata.internal", 80, metadata)
    assert AllowedHosts.of(["169.254.169.254"]).covers("metadata.internal", 80, metadata)
    assert AllowedHosts.of(["[::1]:80", "fd00::/8"]).covers("x", 80, ipaddress.ip_address("::1"))
    with pytest.raises(AddressRefused, match=r"allow_hosts can name a\.b:80"):
        check_address("a.b", 80, private, AllowedHosts())
    for wrong in ("http://a/", "a b", "1.2.3.4/99", "a:b:c", ""):
        with pytest.raises(ConfigError, match="allow_hosts"):
            AllowedHosts.of([wrong])


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::ffff:a00:1", "fd00::1", "name.example"])
def test_a_refusal_names_an_entry_that_allows_it(host: str) -> None:
    """What the error tells the user to write is understood, and means this very place and port."""
    address = ipaddress.ip_address("10.0.0.1" if host == "name.example" else host)
    with pytest.raises(AddressRefused) as caught:
        check_address(host, 81, address, AllowedHosts())
    entry = str(caught.value).rsplit(" ", 1)[1].removesuffix(".")
    check_address(host, 81, address, AllowedHosts.of([entry]))
    with pytest.raises(AddressRefused):
        check_address(host, 82, address, AllowedHosts.of([entry]))
