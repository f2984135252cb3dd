"""The arguments of the commands that have to do with the server; nothing but argparse is imported."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter

from jaato.cli.arguments import Parser, natural, positive

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from argparse import _SubParsersAction

SERVE = """examples:
  jaato serve                            at the terminal, for this user; Ctrl-C ends it
  jaato serve --daemon                   in the background
  jaato serve --daemon --web-socket :8391  for browsers and other machines too, with a token
  jaato serve --web-socket 0.0.0.0:8391 --tls-cert chain.pem --tls-key key.pem --allow-host box.example
  jaato serve --status
  jaato serve --stop

A client on another machine needs a token: `jaato tokens add NAME` makes one."""

ATTACH = """examples:
  jaato attach                           the session at work, else the newest of this directory
  jaato attach "the slow test"
  jaato attach s01k --connect ws://laptop:8391 --token-file ~/.config/jaato/laptop-token

Ctrl-C stops the turn, for all who are there. Ctrl-D leaves, and the work goes on."""
EVENTS = """examples:
  jaato events s01k                      what is stored
  jaato events s01k --follow --after 120 | jq .type
  jaato events s01k --follow --no-deltas | grep -m1 turn.completed

--follow ends with Ctrl-C, and when nobody reads the output any more."""


def add_server(commands: _SubParsersAction[Parser]) -> None:
    """`jaato serve`."""
    serve = commands.add_parser(
        "serve",
        help="keep sessions in a server that clients come to and leave",
        description="Keep sessions in a server that clients come to and leave.",
        epilog=SERVE,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    serve.set_defaults(module="jaato.cli.serve", command="serve")
    serve.add_argument(
        "--ipc-socket",
        metavar="PATH",
        help="the Unix socket (default: jaato/jaato.sock in the runtime directory)",
    )
    serve.add_argument(
        "--web-socket",
        metavar="[HOST]:PORT",
        help="serve at this address too, with a token (host: 127.0.0.1)",
    )
    kinds = serve.add_mutually_exclusive_group()
    kinds.add_argument("--daemon", action="store_true", help="run in the background")
    kinds.add_argument(
        "--print-unit",
        choices=("service", "socket"),
        nargs="?",
        const="service",
        help="print a unit file for systemd",
    )
    kinds.add_argument("--status", action="store_true", help="say whether a server runs, and where")
    kinds.add_argument(
        "--reload",
        action="store_true",
        help="have open sessions begin anew, once they rest, under settings and trust as they are now",
    )
    kinds.add_argument(
        "--stop", action="store_true", help="end the server; turns are interrupted, nothing is lost"
    )
    serve.add_argument("--log", metavar="FILE", help="keep the log there, private and bounded, not on stderr")
    serve.add_argument(
        "--idle-after",
        type=positive,
        default=300,
        metavar="SECONDS",
        help="put a session down that nobody watches and that does nothing (default: 300)",
    )
    serve.add_argument(
        "--mcp-workspace", metavar="DIR", help="give MCP clients the tools of this workspace, at /mcp"
    )
    network_arguments(serve)
    add_attach(commands)
    add_events(commands)


def network_arguments(serve: Parser) -> None:
    """What has to do with clients beyond this machine."""
    names = serve.add_argument_group("over the network")
    names.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="HOST[:PORT]",
        help="a name clients may use for it beside its address (with --web-socket)",
    )
    names.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="a web origin whose pages may come, such as http://localhost:3000 (with --web-socket)",
    )
    names.add_argument(
        "--tls-cert",
        metavar="FILE",
        help="speak TLS at --web-socket, with this certificate (PEM, whole chain)",
    )
    names.add_argument("--tls-key", metavar="FILE", help="the certificate's key")


TOKENS = """A token lets a client in over the network. It is shown once, when it is made; only its hash is kept. Removed, it no longer
works within seconds, and who came in with it is sent away. Your own, for everything, is in the file `server-token` of the state directory
(usually ~/.local/state/jaato).

examples:
  jaato tokens add phone --role approver --days 30 > phone-token
  jaato attach --connect ws://HOST:8391 --token-file phone-token      on the other machine
  jaato tokens list
  jaato tokens remove phone"""


def add_tokens(commands: _SubParsersAction[Parser]) -> None:
    """`jaato tokens`."""
    tokens = commands.add_parser(
        "tokens",
        help="say who may come to the server over the network",
        description="Say who may come to the server over the network.",
        epilog=TOKENS,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    tokens.set_defaults(module="jaato.cli.tokens", command="tokens", action="list", json=False)
    kinds = tokens.add_subparsers(dest="action", metavar="add|list|remove")
    add = kinds.add_parser(
        "add",
        help="make a token, and print it",
        epilog="example:\n  jaato tokens add phone --role approver --days 30 > phone-token",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add.add_argument("name", metavar="NAME", help="what to call it: letters, digits, ._-")
    add.add_argument(
        "--role",
        choices=("viewer", "approver", "owner"),
        default="viewer",
        help="watch (default), also answer questions, or everything",
    )
    add.add_argument(
        "--days", type=positive, metavar="N", help="how long it is good (default: until removed)"
    )
    listing = kinds.add_parser("list", help="the tokens there are", allow_abbrev=False)
    listing.add_argument("--json", action="store_true", help="as JSON")
    remove = kinds.add_parser("remove", help="take a token away", allow_abbrev=False)
    remove.add_argument("name", metavar="NAME", help="what it is called")


def add_attach(commands: _SubParsersAction[Parser]) -> None:
    """`jaato attach`."""
    attach = commands.add_parser(
        "attach",
        help="join a session of the server at this terminal",
        description="Join a session of the server at this terminal.",
        epilog=ATTACH,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    attach.set_defaults(module="jaato.cli.attach", command="attach")
    attach.add_argument(
        "session",
        nargs="?",
        metavar="SESSION",
        help="its id, the beginning of it, or its name (default: the one at work, else the newest of this directory)",
    )
    attach.add_argument("--verbose", action="store_true", help="show thinking, tool output and results too")
    server_arguments(attach)


def add_events(commands: _SubParsersAction[Parser]) -> None:
    """`jaato events`."""
    events = commands.add_parser(
        "events",
        help="print what happens in a session, as JSON lines",
        description="Print what happens in a session, as JSON lines.",
        epilog=EVENTS,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    events.set_defaults(module="jaato.cli.follow", command="events")
    events.add_argument("session", metavar="SESSION", help="its id, the beginning of it, or its name")
    add = events.add_argument
    add("--follow", action="store_true", help="go on with what happens, until Ctrl-C")
    add("--after", type=natural, default=0, metavar="SEQ", help="only events after this one")
    add("--no-deltas", action="store_true", help="with --follow: no text as it arrives, whole messages only")
    add("--workspace", metavar="DIR", help="the workspace meant (default: this directory)")
    add("--no-daemon", action="store_true", help="read the store, whatever runs")
    server_arguments(events)


def server_arguments(parser: ArgumentParser) -> None:
    """Which server a command goes to, or none."""
    add = parser.add_argument_group("server").add_argument
    add("--connect", metavar="PATH|URL", help="the server to work in: a socket, or ws://HOST:PORT")
    add("--token-file", metavar="FILE", help="the token of a server over the network")


def where_arguments(parser: ArgumentParser) -> None:
    """Which server a command goes to, or this process."""
    server_arguments(parser)
    parser.add_argument("--no-daemon", action="store_true", help="work in this process, whatever runs")


def defaults() -> Namespace:
    """What `jaato serve --daemon` is told when a command starts it."""
    return Namespace(
        ipc_socket=None,
        web_socket=None,
        allow_host=[],
        allow_origin=[],
        idle_after=300,
        mcp_workspace=None,
        tls_cert=None,
        tls_key=None,
        log=None,
    )
