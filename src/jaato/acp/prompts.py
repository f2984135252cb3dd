"""The content of a prompt as a message, with its images and documents as files, and media of the session for the editor."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from acp.schema import (
    AudioContentBlock,
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
)

from jaato.acp.errors import invalid_params
from jaato.protocol.commands import File
from jaato.tools.call import replace_surrogates
from jaato.tools.images import PDF, ImageRefused, check_attachment

Block = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)


def read_prompt(blocks: Sequence[Block]) -> tuple[str, list[File]]:
    """The text and the files of a prompt. Raises `RequestError` for what cannot be sent to a model."""
    texts: list[str] = []
    files: list[File] = []
    for block in blocks:
        match block:
            case TextContentBlock():
                texts.append(block.text)
            case ImageContentBlock():
                name = file_name(block.uri or "") or f"image-{len(files) + 1}"
                files.append(read_file(name, "image/*", block.data))
            case ResourceContentBlock():
                texts.append(f"[@{block.name}]({path_of(block.uri)})")
            case EmbeddedResourceContentBlock():
                texts.append(read_resource(block.resource, files))
            case _:
                raise invalid_params("A prompt has text, images and resources; sound is not supported.")
    text = replace_surrogates("".join(texts))
    if not text.strip() and not files:
        raise invalid_params("The prompt is empty.")
    return text, files


def read_resource(resource: Any, files: list[File]) -> str:
    """The text of an embedded resource; an image or a document becomes a file."""
    name = file_name(resource.uri) or resource.uri
    if not isinstance(resource, BlobResourceContents):
        return f'\n<resource uri="{resource.uri}">\n{resource.text}\n</resource>\n'
    mime_type = resource.mime_type or ""
    if not mime_type.startswith("image/") and mime_type != PDF:
        raise invalid_params(f"{name[:200]} is neither text, an image nor a PDF document.")
    files.append(read_file(name, "image/*" if mime_type != PDF else PDF, resource.blob))
    return f"[{name}]"


def read_file(name: str, mime_type: str, data: str) -> File:
    """An image of its own type, or a document. Raises `RequestError` for one that providers refuse, with every later message
    too."""
    content = decode(data)
    try:
        return File(name, check_attachment(name, mime_type, content), content)
    except ImageRefused as error:
        raise invalid_params(str(error)) from None


def path_of(uri: str) -> str:
    """The path of a `file:` address; others stay."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    if parts.scheme != "file":
        return uri
    return unquote(parts.path) + (f"#{parts.fragment}" if parts.fragment else "")


def file_name(uri: str) -> str:
    """The last part of an address."""
    return path_of(uri).partition("#")[0].rstrip("/").rpartition("/")[2]


def decode(data: str) -> bytes:
    """The bytes of base64. Raises `RequestError`."""
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise invalid_params("The data of an image or a document is not base64.") from None
