"""Where spans are exported to, by the settings and by OpenTelemetry's own variables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from jaato.errors import ConfigError
from jaato.settings import Settings, home_of
from jaato.tools.network.proxy_settings import login_of, proxy_for, split_url, validate_header_value
from jaato.version import __version__

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PATH = "/v1/traces"
MAX_MB = 100_000
MAX_TIMEOUT_MS = 60_000


class SpanCounters(msgspec.Struct):
    """How many spans were exported and how many were lost, over all exporters that share it."""

    exported: int = 0
    dropped: int = 0


class Endpoint(Struct, frozen=True, kw_only=True):
    """A collector: its URL, headers, seconds for one export with its retries, proxy, and a file of certificates."""

    url: str
    headers: dict[str, str] = {}
    timeout_s: float = 10.0
    gzip: bool = False
    proxy: str | None = None
    certificates: str = ""


class TracingConfig(Struct, frozen=True, kw_only=True):
    """Where spans are exported to. `notes` are mistakes in variables that may be meant for another program: they are
    reported, never raised."""

    file: Path | None = None
    max_bytes: int = 0
    endpoint: Endpoint | None = None
    content: bool = False
    resource: dict[str, str] = {}
    notes: list[str] = msgspec.field(default_factory=list)


def is_configured(settings: Settings) -> bool:
    """Whether a setting or a variable names an exporter."""
    named = settings["trace_file"] or settings["trace_endpoint"]
    return bool(named) or any(settings.environ.get(name) for name in ENDPOINTS)


def read_config(settings: Settings, workspace: Path) -> TracingConfig:
    """Where the spans of a workspace's sessions are exported to. Raises `ConfigError` for a malformed setting."""
    notes: list[str] = []
    megabytes: float = settings["trace_file_mb"]
    if not 0 < megabytes <= MAX_MB:
        where = settings.source("trace_file_mb")
        raise ConfigError(f"trace_file_mb = {megabytes} ({where}): give a number above zero, up to {MAX_MB}.")
    attributes = pairs(
        settings.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""), "OTEL_RESOURCE_ATTRIBUTES", notes
    )
    name = settings.environ.get("OTEL_SERVICE_NAME") or attributes.pop("service.name", "") or "jaato"
    return TracingConfig(
        file=trace_file(settings, workspace),
        max_bytes=max(1, int(megabytes * 1_000_000)),
        endpoint=collector(settings, notes),
        content=settings["trace_content"],
        resource={"service.name": name, "service.version": __version__, **attributes},
        notes=notes,
    )


def trace_file(settings: Settings, workspace: Path) -> Path | None:
    """The file that `trace_file` names; a relative path is one in the workspace."""
    text: str | None = settings["trace_file"]
    if not text:
        return None
    if "\0" in text or text.endswith("/"):
        raise ConfigError(f"trace_file = {text!r:.200} ({settings.source('trace_file')}) names no file.")
    return home_of(settings.environ) / text[2:] if text.startswith("~/") else workspace / text


def collector(settings: Settings, notes: list[str]) -> Endpoint | None:
    """The collector that the setting names, else the variables; None without one."""
    environ = settings.environ
    text: str | None = settings["trace_endpoint"]
    if text:
        if text.lower() == "off":
            return None
        return endpoint_at(text, f"trace_endpoint ({settings.source('trace_endpoint')})", environ, notes)
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if "otlp" not in (environ.get("OTEL_TRACES_EXPORTER") or "otlp").replace(" ", "").split(","):
        return None
    name = next((name for name in ENDPOINTS if environ.get(name)), None)
    if name is None:
        return None
    if variable(environ, "PROTOCOL") == "grpc":
        notes.append(
            "Spans are sent over HTTP, not gRPC: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, and its port."
        )
        return None
    try:
        return endpoint_at(environ[name], name, environ, notes)
    except ConfigError as error:
        notes.append(f"No spans are sent: {error}")
        return None


def endpoint_at(text: str, what: str, environ: Mapping[str, str], notes: list[str]) -> Endpoint:
    """The collector at a URL, with what the variables say beside it. Raises `ConfigError` for what is no URL, or a
    proxy that is none."""
    parts = split_url(text.strip(), what)
    validate_header_value(text, what)
    path = parts.path
    if what != ENDPOINTS[0] and not path.rstrip("/").endswith(PATH):
        path = path.rstrip("/") + PATH
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2], path=path, fragment="")
    headers = login_of(parts)
    for name, value in pairs(variable(environ, "HEADERS"), "OTEL_EXPORTER_OTLP_HEADERS", notes).items():
        if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
            notes.append(f"OTEL_EXPORTER_OTLP_HEADERS: {name!r:.60} is no header's name.")
            continue
        try:
            headers[name] = validate_header_value(value, "A header of OTEL_EXPORTER_OTLP_HEADERS")
        except ConfigError as error:
            notes.append(str(error))
    timeout = variable(environ, "TIMEOUT") or "10000"
    if not (timeout.isascii() and timeout.isdigit() and 0 < int(timeout) <= MAX_TIMEOUT_MS):
        notes.append(f"OTEL_EXPORTER_OTLP_TIMEOUT={timeout!r:.60} is no number of milliseconds up to 60000.")
        timeout = "10000"
    compression = variable(environ, "COMPRESSION")
    if compression not in ("", "none", "gzip"):
        notes.append(f"OTEL_EXPORTER_OTLP_COMPRESSION={compression!r:.60} is neither gzip nor none.")
    return Endpoint(
        url=bare.geturl(),
        headers=headers,
        timeout_s=int(timeout) / 1000,
        gzip=compression == "gzip",
        proxy=proxy_for(bare.geturl(), environ),
        certificates=variable(environ, "CERTIFICATE")
        or environ.get("SSL_CERT_FILE")
        or environ.get("SSL_CERT_DIR", ""),
    )


def variable(environ: Mapping[str, str], name: str) -> str:
    """A variable of the exporter: the one for traces, else the one for all signals."""
    return environ.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or environ.get(f"OTEL_EXPORTER_OTLP_{name}") or ""


def pairs(text: str, what: str, notes: list[str]) -> dict[str, str]:
    """`name=value,name=value` as in OpenTelemetry's variables, the values percent-encoded."""
    found: dict[str, str] = {}
    for entry in filter(None, (one.strip() for one in text.split(","))):
        name, equals, value = entry.partition("=")
        if not equals or not name.strip():
            notes.append(f"{what}: an entry is not name=value.")
            continue
        found[name.strip()] = unquote(value.strip())
    return found
