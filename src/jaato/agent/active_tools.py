"""The active tools of an agent: those declared to its model, in a stable order that keeps the prompt cache valid."""

from __future__ import annotations

from collections.abc import Sequence

from jaato.agent.journal import Journal
from jaato.protocol.events import ToolActivated
from jaato.protocol.specs import ToolSpec
from jaato.tools.catalog import Catalog
from jaato.tools.tool import Tool

ACTIVATOR = "get_tool_schemas"
"""The tool that activates others; where a session does not have it, everything is declared."""


def choose_first_tools(catalog: Catalog) -> list[Tool]:
    """The tools declared from the start: the core ones, or all of them where none could be activated later."""
    return catalog.core if ACTIVATOR in catalog else list(catalog)


class ActiveTools:
    """The tools the model may call. The list only grows, so the declarations already sent stay unchanged.

    `core` names the tools declared from the start, None those marked `core`. Without `deferred`, or without a tool that
    activates others, all are declared, also those that join the catalogue later.
    """

    def __init__(
        self, journal: Journal, catalog: Catalog, *, deferred: bool, core: Sequence[str] | None
    ) -> None:
        self._journal = journal
        self._catalog = catalog
        self._deferred = deferred
        self._core = core
        self._names: set[str] = set()
        self._specs: list[ToolSpec] = []
        self._seen: object = None

    def __contains__(self, name: str) -> bool:
        self._follow_catalog()
        return name in self._names

    @property
    def specs(self) -> list[ToolSpec]:
        """The declarations, in the order they were made."""
        self._follow_catalog()
        return self._specs

    def _follow_catalog(self) -> None:
        """Declare what has joined the catalogue, where everything is declared."""
        now = self._catalog.snapshot
        if now is not self._seen:
            self._seen = now
            if not self._deferred or (self._core is None and ACTIVATOR not in self._catalog):
                self._declare([tool.spec for tool in self._catalog])

    def restore(self) -> None:
        """Declare the first tools, and those that a resumed session had activated."""
        self._follow_catalog()
        self._declare(self._initial_specs())
        self._declare(self._find_specs(self._journal.state.activated))

    def activate(self, names: Sequence[str]) -> list[str]:
        """Declare more tools from now on; returns the names that are new."""
        new = [name for name in dict.fromkeys(names) if name not in self._names]
        specs = self._find_specs(new)
        if specs:
            journal = self._journal
            journal.record(ToolActivated(**journal.head(), tools=[spec.name for spec in specs]))
            self._declare(specs)
        return [spec.name for spec in specs]

    def _initial_specs(self) -> list[ToolSpec]:
        if self._core is not None:
            return self._find_specs(self._core)
        known = self._find_specs(self._journal.state.core_tools)
        return known or [tool.spec for tool in self._catalog.core]

    def _find_specs(self, names: Sequence[str]) -> list[ToolSpec]:
        found = [self._catalog.find(name) for name in names]
        return [entry.tool.spec for entry in found if entry is not None]

    def _declare(self, specs: Sequence[ToolSpec]) -> None:
        new = [spec for spec in specs if spec.name not in self._names]
        self._specs = [*self._specs, *new]
        self._names.update(spec.name for spec in new)
