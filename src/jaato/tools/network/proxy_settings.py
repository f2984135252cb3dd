"""Proxy settings and certificates of the environment: how a host is reached, and `NO_PROXY`."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from jaato.errors import ConfigError
from jaato.tools.network.addresses import AddressRefused, parse_url

if TYPE_CHECKING:
    import ssl

    import httpcore2


KEPT: Mapping[str, float | None] = {
    "max_connections": None,
    "max_keepalive_connections": 20,
    "keepalive_expiry": 30.0,
}
"""The bounds of a pool that is kept for one server: unused connections are closed, and no request waits for another."""


def split_url(text: str, setting: str) -> SplitResult:
    """A base URL in its pieces; raises `ConfigError` naming the setting when it is no http or https URL."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise ConfigError(f"{setting} is no URL ({error}); write it like https://host/v1.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{setting} is {redact_url(text)!r}; write it like https://host/v1.")
    return parts


def login_of(parts: SplitResult) -> dict[str, str]:
    """The header of the user and password in a URL; a key, where there is one, takes its place."""
    if parts.username is None:
        return {}
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {b64encode(login.encode()).decode('ascii')}"}


def validate_header_value(value: str, what: str) -> str:
    """A value without surrounding space; raises `ConfigError`, unshown, when no header can carry it."""
    value = value.strip()
    if not (value.isascii() and value.isprintable()):
        raise ConfigError(
            f"{what} holds characters no header can carry (a line break, a quote?); set it anew."
        )
    return value


def redact_url(url: str) -> str:
    """A URL as it may be shown: without user, password, query and fragment, which may be secrets."""
    scheme, mark, rest = url.partition("://")
    rest = rest.partition("?")[0].partition("#")[0]
    host, slash, path = rest.partition("/")
    return scheme + mark + host.rpartition("@")[2] + slash + path


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """The proxy for a URL by `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, in either case.

    None without one; this machine itself is never reached through a proxy. Raises `ConfigError` for a proxy
    that is no HTTP proxy.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").lower().rstrip(".")
    variable = f"{parts.scheme.upper()}_PROXY"
    name, proxy = next(
        ((name, environ[name]) for name in spellings(variable, "ALL_PROXY") if environ.get(name)), ("", "")
    )
    if not proxy or is_loopback(host) or is_exempt(host, parts.port, environ):
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise ConfigError(
            f"{name} is {redact_url(proxy)!r}; only http:// and https:// proxies are spoken to."
        )
    split_url(proxy, name)
    return proxy


def spellings(*names: str) -> list[str]:
    """Each variable in lower and upper case, lower first, as other programs read them."""
    return [spelt for name in names for spelt in (name.lower(), name)]


def is_loopback(host: str, *, strict: bool = False) -> bool:
    """Whether a host is this machine; strictly, names below `localhost` are not, since a resolver may look them up."""
    import ipaddress

    try:
        local = host == "localhost" or (host.endswith(".localhost") and not strict)
        return local or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_exempt(host: str, port: int | None, environ: Mapping[str, str]) -> bool:
    """Whether `NO_PROXY` names this host: `*`, a name and what is under it, an address, a network."""
    entries = next((environ[name] for name in spellings("NO_PROXY") if environ.get(name)), "")
    for entry in entries.lower().replace(",", " ").split():
        if entry == "*":
            return True
        name, colon, number = entry.rpartition(":")
        if colon and number.isdigit() and ":" not in name.strip("[]"):
            if port != int(number):
                continue
            entry = name  # noqa: PLW2901 - the entry without its port
        if matches_no_proxy(entry.strip("[]"), host):
            return True
    return False


def matches_no_proxy(entry: str, host: str) -> bool:
    """Whether one entry of `NO_PROXY`, without port, covers a host."""
    import ipaddress

    name = entry.removeprefix("*").removeprefix(".")
    if name and (host == name or host.endswith(f".{name}")):
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False


def certificates(environ: Mapping[str, str]) -> ssl.SSLContext:
    """A TLS context that believes `SSL_CERT_FILE` or `SSL_CERT_DIR`, or else what this machine believes.

    Raises `ConfigError` when the variable names something that holds no certificates.
    """
    import ssl

    for variable, argument in (("SSL_CERT_FILE", "cafile"), ("SSL_CERT_DIR", "capath")):
        place = environ.get(variable)
        if not place:
            continue
        if not Path(place).exists():
            raise ConfigError(f"{variable} is {place!r}, which does not exist; name a PEM file or directory.")
        try:
            return ssl.create_default_context(**{argument: place})  # type: ignore[arg-type]
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(f"{variable} is {place!r}, which holds no certificates: {error}.") from None
    import httpx2  # only for TLS: its import costs as much as all the rest of a connection

    return httpx2.create_ssl_context(trust_env=False)


def open_pool(
    url: str,
    proxy: str | None,
    environ: Mapping[str, str],
    bounds: Mapping[str, float | None],
    backend: httpcore2.AsyncNetworkBackend | None = None,
) -> httpcore2.AsyncConnectionPool:
    """A pool of connections for one base URL, through the proxy if there is one; `bounds` are the pool's own.

    Certificates are read only where TLS is spoken. Without a proxy `backend` makes the connections. Raises `ConfigError`.
    """
    import httpcore2

    if proxy is None:
        context = certificates(environ) if url.startswith("https:") else None
        return httpcore2.AsyncConnectionPool(ssl_context=context, network_backend=backend, **bounds)  # type: ignore[arg-type]
    parts = urlsplit(proxy)
    try:
        place = parse_url(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}")
    except AddressRefused as error:
        raise ConfigError(f"The proxy {redact_url(proxy)} cannot be used: {error}") from None
    login = unquote(parts.username or "").encode(), unquote(parts.password or "").encode()
    context = certificates(environ) if place.scheme == "https" or url.startswith("https:") else None
    return httpcore2.AsyncHTTPProxy(
        proxy_url=str(place),
        proxy_auth=login if any(login) else None,
        ssl_context=context,
        proxy_ssl_context=context if place.scheme == "https" else None,
        **bounds,  # type: ignore[arg-type]
    )
