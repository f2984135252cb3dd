"""Encodes a conversation for the Anthropic Messages API once, so that the prompt cache sees the same bytes again."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Sequence

from jaato.protocol.messages import Media, Message, Refusal, Text, Thinking
from jaato.providers.anthropic.stream import DIALECT
from jaato.providers.dialect import ReadBlob
from jaato.providers.turns import Conversation, Piece, WireCall, WireResult, WireTurn
from jaato.providers.wire_encoding import (
    encode_json,
    media_note,
    media_text,
    read_media,
    result_content,
    wire_name,
)
from jaato.tools.images import IMAGE_TYPES

EMPTY_REPLY = b'{"type":"text","text":"(no reply)"}'
NOTHING_SENT = b'{"type":"text","text":"(empty message)"}'
MARK = b',"cache_control":{"type":"ephemeral"}}'
ACTIVATOR = "get_tool_schemas"


class WireMessage:
    """One message on the wire, in two pieces so that its last block can carry the moving cache breakpoint."""

    __slots__ = ("head", "last")

    def __init__(self, role: str, blocks: Sequence[bytes]) -> None:
        self.head = b'{"role":"%s","content":[' % role.encode() + b"".join(
            [block + b"," for block in blocks[:-1]]
        )
        self.last = blocks[-1]

    def plain(self) -> bytes:
        """The message as JSON."""
        return self.head + self.last + b"]}"

    def encode_with_breakpoint(self) -> bytes:
        """The message as JSON with a cache breakpoint on its last block."""
        return self.head + with_cache_breakpoint(self.last) + b"]}"


class AnthropicConversation:
    """The messages of one conversation on the wire: completed turns are kept as bytes, the last one is encoded again.

    With `deferred_references`, the result of an activation is sent as references to tools declared as deferred: the
    API then shows each tool where it was asked for, and its cached prefix stays whole. `loaded` names them;
    `plain` names the tools whose declaration was sent otherwise, which stays so.
    `may_think` says whether a thinking budget may be set: not in a tool loop that started without a thought of
    this API.
    """

    def __init__(self, *, references: bool) -> None:
        self.references = references
        self.loaded: set[str] = set()
        self.plain: set[str] = set()
        self.may_think = True
        self._in_loop = False
        self._loop_thought = True
        self._turns = Conversation()
        self._ended: list[bytes] = []
        self._user: tuple[int, WireMessage] | None = None

    def follow(self, messages: Sequence[Message]) -> bool:
        """Add the new messages; False when this is another conversation."""
        return self._turns.follow(messages)

    def messages(self, read_blob: ReadBlob, deferrable: Collection[str], *, cache: bool) -> bytes:
        """The conversation as the inside of a JSON array, its last two user messages marked for the cache."""
        for turn in self._turns.take():
            wired = self._encode_turn(turn, read_blob, deferrable)
            if turn.role == "user":
                self._user = len(self._ended), wired
            self._ended.append(wired.plain())
        state = self._in_loop, self._loop_thought
        tail = [self._encode_turn(turn, read_blob, deferrable) for turn in self._turns.tail()]
        self.may_think = self._loop_thought or not self._in_loop
        self._in_loop, self._loop_thought = state
        ended = self._ended
        if cache and self._user is not None:
            place, user = self._user
            ended = ended.copy()
            ended[place] = user.encode_with_breakpoint()
        before = [wired.plain() for wired in tail[:-1]]
        return b",".join([*ended, *before, tail[-1].encode_with_breakpoint() if cache else tail[-1].plain()])

    def _encode_turn(self, turn: WireTurn, read_blob: ReadBlob, deferrable: Collection[str]) -> WireMessage:
        if turn.role == "user":
            blocks = list(self._user_blocks(turn.pieces, read_blob, deferrable))
            self._in_loop = any(isinstance(piece, WireResult) for piece in turn.pieces)
            return WireMessage("user", blocks or [NOTHING_SENT])
        blocks_and_kinds = [
            (block, isinstance(piece, Thinking)) for piece in turn.pieces if (block := assistant_block(piece))
        ]
        if not self._in_loop:
            self._loop_thought = bool(blocks_and_kinds) and blocks_and_kinds[0][1]
        if not blocks_and_kinds or blocks_and_kinds[-1][1]:
            blocks_and_kinds.append((EMPTY_REPLY, False))
        return WireMessage("assistant", [block for block, _ in blocks_and_kinds])

    def _user_blocks(
        self, pieces: Iterable[Piece], read_blob: ReadBlob, deferrable: Collection[str]
    ) -> Iterable[bytes]:
        rest: list[bytes] = []
        for piece in pieces:
            match piece:
                case WireResult() if self.references and (
                    names := find_deferred_references(piece, deferrable, self.plain)
                ):
                    self.loaded.update(names)
                    missing = missing_note(piece)
                    yield tool_result(piece, [tool_reference(name) for name in names])
                    rest += [missing] if missing else []
                case WireResult():
                    yield tool_result(
                        piece, [user_block(part, read_blob) for part in result_content(piece.result)]
                    )
                case Text() if piece.text.strip():
                    rest.append(text_block(piece.text))
                case Media():
                    rest.append(user_block(piece, read_blob))
        yield from rest


def text_block(text: str) -> bytes:
    """Text as a block."""
    return b'{"type":"text","text":%s}' % encode_json(text)


def with_cache_breakpoint(block: bytes) -> bytes:
    """An encoded object with a cache breakpoint."""
    return block[:-1] + MARK


def assistant_block(piece: Piece) -> bytes | None:
    """Encode one part of a model message; None for thoughts of another API and empty text."""
    match piece:
        case WireCall(call=call, wire_id=wire_id):
            fields = (wire_id, wire_name(call.name), call.arguments)
            return b'{"type":"tool_use","id":%s,"name":%s,"input":%s}' % tuple(
                encode_json(value) for value in fields
            )
        case Thinking(opaque=opaque) if opaque is not None and opaque.dialect == DIALECT:
            return bytes(opaque.data)
        case Text(text=text) | Refusal(text=text) if text.strip():
            return text_block(text)
        case Media():
            return text_block(media_note(piece))
    return None


def user_block(part: Text | Media, read_blob: ReadBlob) -> bytes:
    """Text, an image or a document as a block; other media as a note."""
    if isinstance(part, Text):
        return text_block(part.text if part.text.strip() else "(no output)")
    data = read_media(part, read_blob)
    if data is not None and (part.mime_type in IMAGE_TYPES or part.mime_type == "application/pdf"):
        kind = b"image" if part.mime_type in IMAGE_TYPES else b"document"
        return b'{"type":"%s","source":{"type":"base64","media_type":"%s","data":"%s"}}' % (
            kind,
            part.mime_type.encode(),
            base64.b64encode(data),
        )
    return text_block(media_text(part, data))


def tool_result(answer: WireResult, content: Sequence[bytes]) -> bytes:
    """The answer to a call as a block, from the blocks of its content."""
    return b'{"type":"tool_result","tool_use_id":%s,"content":[%s]%s}' % (
        encode_json(answer.asked.wire_id),
        b",".join(content),
        b"" if answer.result.ok else b',"is_error":true',
    )


def find_deferred_references(
    answer: WireResult, deferrable: Collection[str], plain: Collection[str]
) -> list[str]:
    """The wire names of the tools an activation brought, when all can be declared as deferred."""
    result = answer.result
    if not result.ok or answer.asked.call.name != ACTIVATOR or not isinstance(result.structured, dict):
        return []
    activated = result.structured.get("activated")
    if not isinstance(activated, list):
        return []
    names = [wire_name(name) for name in activated if isinstance(name, str)]
    return names if all(name in deferrable and name not in plain for name in names) else []


def tool_reference(name: str) -> bytes:
    """A reference to a tool whose declaration is deferred, as a block."""
    return b'{"type":"tool_reference","tool_name":%s}' % encode_json(name)


def missing_note(answer: WireResult) -> bytes | None:
    """What an activation did not find, for the model; references cannot travel with text in one result."""
    structured = answer.result.structured
    lost = {name: structured[name] for name in ("not_found", "suggestions") if structured.get(name)}
    return text_block(f"[{ACTIVATOR}] {encode_json(lost).decode()}") if lost else None
