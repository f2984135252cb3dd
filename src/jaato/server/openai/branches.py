"""Which session, and where in it, a request of a front end continues: its history held against ours.

A front end sends the whole conversation with each request. Users edit messages and have answers written again, so its history
may be another one than that of the session; each such branch is a session of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from jaato.protocol.events import MessageModel, MessageUser
from jaato.protocol.events.state import State
from jaato.server.openai.requests import ChatMessage

ONCE = "chat:"
"""How the `once` of a message begins that came through this API."""
OPENING = re.compile(r"<(details|thinking|think)\b")
CLOSING = {
    name: re.compile(rf"</{name}\s*>")  # one pattern for both would be quadratic in openings without an end
    for name in ("details", "thinking", "think")
}
"""What front ends put around the reasoning of an answer, which is no part of it."""
RETRIEVED = re.compile(r"### Task:\s.*</context>\s*(?=\S)", re.DOTALL)
"""What Open WebUI puts before the newest message, and before no other, in a chat with files."""


class Exchange(msgspec.Struct):
    """A message of the user and what was answered; `seq` is that of its event, 0 for what a front end sent."""

    text: str
    answers: list[str]
    seq: int = 0


class Place(NamedTuple):
    """Where a request continues in a session: behind `kept` of its exchanges. None of the others remains."""

    kept: int
    exchanges: list[Exchange]

    @property
    def is_end(self) -> bool:
        """Whether it continues at the end of the session."""
        return self.kept == len(self.exchanges)

    @property
    def fork_seq(self) -> int:
        """The last event of a fork that continues here."""
        return self.exchanges[self.kept].seq - 1


def normalize(text: str) -> str:
    """A text without reasoning and without differences of white space."""
    kept: list[str] = []
    end = 0
    unclosed: set[str] = set()
    for opening in OPENING.finditer(text):
        name = opening[1]
        if opening.start() < end or name in unclosed:
            continue
        closing = CLOSING[name].search(text, opening.end())
        if closing is None:
            unclosed.add(name)
            continue
        kept += text[end : opening.start()].split()
        end = closing.end()
    return " ".join([*kept, *text[end:].split()])


def normalize_question(text: str) -> str:
    """A message of the user without what a front end has retrieved for it."""
    retrieved = RETRIEVED.match(text)
    return normalize(text[retrieved.end() :] if retrieved else text)


def sent_exchanges(dialogue: Sequence[ChatMessage]) -> list[Exchange]:
    """The exchanges of a front end's messages."""
    found: list[Exchange] = []
    for message in dialogue:
        if message.role == "user":
            found.append(Exchange(normalize_question(message.text), []))
        elif message.role == "assistant" and found:
            found[-1].answers.append(normalize(message.text))
    return found


def known_exchanges(state: State) -> list[Exchange]:
    """The exchanges of a session that its front end knows, as far as the state has them: those of other clients are not among
    them."""
    found: list[Exchange] = []
    current: Exchange | None = None
    for entry in state.entries:
        if entry.agent_id != state.root_agent_id:
            continue
        if isinstance(entry, MessageUser) and entry.message.source == "user":
            current = None
            if entry.message.once.startswith(ONCE):
                current = Exchange(normalize_question(entry.message.words), [], entry.seq)
                found.append(current)
        elif isinstance(entry, MessageModel) and current is not None:
            current.answers.append(normalize(entry.message.text))
    return found


def find_place(state: State, sent: Sequence[Exchange]) -> Place | None:
    """Where the newest of the sent exchanges continues in a session; None where its history is another one. Front ends may
    leave the oldest messages out."""
    known, prior = known_exchanges(state), sent[:-1]
    lengths = range(len(known), -1, -1)
    for kept in sorted(lengths, key=lambda length: length != len(prior) or state.earlier > 0):
        both = min(kept, len(prior))
        if not both and (prior or kept):
            continue  # nothing shows that it is the same conversation
        if len(prior) > kept and not state.earlier:
            continue
        if all(is_same(known[kept - back], prior[-back]) for back in range(1, both + 1)):
            return Place(kept, known)
    return None


def is_same(known: Exchange, sent: Exchange) -> bool:
    """Whether both are the same: the same message, and no answer that was edited. Front ends may have an answer that was cut, or
    with notes in it."""
    if known.text != sent.text:
        return False
    ours, theirs = [answer for answer in known.answers if answer], " ".join(sent.answers).strip()
    return not ours or not theirs or all(answer in theirs for answer in ours) or theirs in " ".join(ours)
