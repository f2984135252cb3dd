"""Text files of the editor for the session's file tools: its unsaved buffers, and writing through it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from acp.exceptions import RequestError

from acp import schema
from jaato.cli.output.console import one_line
from jaato.protocol.codec import is_unicode
from jaato.protocol.commands import FileResponse
from jaato.protocol.frames import FileRequest

FORGET_AFTER_S = 60.0
"""How long the answer to a read is awaited after the server has ceased to wait for it: it shows that the editor answers again.
That to a write is awaited as long as it may come, since the file may be written until then."""
MAX_PROBLEM_CHARS = 200


class Files(Protocol):
    """What is asked of the editor: the library's connection."""

    async def read_text_file(self, session_id: str, path: str, **kwargs: Any) -> schema.ReadTextFileResponse:
        """The text of a file, unsaved changes included."""

    async def write_text_file(self, session_id: str, path: str, content: str, **kwargs: Any) -> Any:
        """Write and save a file."""


async def answer_file(
    editor: Files, request: FileRequest, workspace: str, withdraw: Callable[[str, str], Awaitable[None]]
) -> FileResponse:
    """The editor's answer to a request for a file of a session; `workspace` is its directory as the editor has it. After the
    deadline the request is withdrawn by its path, as the disk is used then; a cancellation ends it."""
    session_id, path = request.session_id, os.path.join(workspace, request.path)
    content, problem = None, ""
    asked = asyncio.ensure_future(ask_editor(editor, session_id, path, request.content))
    try:
        done, _ = await asyncio.wait([asked], timeout=request.timeout_s)
        if not done:
            await withdraw(session_id, path)
        content = await asyncio.wait_for(asked, FORGET_AFTER_S if request.content is None else None)
    except RequestError as error:
        problem = one_line(str(error), MAX_PROBLEM_CHARS) or "an error"
    except (TimeoutError, ConnectionError):
        problem = "no answer"
    except ValueError:
        problem = "" if request.content is None else "an answer that could not be understood"
    finally:
        asked.cancel()
    if content is not None and not is_unicode(content):
        content = None
    return FileResponse(session_id=session_id, request_id=request.id, content=content, problem=problem)


async def ask_editor(editor: Files, session_id: str, path: str, content: str | None) -> str | None:
    """The text of a file; None once `content` is written. Raises what the library raises."""
    if content is None:
        return (await editor.read_text_file(session_id=session_id, path=path)).content
    await editor.write_text_file(session_id=session_id, path=path, content=content)
    return None
