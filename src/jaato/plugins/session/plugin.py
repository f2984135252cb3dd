"""`session_describe` and `askPermission`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta

from jaato.abc.plugin import Enrichment, Plugin, PromptEnrichmentResult
from jaato.errors import ToolError, UnknownTool
from jaato.protocol.events import SessionUpdated
from jaato.tools.call import SERVICES, Call, clean
from jaato.tools.tool import tool

SYSTEM = "system"
WORDS = {"allow": "allowed", "ask": "asks", "deny": "denied"}
DESCRIBE_AFTER_TURNS = 3
UNDESCRIBED = (
    "[This session has no description yet. Beside your answer, describe it in one line with session_describe, "
    "so that the user finds it among others.]"
)
MAX_PARTS = 50
MAX_ISSUES = 20


class NoSession(ToolError):
    """The call belongs to no session."""

    code = "no_session"


class SessionPlugin(Plugin):
    """Its description, and what it may do."""

    name: ClassVar[str] = "session"
    enrichment: ClassVar[Enrichment] = Enrichment(90, instant=True)

    def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
        """The prompt; after `describe_after_turns` turns without a description, with a word about that."""
        session = SERVICES.get().get("session")
        after = self.host.config.get("describe_after_turns", DESCRIBE_AFTER_TURNS)
        if session is None or session.state.description or session.state.turns != after:
            return PromptEnrichmentResult(prompt)
        return PromptEnrichmentResult(f"{prompt}\n\n{UNDESCRIBED}", {"asked_for": "description"})

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
            id=call.id,
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
