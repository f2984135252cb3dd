"""`jaato acp`: serve one editor by the Agent Client Protocol, which is in a layer above this one."""

from __future__ import annotations

from argparse import Namespace
from importlib import import_module
from importlib.util import find_spec

from jaato.errors import ConfigError


def main(args: Namespace) -> int:
    """Serve the editor at the standard streams, or save a key at a terminal of it. Raises `ConfigError` without the library."""
    if args.login:
        from jaato.cli.commands import providers

        return providers.main(Namespace(command="login", provider=args.provider, key_stdin=False))
    if find_spec("acp") is None:
        raise ConfigError("Serving an editor needs the extra acp: pip install 'jaato[acp]'.")
    code: int = import_module("jaato.acp.command").main(args)
    return code
