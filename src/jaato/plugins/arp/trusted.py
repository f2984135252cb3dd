"""Which registries may be asked: the user's own, and those of a workspace whose entry a person has vouched for as it is."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from jaato.errors import ConfigError
from jaato.plugins.arp.config import RegistryConfig
from jaato.plugins.arp.entry import KEYRING, variables_of
from jaato.tools.trust import Trust
from jaato.tools.unseen import visible


class Trusted:
    """The user's trust in registries that a workspace names, kept with the other trust of `state_dir`, or as a session
    has it."""

    def __init__(self, state_dir: Path, trust: Trust | None = None) -> None:
        self._trust = trust or Trust(state_dir)

    def holds(self, config: RegistryConfig) -> bool:
        """Whether this registry may be asked. Raises `ConfigError` for a damaged `trust.json`."""
        return config.scope != "workspace" or self._trust.trusts(place_of(config), vouched(config))

    def add(self, config: RegistryConfig) -> None:
        """Vouch for a registry as it is. Raises `ConfigError`, OSError."""
        if config.scope == "workspace":
            self._trust.add(place_of(config), vouched(config))

    def remove(self, config: RegistryConfig) -> None:
        """Vouch for nothing of this name any more. Raises `ConfigError`, OSError."""
        self._trust.remove(place_of(config))


def place_of(config: RegistryConfig) -> Path:
    """Under what path `trust.json` has a registry."""
    return Path(f"{config.origin}#{quote(config.name, safe=' ')}")


def vouched(config: RegistryConfig) -> bytes:
    """All that trust in a registry is bound to."""
    return f"registry {config.digest}".encode()


def described(config: RegistryConfig) -> list[tuple[str, str]]:
    """What a person must see before trusting a registry: what is reached, and what it is given."""
    rows = [("reaches", visible(config.url)), ("as", f"{config.prefix}__…")]
    rows += [("sends", f"{visible(name)}: {visible(value)}") for name, value in config.headers.items()]
    if config.token:
        rows.append(("sends", f"Authorization: Bearer {visible(config.token)}"))
    if config.token.startswith(KEYRING):
        rows.append(("takes", "that token from your system keyring"))
    names = variables_of(config)
    if names:
        rows.append(("takes", f"from your environment: {', '.join(names)}"))
    odd = [char for char in config.url if not char.isascii() and char.isalpha()]
    if odd:
        rows.append(("note", f"the url has letters that are not plain ASCII: {', '.join(odd[:5])}"))
    if config.url.startswith("http://"):
        rows.append(("note", "plain http: everybody on the way can read and change what is sent"))
    return rows


def refuse_untrusted(config: RegistryConfig) -> ConfigError:
    """That a person has to look at a registry first."""
    return ConfigError(
        f"The registry {config.name!r} is named by {config.origin} and not trusted as it is now; look at it and "
        f"trust it with `jaato registry trust {config.name}`."
    )
