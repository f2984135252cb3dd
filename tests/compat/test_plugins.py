"""The documented plugin classes: made without arguments, with the documented protocol, and a tool run through each."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jaato.abc.plugin import ToolPlugin
from jaato.errors import ConfigError
from shared import PluginRegistry, ToolExecutor
from shared.plugins.background import BackgroundPlugin
from shared.plugins.clarification import Clarification, ClarificationChannel, ClarificationPlugin
from shared.plugins.cli import CLIToolPlugin
from shared.plugins.file_edit import BackupManager, FileEditPlugin
from shared.plugins.mcp import MCPToolPlugin
from shared.plugins.multimodal import MultimodalPlugin
from shared.plugins.references import ReferencesPlugin
from shared.plugins.subagent import SubagentPlugin
from shared.plugins.template import TemplatePlugin
from shared.plugins.todo import TodoPlugin

PLUGINS = {
    "background": "BackgroundPlugin",
    "cli": "CLIToolPlugin",
    "clarification": "ClarificationPlugin",
    "environment": "EnvironmentPlugin",
    "file_edit": "FileEditPlugin",
    "introspection": "IntrospectionPlugin",
    "mcp": "MCPToolPlugin",
    "memory": "MemoryPlugin",
    "multimodal": "MultimodalPlugin",
    "references": "ReferencesPlugin",
    "slash_command": "SlashCommandPlugin",
    "subagent": "SubagentPlugin",
    "template": "TemplatePlugin",
    "todo": "TodoPlugin",
    "waypoint": "WaypointPlugin",
}
MEMBERS = {
    "background": (
        "startBackgroundTask getBackgroundTaskStatus getBackgroundTaskResult cancelBackgroundTask listBackgroundTasks"
    ),
    "cli": "cli_based_tool",
    "clarification": "request_clarification",
    "file_edit": "readFile updateFile writeNewFile removeFile undoFileChange",
    "introspection": "list_tools get_tool_schemas",
    "mcp": "call_mcp_tool",
    "multimodal": (
        "MODEL_REQUIREMENTS viewImage subscribes_to_prompt_enrichment enrich_prompt get_model_requirements "
        "get_enrichment_priority"
    ),
    "references": "selectReferences listReferences",
    "slash_command": "processCommand",
    "subagent": (
        "auto_discover_profiles profiles_dir spawn_subagent continue_subagent close_subagent cancel_subagent "
        "get_subagent_result list_active_subagents list_subagent_profiles set_shared_state get_shared_state "
        "list_shared_state discover_profiles set_ui_hooks set_retry_callback set_plan_reporter"
    ),
    "template": (
        "renderTemplate listExtractedTemplates subscribes_to_prompt_enrichment enrich_prompt get_enrichment_priority"
    ),
    "todo": "createPlan updateStep getPlanStatus",
    "waypoint": "create_waypoint restore_waypoint delete_waypoint",
}
"""The members that the documents print for the class of each plugin."""


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with one file that the program works in."""
    place = tmp_path / "work"
    place.mkdir()
    (place / "a.txt").write_text("first\n")
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def registry(workspace: Path) -> Iterator[PluginRegistry]:
    """A registry over it."""
    made = PluginRegistry(workspace=workspace, services={"environ": {"PATH": "/usr/bin:/bin", "HOME": "/"}})
    yield made
    made.shutdown()


def made(name: str) -> Any:
    """A plugin by its documented class, without arguments."""
    return getattr(importlib.import_module(f"shared.plugins.{name}"), PLUGINS[name])()


@pytest.mark.spec("S3", "Tool Plugins (PluginRegistry)", "S3.tools.4")
@pytest.mark.spec("S3", "Tool Plugins (PluginRegistry)", "S3.tools.5")
@pytest.mark.parametrize("name", PLUGINS)
def test_a_documented_plugin_has_the_protocol(name: str) -> None:
    """Made without arguments, initialised without a configuration: its schemas have executors, and its members are there."""
    plugin = made(name)
    plugin.initialize()
    with pytest.raises(AttributeError, match="no attribute"):
        _ = plugin.no_such_tool
    assert plugin.name == name
    assert isinstance(plugin, ToolPlugin)
    declared = [schema.name for schema in plugin.get_tool_schemas()]
    assert declared
    assert set(declared) <= set(plugin.get_executors())
    assert set(plugin.get_auto_approved_tools()) <= set(declared)
    assert {command.name for command in plugin.get_user_commands()} <= set(plugin.get_executors())
    assert plugin.get_system_instructions() is None or isinstance(plugin.get_system_instructions(), str)
    assert [member for member in MEMBERS.get(name, "").split() if not hasattr(plugin, member)] == []
    plugin.shutdown()
    plugin.shutdown()


@pytest.mark.parametrize("name", PLUGINS)
def test_a_registry_exposes_one_made_by_hand_as_its_own(name: str, registry: PluginRegistry) -> None:
    """`register_plugin(Plugin(), expose=True)` brings the tools `expose_tool` brings: access, names, executors."""

    def rows() -> list[Any]:
        toolset = registry.toolset(name)
        assert toolset is not None
        return [(tool.spec, dict(tool.aliases), tool.is_async, tool.plugin) for tool in toolset.tools]

    registry.expose_tool(name)
    own = rows()
    registry.unexpose_tool(name)
    registry.register_plugin(made(name), expose=True)
    assert rows() == own
    assert registry.list_exposed() == [name]
    registry.unexpose_tool(name)
    registry.register_plugin(made(name))
    assert registry.expose_tool(name)
    assert rows() == own


@pytest.mark.spec("S3", "Tool Plugins (PluginRegistry)", "S3.tools.5")
def test_commands_files_and_plans_work_by_their_documented_methods(workspace: Path) -> None:
    """The printed methods, by position and by keyword, with the printed parameters."""
    cli = CLIToolPlugin()
    assert cli.cli_based_tool("pwd")["output"] == f"{workspace}\n"
    assert cli.get_executors()["cli_based_tool"]({"command": "echo hello"})["output"] == "hello\n"
    cli.shutdown()
    files = FileEditPlugin()
    files.initialize({"backups": {"max_count": 5}})
    assert files.readFile("a.txt") == "first\n"
    files.updateFile("a.txt", "second\n")
    assert files.readFile(path="a.txt") == "second\n"
    files.undoFileChange("a.txt")
    assert (workspace / "a.txt").read_text() == "first\n"
    files.writeNewFile("b.txt", "new")
    files.removeFile("b.txt")
    assert not (workspace / "b.txt").exists()
    assert len(BackupManager(workspace).records()) == 4
    with pytest.raises(TypeError, match="readFile\\(\\) takes at most 3 arguments"):
        files.readFile("a.txt", 1, 1, 1)
    with pytest.raises(ConfigError):
        files.initialize({"backups": {"max_count": "many"}})
    todo = TodoPlugin()
    plan = todo.createPlan("Ship", ["build", "test"])
    todo.get_executors()["startPlan"]({"plan_id": plan["plan_id"]})
    todo.updateStep("1", "completed")
    assert todo.getPlanStatus()["progress"] == "1/2"


def test_a_plugin_works_where_it_is_told(workspace: Path, tmp_path: Path) -> None:
    """`set_workspace_path` before and after the first use."""
    other = tmp_path / "other"
    other.mkdir()
    cli = CLIToolPlugin()
    cli.set_workspace_path(str(other))
    assert cli.cli_based_tool("pwd")["output"] == f"{other}\n"
    cli.set_workspace_path(str(workspace))
    assert cli.cli_based_tool("pwd")["output"] == f"{workspace}\n"
    cli.shutdown()


@pytest.mark.parametrize("exposed", [False, True])
def test_background_tasks_of_the_plugins_a_registry_has(registry: PluginRegistry, exposed: bool) -> None:
    """`startBackgroundTask(plugin, tool, args)` runs a tool by any of its names; status, result and list follow it."""
    registry.expose_tool("cli")
    background = BackgroundPlugin()
    background.set_plugin_registry(registry)
    background.initialize()
    if exposed:
        registry.register_plugin(background, expose=True)
    started = background.startBackgroundTask("cli", "cli_based_tool", {"command": "echo hello"})
    until = time.monotonic() + 60
    while background.getBackgroundTaskStatus(started["task_id"])["status"] == "running":
        assert time.monotonic() < until
        time.sleep(0.01)
    ended = background.getBackgroundTaskResult(started["task_id"])
    assert (ended["status"], ended["output"], ended["result"]["exit_code"]) == ("completed", "hello\n", 0)
    assert [task["task_id"] for task in background.listBackgroundTasks()["tasks"]] == [started["task_id"]]
    sleeping = background.startBackgroundTask("cli", "run", {"command": "sleep 600"})
    assert background.cancelBackgroundTask(sleeping["task_id"])["stopped"]
    while background.getBackgroundTaskStatus(sleeping["task_id"])["status"] == "running":
        assert time.monotonic() < until
        time.sleep(0.01)
    assert background.getBackgroundTaskStatus(sleeping["task_id"])["status"] == "cancelled"
    background.shutdown()


def test_a_channel_answers_the_questions_of_a_plugin(registry: PluginRegistry) -> None:
    """Without a session the given channel is asked, also through an executor; without one the result says that no one answered."""
    asked: list[Clarification] = []

    class Channel:
        def ask(self, clarification: Clarification) -> list[str | None]:
            asked.append(clarification)
            return ["blue", None]

    assert isinstance(Channel(), ClarificationChannel)
    plugin = ClarificationPlugin(Channel())
    questions = ["Which colour?", {"question": "Which size?", "default": "small"}]
    expected = [["Which colour?", "blue"], ["Which size?", "small"]]
    assert plugin.request_clarification("To paint it.", questions)["qa_pairs"] == expected
    assert asked[0].context == "To paint it."
    registry.register_plugin(plugin, expose=True)
    executor = ToolExecutor()
    executor.set_registry(registry)
    ok, result = executor.execute("request_clarification", {"context": "c", "questions": questions})
    assert (ok, result["qa_pairs"]) == (True, expected)
    assert ClarificationPlugin().request_clarification("c", ["q?"])["answered"] is False
    with pytest.raises(ConfigError, match="ask"):
        ClarificationPlugin(object()).get_tool_schemas()


def test_documents_templates_and_images_enrich_prompts(workspace: Path) -> None:
    """The three of the pipeline, each by itself, with the documented priorities."""
    (workspace / "MODULE.md").write_text("Breakers open.\n")
    references, template, multimodal = ReferencesPlugin(), TemplatePlugin(), MultimodalPlugin()
    assert [one.get_enrichment_priority() for one in (references, template, multimodal)] == [20, 40, 60]
    assert all(one.subscribes_to_prompt_enrichment() for one in (references, template, multimodal))
    assert "Breakers open." in references.enrich_prompt("Read @MODULE.md").prompt
    assert multimodal.get_model_requirements() == multimodal.MODEL_REQUIREMENTS
    assert "gemini-3-pro*" in multimodal.MODEL_REQUIREMENTS
    template.get_executors()["create_template"]({"name": "hi.txt", "content": "Hello {{ name }}!"})
    template.renderTemplate("hi.txt", {"name": "Ada"}, "out.txt")
    assert (workspace / "out.txt").read_text() == "Hello Ada!"


def test_subagents_need_a_session_and_say_so() -> None:
    """The executors are there; without a session they raise what to do instead."""
    plugin = SubagentPlugin()
    assert plugin.get_executors()["list_subagent_profiles"]({}) == {"profiles": [], "count": 0}
    with pytest.raises(Exception, match="belongs to no session"):
        plugin.spawn_subagent("Find it")


def test_registry_executors_work_in_the_registrys_workspace(registry: PluginRegistry, tmp_path: Path) -> None:
    """Not in the directory of the process, and with plain results."""
    other = tmp_path / "elsewhere"
    other.mkdir()
    registry.expose_tool("cli")
    registry.expose_tool("search")
    registry.set_workspace_path(other)
    executors = registry.get_exposed_executors()
    assert executors["run"]({"command": "pwd"})["output"] == f"{other}\n"
    assert executors["grep_content"]({"pattern": "x"})["matches"] == []


def test_an_mcp_plugin_made_by_hand_lists_and_calls_nothing_it_does_not_know() -> None:
    """Without a configuration there is no server, and a call says so."""
    plugin = MCPToolPlugin()
    assert plugin.get_executors()["mcp_servers"]({})["servers"] == []
    with pytest.raises(Exception, match="nowhere"):
        plugin.call_mcp_tool("nowhere", "tool", {})


def test_a_configuration_that_is_refused_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin works on with the one before."""
    monkeypatch.chdir(tmp_path)
    cli = CLIToolPlugin()
    try:
        cli.initialize({"env": {"GIVEN": "yes"}})
        wrong: Any
        for wrong in ({"grace_s": "long"}, ["grace_s"], "grace_s"):
            with pytest.raises(ConfigError):
                cli.initialize(wrong)
        assert cli.cli_based_tool("echo $GIVEN")["output"] == "yes\n"
    finally:
        cli.shutdown()


def test_an_argument_that_is_given_twice() -> None:
    """By position and by name is an error, as in every function; nothing runs."""
    with pytest.raises(TypeError, match="two values for command"):
        CLIToolPlugin().cli_based_tool("echo a", command="echo b")
