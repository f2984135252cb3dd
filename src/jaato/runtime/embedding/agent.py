"""`Agent`: the ten-line way in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import anyio
import anyio.lowlevel
import msgspec

from jaato.agent.retry import RetryPolicy
from jaato.errors import (
    CancelledException,
    ConfigError,
    JaatoError,
    LimitReached,
    from_code,
)
from jaato.protocol.events import Event
from jaato.protocol.messages import Media
from jaato.protocol.specs import Mode, ModelSettings
from jaato.runtime.embedding.attachments import attach, text_of
from jaato.runtime.embedding.handlers import ClarificationHandler, PermissionHandler, answer_questions
from jaato.runtime.embedding.portal import PORTAL
from jaato.runtime.embedding.structured_output import Result, ask_until_parsed, last_text
from jaato.tools.call import CURRENT
from jaato.tools.schema import schema_of
from jaato.tools.tool import Tool

if TYPE_CHECKING:
    from jaato.abc.provider import Provider
    from jaato.agent.bus import Subscription
    from jaato.agent.session import Session

T = TypeVar("T")


@dataclass(eq=False)
class Agent:
    """An agent with tools in a workspace.

    `async with Agent(model="…") as agent: result = await agent.run("…")`, or without a loop `Agent(…).run_sync("…")`.
    `provider` is a name or an object; without it the configured one, else one whose key is set, is used. `tools` are
    functions or objects of `@tool`, which run without asking; built-in tools read freely and ask for the rest: put
    names into `allow`, give `on_permission`, or say `yes=True`. `mode`, `sandbox`, `allow_domains` and `add_dirs` say what
    commands may reach, as the settings of these names. `budget` limits what it may use, as `--budget` does: `"50k tokens,
    $2 per turn"`; `on_clarification` is asked when it is used up, and without it `run` raises `LimitReached`. With
    `session` (an id, prefix or name) a stored one goes on.
    """

    model: str | None = None
    provider: str | Provider | None = None
    tools: Sequence[Callable[..., Any] | Tool] = ()
    workspace: str | Path | None = None
    session: str | None = None
    name: str | None = None
    system_prompt: str | None = None
    plugins: Iterable[str] | None = None
    allow: Sequence[str] = ()
    deny: Sequence[str] = ()
    yes: bool = False
    read_only: bool = False
    mode: Mode | None = None
    sandbox: Literal["workspace-write", "full"] | None = None
    allow_domains: Sequence[str] = ()
    add_dirs: Sequence[str | Path] = ()
    on_permission: PermissionHandler | None = None
    on_clarification: ClarificationHandler | None = None
    temperature: float | None = None
    effort: Any = None
    max_output_tokens: int | None = None
    stop_sequences: Sequence[str] | None = None
    max_turns: int | None = 200
    budget: str | Sequence[str] = ()
    retry: RetryPolicy = RetryPolicy()
    base_url: str | None = None
    api_key: str | None = None
    state_dir: str | Path | None = None
    environ: dict[str, str] | None = None
    _session: Session | None = field(default=None, init=False, repr=False)
    _close: Callable[[], Awaitable[None]] | None = field(default=None, init=False, repr=False)
    _leave: Callable[[], None] | None = field(default=None, init=False, repr=False)
    _alone: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False)

    async def __aenter__(self) -> Agent:
        if self._session is not None:
            raise JaatoError("This agent is entered already; make another one for a second conversation.")
        from jaato.agent.turn import Limits
        from jaato.runtime.session_factory import open_session
        from jaato.runtime.session_options import SessionOptions

        settings = ModelSettings(
            temperature=self.temperature,
            max_output_tokens=self.max_output_tokens,
            effort=self.effort,
            stop=list(to_tuple("stop_sequences", self.stop_sequences or ())) or None,
        )
        options = SessionOptions(
            model=self.model,
            provider=self.provider,
            tools=to_tuple("tools", self.tools),
            workspace=Path(self.workspace) if self.workspace is not None else None,
            session=self.session,
            name=self.name,
            prompt=self.system_prompt,
            plugins=to_tuple("plugins", self.plugins) if self.plugins is not None else None,
            allow=to_tuple("allow", self.allow),
            deny=to_tuple("deny", self.deny),
            yes=self.yes,
            read_only=self.read_only,
            mode=self.mode,
            sandbox=self.sandbox,
            allow_domains=to_tuple("allow_domains", self.allow_domains),
            add_dirs=tuple(str(path) for path in to_tuple("add_dirs", self.add_dirs)),
            settings=settings,
            limits=Limits(model_calls=self.max_turns),
            budget=(self.budget,) if isinstance(self.budget, str) else tuple(self.budget),
            retry=self.retry,
            base_url=self.base_url,
            api_key=self.api_key,
            state_dir=Path(self.state_dir) if self.state_dir is not None else None,
            environ=self.environ,
        )
        self._session, self._close = await open_session(options)
        if self.on_permission is not None or self.on_clarification is not None:
            self._leave = answer_questions(self._session, self.on_permission, self.on_clarification)
        return self

    async def __aexit__(self, *_: object) -> None:
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()
        close, self._close, self._session = self._close, None, None
        if close is not None:
            await close()

    @property
    def live(self) -> Session:
        """The session at work; raises when the agent was not entered."""
        if self._session is None:
            raise JaatoError("Enter the agent first: `async with Agent(…) as agent:`, or use run_sync.")
        return self._session

    @property
    def session_id(self) -> str:
        """The id under which the conversation is stored."""
        return self.live.state.session_id

    @overload
    async def run(self, prompt: str, *, images: Sequence[Path | str] = ()) -> Result[None]: ...
    @overload
    async def run(
        self, prompt: str, *, output_type: type[T], images: Sequence[Path | str] = ()
    ) -> Result[T]: ...
    async def run(
        self, prompt: str, *, output_type: Any = None, images: Sequence[Path | str] = ()
    ) -> Result[Any]:
        """Take one prompt to its end. With `output_type` the answer is JSON of that type, in `data`.

        Raises what ended the turn early: a `ProviderError`, `LimitReached`, `CancelledException`.
        """
        await self._require_idle()
        if output_type is None:
            return await self._turn(prompt, images)
        model, unused = self.live.model, [*images]
        before = model.settings
        model.settings = msgspec.structs.replace(before, response_schema=schema_of(output_type))

        async def ask(text: str) -> Result[None]:
            result = await self._turn(text, unused)
            unused.clear()
            return result

        try:
            return await ask_until_parsed(prompt, output_type, ask)
        finally:
            model.settings = before

    async def _require_idle(self) -> None:
        """Raise `JaatoError` while a turn runs; one whose stream was just left ends in the next rounds of the loop."""
        for _round in range(3):
            if not self.live.is_busy:
                return
            await anyio.lowlevel.checkpoint()
        if self.live.is_busy and not self.live.turns.is_stopping:
            raise JaatoError("The agent is at work; use post() to steer it, or wait until it is done.")

    async def _turn(self, prompt: str, images: Sequence[Path | str]) -> Result[None]:
        session = self.live
        turn = await session.post(text_of(prompt), self._media(images))
        if turn is None:
            raise JaatoError("The agent was at work; the message waits for its next pause.")
        match turn.reason:
            case "error" | "limit" if turn.error is not None:
                raise from_code(turn.error.code, turn.error.message)
            case "limit":
                raise LimitReached("The turn reached its limit.")
            case "cancelled" | "interrupted":
                raise CancelledException("The turn was stopped.")
        return Result(last_text(session), None, turn, self.session_id)

    def _media(self, images: Sequence[Path | str]) -> list[Media]:
        return [attach(self.live, Path(image)) for image in images]

    async def stream(self, prompt: str, *, images: Sequence[Path | str] = ()) -> AsyncIterator[Event]:
        """The events of one turn as they happen, `turn.completed` last. Leaving the loop early stops the turn."""
        await self._require_idle()
        session = self.live
        with session.journal.bus.subscribe() as events:
            turn = asyncio.ensure_future(
                post_and_close(session, text_of(prompt), self._media(images), events)
            )
            try:
                async for event in events:
                    yield event
            finally:
                if not turn.done():
                    session.stop()
                with anyio.CancelScope(shield=True):
                    await turn

    async def post(self, text: str) -> None:
        """Send a message while the agent works; it is delivered at the next pause."""
        await self.live.post(text_of(text))

    def stop(self) -> None:
        """Stop the turn that runs."""
        if self._session is not None:
            self._session.stop()

    def run_sync(
        self, prompt: str, *, output_type: Any = None, images: Sequence[Path | str] = ()
    ) -> Result[Any]:
        """`run` for programs without an event loop: enters the agent, runs, and leaves it again. Calls from several
        threads take turns; raises `JaatoError` for an agent that was entered with `async with`."""

        call = CURRENT.get()
        if call is not None and self._session is not None and call.session_id == self.session_id:
            raise JaatoError("A tool cannot run the very agent whose call it is: it would wait for itself.")

        async def whole() -> Result[Any]:
            async with self._alone, self:
                result: Result[Any] = await self.run(prompt, output_type=output_type, images=images)
                self.session = result.session_id
                return result

        return PORTAL.call(whole())


async def post_and_close(session: Session, prompt: str, media: list[Media], events: Subscription) -> None:
    """Run a turn for a stream: what goes wrong in it reaches the reader as events, then the stream ends."""
    try:
        await session.post(prompt, media)
    finally:
        events.close()


def to_tuple(name: str, given: Iterable[T], of: str = "Agent") -> tuple[T, ...]:
    """An argument that is a list; raises `ConfigError` for a single text, which would be taken as letters."""
    if isinstance(given, str):
        raise ConfigError(f"{of}'s `{name}` is a list: {name}=[{given!r}], not one text.")
    return tuple(given)
