"""The registries of one workspace and its user: which there are, which may be asked, and each of them at work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from jaato.errors import ConfigError, PermissionDenied
from jaato.plugins.arp.config import Problem, RegistryConfig, load, mark_of, search
from jaato.plugins.arp.definitions import Definitions
from jaato.plugins.arp.entry import RESERVED, filled
from jaato.plugins.arp.faults import RegistryUnusable
from jaato.plugins.arp.http import Way
from jaato.plugins.arp.pins import Pins
from jaato.plugins.arp.source import Source
from jaato.plugins.arp.trusted import Trusted, refuse_untrusted
from jaato.tools.address import Allowed, Url
from jaato.tools.trust import Trust

if TYPE_CHECKING:
    from jaato.tools.secrets import Secrets


@dataclass(frozen=True, slots=True)
class Places:
    """Where everything is, the user's environment, and the private addresses the user allows."""

    workspace: Path
    config_dir: Path
    state_dir: Path
    cache_dir: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    allow_hosts: tuple[str, ...] = ()
    secrets: Secrets | None = None
    """What the session masks: it learns the tokens of registries."""
    mark: str = ""
    """By what our own tools are known where they come back to us."""
    trust: Trust | None = None
    """What was vouched for when the session began; without it, what is at each moment."""


class Directory:
    """The registries by name. Asks nobody by itself."""

    def __init__(self, places: Places) -> None:
        self.places = places
        trust = places.trust or Trust(places.state_dir)
        self._trusted = Trusted(places.state_dir, trust)
        found = load(places.workspace, places.config_dir, trust.owns)
        self.registries: dict[str, RegistryConfig] = found.registries
        self.problems: tuple[Problem, ...] = found.problems
        self._shelves: dict[str, Shelf] = {}
        self._marks = frozenset((RESERVED, *map(mark_of, found.registries.values())))

    def is_others(self, config: RegistryConfig, name: str) -> bool:
        """Whether a tool of this registry is called as those of another registry or an MCP server are."""
        marks = self._marks.union(map(mark_of, self.registries.values()))
        return name.casefold().startswith(tuple(marks - {mark_of(config)}))

    def trusts(self, config: RegistryConfig) -> bool:
        """Whether it may be asked."""
        try:
            return self._trusted.holds(config)
        except ConfigError:
            return False

    def usable(self) -> list[RegistryConfig]:
        """Those that are switched on and may be asked."""
        return [one for one in self.registries.values() if one.enabled and self.trusts(one)]

    def shelf(self, config: RegistryConfig) -> Shelf:
        """A registry at work."""
        found = self._shelves.get(config.name)
        if found is None:
            found = self._shelves[config.name] = Shelf(
                Source(config, self.places.cache_dir, self, mark=self.places.mark), self.places
            )
        return found

    def configured(self, name: str) -> RegistryConfig:
        """The registry of this name. Raises `ConfigError` with what is wrong with it, or the names there are."""
        for problem in self.problems:
            if problem.registry == name and name not in self.registries:
                raise ConfigError(str(problem))
        return search(self.registries, name)

    def chosen(self, name: str) -> RegistryConfig:
        """The registry of this name, which may be asked. Raises `ConfigError`, `PermissionDenied` for one that is not
        trusted."""
        config = self.configured(name)
        if not self.trusts(config):
            raise PermissionDenied(str(refuse_untrusted(config)))
        if not config.enabled:
            raise ConfigError(f"The registry {name!r} is switched off in {config.origin}.")
        return config

    def named(self, name: str) -> Shelf:
        """The registry of this name at work. Raises `RegistryUnusable`."""
        try:
            return self.shelf(self.chosen(name))
        except (ConfigError, PermissionDenied) as error:
            raise RegistryUnusable(str(error)) from None

    def check(self, config: RegistryConfig) -> None:
        """Raise `RegistryUnusable` where trust in a registry was taken back since it was first asked."""
        if not self.trusts(config):
            raise RegistryUnusable(str(refuse_untrusted(config)))

    def open_way(self, config: RegistryConfig) -> Way:
        """How a registry is reached. Raises `RegistryUnusable`; may wait for the system keyring."""
        try:
            known = filled(config, self.places.environ)
            allowed = allowed_for(config, known.base, self.places.allow_hosts)
        except ConfigError as error:
            raise RegistryUnusable(str(error)) from None
        if self.places.secrets is not None:
            for name, value in known.secrets.items():
                self.places.secrets.add(name, value)
        return Way(config.name, known, allowed, self.places.environ)

    def close(self) -> None:
        """Keep no connections any longer; from any thread."""
        for shelf in list(self._shelves.values()):
            shelf.source.close()

    def state(self, config: RegistryConfig) -> str:
        """Where a registry stands: switched off, needs trust, configured, known, unreachable."""
        if not config.enabled:
            return "switched off"
        return self.shelf(config).source.state if self.trusts(config) else "needs trust"


class Shelf:
    """One registry at work: its list and the definitions of its tools."""

    def __init__(self, source: Source, places: Places) -> None:
        self.source = source
        self._places = places

    @cached_property
    def definitions(self) -> Definitions:
        """The definitions of its tools."""
        return Definitions(self.source, self._places.cache_dir)

    @cached_property
    def pins(self) -> Pins:
        """Its tools as they were when they were allowed."""
        return Pins(self.source.config, self._places.state_dir)


def allowed_for(config: RegistryConfig, base: Url, hosts: tuple[str, ...]) -> Allowed:
    """What may be reached beside public addresses: what the user allows, and the host that the user's own configuration
    names. Where clouds answer what is secret only the very address leads, and a workspace never to either."""
    if not config.allow_private:
        return Allowed.of(hosts)
    host = f"[{base.host}]" if ":" in base.host else base.host
    return Allowed.of([*hosts, f"{host}:{base.port}"])
