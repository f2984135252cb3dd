"""The model is asked for a summary, apart from the conversation: counted, stopped with the turn, and shown to nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import anyio
import msgspec

from jaato.abc.provider import ModelRequest, Provider, Reply
from jaato.errors import ConnectionFault, ProviderError
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Message, Text, Usage

if TYPE_CHECKING:
    from jaato.agent.session import Session

SYSTEM = "You summarise conversations exactly and briefly."
ASKED_S = 180.0
"""How long the model may take, its retries included."""


class Spent(NamedTuple):
    """What was used for a summary; the price is None when unknown."""

    usage: Usage = Usage()
    cost_usd: float | None = 0.0


class Answer(NamedTuple):
    """What the model said, else why it said nothing."""

    text: str | None
    problem: str = ""
    spent: Spent | None = None


async def answer_to(question: str, session: Session, seconds: float = ASKED_S) -> Answer:
    """The model's answer to a question without tools; a failing, silent or refusing one is a value."""
    request = ModelRequest(
        model=session.state.model,
        messages=[Message("user", [Text(question)], id=new_id("m"))],
        system=SYSTEM,
        settings=msgspec.structs.replace(session.settings, response_schema=None, stop=None),
    )
    with anyio.move_on_after(seconds):
        attempt = 1
        while True:
            try:
                return judged(await whole(session.provider, request), session)
            except ProviderError as error:
                wait_s = session.retry.wait_s(attempt, error)
                if wait_s is None:
                    return Answer(None, str(error))
                attempt += 1
                await anyio.sleep(wait_s)
    return Answer(None, f"it has not answered for {seconds:g} seconds")


async def whole(provider: Provider, request: ModelRequest) -> Reply:
    """The reply, once it is there. Raises `ProviderError`."""
    stream = provider.stream(request)
    try:
        async for chunk in stream:
            if isinstance(chunk, Reply):
                return chunk
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
    raise ConnectionFault(
        f"{provider.name} ended its stream before the reply was complete.", provider=provider.name
    )


def judged(reply: Reply, session: Session) -> Answer:
    """A reply as an answer, counted where it belongs. One without words, or cut off, is none."""
    spent = None
    if reply.usage is not None:
        spent = Spent(reply.usage, session.price(reply.usage))
        state = session.state
        session.ledger.record_usage(
            state.model, reply.usage, spent.cost_usd, session_id=state.session_id, purpose="gc"
        )
    text = reply.message.text.strip()
    if reply.finish_reason in ("refusal", "error", "cancelled") or reply.message.function_calls:
        return Answer(None, f"it gave no summary ({reply.finish_reason})", spent)
    return Answer(text, "", spent) if text else Answer(None, "it said nothing", spent)
