"""A conversation on the wire of a dialect, each turn encoded once."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from jaato.abc.provider import ModelRequest
from jaato.providers.turns import Turn, Turns

ReadBlob = Callable[[str], bytes]
Say = Callable[[Turn, ReadBlob], bytes]
"""How a dialect says one turn: the inside of a JSON array, empty when there is nothing to say."""


class Transcript:
    """The turns of one conversation in a dialect's bytes: what has ended is kept, the open end said anew."""

    def __init__(self, turns: Turns, say: Say) -> None:
        self.turns = turns
        self._say = say
        self._ended: list[bytes] = []

    def said(self, read_blob: ReadBlob) -> bytes:
        """The whole conversation as the inside of a JSON array."""
        self._ended += [said for turn in self.turns.take() if (said := self._say(turn, read_blob))]
        tail = [said for turn in self.turns.tail() if (said := self._say(turn, read_blob))]
        return b",".join([*self._ended, *tail])


def conversation(request: ModelRequest, place: Hashable, turns: Callable[[], Turns], say: Say) -> bytes:
    """The messages of a request as the inside of a JSON array; what was encoded before stays as it was.

    `place` names the dialect and all that changes its bytes; `turns` makes the follower of a new conversation.
    """
    kept = request.encoded.get(place)
    if not (isinstance(kept, Transcript) and kept.turns.follow(request.messages)):
        kept = request.encoded[place] = Transcript(turns(), say)
        kept.turns.follow(request.messages)
    return kept.said(request.read_blob)
