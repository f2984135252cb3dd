"""Functions that tests register as entry points."""

from __future__ import annotations

from jaato.tools.call import Call


def shout(text: str) -> dict[str, str]:
    """Say it loudly."""
    return {"said": text.upper()}


async def whisper(text: str, call: Call) -> dict[str, str]:
    """Say it quietly, and who asked."""
    return {"said": text.lower(), "door": call.caller}


def breaks(text: str) -> str:
    """Break."""
    raise RuntimeError(f"the password is {text}")


NOTHING = 7
