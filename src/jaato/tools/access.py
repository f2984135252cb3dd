"""What an access opens, in words for the person who is asked about it."""

from __future__ import annotations

from jaato.protocol.specs import Grant, SandboxAccess, SandboxProfile
from jaato.tools.unseen import visible

PROFILES: dict[SandboxProfile, str] = {
    "read-only": "reads files, changes nothing, no network",
    "workspace-write": "may change files of the workspace",
    "full": "NO SANDBOX: may do everything that you may",
}
CONTROL = "may change the workspace's control files, which decide what runs and what is allowed"
EVERY_HOST = "any public host"


def access_lines(access: SandboxAccess) -> list[str]:
    """What a process with this access may do, one thing a line: the profile, each host, each directory, control files."""
    lines = [
        f"{access.profile}: {PROFILES[access.profile]}" if access.profile != "full" else PROFILES["full"]
    ]
    lines += [f"network: {EVERY_HOST if host == '*' else visible(host)}" for host in access.domains]
    lines += [f"may change {visible(path)}" for path in access.paths]
    return [*lines, CONTROL] if access.control else lines


def access_text(access: SandboxAccess | None) -> str:
    """The same in a few words: `workspace-write, network pypi.org, /srv/data`."""
    if access is None:
        return ""
    parts: list[str] = ["NO SANDBOX" if access.profile == "full" else access.profile]
    parts += [f"network {EVERY_HOST if host == '*' else visible(host)}" for host in access.domains]
    parts += [visible(path) for path in access.paths]
    return ", ".join([*parts, "control files"] if access.control else parts)


def grant_text(grant: Grant) -> str:
    """A lasting answer in a line: what it is about, and what a command that it covers may reach."""
    what = f"{grant.tool}({grant.shape})" if grant.shape else grant.tool
    reach = access_text(grant.access) if grant.effect == "allow" else ""
    return f"{what} [{reach}]" if reach else what
