"""The registries of one workspace and its user: which there are, which may be asked, and each of them at work."""

from __future__ import annotations

from functools import cached_property

from jaato.errors import ConfigError, PermissionDenied
from jaato.plugins.arp.config import (
    FILE,
    RESERVED,
    WORKSPACE_FILE,
    RegistryConfig,
    RegistryTrust,
    expand_variables,
)
from jaato.plugins.arp.definitions import Definitions
from jaato.plugins.arp.errors import RegistryUnusable
from jaato.plugins.arp.http_client import RegistryHttpClient
from jaato.plugins.arp.pins import Pins
from jaato.plugins.arp.remote_registry import RemoteRegistry
from jaato.tools.network.addresses import AllowedHosts, Url
from jaato.tools.remote.sources import SourceContext, SourceDirectory


class Directory(SourceDirectory[RegistryConfig]):
    """The registries by name. Sends no request by itself. `mark` identifies our own tools where a registry offers them to us."""

    def __init__(self, context: SourceContext, mark: str = "") -> None:
        trust = RegistryTrust(context.state_dir, context.trust)
        super().__init__(context, RegistryConfig, context.config_dir / FILE, WORKSPACE_FILE, trust)
        self._mark = mark
        self._handles: dict[str, RegistryHandle] = {}
        self._marks = {RESERVED, *(mark for one in self.sources.values() for mark in one.marks)}

    def is_others(self, config: RegistryConfig, name: str) -> bool:
        """Whether a tool of this registry is called as those of another registry or an MCP server are."""
        marks = self._marks.union(*(one.marks for one in self.sources.values()))
        return name.casefold().startswith(tuple(marks - set(config.marks)))

    def usable(self) -> list[RegistryConfig]:
        """Those that are switched on and may be asked."""
        return [one for one in self.sources.values() if not one.disabled and self.trusts(one)]

    def handle(self, config: RegistryConfig) -> RegistryHandle:
        """A registry at work."""
        found = self._handles.get(config.name)
        if found is None:
            found = self._handles[config.name] = RegistryHandle(
                RemoteRegistry(config, self.context.cache_dir, self, mark=self._mark), self.context
            )
        return found

    def get_trusted(self, name: str) -> RegistryConfig:
        """The registry of this name, which may be asked. Raises `ConfigError`, `PermissionDenied` for one that is not
        trusted."""
        return self.check_trust(self.get_enabled(name))

    def get_handle(self, name: str) -> RegistryHandle:
        """The registry of this name at work. Raises `RegistryUnusable`."""
        try:
            return self.handle(self.get_trusted(name))
        except (ConfigError, PermissionDenied) as error:
            raise RegistryUnusable(str(error)) from None

    def check(self, config: RegistryConfig) -> None:
        """Raise `RegistryUnusable` where trust in a registry was taken back since it was first asked."""
        try:
            self.check_trust(config)
        except PermissionDenied as error:
            raise RegistryUnusable(str(error)) from None

    def open_client(self, config: RegistryConfig) -> RegistryHttpClient:
        """How a registry is reached. Raises `RegistryUnusable`; may wait for the system keyring."""
        try:
            known = expand_variables(config, self.context.environ)
            allowed = make_allowed_hosts(config, known.base, self.context.allow_hosts)
        except ConfigError as error:
            raise RegistryUnusable(str(error)) from None
        if self.context.secrets is not None:
            for name, value in known.secrets.items():
                self.context.secrets.add(name, value)
        return RegistryHttpClient(config.name, known, allowed, self.context.environ)

    def close(self) -> None:
        """Keep no connections any longer; from any thread."""
        for handle in list(self._handles.values()):
            handle.source.close()

    def state(self, config: RegistryConfig) -> str:
        """Where a registry stands: switched off, needs trust, configured, known, unreachable."""
        if config.disabled:
            return "switched off"
        return self.handle(config).source.state if self.trusts(config) else "needs trust"


class RegistryHandle:
    """One registry at work: its list and the definitions of its tools."""

    def __init__(self, source: RemoteRegistry, context: SourceContext) -> None:
        self.source = source
        self._context = context

    @cached_property
    def definitions(self) -> Definitions:
        """The definitions of its tools."""
        return Definitions(self.source, self._context.cache_dir)

    @cached_property
    def pins(self) -> Pins:
        """Its tools as they were when they were allowed."""
        return Pins(self.source.config, self._context.state_dir)


def make_allowed_hosts(config: RegistryConfig, base: Url, hosts: tuple[str, ...]) -> AllowedHosts:
    """What may be reached beside public addresses: what the user allows, and the host that the user's own configuration
    names. Where clouds answer what is secret only the very address leads, and a workspace never to either."""
    if not config.allow_private:
        return AllowedHosts.of(hosts)
    host = f"[{base.host}]" if ":" in base.host else base.host
    return AllowedHosts.of([*hosts, f"{host}:{base.port}"])
