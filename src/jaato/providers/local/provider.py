"""The provider `local`: streams constrained turns of the embedded model, calls and answers alike."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaato.abc.provider import Chunk, ModelRequest, PromptProgress, Reply
from jaato.errors import ConnectionFault, InvalidRequest, MalformedReply, ProviderError
from jaato.protocol.ids import new_id
from jaato.protocol.messages import FinishReason, Message, Part, Text, Thinking, ToolCall, Usage
from jaato.protocol.specs import ModelInfo
from jaato.providers.local.engine import BATCH_TOKENS, EngineShare, Event, Job, import_engine
from jaato.providers.local.grammar import turn_schema
from jaato.providers.local.models import DEFAULT_MODEL, MODELS, check_model_file
from jaato.providers.local.prompt import build_prompt, find_listed_tools
from jaato.providers.local.prompt_cache import SavedStates
from jaato.providers.local.tool_views import visible_tool

if TYPE_CHECKING:
    from jaato.providers.local.turn_reader import TurnReader

CONTEXT_TOKENS = 16_384
"""The context that is set up: 470 MB of memory for the pinned model. The engine takes less where a model was trained for
less, and says so when a conversation is longer."""
MAX_OUTPUT_TOKENS = 2_000
MIN_READ_TOKENS = 4 * BATCH_TOKENS
"""Tokens to be read from which on the reading is shown: some four seconds of it."""
SEED = 7


class LocalProvider:
    """Answers with a GGUF model through llama.cpp in this process, one generation at a time for all its conversations.

    `model_path` is the model file; `cache_dir` the user's cache directory of jaato, where prompt states are
    kept (none are without it); `threads` the processor threads, by default as many as processors are free when it loads. Nothing
    is loaded before the first `stream`. Raises `ModelNotFound` for a file that is no model, and when the engine is not
    installed.
    """

    name = "local"

    def __init__(
        self,
        model_path: Path,
        *,
        cache_dir: Path | None = None,
        context_tokens: int = CONTEXT_TOKENS,
        threads: int | None = None,
    ) -> None:
        check_model_file(model_path)
        self._model = model_name(model_path)
        self._context_tokens = context_tokens
        states = None if cache_dir is None else SavedStates(cache_dir / "prompts", model_path)
        self._engine = EngineShare(
            model_path,
            context_tokens=self._context_tokens,
            threads=threads,
            states=states,
        )
        self._grammars: dict[str, str] = {}

    @property
    def busy(self) -> bool:
        """Whether a generation waits or is under way."""
        return self._engine.busy

    def model_info(self, model: str) -> ModelInfo:
        """What is known of the loaded model; it is the only one whatever `model` says."""
        return ModelInfo(
            id=self._model,
            provider=self.name,
            context_limit=self._context_tokens,
            output_limit=MAX_OUTPUT_TOKENS,
            price_input=0.0,
            price_cached_input=0.0,
            price_output=0.0,
        )

    async def models(self) -> list[ModelInfo]:
        """The one model."""
        return [self.model_info(self._model)]

    async def aclose(self) -> None:
        """Stop what is running; the last provider of a model lets go of it."""
        await asyncio.to_thread(self._engine.close)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """One turn: a call, or the answer's text as it is written, then the `Reply`.

        Raises `ContextOverflow` before anything is read, and `ProviderError`s for what the engine says.
        Cancelling the task stops the generation at the next token, or within a batch of them while it still
        reads.
        """
        try:
            async for chunk in self._turn(request, exact=True):
                yield chunk
            return
        except InvalidRequest as error:
            if "grammar" not in str(error).lower() or not request.tools:
                raise
        async for chunk in self._turn(request, exact=False):
            yield chunk

    async def _turn(self, request: ModelRequest, *, exact: bool) -> AsyncIterator[Chunk]:
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Event | BaseException | None] = asyncio.Queue()

        def hand_over(event: Event | BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(events.put_nowait, event)
            except RuntimeError:  # the loop is gone, and with it the reader
                job.stop.set()

        body, fixed = self._body(request, exact=exact)
        job = Job(body, fixed, on_event=hand_over, on_end=hand_over)
        self._engine.submit(job)
        from jaato.providers.local.turn_reader import (
            TurnReader,  # its parser is of the extra, as the engine is
        )

        reader = TurnReader(structured=request.settings.response_schema is not None)
        finish, usage = "stop", Usage()
        try:
            while (event := await events.get()) is not None:
                if isinstance(event, ProviderError):
                    raise event
                if isinstance(event, BaseException):
                    raise ConnectionFault(
                        f"The embedded model's engine failed: {event}", provider=self.name
                    ) from event
                if (progress := reading_progress(event)) is not None:
                    yield progress
                for choice in event.get("choices", ()):
                    if text := choice.get("delta", {}).get("content"):
                        for chunk in reader.feed(text):
                            yield chunk
                    finish = choice.get("finish_reason") or finish
                usage = usage_of(event.get("timings")) or usage
        finally:
            job.stop.set()
        yield self._reply(reader, finish, usage, request)

    def _body(self, request: ModelRequest, *, exact: bool) -> tuple[dict[str, Any], list[dict[str, str]]]:
        """The engine's request, and the messages of it that are the same for every conversation."""
        settings = request.settings
        tools = [visible_tool(tool) for tool in request.tools]
        prompt = build_prompt(request.messages, request.system, tools, self._base(request))
        limit = min(settings.max_output_tokens or MAX_OUTPUT_TOKENS, MAX_OUTPUT_TOKENS)
        body: dict[str, Any] = {
            "messages": prompt.messages,
            "grammar": self._grammar(tools, settings.response_schema, exact=exact),
            "temperature": settings.temperature if settings.temperature is not None else 0.0,
            "max_tokens": limit,
            "seed": SEED,
            "stream": True,
            "cache_prompt": True,
            "return_progress": True,
        }
        if settings.stop:
            body["stop"] = list(settings.stop)
        return body, prompt.messages[: prompt.fixed]

    def _base(self, request: ModelRequest) -> frozenset[str]:
        """The tools declared when the conversation began; they stay in front so that the prefix stays the
        same."""
        base: frozenset[str] | None = request.encoded.get("local.base")
        if base is None:
            base = frozenset(tool.name for tool in request.tools) - find_listed_tools(request.messages)
            request.encoded["local.base"] = base
        return base

    def _grammar(self, tools: Any, response: dict[str, Any] | None, *, exact: bool) -> str:
        """The grammar of a turn over these tools; made once for each set."""
        source = json.dumps(turn_schema(tools, response, exact=exact))
        found = self._grammars.get(source)
        if found is None:
            if len(self._grammars) >= 32:
                self._grammars.clear()
            found = self._grammars[source] = str(import_engine().json_schema_to_grammar(source))
        return found

    def _reply(self, reader: TurnReader, finish: str, usage: Usage, request: ModelRequest) -> Reply:
        """The whole message of a finished turn."""
        part, reason = part_of(reader, finish)
        parts: list[Part] = [Thinking(reader.step)] if reader.step else []
        parts += [part] if part else []
        message = Message("assistant", parts, provider=self.name, model=self._model)
        return Reply(message, reason, usage)


def part_of(reader: TurnReader, finish: str) -> tuple[Text | ToolCall | None, FinishReason]:
    """What the turn says; a call or an answer that was cut off is marked as such."""
    turn = reader.parse()
    if turn is None:
        if finish != "length":
            raise MalformedReply("The embedded model stopped in the middle of its turn.", provider="local")
        if reader.call:
            return ToolCall(
                new_id("c"), reader.call, {}, malformed=reader.get_unfinished_arguments()
            ), "length"
        return (Text(reader.answer) if reader.answer else None), "length"
    if "answer" in turn:
        answer = turn["answer"]
        return Text(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)), "stop"
    return ToolCall(new_id("c"), str(turn["tool"]), dict(turn["args"])), "tool_calls"


def reading_progress(event: Event) -> PromptProgress | None:
    """How much of the prompt is read, from an event of the engine; None where little of it is new."""
    progress = event.get("prompt_progress")
    if not progress or progress["total"] - progress["cache"] < MIN_READ_TOKENS:
        return None
    return PromptProgress(progress["processed"], progress["total"])


def usage_of(timings: dict[str, Any] | None) -> Usage | None:
    """The tokens of a turn from the engine's last event."""
    if not timings:
        return None
    cached = max(0, int(timings.get("cache_n", 0)))
    return Usage(
        input_tokens=cached + int(timings.get("prompt_n", 0)),
        output_tokens=int(timings.get("predicted_n", 0)),
        cached_input_tokens=cached,
    )


def model_name(path: Path) -> str:
    """The pinned model's name for its file, else the file's own name."""
    for model in MODELS.values():
        if model.file_name == path.name:
            return model.name
    return path.stem or DEFAULT_MODEL
