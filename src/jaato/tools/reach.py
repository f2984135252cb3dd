"""What a plugin may reach: the session's directories, as the runtime or the plugin's settings name them."""

from __future__ import annotations

from pathlib import Path

from jaato.abc.plugin import Host
from jaato.tools.paths import Roots


def roots_of(host: Host) -> Roots:
    """The host's service `roots`; without one, its workspace and the directories of the setting `granted`."""
    try:
        roots: Roots = host.service("roots")
    except KeyError:
        return Roots(host.workspace, [Path(path).expanduser() for path in host.config.get("granted", ())])
    return roots
