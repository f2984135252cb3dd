"""Elicitation: a server's form put to the user as our questions, the answers checked and in the types of the form."""

from __future__ import annotations

import math
from typing import Any

from jaato.plugins.mcp.calls import CallContext
from jaato.tools.invisible_text import escape_all
from jaato.tools.network.addresses import METADATA, AddressRefused, Url, parse_url
from jaato.tools.network.proxy_settings import is_loopback
from jaato.tools.schema import depth_within

MAX_FIELDS = 20
MAX_TEXT = 2_000
MAX_LABEL = 200
MAX_DEPTH = 16
MAX_NUMBER = 2**53
TRIES = 3
YES = ("yes", "no")


async def elicit(server: str, caller: CallContext, params: Any) -> tuple[str, dict[str, Any] | None]:
    """The action and content that answer an elicitation: accept, decline or cancel."""
    message = readable(params.message, MAX_TEXT)
    context = f"The MCP server {server} asks: {message}"
    if params.mode == "url":
        return await open_url(caller, context, str(params.url))
    schema = params.requested_schema if isinstance(params.requested_schema, dict) else {}
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        answers = await caller.ask(context, [{"question": message or "Go on?", "choices": list(YES)}])
        return yes_no_action(answers), ({} if yes_no_action(answers) == "accept" else None)
    if len(properties) > MAX_FIELDS or not depth_within(schema, MAX_DEPTH):
        return "decline", None
    needed = schema.get("required")
    required = {name for name in needed if isinstance(name, str)} if isinstance(needed, list) else set()
    return await ask_form(context, caller, properties, required)


def readable(text: Any, most: int) -> str:
    """A server's text as it may be shown: nothing in it hides, and it has an end."""
    return "\n".join(escape_all(line) for line in str(text)[:most].split("\n"))


async def open_url(caller: CallContext, context: str, url: str) -> tuple[str, None]:
    """Whether the user goes to a page of the server's; only to https, or to this machine."""
    page = page_of(url)
    if page is None:
        return "decline", None
    question = f"Open this page of {page.authority} in a browser and say yes when done: {url}"
    answers = await caller.ask(context, [{"question": question, "choices": list(YES)}])
    return yes_no_action(answers), None


def page_of(text: str) -> Url | None:
    """The page a text names, if a person can see where it leads and it is one to be sent to."""
    if (
        len(text) > MAX_TEXT
        or not text.isascii()
        or not text.isprintable()
        or any(char in text for char in " \"'<>`")
    ):
        return None
    try:
        page = parse_url(text)
    except AddressRefused:
        return None
    if page.host in map(str, METADATA):
        return None
    return page if page.scheme == "https" or is_loopback(page.host) else None


def yes_no_action(answers: list[str | None] | None) -> str:
    """The action for an answer of yes or no."""
    if answers is None or not answers or answers[0] is None:
        return "cancel"
    return "accept" if answers[0].strip().lower() in ("yes", "y", "true", "ok") else "decline"


async def ask_form(
    context: str, caller: CallContext, properties: dict[str, Any], required: set[str]
) -> tuple[str, dict[str, Any] | None]:
    """A form, asked for again where an answer does not fit."""
    content: dict[str, Any] = {}
    open_fields = dict(properties)
    wrong: dict[str, str] = {}
    for _ in range(TRIES):
        questions = [
            question(name, entry, name in required, wrong.get(name)) for name, entry in open_fields.items()
        ]
        answers = await caller.ask(context, questions)
        if answers is None:
            return "cancel", None
        wrong = {}
        for (name, entry), answer in zip(
            open_fields.items(), [*answers, *[None] * len(open_fields)], strict=False
        ):
            try:
                value = value_of(entry, answer)
            except ValueError as error:
                wrong[name] = str(error)
                continue
            if value is not None:
                content[name] = value
            elif name in required:
                return "decline", None
        if not wrong:
            return "accept", content
        open_fields = {name: properties[name] for name in wrong}
    return "decline", None


def question(name: str, entry: Any, required: bool, wrong: str | None) -> dict[str, Any]:
    """One field as a question."""
    entry = entry if isinstance(entry, dict) else {}
    title = readable(entry.get("title") or name, MAX_LABEL)
    description = readable(entry.get("description") or "", 500)
    text = f"{title}: {description}" if description else title
    if wrong:
        text += f" (the answer before does not fit: {wrong})"
    elif not required:
        text += " (may be left open)"
    asked: dict[str, Any] = {"question": text}
    if shown := [label for label, _ in choices(entry)]:
        asked["choices"] = shown
        if entry.get("type") == "array":
            asked["question"] += " (several, with commas between them)"
    elif entry.get("type") == "boolean":
        asked["choices"] = list(YES)
    default = entry.get("default")
    if default is not None:
        asked["default"] = default_text(default)
    return asked


def default_text(default: Any) -> str:
    """A default as a person would type it."""
    if isinstance(default, bool):
        return YES[not default]
    if isinstance(default, list):
        return readable(", ".join(map(str, default)), 500)
    return readable(default, 500)


def choices(entry: dict[str, Any]) -> list[tuple[str, str]]:
    """What may be chosen: how it is shown, and its value."""
    source = entry.get("items") if entry.get("type") == "array" else entry
    if not isinstance(source, dict):
        return []
    named = source.get("oneOf") or source.get("anyOf")
    if isinstance(named, list):
        return [
            (readable(one.get("title") or one["const"], MAX_LABEL), str(one["const"]))
            for one in named[:100]
            if isinstance(one, dict) and "const" in one
        ]
    values = source.get("enum")
    if not isinstance(values, list):
        return []
    names = source.get("enumNames")
    labels = names if isinstance(names, list) and len(names) == len(values) else values
    pairs = list(zip(labels, values, strict=True))[:100]
    return [(readable(label, MAX_LABEL), str(value)) for label, value in pairs]


def value_of(entry: Any, answer: str | None) -> Any:
    """An answer in the type of its field, None when it was left open; raises `ValueError` when it does not fit."""
    entry = entry if isinstance(entry, dict) else {}
    text = (answer or "").strip()
    if not text:
        return entry.get("default")
    kind = entry.get("type")
    if kind == "array":
        parts = [part.strip() for part in text.split(",") if part.strip()]
        return [parse_choice(entry, part) for part in parts] if choices(entry) else parts
    if choices(entry):
        return parse_choice(entry, text)
    match kind:
        case "boolean":
            if text.lower() not in ("yes", "y", "true", "no", "n", "false"):
                raise ValueError("say yes or no")
            return text.lower() in ("yes", "y", "true")
        case "integer":
            return within(entry, int(text))
        case "number":
            return within(entry, float(text))
    low, high = entry.get("minLength"), entry.get("maxLength")
    if isinstance(low, int) and len(text) < low:
        raise ValueError(f"at least {low} characters")
    if isinstance(high, int) and len(text) > high:
        raise ValueError(f"at most {high} characters")
    return text


def parse_choice(entry: dict[str, Any], text: str) -> str:
    """The value of a choice that was named by its label or value."""
    for label, value in choices(entry):
        if text in (label, value):
            return value
    raise ValueError("choose one of " + ", ".join(label for label, _ in choices(entry))[:300])


def within(entry: dict[str, Any], number: float) -> float:
    """A number between the bounds of its field."""
    low, high = entry.get("minimum"), entry.get("maximum")
    if isinstance(low, int | float) and number < low:
        raise ValueError(f"at least {low}")
    if isinstance(high, int | float) and number > high:
        raise ValueError(f"at most {high}")
    if abs(number) > MAX_NUMBER if isinstance(number, int) else not math.isfinite(number):
        raise ValueError("a number")
    return number
