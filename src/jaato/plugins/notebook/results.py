"""Renders the outputs of a notebook cell for the model: text, displays, errors."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Any

from jaato.protocol.messages import Media
from jaato.protocol.specs import SandboxAccess
from jaato.tools.call import Call, Output
from jaato.tools.images import IMAGE_TYPES, ImageRefused, check_image
from jaato.tools.permissions.access import covers, sandbox_fields, summarize_access
from jaato.tools.processes.sandbox.cleanup import QuarantinedFile, add_to_result

MAX_IMAGES = 8
OBJECT = re.compile(r"<[\w.]+ object(?: at 0x[0-9a-f]+)?>")
HANDLE = "result:"
NO_INPUT = "Cells cannot ask for input: put the value into the code, or ask the user."
LOSS = "All variables are lost; the next notebook_execute starts a fresh kernel."


def cell_result(name: str, answer: dict[str, Any], timeout_s: float, call: Call) -> Output:
    """The result of one cell."""
    outputs = [output for output in answer.get("outputs", []) if isinstance(output, dict)]
    text, media, error = render_outputs(outputs, call)
    facts: dict[str, Any] = {"notebook": name, "status": "ok", "execution_count": answer.get("count")}
    notes = []
    if answer.get("timed_out"):
        facts["status"] = "timed_out"
        notes.append(f"Interrupted after {timeout_s:g} s; the variables are kept. Give timeout_s more.")
    elif error:
        facts["status"], facts["error"] = "error", error
        if error.startswith("StdinNotImplementedError"):
            notes.append(NO_INPUT)
    if answer.get("event") == "lost":
        facts["status"] = "kernel_died"
        notes = [f"The kernel is gone: {answer.get('why')}. {LOSS}"]
    if answer.get("omitted"):
        facts["omitted_chars"] = answer["omitted"]
    if notes:
        facts["note"] = " ".join(notes)
    lines = [part for part in (text.rstrip("\n"), *(f"[{note}]" for note in notes)) if part]
    return Output(
        text="\n".join(lines) or "[no output]", structured={**facts, "output": text}, media=tuple(media)
    )


def render_outputs(outputs: list[dict[str, Any]], call: Call) -> tuple[str, list[Media], str]:
    """The outputs as text and images, and the error's one line."""
    parts: list[str] = []
    media: list[Media] = []
    error = ""
    for output in outputs:
        match output:
            case {"output_type": "stream", "text": str(text)}:
                parts.append(apply_carriage_returns(text))
            case {"output_type": "error", "ename": name, "evalue": value, "traceback": list(lines)}:
                error = f"{name}: {value}"[:1_000]
                rows = "\n".join(str(line) for line in lines).splitlines()
                trace = "\n".join(line.rstrip() for line in rows if line.strip(" -"))
                parts.append(end_line("".join(parts)) + (trace or error))
            case {"data": dict(data)}:
                text, image = render_display(data, len(media), call)
                parts.append(end_line("".join(parts[-1:])) + text + "\n")
                media += [image] if image is not None else []
    return "".join(parts), media, error


def end_line(text: str) -> str:
    """What brings a text to the end of its line."""
    return "" if not text or text.endswith("\n") else "\n"


def render_display(data: dict[str, Any], number: int, call: Call) -> tuple[str, Media | None]:
    """A value or display: its text, and its image for a model that sees."""
    plain = str(data.get("text/plain", ""))
    for kind in IMAGE_TYPES:
        if kind in data and number < MAX_IMAGES:
            try:
                image = base64.b64decode(data[kind])
                found = check_image(image, "Show a smaller one.").mime
                blob = call.keep(image).removeprefix(HANDLE)
            except ImageRefused as error:
                return f"{plain} [{kind}, {len(image):,} bytes, not shown: {error}]", None
            except (binascii.Error, ValueError, LookupError):
                return f"{plain} [{kind}, not shown]", None
            name = f"figure-{number + 1}.{found.partition('/')[2]}"
            return f"[{name}: {plain or found}]", Media(found, blob, len(image), name)
    if plain and not OBJECT.fullmatch(plain):
        return plain, None
    for kind in ("text/markdown", "text/latex", "application/json", "text/html"):
        if kind in data:
            return str(data[kind])[:20_000], None
    return plain or f"[{', '.join(map(str, data)) or 'nothing'}]", None


def apply_carriage_returns(text: str) -> str:
    """Text as a terminal would have left it where a line was written over, as progress bars do."""
    if "\r" not in text:
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def add_sandbox_fields(
    result: Output, name: str, has: SandboxAccess | None, allowed: SandboxAccess | None
) -> Output:
    """A result with what its kernel may reach, and a note where that is less than the call is allowed."""
    if has is None:
        return result
    facts = {**result.structured, **sandbox_fields(has)}
    if allowed is None or covers(has, allowed):
        return Output(result.text, facts, result.media)
    note = (
        f"The kernel of {name} was started with {summarize_access(has)}, so the cell ran with that, not with {summarize_access(allowed)}. "
        "notebook_reset throws it away with its variables; the next cell then starts one with more."
    )
    return Output(f"[{note}]\n{result.text}", {**facts, "sandbox_note": note}, result.media)


def add_removed_files(result: Output, removed: Sequence[QuarantinedFile]) -> Output:
    """A result with the control files that were moved away, as its text says, too."""
    if not removed:
        return result
    facts = add_to_result(result.structured, removed)
    notice = f"[Moved away: {', '.join(facts['removed'])}. {facts['note']}]"
    return Output(f"{notice}\n{result.text}", facts, result.media)
