"""What a server's process may reach: as its entry declares it, or by whose entry it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from jaato.protocol.specs import SandboxAccess, SandboxProfile
from jaato.tools.configured import Malformed
from jaato.tools.openings import FULL, WORKSPACE_WRITE
from jaato.tools.unseen import visible

if TYPE_CHECKING:
    from jaato.plugins.mcp.config import ServerConfig

FIELDS = ("profile", "domains", "paths")
DOMAIN = re.compile(r"\*|(?:\*\.)?[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9-]+)*(?::\d{1,5})?")
MAX_ITEMS = 100
MAX_CHARS = 4_096
WARNED = "mcp-unconfined"


def declared(value: Any) -> SandboxAccess | None:
    """The sandbox that an entry declares; None for none. Raises `Malformed`."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise Malformed(
            '"sandbox" must be an object such as {"profile": "workspace-write", "domains": ["pypi.org"]}'
        )
    unknown = sorted(set(value) - set(FIELDS))
    if unknown:
        raise Malformed(f'"sandbox" has no {unknown[0][:80]!r}; it has {", ".join(FIELDS)}')
    profile = value.get("profile", "workspace-write")
    if profile not in get_args(SandboxProfile):
        known = ", ".join(get_args(SandboxProfile))
        raise Malformed(f'"sandbox.profile" is one of {known}, not {str(profile)[:40]!r}')
    domains, paths = texts(value, "domains"), texts(value, "paths")
    if profile != "workspace-write" and (domains or paths):
        raise Malformed(
            f'"sandbox" opens domains and paths with the profile workspace-write only, not with {profile}'
        )
    for domain in domains:
        if not DOMAIN.fullmatch(domain):
            raise Malformed(f'"sandbox.domains" has {domain[:80]!r}; write a host, *.host, host:port, or *')
    for path in paths:
        if not path.startswith(("/", "~/")) or ".." in path.split("/"):
            raise Malformed(
                f'"sandbox.paths" has {path[:80]!r}; write an absolute path, or one that begins with ~/'
            )
    return SandboxAccess(profile, domains, paths)


def texts(value: dict[str, Any], key: str) -> tuple[str, ...]:
    """A list of texts. Raises `Malformed`."""
    found = value.get(key, [])
    if not isinstance(found, list) or len(found) > MAX_ITEMS:
        raise Malformed(f'"sandbox.{key}" must be a list of at most {MAX_ITEMS} texts')
    if any(not isinstance(one, str) or not one or len(one) > MAX_CHARS for one in found):
        raise Malformed(f'"sandbox.{key}" must be a list of texts, none of them empty')
    return tuple(found)


def access_of(config: ServerConfig, home: Path) -> SandboxAccess:
    """What a server's process may reach. Without a declaration the user's own runs without a sandbox, as it did before
    there was one, and a workspace's may change the workspace and reach no network."""
    if config.sandbox is None:
        return WORKSPACE_WRITE if config.scope == "workspace" else FULL
    paths = tuple(str(home / path[2:]) if path.startswith("~/") else path for path in config.sandbox.paths)
    return SandboxAccess(config.sandbox.profile, config.sandbox.domains, paths)


def shown(config: ServerConfig) -> str:
    """The sandbox of a server in a few words, with nothing hidden."""
    access = access_of(config, Path("~"))
    if access.profile == "full":
        return "full: no sandbox, it may do whatever you may"
    if access.profile == "read-only":
        return "read-only: it changes nothing and reaches no network"
    paths = "".join(f", {visible(path)}" for path in access.paths)
    hosts = ", ".join(map(visible, access.domains)) or "no network"
    return f"workspace-write: it may change the workspace{paths}; it reaches {hosts}"


def is_legacy(config: ServerConfig) -> bool:
    """Whether it runs without a sandbox only because its entry says nothing of one."""
    return config.kind == "stdio" and config.scope == "user" and config.sandbox is None


def warning(config: ServerConfig, state_dir: Path) -> str:
    """What to tell once of a server that runs without a sandbox because its entry says nothing of one; else empty."""
    if not is_legacy(config):
        return ""
    marker = state_dir / WARNED / config.identity
    if marker.exists():
        return ""
    try:
        marker.parent.mkdir(0o700, parents=True, exist_ok=True)
        marker.touch(0o600)
    except OSError:
        pass  # it is told again
    return (
        f"{config.name} runs without a sandbox, because its entry in {config.origin} declares none. Add "
        '"sandbox": {"profile": "workspace-write", "domains": [the hosts it needs]} to the entry, or '
        '{"profile": "full"} if it is to stay so. This is said once.'
    )
