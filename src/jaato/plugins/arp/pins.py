"""Definitions as they were when a call by them was last allowed: who allowed it allowed that tool, and no other of its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from jaato.errors import ConfigError
from jaato.log import logger
from jaato.plugins.arp.config import RegistryConfig
from jaato.protocol.arp import ToolDefinition
from jaato.tools.filesystem.atomic import file_lock, write_private
from jaato.tools.filesystem.containment import display_name
from jaato.tools.remote.fields import digest_of
from jaato.tools.remote.trust import read_pins, render_diff

LOG = logger("registries")
FORM = 1
MAX_PINS = 800
MAX_PARAMETERS_BYTES = 20_000
"""Longer parameters are compared by their hash alone."""
MAX_NAMED = 5


class Pinned(msgspec.Struct):
    """What a model reads of a tool, as it was allowed."""

    hash: str
    description: str
    parameters: dict[str, Any]


class PinFile(msgspec.Struct, omit_defaults=True):
    """The tools of one registry by name, the one called last at the end."""

    form: int = FORM
    registry: str = ""
    tools: dict[str, Pinned] = {}


class Pins:
    """What was allowed of one registry's tools, in a private file below `state_dir`; of one that is only named on a command
    line nothing."""

    def __init__(self, config: RegistryConfig, state_dir: Path) -> None:
        self._name = config.name
        self._keeps = config.scope != "argument"
        self.path = state_dir / "registry-pins" / f"{digest_of([config.name, config.url])}.json"
        self._tools: dict[str, Pinned] | None = None

    @property
    def tools(self) -> dict[str, Pinned]:
        """What is pinned, by name, as it was when first asked for, and what was pinned here. A file that is damaged pins
        nothing that could be held against anybody, and says so."""
        if self._tools is None:
            try:
                self._tools = self._read().tools
            except ConfigError as error:
                LOG.warning("%s", error)
                self._tools = {}
        return self._tools

    def hold(self) -> None:
        """Read the file now: what is written there later counts in the next session."""
        _ = self.tools

    def describe_change(self, definition: ToolDefinition) -> str:
        """How a tool differs from what was allowed, in words; empty where it does not, or nothing was."""
        before = self.tools.get(definition.name)
        return "" if before is None or before.hash == hash_of(definition) else difference(before, definition)

    def holds(self, name: str) -> str:
        """The hash of what is pinned of a tool; empty without."""
        before = self.tools.get(name)
        return "" if before is None else before.hash

    def pin(self, *definitions: ToolDefinition) -> None:
        """These are allowed as they are. Raises `ConfigError`, OSError where that cannot be kept."""
        new = {one.name: make_pin(one) for one in definitions if self.holds(one.name) != hash_of(one)}
        if not new or not self._keeps:
            return
        with file_lock(self.path):
            known = self._read()
            for name in new:
                known.tools.pop(name, None)
            known.tools |= new
            for name in list(known.tools)[: max(0, len(known.tools) - MAX_PINS)]:
                del known.tools[name]
            known.registry = self._name
            write_private(self.path, msgspec.json.encode(known))
        self._tools = self.tools | new  # what others have written meanwhile counts in the next session

    def forget(self) -> None:
        """Hold nothing against the registry any more. Raises OSError."""
        self.path.unlink(missing_ok=True)
        self._tools = None

    def _read(self) -> PinFile:
        return read_pins(self.path, PinFile, "form", FORM, RegistryConfig.NOUN) if self._keeps else PinFile()


def make_pin(definition: ToolDefinition) -> Pinned:
    """What is kept of a definition."""
    parameters = definition.parameters
    short = len(msgspec.json.encode(parameters)) <= MAX_PARAMETERS_BYTES
    return Pinned(hash_of(definition), definition.description, parameters if short else {})


def hash_of(definition: ToolDefinition) -> str:
    """The SHA-256 of what a model reads of a tool, whatever the order of its keys."""
    return digest_of([definition.description, definition.parameters])


def difference(before: Pinned, now: ToolDefinition) -> str:
    """What is different, for who is asked whether a call may be made."""
    old, new = properties_of(before.parameters), properties_of(now.parameters)
    changes = [
        f"{what} {list_names(names)}"
        for what, names in (
            ("new parameters:", [name for name in new if name not in old]),
            ("gone:", [name for name in old if name not in new]),
            ("changed:", [name for name in new if name in old and old[name] != new[name]]),
        )
        if names
    ]
    if not changes and before.parameters != now.parameters:
        changes.append("its parameters are others")
    if before.description != now.description:
        changes.append("its description is another")
    return "; ".join(changes) or "it is another"


def properties_of(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters by name, as far as a schema says so."""
    found = parameters.get("properties")
    return found if isinstance(found, dict) else {}


def list_names(names: list[str]) -> str:
    """Some of these names, as a third party's."""
    shown = ", ".join(display_name(name)[:80] for name in names[:MAX_NAMED])
    return f"{shown} and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else shown


def diff(before: Pinned, now: ToolDefinition) -> str:
    """A unified diff in which every character is seen."""
    new = {"description": now.description, "parameters": now.parameters}
    return render_diff({"description": before.description, "parameters": before.parameters}, new, "allowed")
