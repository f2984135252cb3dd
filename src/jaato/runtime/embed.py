"""The documented faces: `JaatoClient`, `JaatoRuntime`, `JaatoSession`, for programs without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from jaato.abc.asker import Answer, Question
from jaato.abc.provider import Provider
from jaato.agent.session import Session
from jaato.errors import ConfigError, JaatoError, from_code
from jaato.protocol.events import AgentOutput, Event, Retry, ToolOutput, TurnCompleted
from jaato.protocol.messages import Message
from jaato.runtime.assemble import Blueprint, assemble, registry_for
from jaato.runtime.choose import environ_for
from jaato.runtime.hooks import completion, context_usage, feed
from jaato.runtime.portal import PORTAL
from jaato.runtime.registry import PluginRegistry
from jaato.tools.background import start_thread
from jaato.tools.ledger import TokenLedger

OutputCallback = Callable[[str, str, str], None]
RetryCallback = Callable[[str, int, int, float], None]
CANCELLED = "[Generation cancelled]"


class SyncAsker:
    """A permission channel that blocks (a console), asked from a worker thread so that the loop goes on."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    async def ask(self, question: Question) -> Answer | None:
        """The channel's answer."""
        answer: Answer | None = await asyncio.wrap_future(start_thread(lambda: self._channel.ask(question)))
        return answer


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
        return self._session.busy

    def send_message(self, text: str, on_output: OutputCallback | None = None) -> str:
        """Send a message and wait for the response's text. A message sent while another is worked on is queued for
        the next pause and answered there: this call then returns an empty text at once.

        Raises what ended the turn: a `ProviderError`, `LimitReached`. A stopped turn gives the text so far and
        `[Generation cancelled]`.
        """
        return PORTAL.call(self._send(text, on_output))

    async def _send(self, text: str, on_output: OutputCallback | None) -> str:
        session = self._session
        said: list[str] = []

        def listen(event: Event) -> None:
            match event:
                case AgentOutput(source="model"):
                    said.append(event.text)
                    if on_output is not None:
                        on_output("model", event.text, event.mode)
                case ToolOutput() if on_output is not None:
                    on_output("tool", event.text, "append" if event.offset else "write")
                case Retry():
                    said.clear()
                    if self._retry_callback is not None:
                        problem = event.error.message
                        self._retry_callback(problem, event.attempt, event.max_attempts, event.wait_s)

        before = len(session.state.messages)
        silence = session.journal.bus.listen(listen)
        try:
            turn = await session.post(text)
        finally:
            silence()
        if turn is None:
            return ""
        self._well = turn.reason != "error"
        return outcome_text(session.state.messages[before:], turn)

    def get_history(self) -> list[Message]:
        """The conversation so far."""
        return list(self._session.state.messages)

    def get_context_usage(self) -> dict[str, Any]:
        """How full the context is: model, context_limit, total_tokens, prompt_tokens, output_tokens, turns,
        percent_used, tokens_remaining."""
        return context_usage(self._session)

    def request_stop(self) -> bool:
        """Stop the turn that runs; whether one did. Safe from any thread."""
        running = self._session.busy
        PORTAL.loop().call_soon_threadsafe(self._session.stop)
        return running

    def set_ui_hooks(self, hooks: Any, agent_id: str = "main") -> None:
        """Tell these hooks what happens, to the session's end (`on_agent_completed`); None ends it before."""
        self._stop_hooks()
        self._stop_hooks, self._completed = lambda: None, lambda _well: None
        if hooks is not None:
            self._stop_hooks = feed(hooks, self._session, agent_id)
            self._completed = completion(hooks, agent_id)

    def set_retry_callback(self, callback: RetryCallback | None) -> None:
        """Where retries are told: (problem, attempt, attempts at most, seconds to wait)."""
        self._retry_callback = callback

    def set_streaming_enabled(self, enabled: bool) -> None:
        """Whether output is shown as it comes, or once it is whole."""
        self._session.reply.streaming = enabled

    def close(self) -> None:
        """End the session; its log stays."""
        if not self.closed:
            PORTAL.call(self._closing())
            self._completed(self._well)

    async def _closing(self) -> None:
        if not self.closed:
            self.closed = True
            await self._close()
            self._stop_hooks()


def outcome_text(messages: list[Message], turn: TurnCompleted) -> str:
    """The text of a finished turn, which brought these messages; raises what ended it badly."""
    last = next((m for m in reversed(messages) if m.role == "assistant"), None)
    text = last.text if last is not None else ""
    match turn.reason:
        case "cancelled" | "interrupted":
            return f"{text}{CANCELLED}" if not text else f"{text} {CANCELLED}"
        case "error" | "limit" if turn.error is not None:
            raise from_code(turn.error.code, turn.error.message)
    return text


class JaatoRuntime:
    """What agents share: provider configuration, plugins, permissions, ledger. Close it when no session is left.

    Plugins that were given stay the giver's to shut down; those the runtime made itself end with it.
    """

    def __init__(self, blueprint: Blueprint) -> None:
        import dataclasses

        self._owns_registry = blueprint.registry is None
        self.ledger: TokenLedger = blueprint.ledger or TokenLedger()
        """Where token use of all its agents is counted."""
        self._blueprint = dataclasses.replace(blueprint, ledger=self.ledger)

    @property
    def registry(self) -> PluginRegistry:
        """The plugins that agents of this runtime use; all built-in ones unless others were given."""
        if self._blueprint.registry is None:
            import dataclasses

            registry = PORTAL.call(registry_for(self._blueprint))
            self._blueprint = dataclasses.replace(self._blueprint, registry=registry)
        assert self._blueprint.registry is not None
        return self._blueprint.registry

    def close(self) -> None:
        """Let go of the plugins that the runtime made."""
        import dataclasses

        registry = self._blueprint.registry
        if self._owns_registry and registry is not None:
            registry.shutdown()
            self._blueprint = dataclasses.replace(self._blueprint, registry=None)

    def create_session(
        self,
        model: str | None = None,
        tools: list[str] | None = None,
        system_instructions: str | None = None,
    ) -> JaatoSession:
        """A new session, cheap to make; `tools` names the plugins it may use."""
        import dataclasses

        registry = self.registry
        changed = dataclasses.replace(
            self._blueprint,
            model=model or self._blueprint.model,
            plugins=tuple(tools) if tools is not None else self._blueprint.plugins,
            prompt=system_instructions if system_instructions is not None else self._blueprint.prompt,
        )
        session, close = PORTAL.call(assemble(changed, wire=False))
        made = JaatoSession(session, close)
        registry.set_session(made)
        return made


class JaatoClient:
    """The documented facade over runtime and main session: connect, configure tools, send messages."""

    def __init__(self, provider_name: str | None = None, *, state_dir: Path | None = None) -> None:
        self._provider: str | Provider | None = provider_name
        self._state_dir = state_dir
        self._blueprint: Blueprint | None = None
        self._runtime: JaatoRuntime | None = None
        self._session: JaatoSession | None = None
        self._hooks: Any = None
        self._retry_callback: RetryCallback | None = None
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
        self._blueprint = Blueprint(
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
        import dataclasses

        asker = getattr(permission_plugin, "channel", None)
        gate = getattr(permission_plugin, "gate", None)
        self.close()
        self._blueprint = dataclasses.replace(
            self._connected(),
            registry=registry,
            policy=getattr(gate, "policy", None),
            asker=SyncAsker(asker) if asker is not None else None,
            ledger=ledger,
        )

    def _connected(self) -> Blueprint:
        if self._blueprint is None:
            raise ConfigError("Call connect(…) first: it says which model answers.")
        return self._blueprint

    def get_runtime(self) -> JaatoRuntime:
        """What this client's session and further ones share."""
        with self._making:
            if self._runtime is None:
                self._runtime = JaatoRuntime(self._connected())
            return self._runtime

    def get_session(self) -> JaatoSession:
        """The main agent's session, begun when first needed."""
        with self._making:
            return self._made()

    def _made(self) -> JaatoSession:
        if self._session is None:
            self._session = self.get_runtime().create_session()
            self._session.set_streaming_enabled(self._streaming)
            self._session.set_retry_callback(self._retry_callback)
            if self._hooks is not None:
                self._session.set_ui_hooks(self._hooks, "main")
        return self._session

    def send_message(self, text: str, on_output: OutputCallback | None = None) -> str:
        """Send a message and wait for the response's text; see `JaatoSession.send_message`."""
        return self.get_session().send_message(text, on_output)

    def get_history(self) -> list[Message]:
        """The conversation so far."""
        return self.get_session().get_history()

    def reset_session(self) -> None:
        """Begin a new conversation with the same tools; the old one stays stored."""
        self._end()

    def get_context_usage(self) -> dict[str, Any]:
        """How full the model's context is."""
        return self.get_session().get_context_usage()

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
        """Where retries are told; see `JaatoSession.set_retry_callback`."""
        self._retry_callback = callback
        if self._session is not None:
            self._session.set_retry_callback(callback)

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


__all__ = ["JaatoClient", "JaatoError", "JaatoRuntime", "JaatoSession"]
