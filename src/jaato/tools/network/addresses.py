"""Parse URLs to one canonical host, and decide whether an address may be reached (private ones are refused)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from jaato.errors import ConfigError, ToolError
from jaato.lazy_pattern import lazy_pattern

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_URL_CHARS = 8_192
LABEL = lazy_pattern(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
NUMBER = lazy_pattern(r"(?:0x[0-9a-f]*|[0-9]+)")
UNSAFE = lazy_pattern(r"[\x00-\x20\x7f\\]")
PORTS = {"http": 80, "https": 443}
REFUSED: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "an address of this machine"),
    ("127.0.0.0/8", "a loopback address"),
    ("10.0.0.0/8", "a private address"),
    ("172.16.0.0/12", "a private address"),
    ("192.168.0.0/16", "a private address"),
    ("100.64.0.0/10", "a private address of a provider"),
    ("169.254.0.0/16", "a link-local address"),
    ("192.0.0.0/24", "a reserved address"),
    ("192.0.2.0/24", "an address for documentation"),
    ("192.88.99.0/24", "a reserved address"),
    ("198.18.0.0/15", "an address for measurements"),
    ("198.51.100.0/24", "an address for documentation"),
    ("203.0.113.0/24", "an address for documentation"),
    ("224.0.0.0/4", "a multicast address"),
    ("240.0.0.0/4", "a reserved address"),
    ("::/128", "an address of this machine"),
    ("::1/128", "a loopback address"),
    ("64:ff9b:1::/48", "a private address behind a translator"),
    ("100::/64", "a reserved address"),
    ("2001:db8::/32", "an address for documentation"),
    ("3fff::/20", "an address for documentation"),
    ("5f00::/16", "a reserved address"),
    ("fc00::/7", "a private address"),
    ("fe80::/10", "a link-local address"),
    ("fec0::/10", "a private address"),
    ("ff00::/8", "a multicast address"),
)
RANGES: tuple[tuple[Network, str], ...] = tuple((ipaddress.ip_network(text), why) for text, why in REFUSED)
METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254", "169.254.169.253", "169.254.169.123", "169.254.170.2", "169.254.170.23", "100.100.100.200",
        "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254",
    )
)  # fmt: skip
"""Metadata services of clouds, which return secrets: allowed only by the exact address in the settings."""
EMBEDDING = (
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),
    (ipaddress.IPv6Network("::ffff:0:0:0/96"), 0),
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),
    (ipaddress.IPv6Network("::/96"), 0),
    (ipaddress.IPv6Network("2002::/16"), 80),
)
"""IPv6 networks whose addresses mean an IPv4 one, and how far it stands from the right, in bits."""


class AddressRefused(ToolError):
    """The place may not be reached, or the text names no place."""

    code = "address_refused"


class Url(NamedTuple):
    """A URL as it is dialed: `host` is canonical, `target` path and query in ASCII."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def origin(self) -> tuple[str, str, int]:
        """The origin, which credentials are bound to."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """Host and, where it is not the usual one, port; as the Host header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def parse_url(text: str, base: Url | None = None) -> Url:
    """The URL a text means, from `base` where it is relative. Raises `AddressRefused` for any other than http and
    https, for user names in it, and for whatever two programs might read differently."""
    text = text.strip(" ")
    if len(text) > MAX_URL_CHARS:
        raise AddressRefused(f"The URL is {len(text)} characters long; at most {MAX_URL_CHARS} are possible.")
    if UNSAFE.search(text):
        raise AddressRefused(
            f"{text[:100]!r} has spaces, control characters or backslashes; percent-encode them."
        )
    if base is not None:
        from urllib.parse import urljoin

        try:
            text = urljoin(str(base), text)
        except ValueError as error:
            raise AddressRefused(f"{text[:100]!r} is no URL: {error}.") from None
    scheme, mark, rest = text.partition("://")
    scheme = scheme.lower()
    if not mark or scheme not in PORTS:
        raise AddressRefused(f"{text[:100]!r} is no http or https URL; write it like https://host/path.")
    rest = rest.partition("#")[0]
    end = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
    authority, target = rest[:end], rest[end:]
    if "@" in authority:
        raise AddressRefused(
            "A URL with user or password in it is not used; pass an Authorization header instead."
        )
    host, port = split_authority(authority, text)
    if not target.startswith("/"):
        target = "/" + target
    return Url(
        scheme,
        canonical_host(host),
        port or PORTS[scheme],
        quote(target, safe="/?%:@!$&'()*+,;=~-._[]|^{}\"<>`"),
    )


def split_authority(authority: str, text: str) -> tuple[str, int | None]:
    """Host and port as written."""
    found = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?", authority)
    if found is None or not found[1]:
        raise AddressRefused(f"{text[:100]!r} names no host; write it like https://host/path.")
    port = int(found[2]) if found[2] else None
    if port is not None and not 0 < port < 65_536:
        raise AddressRefused(f"{port} is no port; it is from 1 to 65535.")
    return found[1], port


def parse_authority(text: str) -> tuple[str, int]:
    """The canonical host and the port of `host:port`, as a CONNECT names its target. Raises `AddressRefused`."""
    if len(text) > MAX_URL_CHARS or UNSAFE.search(text):
        raise AddressRefused(f"{text[:100]!r} is no host and port.")
    host, port = split_authority(text, text)
    if port is None:
        raise AddressRefused(f"{text[:100]!r} names no port; write it like host:443.")
    return canonical_host(host), port


def canonical_host(text: str) -> str:
    """A host name in lower-case ASCII without a dot at its end, or an address in its one spelling.

    Numbers in any form that some resolver reads as an address are read as one. Raises `AddressRefused`.
    """
    if text.startswith("["):
        try:
            return str(ipaddress.IPv6Address(text[1:-1] if "%" not in text else ""))
        except ValueError:
            raise AddressRefused(f"{text[:100]!r} is no IPv6 address.") from None
    name = text
    if not name.isascii():
        import idna

        try:
            name = idna.encode(name, uts46=True).decode()
        except (idna.IDNAError, UnicodeError):
            raise AddressRefused(f"{text[:100]!r} is no host name.") from None
    name = name.lower().removesuffix(".")
    labels = name.split(".")
    if NUMBER.fullmatch(labels[-1]):
        return str(ipaddress.IPv4Address(number_host(labels, text)))
    if len(name) > 253 or not all(LABEL.fullmatch(label) for label in labels):
        raise AddressRefused(f"{text[:100]!r} is no host name.")
    return name


def number_host(labels: list[str], text: str) -> int:
    """An IPv4 address of one to four decimal, octal or hexadecimal numbers, the last of which fills the rest."""
    wrong = AddressRefused(f"{text[:100]!r} is no IPv4 address; write it as four numbers.")
    if len(labels) > 4 or not all(NUMBER.fullmatch(label) for label in labels):
        raise wrong
    try:
        values = [value_of(label) for label in labels]
    except ValueError:
        raise wrong from None
    *high, last = values
    if any(value > 255 for value in high) or last >= 256 ** (5 - len(values)):
        raise wrong
    return sum(value << (24 - 8 * at) for at, value in enumerate(high)) + last


def value_of(label: str) -> int:
    """A number as resolvers read it: `0x` begins a hexadecimal, `0` an octal one."""
    if label.startswith("0x"):
        return int(label[2:] or "0", 16)
    return int(label, 8) if label.startswith("0") and len(label) > 1 else int(label)


def effective_address(address: Address) -> Address:
    """The address that is reached in the end: of an IPv6 one that stands for an IPv4 one, that."""
    if isinstance(address, ipaddress.IPv6Address):
        for network, shift in EMBEDDING:
            if address in network and int(address) > 1:
                return ipaddress.IPv4Address((int(address) >> shift) & 0xFFFF_FFFF)
        if address.teredo is not None:
            return address.teredo[1]
    return address


def refusal_reason(address: Address) -> str | None:
    """Why an address is refused (private, loopback, reserved); None for a public one."""
    real = effective_address(address)
    if real in METADATA:
        return "an address where a cloud keeps its secrets"
    for one in (address, real):
        for network, why in RANGES:
            if one in network:
                return why
    return None if real.is_global else "an address that is not of the open internet"


class AllowedHosts(msgspec.Struct, frozen=True):
    """The hosts at refused addresses that the user allows: names (`*.name` for those below), addresses, networks,
    each with `:port` where only that is meant; `*` for all but metadata addresses."""

    names: frozenset[tuple[str, int | None]] = frozenset()
    networks: tuple[tuple[Network, int | None], ...] = ()
    everything: bool = False

    @classmethod
    def of(cls, entries: Iterable[str]) -> AllowedHosts:
        """From the lines of a setting. Raises `ConfigError` naming the one that is wrong."""
        names: set[tuple[str, int | None]] = set()
        networks: list[tuple[Network, int | None]] = []
        everything = False
        for entry in entries:
            if entry.strip() == "*":
                everything = True
                continue
            try:
                kind, port = entry_of(entry.strip())
            except (ValueError, ToolError):
                raise ConfigError(
                    f"allow_hosts: {entry!r} is no host; write localhost:8080, *.corp.example, 10.0.0.0/8 or *."
                ) from None
            if isinstance(kind, str):
                names.add((kind, port))
            else:
                networks.append((kind, port))
        return cls(frozenset(names), tuple(networks), everything)

    def covers(self, host: str, port: int, address: Address) -> bool:
        """Whether a refused address may be reached all the same, under this name."""
        real = effective_address(address)
        for network, only in self.networks:
            whole = network.prefixlen == network.max_prefixlen
            if (
                only in (None, port)
                and (real in network or address in network)
                and (whole or real not in METADATA)
            ):
                return True
        if real in METADATA:
            return False
        return self.everything or self.names_host(host, port)

    def names_host(self, host: str, port: int) -> bool:
        """Whether the user wrote down this very name, or one it is below."""
        parents = [host, *(f"*.{host.split('.', at)[at]}" for at in range(1, host.count(".") + 1))]
        return any((name, only) in self.names for name in parents for only in (None, port))


def entry_of(entry: str) -> tuple[str | Network, int | None]:
    """One line of the setting: a name or a network, and a port."""
    if entry.count(":") > 1 and not entry.startswith("["):
        return ipaddress.ip_network(entry, strict=False), None
    found = re.fullmatch(r"(\[[^\]]+\]|[^:]+)(?::([0-9]{1,5}))?", entry)
    if found is None:
        raise ValueError(entry)
    port = int(found[2]) if found[2] else None
    text = found[1].strip("[]")
    if text.startswith("*."):
        return "*." + canonical_host(text[2:]), port
    if "/" in text or ":" in text:
        return ipaddress.ip_network(text, strict=False), port
    host = canonical_host(text)
    try:
        return ipaddress.ip_network(host), port
    except ValueError:
        return host, port


def check_address(host: str, port: int, address: Address, allowed: AllowedHosts) -> None:
    """Raise `AddressRefused` for an address that may not be reached under this name."""
    why = refusal_reason(address)
    if why is not None and not allowed.covers(host, port, address):
        entry = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        raise AddressRefused(
            f"{host} is at {address}, {why}, which is reached only when the user allows it: "
            f"the setting allow_hosts can name {entry}."
        )
