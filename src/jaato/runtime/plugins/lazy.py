"""Lazy built-in plugins: declared by a manifest, imported when one of their tools is first used."""

# Annotations are not postponed here: msgspec would compile each one as text.

import functools
import importlib
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

import jaato.plugins
from jaato.abc.plugin import Enrichment, PromptEnrichmentResult, UserCommand
from jaato.errors import PluginError
from jaato.plugins import BUILTIN
from jaato.protocol.specs import SandboxAccess
from jaato.runtime.plugins.adapter import Toolset, ToolsetSource
from jaato.tools.call import Call
from jaato.tools.tool import Declaration, Tool
from jaato.typed_decoding import decode_json

MANIFESTS = Path(jaato.plugins.__file__).with_name("known.json")
"""What the built-in plugins declare; `make docs` writes it, and a test compares it with the code."""


class KnownTool(Declaration, frozen=True, omit_defaults=True):
    """A tool as its plugin declares it: `Tool` without what runs."""

    aliases: dict[str, dict[str, str]] = {}
    is_async: bool = False
    background_after_s: float | None = None
    timeout_s: float | None = None
    resumes: bool = False
    confines: bool = False
    examines: bool = False
    reaches: bool = False
    previews: bool = False


COPIED = ("spec", "checked", "is_async", "background_after_s", "timeout_s", "resumes", "confines")
"""The fields that are the same in a tool and in what is known of it."""


class PluginManifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plugin that can wait: it has tools and commands, perhaps instructions, and nothing that works before they are
    called."""

    tools: list[KnownTool]
    commands: list[UserCommand] = []
    instructions: str = ""
    requirements: list[str] = []
    looks_at: list[str] = []
    enrichment: Enrichment | None = None


class Builtin:
    """Loads the class of a built-in plugin."""

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self.path = path

    def __call__(self) -> Any:
        module, _, attribute = self.path.partition(":")
        return getattr(importlib.import_module(module), attribute)


class LazyPlugin(ToolsetSource):
    """Stands for a built-in plugin until it is needed. `make` gives the plugin's own record, wired."""

    def __init__(self, builtin: Builtin, known: PluginManifest, make: Callable[[], Toolset]) -> None:
        self.name = builtin.name
        self.path = builtin.path
        self.plugin: Any = None
        self._known = known
        self._make = make
        self._made: Toolset | None = None
        self._tools: dict[str, Tool] = {}
        self._lock = threading.RLock()
        self._over = False

    def get_model_requirements(self) -> list[str]:
        """As the plugin says."""
        return self._known.requirements

    def toolset(self) -> Toolset:
        """The record of the plugin as it is known."""
        self._record = Toolset(self.name, self, instructions=self._known.instructions)
        self._record.tools = [self._stand_in(tool) for tool in self._known.tools]
        self._record.commands = {
            command.name: (command, functools.partial(self._command, command.name))
            for command in self._known.commands
        }
        if self._known.enrichment is not None:
            self._record.enrich, self._record.enrichment = self._enrich, self._known.enrichment
        return self._record

    def shutdown(self) -> None:
        """Let go of the plugin, if it was ever needed."""
        with self._lock:
            self._over = True
            if self.plugin is not None:
                self.plugin.shutdown()

    def _stand_in(self, known: KnownTool) -> Tool:
        name = known.spec.name

        def run(arguments: dict[str, Any], call: Call) -> Any:
            return self._tool(name).run(arguments, call)

        return Tool(
            **copy_fields(known),
            run=run,
            plugin=self.name,
            aliases=known.aliases,
            examines=functools.partial(self._examine, name) if known.examines else None,
            reaches=functools.partial(self._get_reach, name) if known.reaches else None,
            previews=functools.partial(self._preview, name) if known.previews else None,
        )

    def _examine(self, name: str, arguments: dict[str, Any]) -> list[tuple[str, str]]:
        examine = self._tool(name).examines
        return examine(arguments) if examine is not None else []

    def _preview(self, name: str, arguments: dict[str, Any]) -> str:
        preview = self._tool(name).previews
        return preview(arguments) if preview is not None else ""

    def _get_reach(self, name: str, call: Call) -> SandboxAccess | None:
        """What a process may reach that a call talks to; a plugin that is not made has started none."""
        reaches = self._tool(name).reaches if self._made is not None else None
        return reaches(call) if reaches is not None else None

    def _enrich(self, prompt: str) -> PromptEnrichmentResult:
        enrich = self._ready().enrich
        return enrich(prompt) if enrich is not None else PromptEnrichmentResult(prompt)

    def _tool(self, name: str) -> Tool:
        self._ready()
        return self._tools[name]

    def _command(self, name: str, rest: Any) -> Any:
        _, run = self._ready().commands[name]
        return run(rest) if run is not None else None

    def _ready(self) -> Toolset:
        """The plugin's own record; any thread may be the first to ask."""
        with self._lock:
            if self._over:
                raise PluginError(f"The plugin {self.name} has been shut down.")
            if self._made is None:
                made = self._make()
                self._tools = {tool.name: tool for tool in made.tools}
                self._record.wiring = made.wiring
                self._record.enrich_result = made.enrich_result
                self._record.enriches_results = made.enriches_results
                self.plugin, self._made = made.plugin, made
            return self._made


@functools.cache
def load_manifests() -> dict[str, PluginManifest]:
    """What every built-in plugin that can wait declares, by name."""
    return decode_json(MANIFESTS.read_bytes(), dict[str, PluginManifest])


def known_declarations(plugin: Any, name: str) -> dict[str, Declaration]:
    """What the methods of a built-in plugin declare, by the names of their tools; empty for another plugin."""
    kind = type(plugin)
    if BUILTIN.get(name) != f"{kind.__module__}:{kind.__qualname__}":
        return {}
    known = load_manifests().get(name)
    return {tool.spec.name: tool for tool in known.tools} if known is not None else {}


def can_defer(builtin: Builtin, workspace: Path, services: Mapping[str, Any]) -> PluginManifest | None:
    """What the plugin declares, if nothing has to be done before its tools are called."""
    known = load_manifests().get(builtin.name)
    if known is None or any(has_file(pattern, workspace, services) for pattern in known.looks_at):
        return None
    return known


def has_file(pattern: str, workspace: Path, services: Mapping[str, Any]) -> bool:
    """Whether a file fits a pattern of `Plugin.looks_at`."""
    place: Path | None = workspace
    if pattern.startswith("~/"):
        place, pattern = Path(services.get("environ", {}).get("HOME") or "~").expanduser(), pattern[2:]
    elif pattern.startswith("config:"):
        settings = services.get("settings")
        place, pattern = settings.config_dir if settings is not None else None, pattern[7:]
    if place is None:
        return False
    return any(place.glob(pattern)) if "*" in pattern else os.path.lexists(place / pattern)


def copy_fields(tool: Tool | KnownTool) -> dict[str, Any]:
    """The fields of a tool that its stand-in has, too."""
    return {name: getattr(tool, name) for name in COPIED}
