"""What a tool of a domain must be to be told to others: the parts of its definition as the contract has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from jaato.errors import ConfigError
from jaato.protocol.arp import INVOKE
from jaato.protocol.codec import is_unicode, json_problems
from jaato.protocol.specs import Access
from jaato.tools.tool import Tool


def check(tool: Tool) -> None:
    """Raise `ConfigError` for a tool that cannot be listed, described or called as it says of itself."""
    fault = next((one for one in (of_texts(tool), of_schemas(tool), of_calls(tool)) if one), "")
    if fault:
        raise ConfigError(f"The tool {tool.name!r:.80} cannot be served: {fault}.")


def of_texts(tool: Tool) -> str:
    """What is wrong with its name, description, version and tags; empty when nothing is."""
    if not isinstance(tool.tags, tuple | list):
        return f"its tags are {tool.tags!r:.80}; they are a tuple of texts"
    texts: list[tuple[str, Any]] = [("name", tool.name), ("version", tool.version)]
    texts += [("tag", one) for one in tool.tags]
    for what, text in (*texts, ("description", tool.spec.description)):
        if not isinstance(text, str) or not (text or what == "description"):
            return f"its {what} is {text!r:.80}, which is no text"
        if not is_unicode(text):
            return f"its {what} has a lone surrogate"
    if not tool.name.isprintable() or tool.name in (".", "..") or tool.name.endswith(INVOKE):
        return "no path leads to a tool of this name"
    return ""


def of_schemas(tool: Tool) -> str:
    """What is wrong with its schemas, and with what it says of its source; empty when nothing is."""
    parameters = tool.checked if tool.checked is not None else tool.spec.parameters
    returns = {} if tool.returns is None else tool.returns
    for what, schema in (("parameters", parameters), ("returns", returns)):
        if not isinstance(schema, dict):
            return f"its {what} are {schema!r:.80}, which is no JSON Schema"
        for path, problem in json_problems(schema):
            return f"its {what}{path} {problem}"
    if not isinstance(tool.source, Mapping):
        return f"its source is {tool.source!r:.80}, which is no object"
    for path, problem in json_problems(dict(tool.source)):
        return f"its source{path} {problem}"
    if parameters.get("type", "object") != "object":
        return f"its parameters are of the type {parameters['type']!r:.80}; arguments are an object"
    return ""


def of_calls(tool: Tool) -> str:
    """What keeps it from being called; empty when nothing does."""
    if not callable(tool.run):
        return f"it is run by {tool.run!r:.80}, which is no function"
    if tool.spec.access not in get_args(Access):
        return f"its access is {tool.spec.access!r:.80}; it is one of {', '.join(get_args(Access))}"
    seconds: object = tool.timeout_s
    if seconds is not None and not is_time(seconds):
        return f"it has {seconds!r:.80} s for a call"
    return ""


def is_time(seconds: object) -> bool:
    """Whether a clock can be asked to wait so long."""
    try:
        return isinstance(seconds, int | float) and float(seconds) > 0
    except OverflowError:
        return False
