"""A service to be discovered: its document, its answers and a plugin that may reach it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.web.server import Answer, Host, Site, ask

from jaato.plugins.web.services import ServicesPlugin

PETS: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Pet Store"},
    "servers": [{"url": "/v1"}],
    "security": [{"key": []}],
    "paths": {
        "/pets": {
            "get": {
                "operationId": "listPets",
                "summary": "List all pets",
                "parameters": [
                    {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}},
                    {"name": "tags", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    {"name": "ids", "in": "query", "explode": False, "schema": {"type": "array", "items": {"type": "integer"}}},
                    {"name": "where", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                    {"name": "session", "in": "cookie", "schema": {"type": "string"}},
                    {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                ],
            },
            "post": {
                "operationId": "addPet",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                },
            },
        },
        "/pets/{id}": {
            "parameters": [{"$ref": "#/components/parameters/id"}],
            "get": {"summary": "One pet"},
            "delete": {"operationId": "removePet"},
        },
        "/odd/{a}.{b}": {
            "get": {
                "operationId": "odd",
                "parameters": [
                    {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in "ab"
                ],
            }
        },
    },
    "components": {
        "parameters": {"id": {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}},
        "schemas": {
            "Pet": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "age": {"type": "integer", "nullable": True},
                    "friends": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}},
                },
            }
        },
        "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
    },
}  # fmt: skip
ECHO = Answer(200, {"Content-Type": "application/json"}, b'{"ok": true}')


def answers(document: Any = PETS) -> dict[str, Answer]:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return {"openapi": Answer(200, {}, body), "v1_pets": ECHO}


def plugin_at(tmp_path: Path, *, environ: dict[str, str] | None = None, **config: Any) -> ServicesPlugin:
    return ServicesPlugin(Host(tmp_path, environ=environ, **({"allow_hosts": ["127.0.0.1"]} | config)))


def discovered(tmp_path: Path, site: Site, **more: Any) -> ServicesPlugin:
    plugin = plugin_at(tmp_path, **more)
    ask(plugin, "discover_service", source=f"{site.url}/openapi", name="pets")
    return plugin
