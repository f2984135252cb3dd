"""The documented interactive client: `python -m server.test_client --connect PATH`."""

from __future__ import annotations

from jaato.cli import attach as main

__all__ = ["main"]

if __name__ == "__main__":
    raise SystemExit(main())
