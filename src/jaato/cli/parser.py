"""The arguments of every command; nothing but argparse is imported to show help."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter

import jaato
from jaato.cli.arguments import Parser, action, command, positive, provider_arguments, temperature
from jaato.cli.examples import (
    CHAT,
    CONFIG,
    DOCTOR,
    LOGIN,
    MODELS,
    PERMISSIONS,
    PLUGINS,
    RUN,
    TOOLS,
    TOP,
)
from jaato.cli.sandbox_arguments import UNOPENED, add_sandbox, opening_arguments

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from argparse import _SubParsersAction

    Commands = _SubParsersAction[Parser]

KEYED = ("anthropic", "openai", "google_genai", "github_models", "ollama")


def make_parser(wanted: str | None = None) -> ArgumentParser:
    """The command line: the whole of it, or only the command that is wanted, if it is one by which an agent is started."""
    parser = Parser(
        prog="jaato",
        description="An agent that works with tools in your files.",
        epilog=TOP,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"jaato {jaato.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    if wanted in STARTING:
        STARTING[wanted](commands)
    else:
        add_all(commands)
    return parser


def add_all(commands: Commands) -> None:
    """Every command."""
    from jaato.cli.flow_arguments import add_flow
    from jaato.cli.mcp_arguments import add_mcp
    from jaato.cli.registry_arguments import add_registry
    from jaato.cli.server_arguments import add_server, add_tokens
    from jaato.cli.session_arguments import add_sessions, add_trace

    add_run(commands)
    add_chat(commands)
    add_server(commands)
    add_tokens(commands)
    add_listings(commands)
    add_sessions(commands, command, action)
    add_trace(commands, command)
    add_permissions(commands)
    add_sandbox(commands)
    add_plugins(commands)
    add_mcp(commands)
    add_registry(commands)
    add_flow(commands)
    add_setup(commands)


def add_run(commands: Commands) -> None:
    """`jaato run`."""
    run = command(commands, "run", "run", "give the agent one task and wait for its answer", RUN)
    run.add_argument(
        "prompt", nargs="*", metavar="PROMPT", help="what to do; piped text is appended; - is that text alone"
    )
    session_arguments(run)
    run.add_argument(
        "--image", action="append", default=[], metavar="FILE", help="show the model an image, again for more"
    )
    run.add_argument(
        "--schema", metavar="FILE|JSON", help="a JSON Schema; the answer is one JSON value that fits it"
    )
    run.add_argument(
        "--output",
        choices=("text", "json", "events"),
        default="text",
        help="text (default), one JSON object, or JSON lines",
    )


def add_chat(commands: Commands) -> None:
    """`jaato chat`."""
    chat = command(commands, "chat", "chat", "talk with the agent", CHAT)
    chat.add_argument("prompt", nargs="*", metavar="PROMPT", help="the first message; then yours to go on")
    session_arguments(chat)


def session_arguments(parser: ArgumentParser) -> None:
    """What a session may be told on the command line."""
    add = parser.add_argument_group("model").add_argument
    provider_arguments(add)
    add(
        "--interface",
        choices=("chat", "responses"),
        help="how openai and ollama are spoken to (default: responses at OpenAI's own host, else chat)",
    )
    add("--temperature", type=temperature, metavar="T", help="sampling temperature")
    add("--effort", choices=("minimal", "low", "medium", "high"), help="how hard the model thinks")
    add("--system-prompt", metavar="TEXT", help="replaces the system prompt of a new session")
    add("--max-turns", type=positive, metavar="N", help="model calls one prompt may take (default 200)")
    add = parser.add_argument_group("session").add_argument
    add("--workspace", metavar="DIR", help="the directory to work in (default: this one)")
    add(
        "-s", "--session", metavar="ID", help="go on with a session: its id, the beginning of it, or its name"
    )
    add(
        "-c",
        "--continue",
        dest="resume",
        action="store_true",
        help="go on with the newest session of this workspace",
    )
    add("--name", metavar="NAME", help="name the session")
    add = parser.add_argument_group("permissions").add_argument
    add("--yes", action="store_true", help="allow everything that no rule denies, downloads included")
    add(
        "--allow",
        action="append",
        default=[],
        metavar="PATTERN",
        help="allow a tool or command: writeNewFile, 'run(git *)'",
    )
    add(
        "--deny", action="append", default=[], metavar="PATTERN", help="never allow it, whatever else is said"
    )
    opening_arguments(add)
    parser.add_argument("--verbose", action="store_true", help="show thinking, tool output and results too")
    from jaato.cli.server_arguments import where_arguments

    where_arguments(parser)


def add_listings(commands: Commands) -> None:
    """`jaato tools` and `jaato models`."""
    tools = command(commands, "tools", "tools", "list, search and show the tools the agent has", TOOLS)
    kinds = tools.add_subparsers(dest="action", metavar="list|search|schema|tokens", required=True)
    listing = action(kinds, "list", "all tools, or those of one category", "tools list filesystem")
    listing.add_argument("category", nargs="?", metavar="CATEGORY")
    search = action(
        kinds, "search", "the best tools for what you want to do", 'tools search "replace text in many files"'
    )
    search.add_argument("query", nargs="+", metavar="QUERY")
    search.add_argument(
        "--limit", type=int, choices=range(1, 201), default=10, metavar="N", help="this many at most (10)"
    )
    schema = action(kinds, "schema", "everything about one tool, as JSON", "tools schema updateFile")
    schema.add_argument("name", metavar="NAME")
    tokens = action(kinds, "tokens", "what the tools cost in the first request", "tools tokens --json")
    for one in (listing, search, schema, tokens):
        one.add_argument("--workspace", metavar="DIR", help="the directory to work in (default: this one)")
        one.add_argument("--json", action="store_true", help="as JSON")
    models = command(
        commands, "models", "models", "list the models of the providers that can be used", MODELS
    )
    provider_arguments(models.add_argument)
    models.add_argument("--json", action="store_true", help="as JSON")


def add_permissions(commands: Commands) -> None:
    """`jaato permissions`."""
    text = "list and revoke lasting answers, and say what would happen to a call"
    permissions = command(commands, "permissions", "permissions", text, PERMISSIONS)
    permissions.set_defaults(
        action="list", json=False, workspace=None, allow=[], deny=[], yes=False, read_only=False, **UNOPENED
    )
    kinds = permissions.add_subparsers(dest="action", metavar="list|revoke|explain|trust")
    listing = action(
        kinds, "list", "the rules and the lasting answers in force here", "permissions list --json"
    )
    revoke = action(kinds, "revoke", "take lasting answers back", "permissions revoke 3f9c2a61b07d")
    revoke.add_argument("grants", nargs="+", metavar="ID", help="the grant's id, as list shows it")
    explain = action(
        kinds,
        "explain",
        "what would happen to a command or a tool's call, and why",
        "permissions explain 'git log | head'",
    )
    explain.add_argument(
        "subject", metavar="COMMAND|TOOL", help="a shell command, or a tool's name followed by JSON"
    )
    explain.add_argument("arguments", nargs="?", metavar="JSON", help="the tool's arguments")
    add = explain.add_argument
    add("--yes", action="store_true", help="as with jaato run --yes")
    add("--allow", action="append", default=[], metavar="PATTERN", help="as with jaato run --allow")
    add("--deny", action="append", default=[], metavar="PATTERN", help="as with jaato run --deny")
    opening_arguments(add)
    trust = action(
        kinds,
        "trust",
        "let the permission file of this workspace allow things, as it is now",
        "permissions trust",
    )
    for one in (listing, revoke, explain, trust):
        one.add_argument("--workspace", metavar="DIR", help="the workspace meant (default: this directory)")
        one.add_argument("--json", action="store_true", help="as JSON")


def add_plugins(commands: Commands) -> None:
    """`jaato plugins`."""
    text = "list the plugins, trust those of a workspace, check your own"
    plugins = command(commands, "plugins", "plugins", text, PLUGINS)
    plugins.set_defaults(action="list", json=False, workspace=None)
    kinds = plugins.add_subparsers(dest="action", metavar="list|trust|untrust|check")
    listing = action(kinds, "list", "every plugin, and why one does not run", "plugins list --json")
    trust = action(kinds, "trust", "let a plugin of this workspace run, as it is now", "plugins trust notes")
    trust.add_argument("--yes", action="store_true", help="do not ask")
    untrust = action(kinds, "untrust", "let it not run any more", "plugins untrust notes")
    check = action(
        kinds, "check", "hold a plugin against all that is asked of one", "plugins check ./notes.py"
    )
    for one, what in ((trust, "its name"), (untrust, "its name"), (check, "a name, file or module:Class")):
        one.add_argument("name", metavar="NAME", help=what)
    for one in (listing, trust, untrust, check):
        one.add_argument("--workspace", metavar="DIR", help="the workspace meant (default: this directory)")
        one.add_argument("--json", action="store_true", help="as JSON")


def add_setup(commands: Commands) -> None:
    """`jaato config`, `login`, `logout` and `doctor`."""
    config = command(
        commands, "config", "config", "show every setting, its value and where that comes from", CONFIG
    )
    config.add_argument(
        "--explain", action="store_true", help="with what each setting means and how to change it"
    )
    config.add_argument(
        "--trust", action="store_true", help="let .jaato/config.toml of this workspace decide, as it is now"
    )
    config.add_argument("--workspace", metavar="DIR", help="the workspace meant (default: this directory)")
    config.add_argument("--json", action="store_true", help="as JSON")
    login = command(
        commands, "login", "login", "save a provider's key in the system keyring or a private file", LOGIN
    )
    login.add_argument("provider", metavar="PROVIDER", help=f"one of {', '.join(KEYED)}")
    login.add_argument("--key-stdin", action="store_true", help="read the key from stdin")
    logout = command(commands, "logout", "login", "forget a provider's saved key")
    logout.add_argument("provider", metavar="PROVIDER", help=f"one of {', '.join(KEYED)}")
    doctor = command(
        commands, "doctor", "doctor", "check everything jaato needs, and say how to mend it", DOCTOR
    )
    doctor.add_argument("--workspace", metavar="DIR", help="the directory to work in (default: this one)")
    doctor.add_argument("--json", action="store_true", help="as JSON")


STARTING = {"run": add_run, "chat": add_chat}
"""The commands that are started so often that the arguments of the others are not even made."""
