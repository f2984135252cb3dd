"""The references of events, settings and errors, from the structs, the table and the tree that define them."""

from __future__ import annotations

import inspect
import re
import types
from typing import Any, get_args, get_type_hints

import msgspec

from jaato.errors import JaatoError
from jaato.protocol import events
from jaato.protocol.codec import encode
from jaato.protocol.events import Event, EventBase
from jaato.settings.fields import FIELDS

MADE = "This page is made from the code by `make docs`."
EVENTS_HEAD = f"""\
# Events

Everything that happens in a session is one of these events. They are what the log stores, what `Agent.stream` yields, what
`jaato run --output events` prints, one JSON object a line, and what the UI hooks are fed from. The JSON Schema of all of them is in
[protocol.schema.json](protocol.schema.json). The types are in `jaato.protocol.events`.

A *durable* event is committed before anyone sees it and has a `seq` of its own, dense from 1 in each session. A *shown*
event is never stored; it carries the `seq` of the last durable one. Fields that have their default value are left out of the JSON.

{MADE}

Every event has `type`, and:
"""
SETTINGS_HEAD = f"""\
# Settings

Each setting comes from the first of: a flag (`--name`, where the command has it), the variable `JAATO_NAME`, a trusted workspace's
`.jaato/config.toml`, the user's `config.toml`, the default. `jaato config` shows what holds and why;
[configuration](../guides/configuration.md) explains.
A workspace that is not trusted may only set what *tightens*; it adds to lists and never takes from them.

{MADE}

| setting | type | default | meaning | untrusted workspace |
|---|---|---|---|---|
"""
ERRORS_HEAD = f"""\
# Errors

Every error of jaato's own is a `JaatoError`. Its text says what happened and what to do next. `code` is stable; it is
what events, tool results and `--output json` carry. A *retryable* error is worth trying
again; that of a provider is tried again by itself, with growing waits, before it ends a turn.
The exit code is that of `jaato run` when the error ended it. To the model a failed call is a
result with the code and the text, never the end of the turn.

{MADE}

| error | code | retryable | exit code | |
|---|---|---|---:|---|
"""


def cell(text: str) -> str:
    """Text inside a table."""
    return " ".join(text.split()).replace("|", "\\|")


def first_paragraph(thing: Any) -> str:
    """The docstring's first paragraph on one line."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def type_text(kind: Any) -> str:
    """A type as a reader knows it."""
    text = kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
    text = re.sub(r"(typing|jaato\.[\w.]+)\.", "", text)
    return (
        text.replace("Literal[", "[").replace("NoneType", "None")
        if text.startswith("Literal")
        else text.replace("NoneType", "None")
    )


def field_rows(kind: type, without: frozenset[str] = frozenset()) -> list[str]:
    """A table of a struct's own fields."""
    hints = get_type_hints(kind)
    rows = []
    for entry in msgspec.structs.fields(kind):
        if entry.name in without:
            continue
        default = "required" if entry.required else ""
        if entry.default is not msgspec.NODEFAULT:
            default = f"`{encode(entry.default).decode()}`"
        elif entry.default_factory is not msgspec.NODEFAULT:
            default = (
                f"`{encode(entry.default_factory()).decode()}`" if entry.name != "timestamp" else "the moment"
            )
        rows.append(f"| `{entry.name}` | `{cell(type_text(hints[entry.name]))}` | {default} |")
    return ["| field | type | default |", "|---|---|---|", *rows] if rows else ["No further fields."]


def events_page() -> str:
    """`events.md`."""
    shared = frozenset(entry.name for entry in msgspec.structs.fields(EventBase))
    kinds = get_args(Event)
    lines = [EVENTS_HEAD, *field_rows(EventBase), "", "| event | | |", "|---|---|---|"]
    lines += [
        f"| [`{tag(kind)}`](#{anchor(tag(kind))}) | {stored(kind)} | {cell(first_paragraph(kind))} |"
        for kind in kinds
    ]
    for kind in kinds:
        lines += [
            "",
            f"## {tag(kind)}",
            "",
            f"`{kind.__name__}`, {stored(kind)}. {first_paragraph(kind)}",
            "",
        ]
        lines += field_rows(kind, shared)
    lines += ["", "## Parts"]
    from jaato.protocol import messages, specs

    parts = [events.Permission, *structs(messages), specs.Grant, specs.PlanStep, specs.Plan]
    for kind in parts:
        own = kind.__struct_config__.tag
        said = f" In JSON its `type` is `{own}`." if own else ""
        lines += ["", f"### {kind.__name__}", "", first_paragraph(kind) + said, "", *field_rows(kind)]
    return "\n".join(lines) + "\n"


def structs(module: types.ModuleType) -> list[Any]:
    """The structs a module defines, in order."""
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, msgspec.Struct)
        and value.__module__ == module.__name__
    ]


def tag(kind: Any) -> str:
    """The event's name on the wire."""
    return str(kind.__struct_config__.tag)


def anchor(heading: str) -> str:
    """The fragment of a heading."""
    return heading.replace(".", "")


def stored(kind: Any) -> str:
    """Whether the log has it."""
    return "durable" if kind.durable else "shown"


def settings_page() -> str:
    """`settings.md`."""
    rows = []
    for name, field in FIELDS.items():
        default = "" if field.default is None else f"`{encode(field.default).decode()}`"
        choices = f" One of {', '.join(f'`{choice}`' for choice in field.choices)}." if field.choices else ""
        loosened = "may tighten" if field.tighten is not None else "is ignored"
        rows.append(
            f"| `{name}` (`JAATO_{name.upper()}`) | {field.kind} | {default} | {cell(field.help)}.{choices} | {loosened} |"
        )
    return SETTINGS_HEAD + "\n".join(rows) + "\n"


def errors_page() -> str:
    """`errors.md`."""
    rows: list[str] = []

    def walk(kind: type[JaatoError], depth: int) -> None:
        if not kind.__module__.startswith("jaato.errors"):
            return
        dashes = "- " * depth
        rows.append(
            f"| {dashes}`{kind.__name__}` | `{kind.code}` | {'yes' if kind.retryable else ''} | {kind.exit_code} "
            f"| {cell(first_paragraph(kind))} |"
        )
        for below in kind.__subclasses__():
            walk(below, depth + 1)

    walk(JaatoError, 0)
    return ERRORS_HEAD + "\n".join(rows) + "\n"
