"""`session_describe`, `askPermission`, and the commands that save sessions as files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from jaato.abc.plugin import Enrichment, Plugin, PromptEnrichmentResult, UserCommand
from jaato.abc.saved import SessionConfig
from jaato.errors import ToolError, UnknownTool
from jaato.plugins.session.describe import asked_for_description
from jaato.plugins.session.files import COMMANDS
from jaato.protocol.events import SessionUpdated
from jaato.tools.call import CURRENT, SERVICES, Call, clean
from jaato.tools.tool import tool

SYSTEM = "system"
DEFAULTS = SessionConfig()
WORDS = {"allow": "allowed", "ask": "asks", "deny": "denied"}
MAX_PARTS = 50
MAX_ISSUES = 20


class NoSession(ToolError):
    """The call belongs to no session."""

    code = "no_session"


class SessionToolsPlugin(Plugin):
    """Its description, what it may do, and its saved copies."""

    name: ClassVar[str] = "session"
    enrichment: ClassVar[Enrichment] = Enrichment(90, instant=True)

    def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
        """The prompt; after `request_description_after_turns` turns without a description, with a word about that."""
        services = SERVICES.get()
        session, keeper = services.get("session"), services.get("keeper")
        if session is None:
            return PromptEnrichmentResult(prompt)
        config = keeper.config if keeper is not None else DEFAULTS
        after = config.request_description_after_turns
        return asked_for_description(prompt, session.state.turns, session.state.description, after)

    def user_commands(self) -> dict[UserCommand, Callable[[str], Any]]:
        """The user saves, lists and removes copies of sessions, and has one made a session again."""
        return {command: command_of(command.name) for command in COMMANDS}

    @tool(category=SYSTEM, access="read")
    async def session_describe(
        self,
        description: Annotated[str, Meta(min_length=1, max_length=500), "one line"],
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Describe in one line what this session is about, so that the user finds it among others. Use it once the topic is
        clear or has changed. Returns the description as kept."""
        text = " ".join("".join(c if c.isprintable() else " " for c in clean(description)).split())
        if not text:
            raise ToolError("The description is empty. Say in a few words what the session is about.")
        session = session_of(call)
        if text != session.state.description:
            session.journal.record(SessionUpdated(**session.journal.head(), description=text))
        return {"description": text}

    @tool(category=SYSTEM, access="read")
    async def askPermission(
        self,
        tool: Annotated[str, Meta(min_length=1, max_length=200)],
        arguments: Annotated[dict[str, Any] | None, "as the tool would be called"] = None,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Check whether a tool call would be allowed, asked of the user or denied, without making it. Says why;
        nobody is asked. Use it before work that depends on a permission."""
        session = session_of(call)
        found = session.catalog.find(tool)
        if found is None:
            near = ", ".join(session.catalog.similar(tool)) or "list_tools finds tools"
            raise UnknownTool(f"There is no tool {tool!r}; perhaps: {near}.")
        given = {found.rename.get(key, key): value for key, value in (arguments or {}).items()}
        probe = Call(
            id="",
            name=found.tool.name,
            arguments=given,
            session_id=call.session_id,
            agent_id=call.agent_id,
            workspace=call.workspace,
            services=call.services,
        )
        verdict = session.gate.explain(probe, found.tool)
        said: dict[str, Any] = {
            "tool": found.tool.name,
            "access": WORDS[verdict.effect],
            "reason": verdict.reason,
            "method": verdict.method,
        }
        if len(verdict.parts) > 1:
            said["parts"] = [
                {"command": part.text[:500], "access": WORDS[part.effect], "reason": part.reason}
                for part in verdict.parts[:MAX_PARTS]
            ]
        if arguments is None:
            said["note"] = "Judged without arguments; give those of the call for a surer answer."
        elif issues := found.tool.issues(given):
            said["invalid_arguments"] = [
                {"path": path, "message": text[:300]} for path, text in issues[:MAX_ISSUES]
            ]
        return said


def session_of(call: Call) -> Any:
    """The session a call belongs to. Raises `NoSession`."""
    session = call.services.get("session")
    if session is None:
        raise NoSession("This call belongs to no session. It works for a model inside one.")
    return session


# --- commands --------------------------------------------------------------------------------------------------------


def command_of(name: str) -> Callable[[str], Any]:
    """What runs a command on the rest of the line."""
    return lambda line: keeper_of().command(name, line)


def keeper_of() -> Any:
    """What keeps the session the command belongs to. Raises `NoSession`."""
    call = CURRENT.get()
    keeper = call.services.get("keeper") if call is not None else None
    if keeper is None:
        raise NoSession("This command belongs to no session that is kept. It works inside one.")
    return keeper
