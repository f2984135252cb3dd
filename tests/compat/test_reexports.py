"""The documented import paths are there, and hold nothing but re-exports."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import jaato

SOURCE = Path(__file__).parents[2] / "compat" / "src"
FILES = sorted(SOURCE.rglob("*.py"))

DOCUMENTED = {
    "server": "JaatoServer SessionManager JaatoIPCServer JaatoWSServer",
    "server.core": "JaatoServer",
    "server.session_manager": "SessionManager",
    "server.ipc": "JaatoIPCServer",
    "server.websocket": "JaatoWSServer",
    "server.events": (
        "SessionInfoEvent PermissionRequestedEvent ClarificationQuestionEvent PlanUpdatedEvent AgentOutputEvent "
        "ToolCallStartEvent SessionListEvent"
    ),
    "server.test_client": "main",
    "rich_client": "main",
    "shared": "JaatoClient PluginRegistry TokenLedger ToolExecutor",
    "shared.ai_tool_runner": "ToolExecutor get_current_tool_output_callback",
    "shared.token_accounting": "TokenLedger",
    "shared.jaato_client": "JaatoClient",
    "shared.jaato_runtime": "JaatoRuntime",
    "shared.jaato_session": "JaatoSession",
    "shared.message_queue": "SourceType",
    "shared.retry_utils": "interruptible_sleep with_retry",
    "shared.plugins": "PluginRegistry ToolPlugin UserCommand",
    "shared.plugins.base": "ToolPlugin UserCommand",
    "shared.plugins.registry": "PluginRegistry",
    "shared.plugins.permission": "PermissionPlugin PermissionPolicy PermissionChannel",
    "shared.plugins.template": "TemplatePlugin",
    "shared.plugins.references": "ReferencesPlugin",
    "shared.plugins.multimodal": "MultimodalPlugin",
    "shared.plugins.slash_command": "SlashCommandPlugin",
    "shared.plugins.memory": "MemoryPlugin",
    "shared.plugins.background.protocol": "BackgroundCapable TaskHandle TaskResult",
    "shared.plugins.background.mixin": "BackgroundCapableMixin",
    "shared.plugins.background.plugin": "BackgroundPlugin",
    "shared.plugins.cli": "CLIToolPlugin",
    "shared.plugins.subagent": "SubagentPlugin",
    "shared.plugins.todo": "TodoPlugin",
    "shared.plugins.mcp": "MCPToolPlugin",
    "shared.mcp_context_manager": "MCPClientManager",
    "shared.plugins.file_edit": "BackupManager FileEditPlugin",
    "shared.plugins.clarification": "ClarificationChannel ClarificationPlugin",
    "shared.plugins.waypoint": "BackupManager WaypointManager WaypointPlugin",
    "shared.plugins.model_provider": "ModelProviderPlugin ProviderConfig load_provider discover_providers",
    "shared.plugins.gc": "GCConfig GCPlugin GCResult discover_gc_plugins load_gc_plugin",
    "shared.plugins.gc.base": "GCConfig GCPlugin GCResult",
    "shared.plugins.gc.utils": "drop_unpaired is_turn_start split_history",
    "shared.plugins.session": "SessionConfig SessionInfo SessionPlugin create_plugin load_session_config",
    "shared.plugins.session.base": "SessionConfig SessionInfo SessionPlugin SessionState",
    "shared.plugins.session.serializer": "deserialize_history serialize_history",
    "shared.plugins.session.file_session": "FileSessionPlugin create_plugin",
    "shared.plugins.session.config_loader": "load_session_config",
    "shared.plugins.gc_truncate": "TruncateGCPlugin",
    "shared.plugins.gc_summarize": "SummarizeGCPlugin",
    "shared.plugins.gc_hybrid": "HybridGCPlugin",
    "shared.plugins.model_provider.base": "ModelProviderPlugin",
    "shared.plugins.model_provider.types": (
        "CancelToken CancelledException FinishReason FunctionCall Message Part ProviderResponse Role ToolResult "
        "ToolSchema"
    ),
    "shared.plugins.model_provider.google_genai.provider": "GoogleGenAIProvider",
    "shared.plugins.model_provider.google_genai.converters": "GeminiDialect",
    "shared.plugins.model_provider.github_models.converters": "OpenAIChat",
    "shared.plugins.model_provider.anthropic.converters": "AnthropicDialect",
    "shared.plugins.model_provider.github_models.provider": "GitHubModelsProvider",
    "shared.plugins.model_provider.anthropic.provider": "AnthropicProvider",
    "shared.plugins.model_provider.anthropic.errors": "RateLimited",
    "tool_registry": "Tool tool tool_from",
    "tool_registry.domains": "load_domains",
    "tool_registry.domains.core": "load_tools",
}
"""The paths the specification prints for the parts there are, and what is imported from each."""


def is_reexport(statement: ast.stmt) -> bool:
    """Whether a statement is a docstring, an import of jaato's, or `__all__` written out."""
    match statement:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.ImportFrom(module=str() as module, level=0):
            return module == "__future__" or module.split(".")[0] == "jaato"
        case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=elements)):
            return all(isinstance(element, ast.Constant) for element in elements)
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True  # `python -m` of a documented program
    return False


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_compatibility_module_is_reexports_only(path: Path) -> None:
    """It has a docstring, imports from `jaato` and `__all__`, which names exactly what it imports."""
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree)
    assert [ast.unparse(s) for s in tree.body if not is_reexport(s)] == []
    imported = [
        alias.asname or alias.name
        for s in tree.body
        if isinstance(s, ast.ImportFrom) and s.module != "__future__"
        for alias in s.names
    ]
    exported = next(s.value for s in tree.body if isinstance(s, ast.Assign))
    assert ast.literal_eval(exported) == sorted(imported)


@pytest.mark.spec("S3", "File Structure", "S3.structure.1")
@pytest.mark.parametrize("module", DOCUMENTED)
def test_a_documented_import_works(module: str) -> None:
    """`from MODULE import NAME` works for every name the specification prints."""
    found = importlib.import_module(module)
    assert [name for name in DOCUMENTED[module].split() if getattr(found, name, None) is None] == []


@pytest.mark.spec("S1", "Configuration Methods")
def test_every_public_name_of_jaato_loads() -> None:
    """`from jaato import NAME` works for all of `__all__`, and those are all the names it can load."""
    missing = [name for name in jaato.__all__ if getattr(jaato, name, None) is None]
    loadable = {name for names in jaato.HOMES.values() for name in names.split()}
    assert (missing, loadable) == ([], set(jaato.__all__) - {"__version__"})
    assert set(jaato.__all__) <= set(dir(jaato))
    with pytest.raises(AttributeError, match="no attribute 'Agnet'"):
        _ = jaato.Agnet  # type: ignore[attr-defined]  # that it is not there is the point
