"""Tools for the embedded model to be shown."""

from __future__ import annotations

from jaato.protocol.specs import ToolSpec

READ = ToolSpec(
    "readFile",
    "Read a file.",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["path"],
    },
)
TREE = ToolSpec(
    "grow",
    "Grow a tree.",
    {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/Node"}},
        "required": ["root"],
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                },
                "required": ["name"],
            }
        },
    },
)
