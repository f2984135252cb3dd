"""The input of an agent: text and files."""

from __future__ import annotations

import mimetypes
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaato.errors import ConfigError
from jaato.protocol.messages import Media

if TYPE_CHECKING:
    from jaato.agent.session import Session


def text_of(prompt: Any) -> str:
    """The prompt, empty for None; raises `ConfigError` for one that is no text."""
    if prompt is None:
        return ""
    if not isinstance(prompt, str):
        raise ConfigError(f"A prompt is text, not {type(prompt).__name__}.")
    return prompt


def file_of(path: Path) -> tuple[str, bytes]:
    """A file's media type and bytes; raises `ConfigError` when it cannot be read, is no media type known, or an image that
    providers refuse."""
    from jaato.tools.images import ImageRefused, check_attachment  # most prompts have none

    mime_type = mimetypes.guess_type(path.name)[0]
    if mime_type is None or not mime_type.startswith(("image/", "audio/", "application/pdf")):
        raise ConfigError(f"{path} is no image, audio or PDF file by its name.")
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ConfigError(f"{path} cannot be read: it is no regular file.")
        data = path.read_bytes()
        return check_attachment(str(path), mime_type, data), data
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
    except ImageRefused as error:
        raise ConfigError(str(error)) from None


def attach(session: Session, path: Path) -> Media:
    """A file as a part of a message; raises `ConfigError` as `file_of` does."""
    mime_type, data = file_of(path)
    digest = session.journal.store.put_blob(session.state.session_id, data)
    return Media(mime_type, digest, len(data), path.name)
