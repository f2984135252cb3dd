"""Renders a template in Jinja's sandbox; runs in a sandbox process, since a template may loop or grow without end."""

from __future__ import annotations

from typing import Any

from jaato.errors import ToolError

MAX_TEXT_CHARS = 4 << 20
MAX_VARIABLES = 200


class TemplateRefused(ToolError):
    """The template is damaged, or cannot be filled in with these variables."""

    code = "template_refused"


def work(request: dict[str, Any]) -> dict[str, Any]:
    """The variables a template asks for and, when `variables` are given, its `text` with them filled in.

    Raises `TemplateRefused` saying which line or variable is at fault.
    """
    try:
        import jinja2
        from jinja2 import meta, sandbox
    except ImportError:
        raise TemplateRefused(
            "Templates need Jinja2. Ask the user to run: pip install 'jaato[templates]'."
        ) from None
    environment = sandbox.ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    name, source, given = request["name"], request["template"], request["variables"]
    try:
        names = sorted(meta.find_undeclared_variables(environment.parse(source)))
        result: dict[str, Any] = {"variables": names[:MAX_VARIABLES]}
        return (
            result
            if given is None
            else {**result, "text": render_bounded(environment.from_string(source), given)}
        )
    except jinja2.TemplateSyntaxError as error:
        raise TemplateRefused(
            f"{name}, line {error.lineno}: {error_line(error)}. Correct the template."
        ) from None
    except jinja2.UndefinedError as error:
        needed = ", ".join(names[:MAX_VARIABLES])
        raise TemplateRefused(f"{name}: {error_line(error)}. Its variables are: {needed}.") from None
    except jinja2.exceptions.SecurityError as error:
        raise TemplateRefused(
            f"{name}: {error_line(error)}. A template may only use its variables."
        ) from None
    except RecursionError:
        raise  # distinguished by the caller
    except (
        jinja2.TemplateError,
        ArithmeticError,
        TypeError,
        ValueError,
        LookupError,
        AttributeError,
        SyntaxError,
        RuntimeError,
    ) as error:
        raise TemplateRefused(
            f"{name}: {error_line(error)}. Correct the template or the variables."
        ) from None


def render_bounded(template: Any, variables: dict[str, Any]) -> str:
    """The text, as far as it is allowed to grow."""
    pieces: list[str] = []
    size = 0
    for piece in template.generate(variables):
        size += len(piece)
        if size > MAX_TEXT_CHARS:
            raise TemplateRefused(f"The text grows beyond {MAX_TEXT_CHARS >> 20} MB. Fill in less at a time.")
        pieces.append(piece)
    return "".join(pieces)


def error_line(error: Exception) -> str:
    """The message of an error, in one line."""
    return " ".join(f"{error}".split())[:300].rstrip(".") or type(error).__name__
