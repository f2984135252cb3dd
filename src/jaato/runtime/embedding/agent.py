"""`Agent`: the ten-line way in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

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
from jaato.protocol.events import AgentOutput, Event, TurnCompleted
from jaato.protocol.messages import Media, Message
from jaato.protocol.specs import Mode, ModelSettings
from jaato.runtime.embedding.attachments import attach, text_of
from jaato.runtime.embedding.handlers import ClarificationHandler, PermissionHandler, answer_questions
from jaato.runtime.embedding.portal import PORTAL, call_in
from jaato.runtime.embedding.run_options import RunOptions, check_options, model_for_run
from jaato.runtime.embedding.structured_output import Result, ask_until_parsed, last_text
from jaato.tools.call import CURRENT, Dependencies
from jaato.tools.schema import schema_of, takes_dependencies
from jaato.tools.tool import Tool, unwrap_function

if TYPE_CHECKING:
    from jaato.abc.plugin import Plugin, ToolPlugin
    from jaato.abc.provider import Provider
    from jaato.abc.subagents import SubagentProfile
    from jaato.agent.bus import Subscription
    from jaato.agent.history import History
    from jaato.agent.session import Session
    from jaato.runtime.session_options import ProgramOptions

    OwnPlugin = Plugin | ToolPlugin | type[Plugin] | type[ToolPlugin] | Callable[[], Plugin | ToolPlugin]

T = TypeVar("T")


@dataclass(eq=False)
class Agent:
    """An agent with your `tools` and jaato's: files, search, shell, web, subagents, …; with `builtin_tools=False` only yours.

    `async with Agent(model="…") as agent: result = await agent.run("…")`, or without a loop `Agent(…).run_sync("…")`.
    `provider` is a name or an object; without it the configured one, else one whose key is set, is used. `tools` are
    functions or objects of `@tool`, which run without asking; built-in tools read freely and ask for the rest: put
    names into `allow`, give `on_permission`, or say `yes=True`. `mode`, `sandbox`, `allow_domains` and `add_dirs` say what
    commands may reach, as the settings of these names. `budget` limits what it may use, as `--budget` does: `"50k tokens,
    $2 per turn"`; `on_clarification` is asked when it is used up, and without it `run` raises `LimitReached`.
    `plugins` chooses plugins by name; classes and objects in it are your own. `mcp_servers` (entries as in `.mcp.json`) and
    `subagents` (profiles) are by name. Tools get `dependencies` as `call.dependencies`. `history` has messages that a new
    session begins with. With `session` (an id, prefix or name) a stored one is resumed.
    """

    model: str | None = None
    provider: str | Provider | None = None
    tools: Sequence[Callable[..., Any] | Tool] = ()
    workspace: str | Path | None = None
    session: str | None = None
    name: str | None = None
    system_prompt: str | None = None
    plugins: Iterable[str | OwnPlugin] | None = None
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
    builtin_tools: bool = True
    mcp_servers: Mapping[str, Mapping[str, Any]] | None = None
    subagents: Mapping[str, SubagentProfile] | None = None
    dependencies: Any = None
    history: History = ()
    _session: Session | None = field(default=None, init=False, repr=False)
    _close: Callable[[], Awaitable[None]] | None = field(default=None, init=False, repr=False)
    _leave: Callable[[], None] | None = field(default=None, init=False, repr=False)
    _loop: asyncio.AbstractEventLoop | None = field(default=None, init=False, repr=False)
    _alone: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False)
    _given: Dependencies = field(default_factory=Dependencies, init=False, repr=False)
    _dependent: str = field(default="", init=False, repr=False)

    async def __aenter__(self) -> Agent:
        if self._session is not None:
            raise JaatoError("This agent is entered already; make another one for a second conversation.")
        from jaato.agent.history import parse_history

        history = parse_history(self.history)
        if history and self.session is not None:
            raise ConfigError("Give `session` or `history`: a stored session has its messages already.")
        await self._enter(self.session, history)
        return self

    async def _enter(self, session: str | None, history: tuple[Message, ...]) -> None:
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
            session=session,
            name=self.name,
            prompt=self.system_prompt,
            plugins=self._get_plugin_names(),
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
            program=self._program(history),
        )
        self._session, self._close = await open_session(options)
        self._loop = asyncio.get_running_loop()
        self._dependent = find_dependent(options.tools)
        if self.on_permission is not None or self.on_clarification is not None:
            self._leave = answer_questions(self._session, self.on_permission, self.on_clarification)

    def _get_plugin_names(self) -> tuple[str, ...] | None:
        """The plugins that were chosen by name; None: all, which own plugins join."""
        given = self.plugins = to_tuple("plugins", self.plugins) if self.plugins is not None else None
        names = tuple(one for one in given or () if isinstance(one, str))
        if names and not self.builtin_tools:
            raise ConfigError(f"builtin_tools=False leaves {names[0]!r} out; give one or the other.")
        return names if names or given == () else None

    def _program(self, history: tuple[Message, ...]) -> ProgramOptions:
        from jaato.runtime.session_options import ProgramOptions

        self._given.value = self.dependencies
        return ProgramOptions(
            plugins=tuple(one for one in self.plugins or () if not isinstance(one, str)),
            builtin_tools=self.builtin_tools,
            mcp_servers=to_dict("mcp_servers", self.mcp_servers),
            subagents=to_dict("subagents", self.subagents),
            dependencies=self._given,
            history=history,
        )

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
    async def run(
        self,
        prompt: str,
        *,
        output_type: None = None,
        **options: Unpack[RunOptions],
    ) -> Result[None]: ...
    @overload
    async def run(
        self,
        prompt: str,
        *,
        output_type: type[T],
        **options: Unpack[RunOptions],
    ) -> Result[T]: ...
    async def run(
        self,
        prompt: str,
        *,
        output_type: Any = None,
        **options: Unpack[RunOptions],
    ) -> Result[Any]:
        """Take one prompt to its end. With `output_type` the answer is JSON of that type, in `data`.

        For this run hold the options `images`, `model`, `dependencies` and `history`, see `RunOptions`. Raises what ended the
        turn early: a `ProviderError`, `LimitReached`, `CancelledException`.
        """
        async with self._prepare(options):
            images = options.get("images", ())
            if output_type is None:
                return await self._turn(prompt, images)
            client, unused = self.live.model, [*images]
            before = client.settings
            client.settings = msgspec.structs.replace(before, response_schema=schema_of(output_type))

            async def ask(text: str) -> Result[None]:
                result = await self._turn(text, unused)
                unused.clear()
                return result

            try:
                return await ask_until_parsed(prompt, output_type, ask)
            finally:
                client.settings = before

    @contextlib.asynccontextmanager
    async def _prepare(self, options: RunOptions) -> AsyncGenerator[None, None]:
        """An idle session with what holds for one run alone."""
        check_options(options)
        await self._require_idle()
        if (history := options.get("history")) is not None:
            await self._begin_with(history)
        dependencies = options.get("dependencies")
        given = dependencies if dependencies is not None else self.dependencies
        if given is None and self._dependent:
            raise ConfigError(
                f"The tool {self._dependent} takes dependencies; give them as Agent(dependencies=…) or for one run."
            )
        self._given.value = given
        try:
            async with model_for_run(self.live, options.get("model")):
                yield
        finally:
            self._given.value = self.dependencies

    async def _begin_with(self, given: History) -> None:
        """Go on in a new session that begins with these messages, unless the present one has just these."""
        from jaato.agent.history import parse_history

        history = parse_history(given)
        state = self.live.state
        if list(history) == state.messages:
            return
        await self.__aexit__()
        await self._enter(None, history)
        if not state.messages:
            self.live.journal.store.delete(state.session_id)  # it was never used

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
        raise_early_end(turn)
        return Result(last_text(session), None, turn, self.session_id, [*session.state.messages])

    def _media(self, images: Sequence[Path | str]) -> list[Media]:
        return [attach(self.live, Path(image)) for image in images]

    async def stream(
        self,
        prompt: str,
        **options: Unpack[RunOptions],
    ) -> AsyncGenerator[Event, None]:
        """The events of one turn as they happen, `turn.completed` last. Leaving the loop early stops the turn. The options
        are those of `run`."""
        async with self._prepare(options):
            session = self.live
            with session.journal.bus.subscribe() as events:
                turn = asyncio.ensure_future(
                    post_and_close(session, text_of(prompt), self._media(options.get("images", ())), events)
                )
                try:
                    async for event in events:
                        yield event
                finally:
                    if not turn.done():
                        session.stop()
                    with anyio.CancelScope(shield=True):
                        await turn

    async def stream_text(
        self,
        prompt: str,
        **options: Unpack[RunOptions],
    ) -> AsyncGenerator[str, None]:
        """The model's text of one turn in pieces as it comes, with an empty line between two replies. Raises as `run` does.

        A reply that is retried begins again, after an empty line.
        """
        events = self.stream(prompt, **options)
        started = False
        async with contextlib.aclosing(events):
            async for event in events:
                if event.agent_id != self.live.state.agent_id:
                    continue
                match event:
                    case AgentOutput(source="model"):
                        if started and not event.offset:
                            yield "\n\n"
                        started = True
                        yield event.text
                    case TurnCompleted():
                        raise_early_end(event)

    async def post(self, text: str) -> None:
        """Send a message while the agent works; it is delivered at the next pause."""
        await self.live.post(text_of(text))

    def stop(self) -> None:
        """Stop the turn that runs; may be called from any thread."""
        session, loop = self._session, self._loop
        if session is not None and loop is not None:
            call_in(loop, session.stop)

    @overload
    def run_sync(
        self,
        prompt: str,
        *,
        output_type: None = None,
        **options: Unpack[RunOptions],
    ) -> Result[None]: ...
    @overload
    def run_sync(
        self,
        prompt: str,
        *,
        output_type: type[T],
        **options: Unpack[RunOptions],
    ) -> Result[T]: ...
    def run_sync(
        self,
        prompt: str,
        *,
        output_type: Any = None,
        **options: Unpack[RunOptions],
    ) -> Result[Any]:
        """`run` for programs without an event loop: enters the agent, runs, and leaves it again. Calls from several
        threads take turns; raises `JaatoError` for an agent that was entered with `async with`. The options are those of
        `run`."""
        check_options(options)
        call = CURRENT.get()
        if call is not None and self._session is not None and call.session_id == self.session_id:
            raise JaatoError("A tool cannot run the very agent whose call it is: it would wait for itself.")

        async def whole() -> Result[Any]:
            async with self._alone, self:
                result: Result[Any] = await self.run(prompt, output_type=output_type, **options)
                self.session, self.history = result.session_id, ()
                return result

        return PORTAL.call(whole())


def raise_early_end(turn: TurnCompleted) -> None:
    """Raise what ended a turn early, if anything did."""
    match turn.reason:
        case "error" | "limit" if turn.error is not None:
            raise from_code(turn.error.code, turn.error.message)
        case "limit":
            raise LimitReached("The turn reached its limit.")
        case "cancelled" | "interrupted":
            raise CancelledException("The turn was stopped.")


def find_dependent(tools: Iterable[Callable[..., Any] | Tool]) -> str:
    """The name of the first function that takes dependencies; empty without one."""
    for entry in tools:
        if not isinstance(entry, Tool) and takes_dependencies(unwrap_function(entry)):
            return str(getattr(entry, "__name__", type(entry).__name__))
    return ""


async def post_and_close(session: Session, prompt: str, media: list[Media], events: Subscription) -> None:
    """Run a turn for a stream: what goes wrong in it reaches the reader as events, then the stream ends."""
    try:
        await session.post(prompt, media)
    finally:
        events.close()


def to_tuple(name: str, given: Iterable[T], of: str = "Agent") -> tuple[T, ...]:
    """An argument that is a list; raises `ConfigError` for a single text, which would be taken as letters, and for no list."""
    if isinstance(given, str):
        raise ConfigError(f"{of}'s `{name}` is a list: {name}=[{given!r}], not one text.")
    if not isinstance(given, Iterable):
        raise ConfigError(f"{of}'s `{name}` is a list, not {given!r:.80}.")
    return tuple(given)


def to_dict(name: str, given: Any) -> dict[str, Any]:
    """An argument that is a dict by name; raises `ConfigError` for anything else."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise ConfigError(f"Agent's `{name}` is a dict by name, not {given!r:.80}.")
    return dict(given)
