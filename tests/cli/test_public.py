"""The public names of the package, and what it costs to import it."""

from __future__ import annotations

import subprocess
import sys

from tests.cli.environment import CliEnvironment

import jaato

PUBLIC = """Agent Allow AllowAlways AllowTurn Answer AuthenticationError Call CancelToken CancelledException ConfigError Deny
DenyAlways Flow FlowRun FlowStep Host
JaatoClient JaatoError JaatoRuntime JaatoSession LimitReached Message Model ModelInfo ModelSettings Output PermissionDenied Plugin
PluginError PluginRegistry PromptEnrichmentResult Provider ProviderError Question RateLimited Result RetryPolicy RunOptions
SessionNotFound StoreError SubagentProfile TokenLedger Tool ToolError ToolExecutor ToolPlugin ToolSchema ToolSpec Usage UserCommand tool"""


def test_the_public_names_are_exactly_these() -> None:
    """`jaato.__all__` changes only with this list, and every name in it can be had."""
    assert jaato.__all__ == PUBLIC.split()
    for name in jaato.__all__:
        assert getattr(jaato, name).__name__ == name
    assert set(jaato.__all__) <= set(dir(jaato))


def test_an_unknown_name_is_an_attribute_error() -> None:
    """What is not there is missed in the usual way."""
    assert getattr(jaato, "Nothing", None) is None


def test_every_lazy_name_is_public() -> None:
    """The table of homes and `__all__` name the same things."""
    assert sorted(name for names in jaato.HOMES.values() for name in names.split()) == sorted(jaato.__all__)


def loaded(desk: CliEnvironment, code: str) -> set[str]:
    """The modules a fresh interpreter has after this code."""
    script = (
        f"import sys; before = set(sys.modules)\n{code}\nprint(*(set(sys.modules) - before), file=sys.stderr)"
    )
    made = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=desk.env,
        cwd=desk.work,
        check=True,
    )
    return set(made.stderr.split())


def test_importing_and_help_load_next_to_nothing(desk: CliEnvironment) -> None:
    """`import jaato` loads nothing but its version, and help no library but argparse."""
    assert {name for name in loaded(desk, "import jaato") if name.startswith("jaato")} == {
        "jaato",
        "jaato.version",
    }
    code = "from jaato.cli.arguments.parser import make_parser; make_parser().format_help()"
    modules = loaded(desk, code)
    assert {name for name in modules if name.startswith("jaato")} == {
        "jaato",
        "jaato.cli",
        "jaato.cli.arguments",
        "jaato.cli.arguments.parser",
        "jaato.cli.arguments.servers",
        "jaato.cli.arguments.sessions",
        "jaato.cli.arguments.settings",
        "jaato.version",
    }
    assert not modules & {"anyio", "asyncio", "msgspec", "json", "typing", "httpx2", "sqlite3", "tomllib"}


def test_importing_the_agent_loads_what_each_agent_needs(desk: CliEnvironment) -> None:
    """What only some agents are given is loaded for them."""
    modules = loaded(desk, "from jaato import Agent, tool; Agent(dependencies=1, history=[])")
    assert "jaato.runtime.embedding.agent" in modules
    assert not modules & {
        "hashlib",
        "jaato.agent.history",
        "jaato.agent.session",
        "jaato.plugins.mcp",
        "jaato.runtime.plugins.given",
    }


def test_asking_for_a_server_loads_none(desk: CliEnvironment) -> None:
    """`serve --status` and `--stop` load neither the server nor the agent."""
    for flag in ("--status", "--stop"):
        modules = loaded(desk, f"from jaato.cli import main; main(['serve', {flag!r}])")
        assert "jaato.server.lock_file" in modules
        assert not modules & {"asyncio", "uvicorn", "jaato.server.sessions.hub", "jaato.agent.session"}
