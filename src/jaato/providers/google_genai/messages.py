"""Encodes a conversation for Gemini's generateContent, with thought signatures and media."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any

from jaato.protocol.messages import Media, Opaque, Refusal, Text, Thinking
from jaato.providers.dialect import ReadBlob
from jaato.providers.google_genai.stream import DIALECT
from jaato.providers.turns import Piece, WireCall, WireResult, WireTurn
from jaato.providers.wire_encoding import (
    encode_json,
    media_note,
    media_text,
    read_media,
    result_content,
    wire_name,
)

INLINE = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "application/pdf")
UNSIGNED = b'"skip_thought_signature_validator"'
"""Stands where a call that was not this API's has no signature; newer models refuse a call without one."""
NOTHING = b'{"text":"(empty message)"}'


def encode_turn(modern: bool, turn: WireTurn, read_blob: ReadBlob) -> bytes:
    """One turn as a content; `modern` models take media inside results and want every step's first call signed."""
    if turn.role == "user":
        return encode_content(
            b"user",
            [*encode_results(modern, turn.pieces, read_blob), *encode_user_parts(turn.pieces, read_blob)],
        )
    parts: list[bytes] = []
    signed = not modern
    for piece in turn.pieces:
        if isinstance(piece, WireCall):
            parts.append(call_part(piece, None if signed else UNSIGNED))
            signed = True
        else:
            parts += encode_model_parts(piece)
    return encode_content(b"model", parts)


def encode_results(modern: bool, pieces: Sequence[Piece], read_blob: ReadBlob) -> Iterator[bytes]:
    """The results of a turn in call order, then the media that cannot travel inside them."""
    beside: list[bytes] = []
    for piece in pieces:
        if not isinstance(piece, WireResult):
            continue
        found = result_content(piece.result)
        shown = [media_part(part, read_blob) for part in found if isinstance(part, Media)]
        inside = [part for part in shown if modern and part.startswith(b'{"inlineData"')]
        beside += [part for part in shown if part not in inside]
        text = "\n".join(part.text for part in found if isinstance(part, Text))
        yield response_part(piece, text, inside)
    yield from beside


def encode_content(role: bytes, parts: Sequence[bytes]) -> bytes:
    """Encode one content as JSON; never without a part."""
    return b'{"role":"%s","parts":[%s]}' % (role, b",".join(parts or [NOTHING]))


def encode_user_parts(pieces: Sequence[Piece], read_blob: ReadBlob) -> Iterator[bytes]:
    """Encode the user's parts other than results."""
    for piece in pieces:
        match piece:
            case Text() if piece.text.strip():
                yield text_part(piece.text)
            case Media():
                yield media_part(piece, read_blob)


def encode_model_parts(piece: Piece) -> list[bytes]:
    """Encode one part of a model message; nothing for thoughts that are unsigned or another API's."""
    match piece:
        case Text(text=text, opaque=opaque):
            signature = signature_of(opaque)
            if signature is not None:
                return [b'{"text":%s,"thoughtSignature":%s}' % (encode_json(text), signature)]
            return [text_part(text)] if text.strip() else []
        case Thinking(text=text, opaque=opaque):
            signature = signature_of(opaque)
            if signature is None:
                return []
            return [b'{"text":%s,"thought":true,"thoughtSignature":%s}' % (encode_json(text), signature)]
        case Refusal(text=text) if text.strip():
            return [text_part(text)]
        case Media():
            return [text_part(media_note(piece))]
    return []


def signature_of(opaque: Opaque | None) -> bytes | None:
    """This API's signature, as JSON; None for what came from another."""
    return bytes(opaque.data) if opaque is not None and opaque.dialect == DIALECT else None


def text_part(text: str) -> bytes:
    """Text as a part."""
    return b'{"text":%s}' % encode_json(text)


def call_part(asked: WireCall, unsigned: bytes | None) -> bytes:
    """A call as the model made it; the id only where a provider gave one, as older models know none."""
    call = asked.call
    fields: dict[str, Any] = {"id": asked.wire_id} if call.provider_id is not None else {}
    fields |= {"name": wire_name(call.name), "args": call.arguments}
    signature = signature_of(call.opaque) or unsigned
    signed = b',"thoughtSignature":%s' % signature if signature else b""
    return b'{"functionCall":%s%s}' % (encode_json(fields), signed)


def response_part(answer: WireResult, text: str, inside: Sequence[bytes]) -> bytes:
    """A result beside its call's id and name; media of modern models travel inside."""
    call = answer.asked.call
    fields: dict[str, Any] = {"id": answer.asked.wire_id} if call.provider_id is not None else {}
    fields |= {"name": wire_name(call.name), "response": {"output" if answer.result.ok else "error": text}}
    media = b',"parts":[%s]' % b",".join(inside) if inside else b""
    return b'{"functionResponse":%s%s}}' % (encode_json(fields)[:-1], media)


def media_part(media: Media, read_blob: ReadBlob) -> bytes:
    """An image, document, sound or film as bytes in the request; other media as text."""
    data = read_media(media, read_blob)
    kind = media.mime_type
    if data is None or not (kind in INLINE or kind.startswith(("audio/", "video/"))):
        return text_part(media_text(media, data))
    return b'{"inlineData":{"mimeType":%s,"data":"%s"}}' % (encode_json(kind), base64.b64encode(data))
