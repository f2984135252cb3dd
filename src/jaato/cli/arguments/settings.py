"""The arguments of the commands for tools, models, permissions, plugins, settings and keys."""

from __future__ import annotations

from argparse import REMAINDER

from jaato.cli.arguments.parser import PERMISSIONS, Command, choice, flag, value

KEYED = ("anthropic", "openai", "google_genai", "github_models", "ollama")
"""The providers that need an API key."""
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
  jaato permissions trust
  jaato permissions trust rules.json"""
SANDBOX = """Runs COMMAND in the sandbox of the agent's commands: the profile read-only can read files, workspace-write can also change
the workspace. The exit code is the command's.

examples:
  jaato sandbox -- ls -la ~/.ssh
  jaato sandbox --profile workspace-write -- make test
  jaato sandbox --profile workspace-write --allow-domain pypi.org --allow-domain files.pythonhosted.org -- pip download six
  jaato sandbox --profile workspace-write --explain"""
PLUGINS = """Plugins of a workspace (.jaato/plugins) are listed but not loaded until you trust their current files.
Plugins that you install, or copy to ~/.config/jaato/plugins, are loaded.

examples:
  jaato plugins
  jaato plugins list --json
  jaato plugins trust notes
  jaato plugins untrust notes
  jaato plugins check ./notes.py"""
CONFIG = """Settings are read from flags, JAATO_* variables, a trusted .jaato/config.toml of the workspace, the user's config.toml
and the defaults, in this order of precedence. The file of an untrusted workspace can only restrict.

examples:
  jaato config --explain
  jaato config --trust"""
LOGIN = """examples:
  jaato login anthropic
  pass show openai | jaato login openai --key-stdin"""
DOCTOR = """The exit code is 1 when a check failed; warnings are optional improvements.

examples:
  jaato doctor
  jaato doctor --json"""
COMPLETION = """Commands, options, their values, files, directories and names of sessions are completed. Write the script to the file
from which your shell loads it (create the directory first where it is missing), and start a new shell.

examples:
  jaato completion bash > ~/.local/share/bash-completion/completions/jaato
  jaato completion zsh > ~/.zfunc/_jaato            and in ~/.zshrc, before compinit: fpath+=~/.zfunc
  jaato completion fish > ~/.config/fish/completions/jaato.fish

bash loads that file with the package bash-completion; without it, add to ~/.bashrc: source <(jaato completion bash)"""

OPTIONS = {
    "shell": choice(("bash", "zsh", "fish"), "the shell"),
    "category": value("CATEGORY"),
    "query": value("QUERY"),
    "--limit": value(
        "N", "maximum number of tools (default 10)", type=int, choices=range(1, 201), default=10
    ),
    "name": value("NAME"),
    "grants": value("ID", "id of the grant, as shown by list"),
    "subject": value("COMMAND|TOOL", "a shell command, or the name of a tool followed by JSON"),
    "arguments": value("JSON", "arguments of the tool"),
    "file:policy": value("FILE", "a permission file (default: .jaato/permissions.json)"),
    "--profile": choice(
        ("read-only", "workspace-write"), "sandbox profile (default: read-only)", "read-only"
    ),
    "--explain:sandbox": flag("print what the sandbox allows and hides, without running anything"),
    "--json:sandbox": flag("with --explain: print JSON"),
    "words": value("COMMAND", "the program and its arguments, after --", nargs=REMAINDER),
    "name:plugin": value("NAME", "name of the plugin"),
    "name:check": value("NAME", "name, file or module:Class"),
    "--explain": flag("also print what each setting means and how to change it"),
    "--trust": flag("trust the current .jaato/config.toml of this workspace"),
    "provider": value("PROVIDER", f"one of {', '.join(KEYED)}"),
    "--key-stdin": flag("read the key from stdin"),
}
TOOL_ACTIONS = (
    Command("list", "list all tools, or those of a category", "[category] --workspace --json"),
    Command("search", "find tools for a task", "query... --limit --workspace --json"),
    Command("schema", "print the definition of a tool as JSON", "name --workspace --json"),
    Command("tokens", "show how many tokens the tool definitions take", "--workspace --json"),
)
PERMISSION_ACTIONS = (
    Command("list", "list the rules and grants that apply here", "--workspace --json"),
    Command("revoke", "revoke grants", "grants... --workspace --json"),
    Command(
        "explain",
        "show whether a command or a tool call would be allowed, and why",
        f"subject [arguments] {PERMISSIONS} --workspace --json",
    ),
    Command(
        "trust",
        "trust the current permission file of this workspace, or another permission file",
        "[file:policy] --workspace --json",
    ),
)
PLUGIN_ACTIONS = (
    Command("list", "list all plugins, and why one is not loaded", "--workspace --json"),
    Command(
        "trust",
        "trust the current files of a workspace plugin, so that it is loaded",
        "name:plugin --yes:no-question --workspace --json",
    ),
    Command("untrust", "revoke the trust in a workspace plugin", "name:plugin --workspace --json"),
    Command("check", "run the conformance checks on a plugin", "name:check --workspace --json"),
)
COMMANDS = (
    Command("tools", "list, search and show the agent's tools", epilog=TOOLS, actions=TOOL_ACTIONS),
    Command(
        "models",
        "list the models of the usable providers",
        "--provider --model --base-url --json",
        MODELS,
        module="commands.providers",
    ),
    Command(
        "permissions",
        "list, explain and revoke permissions",
        epilog=PERMISSIONS_HELP,
        action="list",
        actions=PERMISSION_ACTIONS,
        unused=f"{PERMISSIONS} --workspace --json",
    ),
    Command(
        "sandbox",
        "run a command in the sandbox, or show what the sandbox allows and hides",
        "--profile --allow-domain --add-dir --explain:sandbox --workspace --json:sandbox words",
        SANDBOX,
    ),
    Command(
        "plugins",
        "list, trust and check plugins",
        epilog=PLUGINS,
        action="list",
        actions=PLUGIN_ACTIONS,
        unused="--workspace --json",
    ),
    Command(
        "config",
        "show every setting, its value and its source",
        "--explain --trust --workspace --json",
        CONFIG,
    ),
    Command(
        "login",
        "save a provider's API key in the system keyring or a private file",
        "[provider] --key-stdin",
        LOGIN,
        module="commands.providers",
    ),
    Command(
        "logout",
        "remove a provider's saved API key",
        "[provider]",
        "examples:\n  jaato logout openai",
        module="commands.providers",
    ),
    Command("doctor", "check the installation, and show how to fix problems", "--workspace --json", DOCTOR),
    Command(
        "completion",
        "print the script with which a shell completes jaato's command lines",
        "shell",
        COMPLETION,
        module="arguments.completion",
    ),
)
