"""`check_plugin`: finds a plugin by name, entry point, file or `module:Class`, and runs every conformance check on it."""

from __future__ import annotations

import functools
import importlib
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from jaato.abc.compactor import GCConfig, GCResult, SummarizingGCPlugin
from jaato.abc.plugin import ENTRY_POINT_GROUPS, Plugin
from jaato.agent.compaction.checks import check_collected, check_question, check_verdict
from jaato.agent.compaction.history import positions
from jaato.errors import ConfigError, JaatoError
from jaato.plugins import BUILTIN
from jaato.protocol.messages import Message, Text, ToolCall, ToolResult
from jaato.runtime.plugins.adapter import Toolset, adapt, optional
from jaato.runtime.plugins.discovery import (
    BUILTIN_STRATEGIES,
    GC_PLUGINS,
    entry_points_of,
    instance,
    load_module,
)
from jaato.runtime.plugins.isolation import ProcessState, read_process_state, run_bounded
from jaato.runtime.plugins.lifecycle import PluginHost
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.runtime.plugins.validation import plugin_name
from jaato.settings import Settings
from jaato.testing.report import Report
from jaato.testing.tool_checks import CALL_S, check_calls, check_declarations, check_enrichment

Loader = Callable[[], Any]


def plugin_loader(name: str, workspace: Path, settings: Settings | None = None) -> Loader:
    """The loader of the plugin this names. Raises `ConfigError`.

    Naming a file, or a plugin of the workspace by its path, runs it: it is the author who checks.
    """
    for known in (BUILTIN, BUILTIN_STRATEGIES):
        if name in known:
            return functools.partial(import_object, known[name])
    for kind in ("tool", "gc"):
        for point in entry_points_of(ENTRY_POINT_GROUPS[kind]):
            if point.name == name:
                return point.load
    path = Path(name) if Path(name).is_absolute() else workspace / name
    if path.is_dir() and (path / "__init__.py").is_file():
        return functools.partial(load_module, path / "__init__.py", path.name)
    if path.suffix == ".py" and path.is_file():
        return functools.partial(load_module, path, path.stem)
    if settings is not None:
        own = settings.config_dir / "plugins"
        for file in (own / f"{name}.py", own / name / "__init__.py"):
            if file.is_file():
                return functools.partial(load_module, file, name)
    if ":" in name:
        return functools.partial(import_object, name)
    raise ConfigError(
        f"There is no plugin {name!r}: give the name of an installed one, a file, a package, or module:Class."
    )


def import_object(path: str) -> Any:
    """A module, or `module:attribute` of it."""
    module, _, attribute = path.partition(":")
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found


STEP_S, SETTLING_S = 20.0, 2.0
FAILED = object()
NOTHING: Mapping[str, Any] = MappingProxyType({})


def check_plugin(
    target: Any,
    *,
    config: dict[str, Any] | None = None,
    calls: Mapping[str, dict[str, Any]] = NOTHING,
    services: Mapping[str, Any] = NOTHING,
    seconds: float = CALL_S,
) -> Report:
    """Hold a plugin (class, object, factory, module, loader, file or name) against all that is asked of one.

    It works in an empty directory of its own. Tools that only read are called with their first example, or a guess;
    others only with the arguments that `calls` gives them. `seconds` is how long a call may take. GC strategies are
    checked as such. Raises `ConfigError` for a name that names nothing.
    """
    if isinstance(target, str | Path):
        target = plugin_loader(str(target), Path.cwd())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        return Check(target, config or {}, dict(calls), services, Path(place), seconds).run()


def assert_plugin(target: Any, **options: Any) -> Report:
    """`check_plugin` for a test: raises AssertionError with the report when anything is wrong."""
    report = check_plugin(target, **options)
    assert report.ok, f"\n{report}"
    return report


class Check:
    """One plugin on its way through the phases."""

    def __init__(
        self,
        target: Any,
        config: dict[str, Any],
        calls: dict[str, dict[str, Any]],
        services: Mapping[str, Any],
        place: Path,
        seconds: float,
    ) -> None:
        self.target = target
        self.config = config
        self.calls = calls
        self.place = place
        self.seconds = seconds
        self.registry = PluginRegistry(workspace=place, services={"environ": {}, **services})
        self.report = Report(str(getattr(target, "name", None) or getattr(target, "__name__", "plugin")))

    def run(self) -> Report:
        """Everything, in the order in which it would happen; what stops it is the last finding."""
        before = read_process_state()
        found = self._step("import", self._load)
        for change in before.describe_changes(read_process_state()):
            self.report.error(
                "side effect", self.report.name, f"its import {change}; do it when it is initialised"
            )
        if isinstance(found, ModuleType):
            self._kind(found)
        if found is FAILED:
            return self.report
        host = PluginHost(self.registry, MappingProxyType(self.config))
        plugin = self._step("making", lambda: instance(found, host))
        named = FAILED if plugin is FAILED else self._step("name", lambda: plugin_name(plugin))
        if named is FAILED:
            return self.report
        self.report.name = named
        if callable(getattr(plugin, "should_collect", None)) or callable(getattr(plugin, "collect", None)):
            check_strategy(plugin, self.config, self.report)
        else:
            self._tools(plugin)
        for change in remaining(before):
            self.report.error("side effect", self.report.name, f"after its shutdown: it {change}")
        return self.report

    def _load(self) -> Any:
        target = self.target
        is_loader = callable(target) and not isinstance(target, type) and not hasattr(target, "name")
        return target() if is_loader else target

    def _kind(self, module: ModuleType) -> None:
        kind = getattr(module, "PLUGIN_KIND", None)
        if kind not in ("tool", "gc", "session", "model_provider"):
            text = 'has no PLUGIN_KIND = "tool": without it a file in a directory of plugins is passed over'
            self.report.advise("kind", module.__name__, text)

    def _step(self, rule: str, work: Callable[[], Any]) -> Any:
        """What a phase gives; `FAILED`, and a finding, when it fails."""
        try:
            return run_bounded(STEP_S, work, f"Its {rule}")
        except JaatoError as error:
            self.report.error(rule, self.report.name, str(error))
            return FAILED

    def _tools(self, plugin: Any) -> None:
        toolset = self._step("exposure", lambda: self._expose(plugin))
        if toolset is FAILED:
            return
        self.report.tools = [tool.name for tool in toolset.tools]
        check_declarations(toolset, self.report)
        self._again(plugin, toolset)
        check_enrichment(toolset, self.report)
        check_calls(toolset, self.calls, self.place, self.report, self.seconds)
        self._step("shutdown", lambda: shut_down(plugin))

    def _expose(self, plugin: Any) -> Toolset:
        self.registry.register_plugin(plugin, expose=True)
        toolset = self.registry.toolset(plugin.name)
        if toolset is None:
            raise JaatoError("it was not exposed")
        return toolset

    def _again(self, plugin: Any, toolset: Toolset) -> None:
        """What is declared stays the same when it is asked for again, and after a second initialisation."""
        initialize = optional(plugin, "initialize")

        def repeat() -> Toolset:
            if initialize and not isinstance(plugin, Plugin):
                initialize(self.config)
            return adapt(plugin)

        again = self._step("initialise", repeat)
        if again is not FAILED and [tool.spec for tool in again.tools] != [
            tool.spec for tool in toolset.tools
        ]:
            self.report.error(
                "initialise", self.report.name, "declares other tools when it is asked a second time"
            )


def shut_down(plugin: Any) -> bool:
    """Shut a plugin down as the registry does; raises what it raises."""
    end = optional(plugin, "shutdown")
    if end is not None:
        end()
    return True


def remaining(before: ProcessState) -> list[str]:
    """What is still changed a moment after the shutdown: threads may take a little time to end."""
    deadline = time.monotonic() + SETTLING_S
    while (changes := before.describe_changes(read_process_state())) and time.monotonic() < deadline:
        time.sleep(0.02)
    return changes


TURNS = 12


def check_strategy(plugin: Any, config: dict[str, Any], report: Report) -> None:
    """Hold a strategy against the rules."""
    name = report.name
    try:
        strategy = GC_PLUGINS.make(plugin, name)
        run_bounded(STEP_S, lambda: strategy.initialize(config), "initialize()")
        settings = GCConfig(threshold_percent=80.0, preserve_recent_turns=2)
        for percent in (0.0, 50.0, 100.0):
            ask = functools.partial(strategy.should_collect, usage_at(percent), settings)
            wanted, reason = check_verdict(run_bounded(STEP_S, ask, "should_collect()"))
            if wanted and not reason:
                report.advise("verdict", name, "says no reason; the log shows it")
            if percent == 0.0 and wanted:
                report.error("verdict", name, "wants to collect an empty context")
        for history in ([], conversation()):
            check_collection(strategy, history, settings, report)
        run_bounded(STEP_S, strategy.shutdown, "shutdown()")
    except JaatoError as error:
        report.error("strategy", name, str(error))


def check_collection(strategy: Any, history: list[Message], settings: GCConfig, report: Report) -> None:
    """What it leaves is a history: known messages in their order, and new ones that can be stored."""
    usage = usage_at(95.0)
    reason = "the context is 95 % full"
    if isinstance(strategy, SummarizingGCPlugin):
        copy = list(history)
        question = check_question(
            run_bounded(STEP_S, lambda: strategy.question(copy, usage, settings), "question()")
        )
        if question is not None:
            collected = run_bounded(
                STEP_S,
                lambda: strategy.collect_with("All is well.", copy, usage, settings, reason),
                "collect_with()",
            )
            positions(history, check_collected(collected)[0])
    shown = list(history)
    given = run_bounded(STEP_S, lambda: strategy.collect(shown, usage, settings, reason), "collect()")
    proposed, result = check_collected(given)
    placed = positions(history, proposed)
    if history and result.success and len(placed) >= len(history):
        report.advise(
            "collect", report.name, f"left {TURNS} turns as they were in a context that is 95 % full"
        )
    if history and history[-2] not in placed.values():
        report.advise(
            "collect", report.name, "left out the newest turn; the session puts the user's words back"
        )
    if not isinstance(result, GCResult):
        report.error("collect", report.name, "gives no GCResult")


def usage_at(percent: float) -> dict[str, Any]:
    """What a strategy is shown of a context so full."""
    tokens = int(percent * 1_000)
    return {
        "model": "script",
        "context_limit": 100_000,
        "total_tokens": tokens,
        "percent_used": percent,
        "tokens_remaining": 100_000 - tokens,
        "turns": TURNS,
    }


def conversation() -> list[Message]:
    """Some turns, each with a call and its result."""
    history: list[Message] = []
    for n in range(TURNS):
        call = ToolCall(f"c{n}", "readFile", {"path": f"{n}.txt"})
        history += [
            Message("user", [Text(f"Read file {n}.")], id=f"m{n}u"),
            Message("assistant", [call], id=f"m{n}c"),
            Message("tool", [ToolResult(f"c{n}", "readFile", True, [Text("x" * 500)])], id=f"m{n}c-results"),
            Message("assistant", [Text(f"File {n} is full of x.")], id=f"m{n}a"),
        ]
    return [
        *history,
        Message("user", [Text("And now?")], id="last"),
        Message("assistant", [Text("Done.")], id="end"),
    ]
