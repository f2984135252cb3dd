"""The tool `askPermission`: what a call would be allowed, before it is made."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta

from jaato.abc.plugin import Plugin
from jaato.errors import UnknownTool
from jaato.tools.call import Call, session_of
from jaato.tools.permissions.decision import describe_verdict
from jaato.tools.tool import tool

MAX_ISSUES = 20


class PermissionToolsPlugin(Plugin):
    """What the session's permissions say of a call."""

    name: ClassVar[str] = "permission"

    @tool(category="system", access="read")
    async def askPermission(
        self,
        tool: Annotated[str, Meta(min_length=1, max_length=200)],
        arguments: Annotated[dict[str, Any] | None, "as the tool would be called"] = None,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Check whether a tool call would be allowed, asked of the user or denied, without making it. Says why;
        no question is asked. Use it before work that depends on a permission."""
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
        result = describe_verdict(found.tool.name, verdict)
        if arguments is None:
            result["note"] = "Judged without arguments; give those of the call for a surer answer."
        elif issues := found.tool.issues(given):
            result["invalid_arguments"] = [
                {"path": path, "message": text[:300]} for path, text in issues[:MAX_ISSUES]
            ]
        return result
