"""The arguments of the commands for the server and its tokens."""

from __future__ import annotations

from jaato.cli.arguments.options import Command, choice, flag, positive, value

SERVE = """examples:
  jaato serve                            at the terminal, for this user; Ctrl-C ends it
  jaato serve --daemon                   in the background
  jaato serve --daemon --web-socket :8391  for browsers and other machines too, with a token
  jaato serve --web-socket 0.0.0.0:8391 --tls-cert chain.pem --tls-key key.pem --allow-host box.example
  jaato serve --status
  jaato serve --stop

A client on another machine needs a token: `jaato tokens add NAME` makes one."""
TOKENS = """A token lets a client in over the network. It is shown once, when it is made; only its hash is kept. Removed, it no longer
works within seconds, and who came in with it is sent away. Your own, for everything, is in the file `server-token` of the state directory
(usually ~/.local/state/jaato).

examples:
  jaato tokens add phone --role approver --days 30 > phone-token
  jaato attach --connect ws://HOST:8391 --token-file phone-token      on the other machine
  jaato tokens list
  jaato tokens remove phone"""

OPTIONS = {
    "--ipc-socket": value("PATH", "the Unix socket (default: jaato/jaato.sock in the runtime directory)"),
    "--web-socket": value("[HOST]:PORT", "serve at this address too, with a token (host: 127.0.0.1)"),
    "--daemon": flag("run in the background"),
    "--print-unit": choice(
        ("service", "socket"), "print a unit file for systemd", nargs="?", const="service"
    ),
    "--status": flag("say whether a server runs, and where"),
    "--reload": flag(
        "have open sessions begin anew, once they rest, under settings and trust as they are now"
    ),
    "--stop": flag("end the server; turns are interrupted, nothing is lost"),
    "--log": value("FILE", "keep the log there, private and bounded, not on stderr"),
    "--idle-after": value(
        "SECONDS",
        "unload a session that nobody watches and that does nothing (default: 300)",
        type=positive,
        default=300,
    ),
    "--mcp-workspace": value("DIR", "give MCP clients the tools of this workspace, at /mcp"),
    "--tls-cert": value("FILE", "speak TLS at --web-socket, with this certificate (PEM, whole chain)"),
    "--tls-key": value("FILE", "the certificate's key"),
    "name": value("NAME", "its name: letters, digits, ._-"),
    "--role": choice(
        ("viewer", "approver", "owner"), "watch (default), also answer questions, or everything", "viewer"
    ),
    "--days": value("N", "how long it is good (default: until removed)", type=positive),
}
COMMANDS = (
    Command(
        "serve",
        "keep sessions in a server that clients come to and leave",
        "--ipc-socket --web-socket --daemon|--print-unit|--status|--reload|--stop --log --idle-after "
        "--mcp-workspace --allow-host --allow-origin --tls-cert --tls-key",
        SERVE,
    ),
    Command(
        "tokens",
        "say who may come to the server over the network",
        epilog=TOKENS,
        action="list",
        actions=(
            Command("add", "make a token, and print it", "name --role --days"),
            Command("list", "the tokens there are", "--json"),
            Command("remove", "take a token away", "name"),
        ),
        unused="--json",
    ),
)
