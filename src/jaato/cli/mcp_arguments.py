"""The arguments of `jaato mcp`."""

from __future__ import annotations

from jaato.cli.arguments import Parser, action, command, positive
from jaato.cli.serve_arguments import serve_arguments

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from typing import Any

    from jaato.cli.parser import Commands

MCP = """Servers of the Model Context Protocol stand in ~/.mcp.json (yours) and in .mcp.json of a workspace, which start only
once you have trusted them as they are. A server is started when one of its tools is used, never to list them.

examples:
  jaato mcp add files -- npx -y @modelcontextprotocol/server-filesystem .
  jaato mcp add tickets --url https://mcp.example.com/mcp --header 'Authorization: Bearer ${TICKETS_TOKEN}'
  jaato mcp list
  jaato mcp tools files
  jaato mcp call files read_text_file '{"path": "README.md"}'
  jaato mcp call http://127.0.0.1:8000/mcp add '{"a": 1, "b": 2}'
  jaato mcp serve --tools readFile,grep_content,glob_files

exit codes: 0 ok, 1 the server or the tool failed, 2 wrong usage or configuration, 4 denied, not trusted or held back, 130 interrupted"""


class ProgramParser(Parser):
    """A parser that leaves all that follows `--` alone: it is another program's command line."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse has it, with the rest as `program`."""
        given = list(args or ())
        at = given.index("--") if "--" in given else len(given)
        found, rest = super().parse_known_args(given[:at], namespace)
        found.program = given[at + 1 :]
        return found, rest


def add_mcp(commands: Commands) -> None:
    """`jaato mcp`."""
    mcp = command(commands, "mcp", "mcp", "configure, trust, list and use MCP servers", MCP)
    kinds = mcp.add_subparsers(
        dest="action", metavar="list|add|remove|tools|call|login|logout|logs|trust|serve", required=True
    )
    listing = action(
        kinds, "list", "the servers, their state and what is wrong with them", "mcp list --check"
    )
    listing.add_argument("--check", action="store_true", help="start each one, to see whether it answers")
    listing.add_argument("--json", action="store_true", help="as JSON")
    add_add(kinds)
    remove = action(kinds, "remove", "take a server out of the configuration", "mcp remove files")
    remove.add_argument("server", metavar="NAME", help="the server")
    remove.add_argument(
        "--scope", choices=("user", "workspace"), help="from which file (default: where it is)"
    )
    add_use(kinds)
    login = action(kinds, "login", "log in to a server, in the browser", "mcp login tickets")
    login.add_argument("server", metavar="SERVER|URL", help="a server, or the address of one")
    logout = action(kinds, "logout", "forget the login of a server", "mcp logout tickets")
    logout.add_argument("server", metavar="SERVER|URL", help="a server, or the address of one")
    logs = action(kinds, "logs", "what a server printed as errors", "mcp logs files -n 200")
    logs.add_argument("server", metavar="SERVER", help="the server")
    logs.add_argument(
        "-n", "--lines", type=positive, default=50, metavar="N", help="the last N lines (default 50)"
    )
    trust = action(
        kinds,
        "trust",
        "look at what a workspace's server runs, or at definitions that changed, and accept them",
        "mcp trust files",
    )
    trust.add_argument("server", metavar="SERVER|URL", help="a server, or the address of one")
    trust.add_argument("--yes", action="store_true", help="do not ask")
    trust.add_argument("--revoke", action="store_true", help="trust it no longer")
    for one in kinds.choices.values():
        one.add_argument("--workspace", metavar="DIR", help="the workspace meant (default: this directory)")
    serve = "offer the tools of this workspace to MCP clients, at the standard streams or over HTTP"
    serve_arguments(action(kinds, "serve", serve, "mcp serve --http :7391"))


def add_add(kinds: Commands) -> None:
    """`jaato mcp add`."""
    kinds._parser_class = ProgramParser  # noqa: SLF001 argparse has no other way to give one parser a class of its own
    add = action(
        kinds,
        "add",
        "configure a server",
        "mcp add files -- npx -y @modelcontextprotocol/server-filesystem .",
    )
    kinds._parser_class = Parser  # noqa: SLF001 as above
    add.usage = "jaato mcp add NAME [options] -- COMMAND [ARGUMENT ...]\n       jaato mcp add NAME --url URL [options]"
    add.add_argument("server", metavar="NAME", help="what to call it")
    add.add_argument("--url", metavar="URL", help="the address of a server that runs elsewhere")
    add.add_argument("--sse", action="store_true", help="it speaks the older HTTP with server-sent events")
    add.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="sent to the URL; ${VAR} is filled in",
    )
    add.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="given to the command; ${VAR} is filled in",
    )
    add.add_argument(
        "--sandbox-profile",
        choices=("read-only", "workspace-write", "full"),
        help="what its process may reach (default: workspace-write with one of the next two, else as the scope has it)",
    )
    add.add_argument(
        "--allow-domain",
        action="append",
        default=[],
        metavar="HOST",
        help="a host that it reaches from the sandbox: pypi.org, *.npmjs.org, host:8443",
    )
    add.add_argument(
        "--add-dir",
        action="append",
        default=[],
        metavar="DIR",
        help="a directory outside the workspace that it may change",
    )
    add.add_argument("--cwd", metavar="DIR", help="where the command runs (default: the workspace)")
    add.add_argument(
        "--scope",
        choices=("user", "workspace"),
        default="user",
        help="yours (default), or the workspace's .mcp.json",
    )
    add.add_argument("--replace", action="store_true", help="in the place of one of the same name")


def add_use(kinds: Commands) -> None:
    """`jaato mcp tools` and `jaato mcp call`."""
    tools = action(
        kinds, "tools", "the tools of a server, with what each costs in tokens", "mcp tools files --json"
    )
    tools.add_argument(
        "server", nargs="?", metavar="SERVER|URL", help="a server, or the address of one (default: all)"
    )
    tools.add_argument("--refresh", action="store_true", help="ask the server, also when its tools are known")
    call = action(kinds, "call", "call one tool", 'mcp call files read_text_file \'{"path": "README.md"}\'')
    call.add_argument("server", metavar="SERVER|URL", help="a server, or the address of one")
    call.add_argument("tool", metavar="TOOL", help="the tool, by the server's own name for it")
    call.add_argument(
        "arguments", nargs="?", metavar="JSON", help="its arguments, as a JSON object; - reads stdin"
    )
    for one in (tools, call):
        one.add_argument(
            "--header",
            action="append",
            default=[],
            metavar="'NAME: VALUE'",
            help="sent to a URL; ${VAR} is filled in",
        )
        one.add_argument(
            "--sse", action="store_true", help="the URL speaks the older HTTP with server-sent events"
        )
        one.add_argument(
            "--login", action="store_true", help="log in where that is needed, also without a terminal"
        )
        one.add_argument("--json", action="store_true", help="as JSON")
