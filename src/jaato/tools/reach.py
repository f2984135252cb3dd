"""What a plugin has of its session: the directories it may reach, and the environment it was given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from jaato import settings
from jaato.abc.plugin import Host
from jaato.tools.paths import Roots


def roots_of(host: Host) -> Roots:
    """The host's service `roots`; without one, its workspace and the directories of the setting `granted`."""
    try:
        roots: Roots = host.service("roots")
    except KeyError:
        return Roots(host.workspace, [Path(path).expanduser() for path in host.config.get("granted", ())])
    return roots


def environ_of(host: Host) -> Mapping[str, str]:
    """The host's service `environ`; without one, the environment of the process."""
    try:
        given: Mapping[str, str] = host.service("environ")
    except KeyError:
        return settings.environment()
    return given
