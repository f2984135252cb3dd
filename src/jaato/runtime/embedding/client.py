"""`JaatoClient` and `JaatoRuntime`: sessions for programs without an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import Any

import msgspec

from jaato.abc.asker import Answer, Question
from jaato.abc.compactor import GCConfig, GCPlugin
from jaato.abc.plugin import UserCommand
from jaato.abc.provider import Provider
from jaato.abc.session_plugin import SessionConfig, SessionPlugin
from jaato.abc.subagents import SubagentRequest, ToolChoice
from jaato.agent.history import History, parse_history
from jaato.agent.session import Session
from jaato.errors import ConfigError
from jaato.protocol.messages import Message
from jaato.runtime.embedding.portal import PORTAL
from jaato.runtime.embedding.session import JaatoSession, OutputCallback, RetryCallback
from jaato.runtime.known_providers import environ_for
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.session_factory import open_session, registry_for
from jaato.runtime.session_options import SessionOptions
from jaato.runtime.session_saving import SESSION_PLUGINS
from jaato.tools.ledger import TokenLedger
from jaato.tools.task_records import start_thread


class SyncAsker:
    """A permission channel that blocks (a console), asked from a worker thread so that the loop is not blocked."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    async def ask(self, question: Question) -> Answer | None:
        """The channel's answer."""
        answer: Answer | None = await asyncio.wrap_future(start_thread(lambda: self._channel.ask(question)))
        return answer


class JaatoClient:
    """The documented facade over runtime and main session: connect, configure tools, send messages."""

    def __init__(self, provider_name: str | None = None, *, state_dir: str | Path | None = None) -> None:
        self._provider: str | Provider | None = provider_name
        self._state_dir = Path(state_dir) if state_dir is not None else None
        self._blueprint: SessionOptions | None = None
        self._runtime: JaatoRuntime | None = None
        self._session: JaatoSession | None = None
        self._hooks: Any = None
        self._stored: str | None = None
        self._history: tuple[Message, ...] = ()
        """What the next session begins with."""
        self._retry_callback: RetryCallback | None = None
        self._gc: tuple[GCPlugin | None, GCConfig | None] | None = None
        self._keeping: tuple[SessionPlugin, SessionConfig | None] | None = None
        self._streaming = True
        self._making = threading.RLock()

    def connect(
        self,
        project: str | None = None,
        location: str | None = None,
        model: str | None = None,
        *,
        project_id: str | None = None,
        provider: str | Provider | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        workspace: str | Path | None = None,
    ) -> None:
        """Say which model answers. With a project and location it is Gemini on Vertex AI, else `provider` names it."""
        chosen = provider or self._provider
        if project or project_id:
            chosen = chosen or "google_genai"
        self.close()
        self._blueprint = SessionOptions(
            model=model,
            provider=chosen,
            workspace=Path(workspace) if workspace is not None else None,
            base_url=base_url,
            api_key=api_key,
            state_dir=self._state_dir,
            environ=environ_for(project or project_id, location),
        )

    def configure_tools(
        self,
        registry: PluginRegistry | None = None,
        permission_plugin: Any = None,
        ledger: TokenLedger | None = None,
    ) -> None:
        """Say which tools the agent has, who is asked, and where tokens are counted."""
        asker = getattr(permission_plugin, "channel", None)
        gate = getattr(permission_plugin, "gate", None)
        self.close()
        self._blueprint = msgspec.structs.replace(
            self._require_connected(),
            registry=registry,
            policy=getattr(gate, "policy", None),
            asker=SyncAsker(asker) if asker is not None else None,
            ledger=ledger,
        )

    def _require_connected(self) -> SessionOptions:
        if self._blueprint is None:
            raise ConfigError("Call connect(…) first: it says which model answers.")
        return self._blueprint

    def get_runtime(self) -> JaatoRuntime:
        """What this client's session and further ones share."""
        with self._making:
            if self._runtime is None:
                self._runtime = JaatoRuntime(self._require_connected())
            return self._runtime

    def get_session(self) -> JaatoSession:
        """The main agent's session, begun when first needed."""
        with self._making:
            return self._get_session()

    def _get_session(self) -> JaatoSession:
        if self._session is None:
            self._session = self.get_runtime().create_session(session=self._stored, history=self._history)
            self._history = ()
            self._session.set_streaming_enabled(self._streaming)
            self._session.set_retry_callback(self._retry_callback)
            if self._gc is not None:
                self._session.set_gc_plugin(*self._gc)
            if self._keeping is not None:
                self._session.set_session_plugin(*self._keeping)
            if self._hooks is not None:
                self._session.set_ui_hooks(self._hooks, "main")
        return self._session

    def send_message(self, text: str, on_output: OutputCallback | None = None) -> str:
        """Send a message and wait for the response's text; see `JaatoSession.send_message`."""
        return self.get_session().send_message(text, on_output)

    def get_history(self) -> list[Message]:
        """The conversation so far."""
        return self.get_session().get_history()

    def reset_session(self, history: History | None = None) -> None:
        """Begin a new conversation with the same tools, `history` being its messages so far; the old one stays
        stored. Raises `ConfigError` for a history of the wrong form, and keeps the old one."""
        messages = parse_history(history or ())
        self._end()
        self._stored, self._history = None, messages

    def compact(self, words: str = "") -> bool:
        """Compact the context now; see `JaatoSession.compact`."""
        return self.get_session().compact(words)

    def get_context_usage(self, *, messages: bool = False) -> dict[str, Any]:
        """How full the model's context is, and what it consists of; see `JaatoSession.get_context_usage`."""
        return self.get_session().get_context_usage(messages=messages)

    def stop(self) -> bool:
        """Stop what is being worked on; whether anything was."""
        return self._session.request_stop() if self._session is not None else False

    @property
    def is_processing(self) -> bool:
        """Whether a message is being worked on."""
        return self._session is not None and self._session.is_processing

    def set_streaming_enabled(self, enabled: bool) -> None:
        """Whether output is shown as it comes."""
        self._streaming = enabled
        if self._session is not None:
            self._session.set_streaming_enabled(enabled)

    def set_ui_hooks(self, hooks: Any) -> None:
        """Tell these hooks what the main agent does."""
        self._hooks = hooks
        if self._session is not None:
            self._session.set_ui_hooks(hooks, "main")

    def set_retry_callback(self, callback: RetryCallback | None) -> None:
        """Set the callback for retries; see `JaatoSession.set_retry_callback`."""
        self._retry_callback = callback
        if self._session is not None:
            self._session.set_retry_callback(callback)

    def set_gc_plugin(self, plugin: GCPlugin | None, config: GCConfig | None = None) -> None:
        """Which strategy compacts a full context instead of the one of the settings (`gc_hybrid`); None turns compaction
        off. See `JaatoSession.set_gc_plugin`."""
        self._gc = plugin, config
        if self._session is not None:
            self._session.set_gc_plugin(plugin, config)

    def set_session_plugin(self, plugin: SessionPlugin, config: SessionConfig | None = None) -> None:
        """What keeps sessions beside their logs; see `JaatoSession.set_session_plugin`. Raises `PluginError`."""
        SESSION_PLUGINS.check(plugin, str(getattr(plugin, "name", plugin)))
        self._keeping = (plugin, config)
        if self._session is not None:
            self._session.set_session_plugin(plugin, config)

    def resume_session(self, session: str) -> str:
        """Go on with a stored or saved session, by its id, the beginning of one, or its name; returns its id.

        Raises `SessionNotFound`, `ConfigError` for a damaged copy; the present session continues then.
        """
        with self._making:
            current = self._get_session()
            session_id = current.bring(session)
            if session_id != current.live.state.session_id:
                self._end()
                self._stored, self._history = session_id, ()
        return session_id

    def get_user_commands(self) -> list[UserCommand]:
        """The commands a user can type, those of the session plugin included."""
        registry = self.get_runtime().registry
        known = {command.name: command for command in registry.get_exposed_user_commands()}
        plugin = self._keeping[0] if self._keeping else None
        for command in getattr(plugin, "get_user_commands", list)():
            known.setdefault(command[0], UserCommand(*command))
        return list(known.values())

    def execute_user_command(self, name: str, arguments: str = "") -> str:
        """The output of a user command; `resume ID` resumes another session. Raises `ConfigError` for an unknown one,
        and what the command raises."""
        if name == "resume":
            return f"The session {self.resume_session(arguments.strip())} goes on."
        return self.get_session().execute_user_command(name, arguments)

    def close(self) -> None:
        """End the session and let go of everything; the log stays."""
        self._end()
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            runtime.close()

    def _end(self) -> None:
        with self._making:
            session, self._session = self._session, None
        if session is not None:
            session.close()

    def __enter__(self) -> JaatoClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


__all__ = ["JaatoClient", "JaatoRuntime", "JaatoSession", "OutputCallback", "RetryCallback"]


class JaatoRuntime:
    """What agents share: provider configuration, plugins, permissions, ledger. Its sessions end with it.

    Plugins that were given stay the giver's to shut down; those the runtime made itself end with it.
    """

    def __init__(self, blueprint: SessionOptions) -> None:
        self._owns_registry = blueprint.registry is None
        self.ledger: TokenLedger = blueprint.ledger or TokenLedger()
        """Where token use of all its agents is counted."""
        self._blueprint = msgspec.structs.replace(blueprint, ledger=self.ledger)
        self._sessions: set[JaatoSession] = set()

    @property
    def registry(self) -> PluginRegistry:
        """The plugins that agents of this runtime use; all built-in ones unless others were given."""
        if self._blueprint.registry is None:
            registry = PORTAL.call(registry_for(self._blueprint))
            self._blueprint = msgspec.structs.replace(self._blueprint, registry=registry)
        assert self._blueprint.registry is not None
        return self._blueprint.registry

    def close(self) -> None:
        """End the sessions that are still open, and let go of the plugins that the runtime made."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._shut_down_plugins)
            for session in tuple(self._sessions):
                stack.callback(session.close)

    def _shut_down_plugins(self) -> None:
        registry = self._blueprint.registry
        if self._owns_registry and registry is not None:
            registry.shutdown()
            self._blueprint = msgspec.structs.replace(self._blueprint, registry=None)

    def create_session(
        self,
        model: str | None = None,
        tools: list[str] | None = None,
        system_instructions: str | None = None,
        *,
        parent: JaatoSession | None = None,
        name: str | None = None,
        session: str | None = None,
        history: tuple[Message, ...] = (),
    ) -> JaatoSession:
        """A new session, cheap to make, or the stored one of the id `session`; `tools` names the plugins and single tools it
        may use. A new one begins with the messages of `history`.

        With a `parent` it is a subagent of that one's agent, in the same log; it ends with it at the latest. Raises
        `ToolError` where a bound on subagents says no.
        """
        if parent is not None:
            order = SubagentRequest(
                task="",
                name=name,
                instructions=system_instructions,
                model=model,
                choices=(self._split_choice(tools),) if tools is not None else (),
            )
            return PORTAL.call(self._create_subagent(parent.live, order))
        registry = self.registry
        changed = msgspec.structs.replace(
            self._blueprint,
            model=model or self._blueprint.model,
            plugins=tuple(tools) if tools is not None else self._blueprint.plugins,
            session=session,
            program=msgspec.structs.replace(self._blueprint.program, history=history),
            prompt=system_instructions if system_instructions is not None else self._blueprint.prompt,
        )
        live, close = PORTAL.call(open_session(changed, wire=False))

        async def end() -> None:
            self._sessions.discard(made)
            await close()
            registry.forget_session(made)

        made = JaatoSession(live, end)
        self._sessions.add(made)
        registry.set_session(made)
        return made

    def _split_choice(self, names: list[str]) -> ToolChoice:
        """Plugins and tools by name, apart."""
        registry = self.registry
        tools = [name for name in names if registry.toolset(name) is None and name in registry.catalog]
        return ToolChoice(plugins=[name for name in names if name not in tools], tools=tools)

    async def _create_subagent(self, parent: Session, order: SubagentRequest) -> JaatoSession:
        supervisor = parent.supervisor
        child = await supervisor.spawn(parent.state.agent_id, order)
        session = child.session
        assert isinstance(session, Session)
        session.model.streaming = parent.model.streaming

        async def end() -> None:
            await supervisor.dismiss(child)

        return JaatoSession(session, end)
