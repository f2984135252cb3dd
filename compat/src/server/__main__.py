"""`python -m server`: as `jaato serve`."""

from __future__ import annotations

from jaato.cli.commands.serve import program

__all__ = ["program"]

if __name__ == "__main__":
    raise SystemExit(program())
