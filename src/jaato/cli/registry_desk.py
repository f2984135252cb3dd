"""The registries of one workspace, as a command sees them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Awaitable, Callable
from pathlib import Path

from jaato.cli.options import clean_text, workspace_of
from jaato.errors import ConfigError, JaatoError
from jaato.plugins.arp.config import file_of
from jaato.plugins.arp.directory import Directory, Places, Shelf
from jaato.plugins.arp.entry import registry_at
from jaato.plugins.arp.trusted import Trusted
from jaato.runtime.assemble import settings_for
from jaato.runtime.blueprint import Blueprint
from jaato.settings import Settings
from jaato.tools.configured import Scope
from jaato.tools.secrets import Secrets


class Desk:
    """The user's registries and those of the workspace."""

    def __init__(self, args: Namespace) -> None:
        for name in ("registry", "tool", "arguments", "url", "token", "prefix"):
            if isinstance(getattr(args, name, None), str):
                setattr(args, name, clean_text(getattr(args, name)))
        self.workspace = workspace_of(args)
        self.settings: Settings = settings_for(Blueprint(workspace=self.workspace), self.workspace)
        self.secrets = Secrets(shapes=False) if self.settings["mask_secrets"] else Secrets.none()
        """The keys that registries are asked with; one that says them again has them shown to nobody."""
        self.places = Places(
            self.workspace,
            self.settings.config_dir,
            self.settings.state_dir,
            self.settings.cache_dir,
            self.settings.environ,
            tuple(self.settings["allow_hosts"]),
            self.secrets,
        )
        self.directory = Directory(self.places)
        self.trusted = Trusted(self.settings.state_dir)

    def file(self, scope: Scope) -> Path:
        """The configuration file of a scope."""
        return file_of(scope, self.workspace, self.settings.config_dir)

    async def unsaid(self, work: Callable[[], Awaitable[int]]) -> int:
        """Some work; what it raises is without the keys. Raises `JaatoError`s."""
        try:
            return await work()
        except JaatoError as error:
            error.args = tuple(map(self.secrets.masked, error.args))
            raise

    def shelf(self, text: str, token: str | None) -> Shelf:
        """The registry of this name or, for a URL, one made of it for this command. Raises `ConfigError`, and
        `PermissionDenied` for one that is not trusted."""
        if "://" not in text:
            if token:
                raise ConfigError("--token is for a URL; a registry's own stands in its configuration.")
            return self.directory.shelf(self.directory.chosen(text))
        return self.directory.shelf(registry_at(text, token or ""))
