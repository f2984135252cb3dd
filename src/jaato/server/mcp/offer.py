"""What of the catalogue a client is shown, and what it may add."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from jaato.errors import ConfigError
from jaato.runtime.runtime import Plan
from jaato.tools.catalog import Catalog
from jaato.tools.tool import Tool


def every(_tool: Tool) -> bool:
    """Any tool."""
    return True


@dataclass(frozen=True, slots=True)
class Offer:
    """The core tools and the two of discovery, unless it is `whole` (everything) or names `tools` (nothing else). What is not in `scope`
    is offered in no case."""

    whole: bool = False
    tools: tuple[str, ...] = ()
    scope: Callable[[Tool], bool] = every

    def plan(self, plan: Plan, catalog: Catalog) -> Plan:
        """The plan of a session that declares what is offered. Raises `ConfigError` for a tool there is not."""
        if self.whole:
            return replace(plan, deferred=False)
        if self.tools:
            return replace(plan, deferred=True, core=tuple(self.known(catalog)))
        return replace(plan, deferred=True)

    def instructions(self, catalog: Catalog) -> str:
        """What a client's model should know before it begins."""
        if self.whole or self.tools:
            return (
                "Tools of this machine and workspace, by jaato. Calls that change something may ask the user."
            )
        return (
            f"jaato has {len(catalog)} tools for this workspace and lists a few. Find others with "
            "list_tools(queries=[…]), then pass their names to get_tool_schemas: they join the list of tools. "
            "Calls that change something may ask the user."
        )

    def known(self, catalog: Catalog) -> list[str]:
        """The `tools` by their own names. Raises `ConfigError` for one there is not."""
        names: list[str] = []
        for name in self.tools:
            found = catalog.find(name)
            if found is None:
                near = ", ".join(catalog.similar(name))
                hint = f"like it: {near}" if near else "`jaato tools list` shows them all"
                raise ConfigError(f"There is no tool {name!r} to offer; {hint}.")
            names.append(found.tool.name)
        return names
