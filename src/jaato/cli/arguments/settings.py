"""The arguments of the commands that show and change what an agent here has and may do."""

from __future__ import annotations

from argparse import REMAINDER

from jaato.cli.arguments.options import PERMISSIONS, Command, choice, flag, value

KEYED = ("anthropic", "openai", "google_genai", "github_models", "ollama")
"""The providers that take a key."""
TOOLS = """examples:
  jaato tools list filesystem
  jaato tools search "replace text in many files"
  jaato tools schema updateFile
  jaato tools tokens"""
MODELS = """examples:
  jaato models
  jaato models --provider ollama"""
PERMISSIONS_HELP = """examples:
  jaato permissions
  jaato permissions explain 'git log | head'
  jaato permissions list --json
  jaato permissions explain writeNewFile '{"path": "a.txt", "content": ""}'
  jaato permissions revoke 3f9c2a61b07d
  jaato permissions trust"""
SANDBOX = """Runs COMMAND as the agent's commands run: the profile read-only sees the files and changes nothing, workspace-write may
change the workspace. The exit code is the command's.

examples:
  jaato sandbox -- ls -la ~/.ssh
  jaato sandbox --profile workspace-write -- make test
  jaato sandbox --profile workspace-write --allow-domain pypi.org --allow-domain files.pythonhosted.org -- pip download six
  jaato sandbox --profile workspace-write --explain"""
PLUGINS = """A plugin that a workspace brings (.jaato/plugins) is shown and never run, until its files are trusted as they are.
What you install, or copy into ~/.config/jaato/plugins, is yours and runs.

examples:
  jaato plugins
  jaato plugins list --json
  jaato plugins trust notes
  jaato plugins untrust notes
  jaato plugins check ./notes.py"""
CONFIG = """Settings come from flags, then JAATO_* variables, then a trusted .jaato/config.toml of the workspace, then the
user's config.toml, then the defaults. An untrusted workspace can only tighten.

examples:
  jaato config --explain
  jaato config --trust"""
LOGIN = """examples:
  jaato login anthropic
  pass show openai | jaato login openai --key-stdin"""
DOCTOR = """Exit code 1 when something is broken; a warning is something you may want.

examples:
  jaato doctor
  jaato doctor --json"""

OPTIONS = {
    "category": value("CATEGORY"),
    "query": value("QUERY"),
    "--limit": value("N", "this many at most (10)", type=int, choices=range(1, 201), default=10),
    "name": value("NAME"),
    "grants": value("ID", "the grant's id, as list shows it"),
    "subject": value("COMMAND|TOOL", "a shell command, or a tool's name followed by JSON"),
    "arguments": value("JSON", "the tool's arguments"),
    "--profile": choice(
        ("read-only", "workspace-write"), "how far the command may reach (default: read-only)", "read-only"
    ),
    "--explain:sandbox": flag("print what the command would see, and run nothing"),
    "--json:sandbox": flag("with --explain: as JSON"),
    "words": value("COMMAND", "after --: the program and its arguments", nargs=REMAINDER),
    "name:plugin": value("NAME", "its name"),
    "name:check": value("NAME", "a name, file or module:Class"),
    "--explain": flag("with what each setting means and how to change it"),
    "--trust": flag("let .jaato/config.toml of this workspace decide, as it is now"),
    "provider": value("PROVIDER", f"one of {', '.join(KEYED)}"),
    "--key-stdin": flag("read the key from stdin"),
}
TOOL_ACTIONS = (
    Command("list", "all tools, or those of one category", "[category] --workspace --json"),
    Command("search", "the best tools for what you want to do", "query... --limit --workspace --json"),
    Command("schema", "everything about one tool, as JSON", "name --workspace --json"),
    Command("tokens", "what the tools cost in the first request", "--workspace --json"),
)
PERMISSION_ACTIONS = (
    Command("list", "the rules and the lasting answers in force here", "--workspace --json"),
    Command("revoke", "take lasting answers back", "grants... --workspace --json"),
    Command(
        "explain",
        "what would happen to a command or a tool's call, and why",
        f"subject [arguments] {PERMISSIONS} --workspace --json",
    ),
    Command(
        "trust", "let the permission file of this workspace allow things, as it is now", "--workspace --json"
    ),
)
PLUGIN_ACTIONS = (
    Command("list", "every plugin, and why one does not run", "--workspace --json"),
    Command(
        "trust",
        "let a plugin of this workspace run, as it is now",
        "name:plugin --yes:no-question --workspace --json",
    ),
    Command("untrust", "let it not run any more", "name:plugin --workspace --json"),
    Command("check", "hold a plugin against all that is asked of one", "name:check --workspace --json"),
)
COMMANDS = (
    Command("tools", "list, search and show the tools the agent has", epilog=TOOLS, actions=TOOL_ACTIONS),
    Command(
        "models",
        "list the models of the providers that can be used",
        "--provider --model --base-url --json",
        MODELS,
    ),
    Command(
        "permissions",
        "list and revoke lasting answers, and say what would happen to a call",
        epilog=PERMISSIONS_HELP,
        action="list",
        actions=PERMISSION_ACTIONS,
        unused=f"{PERMISSIONS} --workspace --json",
    ),
    Command(
        "sandbox",
        "run a command in the sandbox by hand, or show what the sandbox opens and hides",
        "--profile --allow-domain --add-dir --explain:sandbox --workspace --json:sandbox words",
        SANDBOX,
    ),
    Command(
        "plugins",
        "list the plugins, trust those of a workspace, check your own",
        epilog=PLUGINS,
        action="list",
        actions=PLUGIN_ACTIONS,
        unused="--workspace --json",
    ),
    Command(
        "config",
        "show every setting, its value and where that comes from",
        "--explain --trust --workspace --json",
        CONFIG,
    ),
    Command(
        "login",
        "save a provider's key in the system keyring or a private file",
        "provider --key-stdin",
        LOGIN,
    ),
    Command(
        "logout",
        "forget a provider's saved key",
        "provider",
        "examples:\n  jaato logout openai",
        module="commands.login",
    ),
    Command("doctor", "check everything jaato needs, and say how to mend it", "--workspace --json", DOCTOR),
)
