"""Runs the reader: bytes of strangers are parsed in a process that can be ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import anyio

from jaato.errors import ToolError, ToolTimeout

Kind = Literal["html", "pdf", "yaml"]
NEEDED: dict[Kind, tuple[str, ...]] = {
    "html": ("selectolax", "html_to_markdown"),
    "pdf": ("pypdf", "typing_extensions"),
    "yaml": ("yaml",),
}
WITHIN_S = 20.0
MAX_ANSWER_BYTES = 40_000_000


class Unreadable(ToolError):
    """The content is not what it says it is, or asks for more than is given."""

    code = "content_unreadable"


def libraries(kind: Kind) -> list[str]:
    """Where the libraries of a kind are; raises `ToolError` that says how to get them."""
    import importlib.util

    places: list[str] = []
    for name in NEEDED[kind]:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            if name == "typing_extensions":
                continue
            raise ToolError(f"Reading {kind.upper()} needs {name}: install jaato[web].")
        place = Path(spec.origin).parent
        places.append(str(place.parent if spec.submodule_search_locations is not None else place))
    return list(dict.fromkeys(places))


async def read_apart(kind: Kind, data: bytes, within_s: float = WITHIN_S, **options: Any) -> dict[str, Any]:
    """What the reader found. Raises `Unreadable`, `ToolTimeout`; nothing of the reader survives."""
    told = {**options, "libraries": libraries(kind), "most_bytes": MAX_ANSWER_BYTES}
    script = str(Path(__file__).with_name("reader.py"))
    command = [sys.executable, "-I", "-S", "-B", script, kind, json.dumps(told)]
    process = await anyio.open_process(
        command, cwd="/", env={"LC_ALL": "C.UTF-8"}, stderr=subprocess.DEVNULL, start_new_session=True
    )
    answer = bytearray()
    try:
        with anyio.fail_after(within_s):
            if process.stdin is None or process.stdout is None:
                raise Unreadable("The reader has no pipes.")
            try:
                await process.stdin.send(data)
                await process.stdin.aclose()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # it ended before it had read everything, and its answer says why
            async for chunk in process.stdout:
                answer += chunk
                if len(answer) > MAX_ANSWER_BYTES + 1000:
                    raise Unreadable(f"The {kind.upper()} unfolds to more than {MAX_ANSWER_BYTES} bytes.")
            code = await process.wait()
    except TimeoutError:
        raise ToolTimeout(
            f"The {kind.upper()} was not read within {within_s:g} s. Ask for less of it."
        ) from None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await process.wait()
            await process.aclose()
    return answered(kind, bytes(answer), code)


def answered(kind: Kind, answer: bytes, code: int) -> dict[str, Any]:
    """The reader's answer; a reader that died could not cope with the content."""
    try:
        found: Any = json.loads(answer)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Unreadable(
            f"The {kind.upper()} is too large or too deep to be read (the reader ended with {code})."
        )
    if "error" in found:
        raise Unreadable(found["error"])
    return found
