"""Where spans go, by the settings and by OpenTelemetry's own variables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from msgspec import Struct, field

import jaato
from jaato.errors import ConfigError
from jaato.runtime.tracing import ENDPOINTS
from jaato.runtime.tracing.collector import Endpoint
from jaato.runtime.tracing.spans import Value
from jaato.settings import Settings, home_of
from jaato.tools.route import checked, login_of, split_url

PATH = "/v1/traces"
MAX_MB = 100_000
MAX_TIMEOUT_S = 60.0


class Targets(Struct, frozen=True, kw_only=True):
    """Where spans go. `notes` says what a variable asks for in vain: it may be meant for another program, so it harms
    nobody."""

    file: Path | None = None
    max_bytes: int = 0
    endpoint: Endpoint | None = None
    content: bool = False
    resource: dict[str, Value] = {}
    environ: Mapping[str, str] = {}
    notes: list[str] = field(default_factory=list)


def targets_of(settings: Settings, workspace: Path) -> Targets:
    """Where the spans of a workspace's sessions go. Raises `ConfigError` for a setting that makes no sense."""
    notes: list[str] = []
    megabytes: float = settings["trace_file_mb"]
    if not 0 < megabytes <= MAX_MB:
        where = settings.source("trace_file_mb")
        raise ConfigError(f"trace_file_mb = {megabytes} ({where}): give a number above zero, up to {MAX_MB}.")
    return Targets(
        file=file_of(settings, workspace),
        max_bytes=max(1, int(megabytes * 1_000_000)),
        endpoint=endpoint_of(settings, notes),
        content=settings["trace_content"],
        resource=resource_of(settings.environ, notes),
        environ=settings.environ,
        notes=notes,
    )


def file_of(settings: Settings, workspace: Path) -> Path | None:
    """The file that is named; one without a place of its own is in the workspace."""
    text: str | None = settings["trace_file"]
    if not text:
        return None
    if "\0" in text or text.endswith("/"):
        raise ConfigError(f"trace_file = {text!r:.200} ({settings.source('trace_file')}) names no file.")
    if text.startswith("~/"):
        return home_of(settings.environ) / text[2:]
    return workspace / text


def endpoint_of(settings: Settings, notes: list[str]) -> Endpoint | None:
    """The collector that is named by the setting, else by the variables; None without one."""
    environ = settings.environ
    text: str | None = settings["trace_endpoint"]
    if text:
        if text.lower() == "off":
            return None
        return endpoint_at(
            traces_at(text, f"trace_endpoint ({settings.source('trace_endpoint')})"), environ, notes
        )
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if "otlp" not in (environ.get("OTEL_TRACES_EXPORTER") or "otlp").replace(" ", "").split(","):
        return None
    name = next((name for name in ENDPOINTS if environ.get(name)), None)
    if name is None:
        return None
    protocol = either(environ, "PROTOCOL")
    if protocol == "grpc":
        notes.append(
            "Spans are sent over HTTP, not gRPC: OTEL_EXPORTER_OTLP_PROTOCOL=http/json, and its port."
        )
        return None
    try:
        return endpoint_at(traces_at(environ[name], name, whole=name == ENDPOINTS[0]), environ, notes)
    except ConfigError as error:
        notes.append(f"No spans are sent: {error}")
        return None


class Address(Struct, frozen=True):
    """A URL without the login in it, and that login as headers."""

    url: str
    headers: dict[str, str]


def traces_at(text: str, what: str, *, whole: bool = False) -> Address:
    """Where a collector takes traces: below the URL, or at it where it is the `whole` one. Raises `ConfigError`."""
    parts = split_url(text.strip(), what)
    checked(text, what)
    path = parts.path
    if not whole and not path.rstrip("/").endswith(PATH):
        path = path.rstrip("/") + PATH
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2], path=path, fragment="")
    return Address(bare.geturl(), login_of(parts))


def endpoint_at(address: Address, environ: Mapping[str, str], notes: list[str]) -> Endpoint:
    """The collector there, with what the variables say beside the address; what makes no sense is noted and left out."""
    headers = dict(address.headers)
    for name, value in pairs(either(environ, "HEADERS"), "OTEL_EXPORTER_OTLP_HEADERS", notes).items():
        if name.replace("-", "").replace("_", "").isalnum() and name.isascii():
            try:
                headers[name] = checked(value, "A header of OTEL_EXPORTER_OTLP_HEADERS")
            except ConfigError as error:
                notes.append(str(error))
        else:
            notes.append(f"OTEL_EXPORTER_OTLP_HEADERS: {name!r:.60} is no header's name.")
    timeout = either(environ, "TIMEOUT")
    timeout_s = 10.0
    if timeout:
        if timeout.isascii() and timeout.isdigit() and 0 < int(timeout) <= MAX_TIMEOUT_S * 1000:
            timeout_s = int(timeout) / 1000
        else:
            notes.append(
                f"OTEL_EXPORTER_OTLP_TIMEOUT={timeout!r:.60} is no number of milliseconds up to 60000."
            )
    compression = either(environ, "COMPRESSION")
    if compression not in ("", "none", "gzip"):
        notes.append(f"OTEL_EXPORTER_OTLP_COMPRESSION={compression!r:.60} is neither gzip nor none.")
    return Endpoint(
        url=address.url,
        headers=headers,
        timeout_s=timeout_s,
        gzip=compression == "gzip",
        certificate=either(environ, "CERTIFICATE"),
    )


def either(environ: Mapping[str, str], name: str) -> str:
    """A variable of the exporter: the one for traces, else the one for everything."""
    return environ.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or environ.get(f"OTEL_EXPORTER_OTLP_{name}") or ""


def pairs(text: str, what: str, notes: list[str]) -> dict[str, str]:
    """`name=value,name=value`, as in the variables; the values percent-encoded."""
    found: dict[str, str] = {}
    for entry in filter(None, (one.strip() for one in text.split(","))):
        name, equals, value = entry.partition("=")
        if not equals or not name.strip():
            notes.append(f"{what}: an entry is not name=value.")
            continue
        found[name.strip()] = unquote(value.strip())
    return found


def resource_of(environ: Mapping[str, str], notes: list[str]) -> dict[str, Value]:
    """What made the spans."""
    given = pairs(environ.get("OTEL_RESOURCE_ATTRIBUTES", ""), "OTEL_RESOURCE_ATTRIBUTES", notes)
    return {
        "service.name": environ.get("OTEL_SERVICE_NAME") or given.pop("service.name", "") or "jaato",
        "service.version": jaato.__version__,
        **given,
    }
