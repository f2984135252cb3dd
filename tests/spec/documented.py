"""Plugins of the documented shape, for the tests of the registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaato.abc.plugin import PromptEnrichmentResult, ToolSchema, UserCommand

PLAN_TOOLS = [
    "createPlan",
    "startPlan",
    "setStepStatus",
    "getPlanStatus",
    "addStep",
    "completePlan",
    "listPlans",
    "clearPlan",
]


PARAMETERS = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def schema(name: str, **more: Any) -> ToolSchema:
    """A declaration with one text argument."""
    return ToolSchema(name, f"What {name} does.", PARAMETERS, **more)


class Documented:
    """A plugin as its page draws it; `journey` notes what is asked of it, in order."""

    def __init__(self, name: str = "mine", *tools: str | ToolSchema, config: Any = None) -> None:
        self.name = name
        self.schemas = [tool if isinstance(tool, ToolSchema) else schema(tool) for tool in tools]
        self.journey: list[str] = []
        self.told: dict[str, Any] = {}
        self.commands: list[UserCommand] = []
        self.executors: dict[str, Callable[[dict[str, Any]], Any]] = {
            tool.name: lambda args: {"said": args["text"], "by": self.name} for tool in self.schemas
        }

    def get_tool_schemas(self) -> list[ToolSchema]:
        self.journey.append("schemas")
        return self.schemas

    def get_executors(self) -> dict[str, Any]:
        return self.executors

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        self.journey.append("initialize")
        self.told["config"] = config

    def shutdown(self) -> None:
        self.journey.append("shutdown")

    def get_system_instructions(self) -> str | None:
        return f"Use {self.name} wisely."

    def get_auto_approved_tools(self) -> list[str]:
        return []

    def get_user_commands(self) -> list[UserCommand]:
        return self.commands

    def set_plugin_registry(self, registry: Any) -> None:
        self.journey.append("registry")
        self.told["registry"] = registry

    def set_session(self, session: Any) -> None:
        self.journey.append("session")
        self.told["session"] = session

    def set_workspace_path(self, path: str) -> None:
        self.journey.append("workspace")
        self.told["workspace"] = path


class Enriching(Documented):
    """One that writes its name behind the prompt."""

    def __init__(self, name: str, priority: int | None = None) -> None:
        super().__init__(name)
        if priority is not None:
            self.get_enrichment_priority = lambda: priority

    def subscribes_to_prompt_enrichment(self) -> bool:
        return True

    def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
        return PromptEnrichmentResult(f"{prompt} {self.name}", {"saw": prompt})
