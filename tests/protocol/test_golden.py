"""What was written by version 1 of the protocol can be read for ever."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.protocol.strategies import COMMAND_TYPES, EVENT_TYPES

from jaato.protocol.codec import decode_command, decode_event, encode

LINES = (Path(__file__).parent / "golden" / "version1.jsonl").read_bytes().splitlines()
COMMANDS = {str(kind.__struct_config__.tag) for kind in COMMAND_TYPES}
FIRST_TYPES = 38
"""How many kinds of events and commands version 1 began with; each stands here bare and in full."""


def tag(line: bytes) -> str:
    return str(msgspec.json.decode(line)["type"])


@pytest.mark.spec("C10", "Environment variables and files")
@pytest.mark.parametrize("line", LINES, ids=tag)
def test_what_was_written_can_be_read(line: bytes) -> None:
    """Every line of version 1 is understood, and written again it says the same, or more."""
    decoded = decode_command(line) if tag(line) in COMMANDS else decode_event(line)
    assert msgspec.json.decode(line).items() <= msgspec.json.decode(encode(decoded)).items()


def test_the_file_is_whole() -> None:
    """No line was taken out, and every kind that is in it still exists."""
    assert len(LINES) == 2 * FIRST_TYPES
    assert {tag(line) for line in LINES} <= {
        str(kind.__struct_config__.tag) for kind in (*EVENT_TYPES, *COMMAND_TYPES)
    }
