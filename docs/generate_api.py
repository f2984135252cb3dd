"""The reference of the public Python names, from their signatures and docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any, get_overloads, is_typeddict

import msgspec

import jaato

HEAD = """\
# Python names

Everything `jaato` exports. Each is imported when it is first asked for, so `import jaato` costs next to nothing. Names
that are not on this page may change.

Events are in `jaato.events` ([events](events.md)), messages in `jaato.protocol.messages`, the scripted model for tests in
`jaato.providers.scripted`.

This page is made from the code by `make docs`.
"""
GROUPS = {
    "Agents": ("Agent", "RunOptions", "Model", "Result", "SubagentProfile", "RetryPolicy", "Flow", "FlowRun", "FlowStep"),
    "Tools and plugins": (
        "tool", "Tool", "ToolSpec", "Call", "Output", "Plugin", "Host", "ToolPlugin", "ToolSchema", "UserCommand",
        "PromptEnrichmentResult", "PluginRegistry", "ToolExecutor",
    ),
    "Models": ("Provider", "ModelInfo", "ModelSettings"),
    "Questions": ("Question", "Allow", "AllowTurn", "AllowAlways", "Deny", "DenyAlways", "Answer"),
    "Programs without an event loop": ("JaatoClient", "JaatoRuntime", "JaatoSession", "CancelToken", "TokenLedger"),
}  # fmt: skip
ERRORS = "Errors"


def api_page() -> str:
    """`api.md`."""
    names = [name for name in jaato.__all__ if not name.startswith("__")]
    grouped = {title: [name for name in members if name in names] for title, members in GROUPS.items()}
    known = {name for members in grouped.values() for name in members}
    errors = [name for name in names if is_error(name)]
    rest = [name for name in names if name not in known and name not in errors]
    lines = [HEAD]
    for title, members in {**grouped, "More": rest}.items():
        if members:
            lines += [f"## {title}", ""]
            for name in members:
                lines += [*entry(name, getattr(jaato, name)), ""]
    lines += [f"## {ERRORS}", "", "With their codes in [errors](errors.md).", ""]
    lines += [f"* `{name}`: {paragraph(getattr(jaato, name))}" for name in errors]
    return "\n".join(lines) + "\n"


def is_error(name: str) -> bool:
    """Whether a public name is an exception."""
    value = getattr(jaato, name)
    return isinstance(value, type) and issubclass(value, BaseException)


def paragraph(thing: Any) -> str:
    """The docstring on one line."""
    return " ".join((inspect.getdoc(thing) or "").split())


def entry(name: str, value: Any) -> list[str]:
    """One name: what it is, how it is made, what it offers."""
    if not isinstance(value, type):
        return [f"### {name}", "", "```text", made(name, value), "```", "", docstring(value)]
    form = [] if getattr(value, "_is_protocol", False) else ["```text", made(name, value), "```", ""]
    lines = [f"### {name}", "", *form, docstring(value)]
    members = [] if is_typeddict(value) else public_members(value)
    if members:
        lines += ["", "| | |", "|---|---|"]
        lines += [f"| `{cell(shown)}` | {cell(text)} |" for shown, text in members]
    return lines


def docstring(value: Any) -> str:
    """The docstring, paragraphs kept."""
    return inspect.cleandoc(inspect.getdoc(value) or "")


def cell(text: str) -> str:
    """Text inside a table."""
    return " ".join(text.split()).replace("|", "\\|")


def signature(value: Any, *, method: bool = False) -> str:
    """A signature on one line, types as they are written; of several forms the last."""
    if is_typeddict(value):
        keys = [
            f"{key}: {getattr(kind, '__forward_arg__', kind)}" for key, kind in value.__annotations__.items()
        ]
        return f"({', '.join(keys)})"
    forms = get_overloads(value) if inspect.isfunction(value) else []
    try:
        found = inspect.signature(forms[-1] if forms else value)
    except (TypeError, ValueError):
        return "(…)"
    parameters = [
        parameter.replace(default=shown_default(parameter), annotation=annotation(parameter.annotation))
        for parameter in found.parameters.values()
        if not (method and parameter.name in ("self", "cls")) and not parameter.name.startswith("_")
    ]
    result = annotation(found.return_annotation)
    return str(found.replace(parameters=parameters, return_annotation=result)).replace(" -> None", "")


def annotation(written: Any) -> Any:
    """A type as it is written, without modules."""
    if written is inspect.Signature.empty:
        return written
    text = written if isinstance(written, str) else inspect.formatannotation(written)
    text = re.sub(r"ForwardRef\('(.*?)'\)", r"\1", text)
    return Shown(re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", text))


def shown_default(parameter: inspect.Parameter) -> Any:
    """A default value as a reader would write it."""
    if parameter.default is parameter.empty:
        return parameter.empty
    text = repr(parameter.default).replace("PosixPath", "Path").replace("mappingproxy", "")
    return Shown(
        "…" if " at 0x" in text or text.startswith("<") or text == "NODEFAULT" else text.replace("'", '"')
    )


class Shown:
    """Text that stands for a value."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        """The text."""
        return self._text


def made(name: str, value: Any) -> str:
    """How the name is called; one argument a line where there are many."""
    text = f"{name}{signature(value)}"
    if len(text) <= 100:
        return text
    inner, closing, result = text[len(name) + 1 :].rpartition(") -> ")
    if not closing:
        inner, result = text[len(name) + 1 : -1], ""
    return (
        f"{name}(\n"
        + "".join(f"    {part},\n" for part in split(inner))
        + ")"
        + (f" -> {result}" if result else "")
    )


def split(text: str) -> list[str]:
    """The parameters of a signature, cut at the commas between them."""
    parts, depth, begun = [], 0, 0
    for at, sign in enumerate(text):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            parts.append(text[begun:at].strip())
            begun = at + 1
    return [*parts, text[begun:].strip()]


def public_members(value: type) -> list[tuple[str, str]]:
    """Methods and properties with what they do, inherited ones of our own classes included; not the fields."""
    fields = {field.name for field in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
    if issubclass(value, msgspec.Struct):
        fields = {field.name for field in msgspec.structs.fields(value)}
    found: dict[str, tuple[str, str]] = {}
    for kind in reversed(value.__mro__):
        if kind.__module__.partition(".")[0] != "jaato":
            continue
        for name, member in vars(kind).items():
            if name.startswith("_") or name in fields:
                continue
            text = paragraph(member)
            if isinstance(member, property):
                found[name] = (name, text)
            elif inspect.isroutine(member):
                plain = getattr(member, "__func__", member)
                prefix = "async " if inspect.iscoroutinefunction(plain) else ""
                found[name] = (f"{prefix}{name}{signature(plain, method=True)}", text)
    return list(found.values())
