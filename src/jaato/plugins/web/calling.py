"""A request from an operation and its arguments: nothing in an argument reaches beyond its place."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote, unquote, urlencode

from jaato.errors import ToolError
from jaato.plugins.web.client import OURS, TOKEN, VALUE, Ask, headers_of
from jaato.plugins.web.openapi import Operation, Parameter, Service

PLACE = re.compile(r"\{([^{}/]+)\}")
DOTS = frozenset((".", ".."))


def request(service: Service, operation: Operation, parameters: dict[str, Any], body: Any) -> Ask:
    """The request of an operation. Raises `ToolError` for a value that cannot stand where it belongs."""
    known = {(one.place, one.name): one for one in service.parameters(operation)}
    by_place: dict[str, list[tuple[Parameter, Any]]] = {"path": [], "query": [], "header": [], "cookie": []}
    for name, value in parameters.items():
        for (place, own), parameter in known.items():
            if own == name:
                by_place[place].append((parameter, value))
    target = service.base.target + path_of(
        operation.path, {one.name: value for one, value in by_place["path"]}
    )
    query = [pair for parameter, value in by_place["query"] for pair in pairs(parameter, value)]
    if query:
        target += "?" + "&".join(f"{encoded(name, '[]')}={encoded(value)}" for name, value in query)
    headers = {
        parameter.name: simple(value)
        for parameter, value in by_place["header"]
        if header_counts(parameter.name)
    }
    cookies = [pair for parameter, value in by_place["cookie"] for pair in pairs(parameter, value)]
    if cookies:
        headers["Cookie"] = "; ".join(f"{encoded(name)}={encoded(value)}" for name, value in cookies)
    data = None
    wanted = service.body(operation)
    if body is not None:
        if wanted is None:
            raise ToolError(f"{operation.id} takes no body; leave it out.")
        headers["Content-Type"] = wanted[0]
        data = body_of(wanted[0], body)
    return Ask(service.base._replace(target=target), operation.method, headers_of(headers), data)


def header_counts(name: str) -> bool:
    """Whether a document may define this header: those of the connection and of credentials are not its to set."""
    return name.lower() not in (*OURS, "accept", "content-type", "authorization", "cookie")


def path_of(template: str, values: dict[str, Any]) -> str:
    """The path with its parameters, each within its own segment."""

    def put(found: re.Match[str]) -> str:
        name = found[1]
        if name not in values:
            raise ToolError(f"The path {template} needs {name!r}.")
        return segment(name, values[name])

    path = PLACE.sub(put, template)
    for part in path.split("/"):
        if unquote(part) in DOTS:
            raise ToolError(f"The path would become {path[:200]!r}, which leads elsewhere.")
    return encoded(path, "/%:@!$&'()*+,;=~-._")


def segment(name: str, value: Any) -> str:
    """One path parameter, percent-encoded whole."""
    text = simple(value)
    if not text or any(ord(char) < 32 for char in text):
        raise ToolError(f"{name!r} is empty or has control characters, so it cannot stand in a path.")
    plain = text
    for _ in range(3):  # some servers decode more than once
        if any(part.partition(";")[0].strip() in DOTS for part in re.split(r"[/\\]", plain)):
            raise ToolError(f"{name!r} is {text[:100]!r}, which would lead to another endpoint.")
        plain = unquote(plain)
    return encoded(text)


def encoded(text: str, safe: str = "") -> str:
    """Text percent-encoded, but for what is safe; half a character, which a document can hold, as a question mark."""
    return quote(text, safe=safe, errors="replace")


def simple(value: Any) -> str:
    """A value as text: lists with commas, objects as `key,value`."""
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return ""
        case list():
            return ",".join(simple(one) for one in value)
        case dict():
            return ",".join(f"{key},{simple(one)}" for key, one in value.items())
    return str(value)


def pairs(parameter: Parameter, value: Any) -> list[tuple[str, str]]:
    """A query or cookie parameter as the pairs that are sent, by its style."""
    name = parameter.name
    if parameter.style == "json":
        return [(name, json.dumps(value))]
    match value:
        case list() if parameter.explode:
            return [(name, simple(one)) for one in value]
        case list():
            mark = {"spaceDelimited": " ", "pipeDelimited": "|"}.get(parameter.style, ",")
            return [(name, mark.join(simple(one) for one in value))]
        case dict() if parameter.style == "deepObject":
            return [(f"{name}[{key}]", simple(one)) for key, one in value.items()]
        case dict() if parameter.explode:
            return [(str(key), simple(one)) for key, one in value.items()]
    return [(name, simple(value))]


def body_of(kind: str, body: Any) -> bytes:
    """The body in its media type."""
    if "json" in kind:
        return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    if kind == "application/x-www-form-urlencoded" and isinstance(body, dict):
        return urlencode([(key, simple(one)) for key, one in body.items()]).encode()
    if isinstance(body, str):
        return body.encode("utf-8", "replace")
    raise ToolError(f"A body of {kind} is not made from data; give it as text, or use run with curl.")


def with_key(service: Service, operation: Operation, ask: Ask, key: str) -> Ask:
    """The request with a key, where the document says it belongs; as a bearer token where it says nothing."""
    name, place, value = "Authorization", "header", f"Bearer {key}"
    scheme = scheme_of(service, operation)
    match scheme.get("type"):
        case "apiKey" if isinstance(scheme.get("name"), str) and scheme.get("in") in (
            "header",
            "query",
            "cookie",
        ):
            name, place, value = scheme["name"], scheme["in"], key
        case "http" if str(scheme.get("scheme", "")).lower() == "basic":
            from base64 import b64encode

            value = "Basic " + b64encode(key.encode()).decode()
    if place == "header" and not (
        TOKEN.fullmatch(name) and VALUE.fullmatch(value) and name.lower() not in OURS
    ):
        raise ToolError(f"The key cannot be sent as {place} {name[:60]!r}; use http_request.")
    match place:
        case "query":
            mark = "&" if "?" in ask.url.target else "?"
            target = f"{ask.url.target}{mark}{encoded(name)}={encoded(value)}"
            return Ask(ask.url._replace(target=target), ask.method, ask.headers, ask.body)
        case "cookie":
            others = [given for known, given in ask.headers if known == "Cookie"]
            name, value = "Cookie", "; ".join([*others, f"{name}={encoded(value)}"])
    kept = tuple(one for one in ask.headers if one[0].lower() != name.lower())
    return Ask(ask.url, ask.method, (*kept, (name, value)), ask.body)


def scheme_of(service: Service, operation: Operation) -> dict[str, Any]:
    """The first security scheme an operation names."""
    needed = operation.raw.get("security", service.document.get("security"))
    components = service.document.get("components")
    schemes = components.get("securitySchemes") if isinstance(components, dict) else None
    if isinstance(needed, list) and isinstance(schemes, dict):
        for entry in needed:
            for name in entry if isinstance(entry, dict) else ():
                found = service.resolve(schemes.get(name))
                if isinstance(found, dict):
                    return found
    return {}
