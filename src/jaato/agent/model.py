"""Model client of one agent: builds requests, streams replies with retries, and accounts usage, cost and context."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import anyio
import anyio.lowlevel
import msgspec

from jaato.abc.provider import (
    CallDelta,
    Chunk,
    FetchesLimit,
    ModelRequest,
    PromptProgress,
    Provider,
    Reply,
    TextDelta,
    ThinkingDelta,
)
from jaato.agent.active_tools import ActiveTools
from jaato.agent.compaction.account import Account, spec_chars
from jaato.agent.compaction.window import (
    CHARS_PER_TOKEN,
    NO_LIMITS,
    ContextLimit,
    ContextLimits,
    ContextUsage,
    count_pin_chars,
    estimate_usage,
    measure_usage,
    resolve_limit,
    tokens_per_char,
    tokens_with_reply,
)
from jaato.agent.journal import Journal
from jaato.agent.limits.spending import Amount
from jaato.agent.retry import RetryPolicy, with_retries
from jaato.errors import CancelledException, ConfigError, ConnectionFault, LimitReached, ProviderError
from jaato.log import logger
from jaato.protocol.events import AgentOutput, InitProgress, Retry
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Message, Text, Usage
from jaato.protocol.specs import ModelInfo, ModelSettings, ToolSpec
from jaato.tools.call import problem_of
from jaato.tools.ledger import TokenLedger
from jaato.tools.prices import compute_price, explain_unknown_price, preload

if TYPE_CHECKING:
    from jaato.agent.limits.budget_account import BudgetAccount


LOG = logger("model")
LIMIT_S = 10.0
"""How long a server may take to say what fits into its model's context."""
USUAL_OUTPUT_TOKENS = 1_024
"""Tokens reserved for a reply where nothing limits it; more after longer ones."""
SAFE_PART = 0.9
"""The part of what is left of a context that is asked for as output: the count of the input is an estimate."""
CHUNKS_AT_ONCE = 32
"""Chunks of a reply after which other tasks of the event loop get to run."""
READING = "reading the prompt"
SUMMARY_SYSTEM = "You summarise conversations exactly and briefly."


class ProviderOpener(NamedTuple):
    """Opens the provider of this name when it is first needed; may raise `ConfigError` then."""

    name: str
    open: Callable[[], Provider]


class ModelCost(NamedTuple):
    """Usage and cost of a question outside the conversation; the cost is None when prices are unknown."""

    usage: Usage = Usage()
    cost_usd: float | None = 0.0


class ModelAnswer(NamedTuple):
    """The answer to such a question, or why there is none."""

    text: str | None
    problem: str = ""
    cost: ModelCost | None = None


class ModelClient:
    """Asks the model of one agent. `settings` and `streaming` may be changed between turns.

    `partial_text` is the text received of an unfinished reply.
    """

    def __init__(
        self,
        journal: Journal,
        provider: Provider | ProviderOpener,
        active_tools: ActiveTools,
        *,
        settings: ModelSettings,
        retry: RetryPolicy,
        ledger: TokenLedger,
        budget: BudgetAccount | None = None,
        limits: ContextLimits = NO_LIMITS,
        instructions: Callable[[], Sequence[tuple[str, str]]] = tuple,
        of_subagent: bool = False,
    ) -> None:
        self._journal = journal
        self._limits = limits
        self._instructions = instructions
        self._fetched: dict[tuple[str, str], int | None] = {}
        self._limit: tuple[ModelInfo, int | None, ContextLimit] | None = None
        self._tool_chars: tuple[list[ToolSpec], int] = [], 0
        self._source = provider
        self._active_tools = active_tools
        self._of_subagent = of_subagent
        self._info: ModelInfo | None = None
        self._parts: list[str] = []
        self._encoded: dict[Any, Any] = {}
        self.settings = settings
        self.retry = retry
        self.ledger = ledger
        self._budget = budget
        self.streaming = True
        self._unreported_usd: float | None = None
        self.is_clipped = False
        """Whether the newest reply is as long as a budget allowed, which was less than the settings or the model."""

    @property
    def provider(self) -> Provider:
        """The provider, opened by now. Raises `ConfigError` when it cannot be."""
        if isinstance(self._source, ProviderOpener):
            self._source = self._source.open()
        return self._source

    @contextlib.contextmanager
    def using(self, provider: Provider) -> Iterator[None]:
        """Ask another provider meanwhile."""
        before = self._source, self._encoded, self._info
        self._source, self._encoded, self._info = provider, {}, None
        try:
            yield
        finally:
            self._source, self._encoded, self._info = before

    @property
    def info(self) -> ModelInfo:
        """Information about the model in use."""
        known, model = self._info, self._journal.state.model
        if known is None or known.id != model:
            known = self._info = self.provider.model_info(model)
        return known

    @property
    def limit(self) -> ContextLimit:
        """How many tokens fit into the context of the model in use."""
        state, info, known = self._journal.state, self.info, self._limit
        if known is None or known[0] is not info or known[1] != state.learned_limit:
            server = self._fetched.get((self.provider.name, state.model))
            found = resolve_limit(state, self._limits, info.context_limit, server)
            self._limit = known = info, state.learned_limit, found
        return known[2]

    @property
    def fixed_chars(self) -> int:
        """The characters of the system prompt and the declared tools."""
        specs, known = self._active_tools.specs, self._tool_chars
        if known[0] is not specs:
            self._tool_chars = known = specs, sum(map(spec_chars, specs))
        return len(self._journal.state.system_prompt) + known[1]

    @property
    def context_usage(self) -> ContextUsage:
        """How full the context is, by the provider's last count and the text since, else estimated from the text."""
        return measure_usage(self._journal.state, self.limit, self.fixed_chars)

    @property
    def pin_chars(self) -> int:
        """How many characters pins may take in the context."""
        rate = tokens_per_char(self._journal.state, self.fixed_chars)
        return count_pin_chars(self.limit.tokens, self.context_usage.fixed_tokens, rate)

    def context_tokens_with(self, reply: Message, usage: Usage | None) -> int:
        """How many tokens the context has with a reply that is not in it yet."""
        return tokens_with_reply(self._journal.state, self.limit, self.fixed_chars, reply, usage)

    @property
    def account(self) -> Account:
        """What the context consists of."""
        return Account(self._journal.state, self.context_usage, self._active_tools.specs, self._instructions)

    @property
    def is_limit_fetchable(self) -> bool:
        """Whether nothing is known of the limit, and the model's server was not asked yet."""
        key = (self.provider.name, self._journal.state.model)
        return (
            self.limit.source == "assumed"
            and key not in self._fetched
            and isinstance(self.provider, FetchesLimit)
        )

    async def fetch_limit(self) -> None:
        """Ask the model's server for the limit, once; a failure leaves the assumption."""
        provider, model = self.provider, self._journal.state.model
        self._fetched[provider.name, model] = None
        assert isinstance(provider, FetchesLimit)
        with anyio.move_on_after(LIMIT_S):
            try:
                self._fetched[provider.name, model] = await provider.fetch_context_limit(model)
                self._limit = None
            except (ProviderError, ConfigError) as error:
                LOG.info("The limit of %s is not known: %s", model, error)

    def price(self, usage: Usage | None) -> float | None:
        """What this many tokens cost in US dollars; None when unknown."""
        return compute_price(usage, self.info)

    def price_reply(self, reply: Reply) -> float | None:
        """What the newest reply cost; where the provider does not report usage and a budget is in money, an estimate."""
        return self._unreported_usd if reply.usage is None else self.price(reply.usage)

    def request(self) -> ModelRequest:
        """The next request to the model; building it costs the same for any length of the history."""
        state = self._journal.state
        return ModelRequest(
            model=state.model,
            messages=state.messages,
            system=state.system_prompt,
            tools=self._active_tools.specs,
            settings=self.settings,
            conversation_id=state.agent_id if self._of_subagent else state.session_id,
            read_blob=functools.partial(self._journal.store.get_blob, state.session_id),
            encoded=self._encoded,
            replies=state.replies,
        )

    # --- the conversation ----------------------------------------------------------------------------------------

    @property
    def partial_text(self) -> str:
        """The text of the reply that is being written."""
        return "".join(self._parts)

    def clear_partial(self) -> None:
        """Discard the partial text: it was recorded, or the attempt failed."""
        self._parts.clear()

    async def stream_reply(self, request: ModelRequest, should_stop: Callable[[], bool]) -> Reply:
        """Stream the model's reply, with retries of retryable failures. Raises the last `ProviderError`,
        `CancelledException` when the turn is stopped, and `LimitReached` when a budget does not allow the call."""
        if self.info.context_limit is None:
            self._info = (
                None  # the provider may know more by now: the embedded model's is known once it is loaded
            )

        def show_retry(attempt: int, wait_s: float, error: ProviderError) -> None:
            journal = self._journal
            attempts = self.retry.attempts
            journal.show(
                Retry(
                    **journal.shown(),
                    attempt=attempt,
                    max_attempts=attempts,
                    wait_s=wait_s,
                    error=problem_of(error),
                )
            )
            self.clear_partial()

        preload(self.info)

        def attempt(most: int | None) -> Awaitable[Reply]:
            limited = clip_output(request, most)
            return with_retries(self.retry, lambda: self._stream_once(limited, should_stop), show_retry)

        return await self._within_budget(lambda: self.context_usage.total_tokens, attempt)

    async def _stream_once(self, request: ModelRequest, should_stop: Callable[[], bool]) -> Reply:
        self.clear_partial()
        head = self._journal.shown()
        parts = self._parts
        deltas = ReplyDeltas(self._journal, head) if self.streaming else None

        def take(chunk: Chunk) -> None:
            if should_stop():
                raise CancelledException("Stopped while the model was speaking.")
            match chunk:
                case TextDelta(text=text):
                    parts.append(text)
                    if deltas:
                        deltas.thinking.end()
                        deltas.model.feed(text)
                case ThinkingDelta(text=text):
                    if deltas:
                        deltas.thinking.feed(text)
                case CallDelta():
                    pass
                case PromptProgress(done=done, total=total):
                    event = InitProgress(**head, step=READING, done=done, total=total, unit="tokens")
                    self._journal.show(event)
                case Reply() if not deltas and chunk.message.text:
                    self._journal.show(output_event(head, "model", chunk.message.text, 0))

        try:
            return await read_reply(self.provider, request, take)
        finally:
            if deltas:
                deltas.thinking.end()
                deltas.model.end()

    # --- within the budgets --------------------------------------------------------------------------------------

    async def _within_budget(
        self,
        count_input: Callable[[], int],
        attempt: Callable[[int | None], Awaitable[Reply]],
        *,
        asks: bool = True,
    ) -> Reply:
        """Make a call that is reserved in the session's account first; `count_input` gives its input tokens, `attempt` takes
        the longest reply that the budget allows, None where nothing is to be changed. Raises `LimitReached`."""
        account = self._budget
        self.is_clipped, self._unreported_usd = False, None
        if account is None:
            return await attempt(None)
        agent_id, input_tokens = self._journal.state.agent_id, count_input()
        least, most, is_sure = self._expect_output(input_tokens)
        needs = [self._estimate_need(account, input_tokens, output) for output in (least, most)]
        share = await account.reserve(agent_id, *needs, asks=asks)
        granted = least + int((most - least) * share)
        is_limited = granted < most or not is_sure
        used: Amount | None = None
        try:
            reply = await attempt(granted if is_limited else None)
            usage = reply.usage or estimate_usage(reply.message, input_tokens)
            used = Amount(usage.input_tokens + usage.output_tokens, self.price(usage) or 0.0)
            self.is_clipped = is_limited and usage.output_tokens >= granted * SAFE_PART
            self._unreported_usd = used.usd if reply.usage is None and account.limits_money else None
            return reply
        finally:
            account.settle(agent_id, used)

    def _expect_output(self, input_tokens: int) -> tuple[int, int, bool]:
        """Output tokens of the next call: what is to be expected, the most there can be, and whether the provider holds that
        without being asked for it."""
        state, settings, limit = self._journal.state, self.settings, self.limit
        known = settings.max_output_tokens or self.info.output_limit
        room = max(USUAL_OUTPUT_TOKENS, limit.tokens - input_tokens)
        most = known or int(room * SAFE_PART)
        last = state.last_usage
        usual = max(USUAL_OUTPUT_TOKENS, last.output_tokens if last else 0)
        return min(most, usual), most, known is not None

    def _estimate_need(self, account: BudgetAccount, input_tokens: int, output_tokens: int) -> Amount:
        """What the next call uses with so much output, the input written to the provider's cache where that costs more. Raises
        `LimitReached` when its price is unknown and a budget is in money."""
        price = self.price(Usage(input_tokens, output_tokens))
        if price is None and account.limits_money:
            raise LimitReached(
                f"Stopped before the model was called: a budget in money cannot be held, because {explain_unknown_price(self.info)}. "
                "Give a budget in tokens, such as --budget '200k tokens'."
            )
        written = self.price(Usage(input_tokens, output_tokens, cache_write_tokens=input_tokens))
        return Amount(input_tokens + output_tokens, max(price or 0.0, written or 0.0))

    # --- questions outside the conversation ----------------------------------------------------------------------

    async def ask(self, question: str, *, timeout_s: float, purpose: str) -> ModelAnswer:
        """Ask the model a question without tools, outside the conversation; a failure or refusal is returned, not raised.
        `timeout_s` is for all retries together; the tokens are counted under `purpose`."""
        request = ModelRequest(
            model=self._journal.state.model,
            messages=[Message("user", [Text(question)], id=new_id("m"))],
            system=SUMMARY_SYSTEM,
            purpose=purpose,
            replies=self._journal.state.replies,
            settings=msgspec.structs.replace(self.settings, response_schema=None, stop=None),
        )
        with anyio.move_on_after(timeout_s):

            def attempt(most: int | None) -> Awaitable[Reply]:
                limited = clip_output(request, most)
                return with_retries(self.retry, lambda: read_reply(self.provider, limited))

            try:
                tokens = (len(question) + len(SUMMARY_SYSTEM)) // CHARS_PER_TOKEN
                reply = await self._within_budget(lambda: tokens, attempt, asks=False)
            except (ProviderError, LimitReached) as error:
                return ModelAnswer(None, str(error))
            if self._budget is not None and reply.usage is None:  # a budget has to know it
                reply = msgspec.structs.replace(reply, usage=estimate_usage(reply.message, tokens))
            return self._answer_in(reply, purpose)
        return ModelAnswer(None, f"it has not answered for {timeout_s:g} seconds")

    def _answer_in(self, reply: Reply, purpose: str) -> ModelAnswer:
        """Convert a reply to an answer and count its tokens. An empty or incomplete one is no answer."""
        cost = None
        if reply.usage is not None:
            cost = ModelCost(reply.usage, self.price(reply.usage))
            state = self._journal.state
            self.ledger.record_usage(
                state.model, reply.usage, cost.cost_usd, session_id=state.session_id, purpose=purpose
            )
        text = reply.message.text.strip()
        if reply.finish_reason in ("refusal", "error", "cancelled") or reply.message.function_calls:
            return ModelAnswer(None, f"it gave no summary ({reply.finish_reason})", cost)
        return ModelAnswer(text, "", cost) if text else ModelAnswer(None, "its reply was empty", cost)


def clip_output(request: ModelRequest, most: int | None) -> ModelRequest:
    """The request with this longest reply; None changes nothing."""
    if most is None:
        return request
    settings = msgspec.structs.replace(request.settings, max_output_tokens=most)
    return msgspec.structs.replace(request, settings=settings)


async def read_reply(
    provider: Provider, request: ModelRequest, on_chunk: Callable[[Chunk], None] | None = None
) -> Reply:
    """Read a stream to its end and return the reply; each chunk is passed to `on_chunk` first. Raises `ProviderError`."""
    stream = provider.stream(request)
    chunks = 0
    try:
        async for chunk in stream:
            chunks += 1
            if chunks % CHUNKS_AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()  # keeps a burst of chunks from blocking the loop
            if on_chunk is not None:
                on_chunk(chunk)
            if isinstance(chunk, Reply):
                usage = check_usage(chunk.usage)
                return chunk if usage is chunk.usage else msgspec.structs.replace(chunk, usage=usage)
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
    raise ConnectionFault(
        f"{provider.name} ended its stream before the reply was complete.", provider=provider.name
    )


def check_usage(usage: Usage | None) -> Usage | None:
    """The usage as far as it can be: nothing below zero, and none where a provider reports that nothing was used."""
    if usage is None or max(usage.input_tokens, usage.output_tokens) <= 0:
        return None
    if min(msgspec.structs.astuple(usage)) >= 0:
        return usage
    return Usage(*[max(0, tokens) for tokens in msgspec.structs.astuple(usage)])


class ReplyDeltas:
    """Publishes the deltas of one reply; secrets that span several deltas are redacted."""

    def __init__(self, journal: Journal, head: dict[str, Any]) -> None:
        self.model = Deltas(journal, head, "model")
        self.thinking = Deltas(journal, head, "thinking")


class Deltas:
    """Publishes the text of one source; `offset` counts the characters published."""

    def __init__(self, journal: Journal, head: dict[str, Any], source: Literal["model", "thinking"]) -> None:
        self._publish = journal.bus.publish
        self._head = head
        self._source: Literal["model", "thinking"] = source
        self._stream = journal.secrets.stream()
        self._offset = 0

    def feed(self, text: str) -> None:
        """Publish the text that can hold no part of a secret."""
        if text := self._stream.feed(text):
            self._show(text)

    def end(self) -> None:
        """Publish the text that was held back."""
        if text := self._stream.end():
            self._show(text)

    def _show(self, text: str) -> None:
        self._publish(output_event(self._head, self._source, text, self._offset))
        self._offset += len(text)


def output_event(
    head: dict[str, Any], source: Literal["model", "thinking"], text: str, offset: int
) -> AgentOutput:
    """A piece of text as the event that shows it."""
    mode: Literal["write", "append"] = "append" if offset else "write"
    return AgentOutput(**head, source=source, text=text, mode=mode, offset=offset)
