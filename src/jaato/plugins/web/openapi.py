"""An OpenAPI 3 document: its operations, what they take, and where they are."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import anyio.to_thread

from jaato.errors import PluginError, ToolError
from jaato.plugins.web.reading import read_apart
from jaato.plugins.web.schemas import DocumentInvalid, alone
from jaato.tools.address import MAX_URL_CHARS, Url, parse_url
from jaato.tools.schema import Validator

METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
LOCATIONS = ("path", "query", "header", "cookie")
MAX_OPERATIONS = 5_000
MAX_REFERENCES = 20
MAX_CHECKS = 50
PLACEHOLDER = re.compile(r"\{([^{}]{1,200})\}")
JSON_FIRST = ("application/json", "application/x-www-form-urlencoded", "text/plain")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter as it is sent."""

    name: str
    place: str
    required: bool
    schema: dict[str, Any]
    style: str
    explode: bool
    description: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation; `id` is its own or made of method and path."""

    id: str
    method: str
    path: str
    summary: str
    raw: dict[str, Any]
    shared: dict[str, Any]


@dataclass(slots=True)
class Service:
    """A document in use: `source` is the URL it came from (None: a file), `base` where its operations are."""

    name: str
    document: dict[str, Any]
    source: Url | None
    base: Url
    operations: dict[str, Operation] = field(default_factory=dict)
    checks: dict[str, Validator] = field(default_factory=dict)

    def find(self, text: str) -> Operation:
        """An operation by its id, or by `METHOD /path`. Raises `ToolError`."""
        found = self.operations.get(text)
        if found is None:
            method, _, path = text.strip().partition(" ")
            found = next(
                (
                    one
                    for one in self.operations.values()
                    if (one.method, one.path) == (method.upper(), path.strip())
                ),
                None,
            )
        if found is None:
            raise ToolError(f"{self.name} has no operation {text[:100]!r}; list_endpoints shows them.")
        return found

    def resolve(self, value: Any) -> Any:
        """A value, or what it refers to within the document. Raises `DocumentInvalid`."""
        for _ in range(MAX_REFERENCES):
            if not isinstance(value, dict) or not isinstance(value.get("$ref"), str):
                return value
            value = self._at(value["$ref"])
        raise DocumentInvalid(f"{self.name}: a reference leads in a circle.")

    def _at(self, reference: str) -> Any:
        if not reference.startswith("#/"):
            raise DocumentInvalid(
                f"{self.name} refers to {reference[:100]!r}, outside the document; that is not fetched."
            )
        found: Any = self.document
        for step in reference[2:].split("/"):
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and key.isdigit() and int(key) < len(found):
                found = found[int(key)]
            elif isinstance(found, dict) and key in found:
                found = found[key]
            else:
                raise DocumentInvalid(f"{self.name} refers to {reference[:100]!r}, which is not there.")
        return found

    def parameters(self, operation: Operation) -> list[Parameter]:
        """The parameters of an operation, its own before those of its path."""
        found: dict[tuple[str, str], Parameter] = {}
        for entry in [*listed(operation.raw.get("parameters")), *listed(operation.shared.get("parameters"))]:
            raw = self.resolve(entry)
            if (
                not isinstance(raw, dict)
                or raw.get("in") not in LOCATIONS
                or not isinstance(raw.get("name"), str)
            ):
                continue
            place, name = raw["in"], raw["name"]
            style = str(raw.get("style") or ("form" if place in ("query", "cookie") else "simple"))
            schema = raw.get("schema")
            if not isinstance(schema, dict):
                content = raw.get("content")
                first: Any = next(iter(content.values()), None) if isinstance(content, dict) else None
                schema = first.get("schema", {}) if isinstance(first, dict) else {}
                style = "json" if isinstance(content, dict) else style
            found.setdefault(
                (place, name),
                Parameter(name, place, place == "path" or raw.get("required") is True, schema, style,
                          bool(raw.get("explode", style == "form")), str(raw.get("description") or "")),
            )  # fmt: skip
        return list(found.values())

    def body(self, operation: Operation) -> tuple[str, dict[str, Any], bool] | None:
        """The media type, schema and need of an operation's body."""
        raw = self.resolve(operation.raw.get("requestBody"))
        if not isinstance(raw, dict) or not isinstance(raw.get("content"), dict) or not raw["content"]:
            return None
        content = raw["content"]
        kind = next((one for one in JSON_FIRST if one in content), None)
        kind = kind or next((one for one in content if "json" in one), next(iter(content)))
        entry = content[kind] if isinstance(content[kind], dict) else {}
        schema = entry.get("schema")
        return str(kind), schema if isinstance(schema, dict) else {}, raw.get("required") is True

    def schema(self, operation: Operation) -> dict[str, Any]:
        """The JSON Schema of what `call_service` takes for an operation: `parameters` and `body`."""
        known = self.parameters(operation)
        parameters: dict[str, Any] = {
            "type": "object",
            "properties": {one.name: one.schema for one in known},
            "required": [one.name for one in known if one.required],
            "additionalProperties": False,
        }
        whole: dict[str, Any] = {"type": "object", "properties": {"parameters": parameters}}
        required = ["parameters"] if parameters["required"] else []
        body = self.body(operation)
        if body is not None:
            whole["properties"]["body"] = body[1]
            required += ["body"] if body[2] else []
        if required:
            whole["required"] = required
        return whole

    def problems(self, operation: Operation, given: dict[str, Any]) -> list[tuple[str, str]]:
        """What is wrong with arguments, as (JSON Pointer, message). Raises `DocumentInvalid` when it cannot be told."""
        check = self.checks.get(operation.id)
        try:
            if check is None:
                old = str(self.document.get("openapi", "")).startswith("3.0")
                check = Validator(alone(self.schema(operation), self._at, old=old))
            self.checks = {**dict(list(self.checks.items())[-MAX_CHECKS:]), operation.id: check}
            return check.issues(given)
        except PluginError as error:
            raise DocumentInvalid(
                f"The schema of {operation.id} is broken: {error}. Use http_request instead."
            ) from None


def listed(value: object) -> list[Any]:
    """A list, or none."""
    return value if isinstance(value, list) else []


async def parsed(data: bytes) -> dict[str, Any]:
    """The document in bytes, JSON or YAML. Raises `DocumentInvalid`."""
    start = data.lstrip()[:1]
    if start == b"<":
        raise DocumentInvalid(
            "This is HTML or XML, no OpenAPI document. Give the URL of the document itself, often /openapi.json, "
            "/openapi.yaml or /v3/api-docs."
        )
    if start == b"{":
        try:
            found: Any = await anyio.to_thread.run_sync(json.loads, data)
        except (ValueError, RecursionError) as error:
            raise DocumentInvalid(f"The document is no JSON: {str(error)[:200]}") from None
    else:
        found = (await read_apart("yaml", data))["value"]
    if not isinstance(found, dict) or not isinstance(found.get("paths", {}), dict):
        raise DocumentInvalid(
            "The document is no OpenAPI document; give the URL or file of its openapi.json or .yaml."
        )
    version = str(found.get("openapi", ""))
    if not version.startswith("3."):
        raise DocumentInvalid(
            f"The document is OpenAPI {found.get('swagger') or version or 'of no version'}; 3.x is read."
        )
    return found


def service(name: str, document: dict[str, Any], source: Url | None, base_url: str | None) -> Service:
    """A document as a service. Raises `DocumentInvalid`, `AddressRefused`."""
    made = Service(name, document, source, base_of(document, source, base_url))
    paths = document.get("paths") or {}
    for path, entry in paths.items():
        shared = made.resolve(entry)
        if not isinstance(shared, dict) or not str(path).startswith("/"):
            continue
        for method in METHODS:
            raw = shared.get(method)
            if not isinstance(raw, dict):
                continue
            own = raw.get("operationId")
            key = (
                own
                if isinstance(own, str) and own and own not in made.operations
                else f"{method.upper()} {path}"
            )
            text = str(raw.get("summary") or raw.get("description") or "")
            made.operations[key] = Operation(
                key, method.upper(), str(path), " ".join(text.split())[:200], raw, shared
            )
            if len(made.operations) > MAX_OPERATIONS:
                raise DocumentInvalid(f"The document has more than {MAX_OPERATIONS} operations.")
    if not made.operations:
        raise DocumentInvalid("The document has no operations.")
    return made


def base_of(document: dict[str, Any], source: Url | None, base_url: str | None) -> Url:
    """Where the operations are: as given, else the document's first server, from where the document is."""
    servers = listed(document.get("servers"))
    entry = servers[0] if servers and isinstance(servers[0], dict) else {}
    text = base_url or str(entry.get("url") or "/")
    variables = entry.get("variables")
    if base_url is None and isinstance(variables, dict):
        values = {
            key: str(about.get("default", "")) for key, about in variables.items() if isinstance(about, dict)
        }
        # once over the text: a value that names further variables could grow without end
        text = PLACEHOLDER.sub(
            lambda found: values.get(found[1], found[0])[:MAX_URL_CHARS], text[:MAX_URL_CHARS]
        )
    if source is None and "://" not in text:
        raise DocumentInvalid("The document does not say where its service is; give base_url.")
    found = parse_url(text, source)
    return found._replace(target=found.target.partition("?")[0].rstrip("/"))
