"""What a plugin gets from its host: the directories it may reach, the environment, trust, redaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jaato.abc.plugin import Host
from jaato.settings import environment
from jaato.tools.filesystem.containment import Roots
from jaato.tools.filesystem.private_directory import SourceDirectory
from jaato.tools.permissions.trust import SessionTrust, Trust
from jaato.tools.redaction.patterns import find_configured_secrets


def service_of(host: Host, name: str) -> Any:
    """A service of the host; None where it has none of this name."""
    try:
        return host.service(name)
    except KeyError:
        return None


def roots_of(host: Host) -> Roots:
    """The host's service `roots`; without one, its workspace and the directories of the setting `granted`."""
    roots: Roots | None = service_of(host, "roots")
    if roots is None:
        return Roots(host.workspace, [Path(path).expanduser() for path in host.config.get("granted", ())])
    return roots


def source_directories(
    host: Host, user: tuple[str, ...], workspace: tuple[str, ...]
) -> list[SourceDirectory]:
    """The directory `user` of the user's configuration, where the host has the service `settings`, then `workspace`."""
    places = [SourceDirectory("workspace", roots_of(host).workspace, workspace)]
    settings = service_of(host, "settings")
    return places if settings is None else [SourceDirectory("user", settings.config_dir, user), *places]


def environ_of(host: Host) -> Mapping[str, str]:
    """The host's service `environ`; without one, the environment of the process."""
    given: Mapping[str, str] | None = service_of(host, "environ")
    return environment() if given is None else given


def trust_of(host: Host, state_dir: Path, own: Iterable[Path]) -> Trust:
    """The host's service `trust`; without one, what is trusted now, with these files of the user's as they are now."""
    found: Trust | None = service_of(host, "trust")
    return SessionTrust(state_dir, own) if found is None else found


def register_secrets(host: Host, values: Mapping[str, object]) -> None:
    """Redact the secrets among configured values in all output, by the host's service `secrets`, if it has one."""
    if (secrets := service_of(host, "secrets")) is not None:
        found = find_configured_secrets({name: str(value) for name, value in values.items()})
        for name, value in found.items():
            secrets.add(name, value)
