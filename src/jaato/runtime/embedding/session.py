"""`JaatoSession`: one agent's conversation, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from jaato.abc.compactor import GCConfig, GCPlugin
from jaato.abc.session_plugin import SavedSession, SessionConfig, SessionPlugin
from jaato.agent.compaction.setup import CompactionSetup
from jaato.agent.session import Session
from jaato.errors import ConfigError, from_code
from jaato.protocol.events import AgentOutput, Event, MessageModel, Retry, ToolOutput, TurnCompleted
from jaato.protocol.messages import Message
from jaato.runtime.embedding.attachments import text_of
from jaato.runtime.embedding.hooks import attach_hooks, completion_callback, context_usage
from jaato.runtime.embedding.portal import PORTAL
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.session_saving import SessionSaving

OutputCallback = Callable[[str, str, str], None]
RetryCallback = Callable[[str, int, int, float], None]
CANCELLED = "[Generation cancelled]"
DESCRIBE = "session_describe"


class JaatoSession:
    """One agent's conversation; shares provider, plugins, permissions and ledger with its runtime."""

    def __init__(self, session: Session, close: Callable[[], Awaitable[None]]) -> None:
        self._session = session
        self._close = close
        self._retry_callback: RetryCallback | None = None
        self._stop_hooks: Callable[[], None] = lambda: None
        self._completed: Callable[[bool], None] = lambda _well: None
        self._well = True
        self.closed = False

    @property
    def live(self) -> Session:
        """The session on the loop; touch it there only."""
        return self._session

    @property
    def is_processing(self) -> bool:
        """Whether a message is being worked on."""
        return self._session.is_busy

    def send_message(self, text: str, on_output: OutputCallback | None = None) -> str:
        """Send a message and wait for the response's text. A message sent while another is worked on is queued for
        the next pause and answered there: this call then returns an empty text at once.

        Raises what ended the turn: a `ProviderError`, `LimitReached`. A stopped turn gives the text so far and
        `[Generation cancelled]`.
        """
        return PORTAL.call(self._send(text_of(text), on_output))

    async def _send(self, text: str, on_output: OutputCallback | None) -> str:
        session = self._session
        texts: list[str] = []
        replies: list[Message] = []

        def listen(event: Event) -> None:
            if event.agent_id != session.state.agent_id:
                self._on_subagent_event(event)
                return
            match event:
                case AgentOutput(source="model"):
                    texts.append(event.text)
                    if on_output is not None:
                        on_output("model", event.text, event.mode)
                case ToolOutput() if on_output is not None:
                    on_output("tool", event.text, "append" if event.offset else "write")
                case MessageModel():
                    replies.append(event.message)
                case Retry():
                    texts.clear()
                    if self._retry_callback is not None:
                        problem = event.error.message
                        self._retry_callback(problem, event.attempt, event.max_attempts, event.wait_s)

        silence = session.journal.bus.listen(listen)
        try:
            turn = await session.post(text)
        finally:
            silence()
        if turn is None:
            return ""
        if "keeper" in session.services:
            await self._keeper.wait_idle()
        self._well = turn.reason != "error"
        return outcome_text(replies, turn)

    def _on_subagent_event(self, event: Event) -> None:
        """Call the retry callback for retries of subagents, too."""
        above = self._session.journal.session_state.ancestors_of(event.agent_id)
        if not isinstance(event, Retry) or self._session.state.agent_id not in above:
            return
        if self._retry_callback is not None:
            self._retry_callback(event.error.message, event.attempt, event.max_attempts, event.wait_s)

    def get_history(self) -> list[Message]:
        """The conversation so far."""
        return list(self._session.state.messages)

    def get_context_usage(self, *, messages: bool = False) -> dict[str, Any]:
        """How full the context is: model, context_limit, context_limit_source, total_tokens, prompt_tokens, output_tokens,
        turns, percent_used, tokens_remaining, threshold_percent; and its parts, `blocks`. With `messages` also each message,
        which takes longer the longer the history is."""
        fields = context_usage(self._session)
        return fields | {"messages": self._session.model.account.list_messages()} if messages else fields

    def request_stop(self) -> bool:
        """Stop the turn that runs; whether one did. Safe from any thread."""
        running = self._session.is_busy
        PORTAL.loop().call_soon_threadsafe(self._session.stop)
        return running

    def set_ui_hooks(self, hooks: Any, agent_id: str = "main") -> None:
        """Set the UI hooks, until the end of the session (`on_agent_completed`); None removes them."""
        self._stop_hooks()
        self._stop_hooks, self._completed = lambda: None, lambda _well: None
        if hooks is not None:
            self._stop_hooks = attach_hooks(hooks, self._session, agent_id)
            self._completed = completion_callback(hooks, agent_id)

    def set_retry_callback(self, callback: RetryCallback | None) -> None:
        """Set the callback for retries: (problem, attempt, attempts at most, seconds to wait)."""
        self._retry_callback = callback

    def set_gc_plugin(self, plugin: GCPlugin | None, config: GCConfig | None = None) -> None:
        """Set the compaction strategy; None turns compaction off. The caller shuts it down."""
        made = None if plugin is None else CompactionSetup(plugin, config or GCConfig())
        self._session.compaction.use(made)

    def set_session_plugin(self, plugin: SessionPlugin, config: SessionConfig | None = None) -> None:
        """Set the plugin that saves the session as `config` says. The caller shuts it
        down. Raises `PluginError` for what is no session plugin."""
        PORTAL.call(self._keeper.use(plugin, config or SessionConfig()))
        self._add_description_tool()

    def _add_description_tool(self) -> None:
        """Have `session_describe`, which prompts ask the model to call, among the session's tools."""
        registry: PluginRegistry = self._session.services["registry"]
        if DESCRIBE not in registry.catalog and "session" not in registry.disabled:
            registry.expose_tool("session")
        found, catalog = registry.catalog.find(DESCRIBE), self._session.catalog
        if found is not None and DESCRIBE not in catalog:
            catalog.add([found.tool])

    @property
    def _keeper(self) -> SessionSaving:
        keeper: SessionSaving | None = self._session.services.get("keeper")
        if keeper is None:
            raise ConfigError("A subagent is part of its root agent's session; that one is saved.")
        return keeper

    def save(self) -> str:
        """Have the session plugin save the session; returns where. Raises what the plugin raises."""
        return PORTAL.call(self._keeper.save())

    def saved_sessions(self) -> list[SavedSession]:
        """The sessions the plugin has saved, newest first."""
        return PORTAL.call(self._keeper.saved_sessions())

    def delete_saved(self, session_id: str) -> bool:
        """Have the plugin remove its copy of a session; whether there was one. The log stays."""
        return PORTAL.call(self._keeper.delete(session_id))

    def bring(self, text: str) -> str:
        """The id of the stored session of this id, prefix or name; a saved one is put into the store first.

        Raises `SessionNotFound`, `ConfigError` for a damaged copy.
        """
        return PORTAL.call(self._keeper.bring(text))

    def execute_user_command(self, name: str, arguments: str = "") -> str:
        """Run a user command of a plugin; gives its output. Raises `ConfigError` when there is none of this name."""
        return PORTAL.call(self._session.run_command(name, arguments))

    def compact(self, words: str = "") -> bool:
        """Compact the context now; whether anything was freed. `words` say what the summary is to keep. Raises `ConfigError`
        without a strategy."""
        return PORTAL.call(self._session.compact(words=words))

    def set_streaming_enabled(self, enabled: bool) -> None:
        """Whether output is shown as it comes, or once it is whole."""
        self._session.model.streaming = enabled

    def close(self) -> None:
        """End the session; its log stays."""
        if not self.closed:
            PORTAL.call(self._close_session())
            self._completed(self._well)

    async def _close_session(self) -> None:
        if not self.closed:
            self.closed = True
            await self._close()
            self._stop_hooks()


def outcome_text(messages: list[Message], turn: TurnCompleted) -> str:
    """The text of a completed turn from the texts of its model messages; raises the error of a failed one."""
    text = messages[-1].text if messages else ""
    match turn.reason:
        case "cancelled" | "interrupted":
            return f"{text}{CANCELLED}" if not text else f"{text} {CANCELLED}"
        case "error" | "limit" if turn.error is not None:
            raise from_code(turn.error.code, turn.error.message)
    return text
