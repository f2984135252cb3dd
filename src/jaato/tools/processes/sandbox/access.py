"""Comparing what processes may reach: one that goes on was started by a call that may have been allowed more, or less."""

from __future__ import annotations

from jaato.errors import ToolError
from jaato.protocol.specs import SandboxAccess
from jaato.tools.atomic import is_below
from jaato.tools.openings import FULL, ORDER


class ReachesFurther(ToolError):
    """The process was started with more than this call is allowed."""

    code = "sandbox_reaches_further"


def is_within(inner: SandboxAccess, outer: SandboxAccess) -> bool:
    """Whether one access opens nothing that the other does not."""
    if outer.profile == "full":
        return True
    return (
        ORDER[inner.profile] <= ORDER[outer.profile]
        and ("*" in outer.domains or set(inner.domains) <= set(outer.domains))
        and all(any(is_below(path, place) for place in outer.paths) for path in inner.paths)
        and (outer.control or not inner.control)
    )


def described(access: SandboxAccess) -> str:
    """An access in a few words."""
    more = [f"the hosts {', '.join(access.domains)}"] if access.domains else []
    more += [f"the directories {', '.join(access.paths)}"] if access.paths else []
    more += ["the control files"] if access.control else []
    return access.profile + (f" with {' and '.join(more)}" if more else "")


def check_reach(has: SandboxAccess | None, allowed: SandboxAccess | None, what: str, remedy: str) -> None:
    """Raise `ReachesFurther` where a process has more than the call is allowed; None is a call without permissions."""
    if allowed is None or is_within(has or FULL, allowed):
        return
    now = described(has or FULL)
    raise ReachesFurther(
        f"{what} runs with {now}, and this call is allowed {described(allowed)} only. {remedy}"
    )


def sandbox_fields(access: SandboxAccess | None) -> dict[str, str]:
    """What a result says of the sandbox; nothing where nobody was asked."""
    return {"sandbox": described(access)} if access is not None else {}
