"""`jaato registry`: registries configured and used."""

from __future__ import annotations

from argparse import Namespace


def main(args: Namespace) -> int:
    """Carry out one of them."""
    if args.action in ("add", "remove", "trust"):
        from jaato.cli.registry_edit import main as edit

        return edit(args)
    from jaato.cli.registry_use import main as use

    return use(args)
