"""What a plugin gets from its host: the directories it may reach, the environment, trust, redaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from jaato import settings
from jaato.abc.plugin import Host
from jaato.tools.filesystem.containment import Roots
from jaato.tools.filesystem.private_directory import SourceDirectory
from jaato.tools.permissions.trust import SessionTrust, Trust
from jaato.tools.redaction.patterns import find_configured_secrets


def roots_of(host: Host) -> Roots:
    """The host's service `roots`; without one, its workspace and the directories of the setting `granted`."""
    try:
        roots: Roots = host.service("roots")
    except KeyError:
        return Roots(host.workspace, [Path(path).expanduser() for path in host.config.get("granted", ())])
    return roots


def source_directories(
    host: Host, user: tuple[str, ...], workspace: tuple[str, ...]
) -> list[SourceDirectory]:
    """The directory `user` of the user's configuration, where the host has the service `settings`, then `workspace`."""
    places = [SourceDirectory("workspace", roots_of(host).workspace, workspace)]
    try:
        config_dir: Path = host.service("settings").config_dir
    except KeyError:
        return places
    return [SourceDirectory("user", config_dir, user), *places]


def environ_of(host: Host) -> Mapping[str, str]:
    """The host's service `environ`; without one, the environment of the process."""
    try:
        given: Mapping[str, str] = host.service("environ")
    except KeyError:
        return settings.environment()
    return given


def trust_of(host: Host, state_dir: Path, own: Iterable[Path]) -> Trust:
    """The host's service `trust`; without one, what is trusted now, with these files of the user's as they are now."""
    try:
        found: Trust = host.service("trust")
    except KeyError:
        return SessionTrust(state_dir, own)
    return found


def register_secrets(host: Host, values: Mapping[str, object]) -> None:
    """Redact the secrets among configured values in all output, by the host's service `secrets`, if it has one."""
    try:
        secrets = host.service("secrets")
    except KeyError:
        return
    for name, value in find_configured_secrets({name: str(value) for name, value in values.items()}).items():
        secrets.add(name, value)
