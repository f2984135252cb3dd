"""What plugins add to the result of a call."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest
from tests.kit import call, plan, results, runtime, say
from tests.spec.documented import Documented

from jaato.abc.plugin import Plugin
from jaato.runtime import result_enrichment
from jaato.runtime.executor import ToolExecutor
from jaato.tools.call import Call
from jaato.tools.tool import tool


@tool(access="read", category="test", core=True)
def measure(length: int) -> dict[str, Any]:
    """Measure."""
    return {"length": length}


class Lint(Plugin):
    """A native plugin that looks at one tool."""

    name: ClassVar[str] = "lint"
    enriches_results: ClassVar[tuple[str, ...]] = ("measure",)

    async def enrich_result(self, call: Call, value: Any) -> Any:
        return {**value, "unit": "m", "asked": call.arguments["length"]}


class Everywhere(Documented):
    """One of the documented shape that sees every result."""

    def subscribes_to_tool_result_enrichment(self) -> bool:
        return True

    def enrich_tool_result(self, tool_name: str, result: Any) -> Any:
        return {**result, "by": tool_name} if isinstance(result, dict) else result


class Failing(Everywhere):
    def enrich_tool_result(self, tool_name: str, result: Any) -> Any:
        raise SystemExit(1)


class Late(Everywhere):
    def enrich_tool_result(self, tool_name: str, result: Any) -> Any:
        time.sleep(1)
        return "late"


@pytest.mark.spec("S0", "Tool Execution Pipeline", "S0.pipeline.6")
def test_plugins_add_to_the_result_of_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A native plugin for the tools it names, a documented one for all; one that fails or is late is passed over."""
    monkeypatch.setattr(result_enrichment, "WITHIN_S", 0.2)

    async def main() -> None:
        made = runtime(tmp_path, [measure])
        for plugin in (Lint(None), Late("late"), Failing("failing"), Everywhere("everywhere")):  # type: ignore[arg-type]
            made.registry.register_plugin(plugin, expose=True)
        try:
            script = [call("measure", length=3), call("list_tools"), call("measure", length="x"), say("done")]
            async with made.create(plan(tmp_path, script)) as live:
                await live.post("go")
                measured, listed, wrong = results(live)
        finally:
            made.close()
        assert measured.structured == {"length": 3, "unit": "m", "asked": 3, "by": "measure"}
        assert listed.structured["by"] == "list_tools"
        assert wrong.error is not None

    anyio.run(main)


def test_the_executor_enriches_too(tmp_path: Path) -> None:
    """Plugins that need no loop are asked for library calls as well."""
    made = runtime(tmp_path, [measure])
    for plugin in (Lint(None), Failing("failing"), Everywhere("everywhere")):  # type: ignore[arg-type]
        made.registry.register_plugin(plugin, expose=True)
    executor = ToolExecutor()
    executor.set_registry(made.registry)
    assert executor.execute("measure", {"length": 3}) == (True, {"length": 3, "by": "measure"})
    made.close()
