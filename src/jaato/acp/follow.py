"""`python -m jaato.acp.follow SOCKET SESSION CALL`: shows the output of a running call, for a terminal of the editor."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from jaato.acp.outputs import HeldOutput, exit_code_of
from jaato.cli.exit_codes import ERROR, set_encoding
from jaato.cli.output.console import printable
from jaato.client.address import Address
from jaato.client.connection import connect
from jaato.client.session import RemoteSession
from jaato.errors import JaatoError
from jaato.protocol.commands import ClientConfig
from jaato.protocol.events import Event, SessionInfo, ToolCallEnd, ToolOutput


def main(arguments: list[str]) -> int:
    """Follow the call to its end; its exit code, or the reason on stderr and another code where that is not known."""
    set_encoding()
    socket, session, call_id = arguments
    try:
        return asyncio.run(follow(Path(socket), session, call_id))
    except (JaatoError, OSError) as error:
        sys.stderr.write(f"The output cannot be followed: {printable(str(error))}\n")
        return ERROR
    except KeyboardInterrupt:
        return 130


async def follow(socket: Path, session_id: str, call_id: str) -> int:
    """Write the output of a call to stdout until it has ended; its exit code. Raises `JaatoError`s."""
    async with connect(Address(path=socket), name="a terminal of the editor") as client:
        await client.ask(ClientConfig(answers=False, info=False))
        session = await client.attach(session_id)
        with session.events() as events:
            held = HeldOutput()
            show(session, call_id, held)
            if (code := find_end(session, call_id)) is not None:
                return code
            async for event in events:
                match event:
                    case ToolOutput() if event.call_id == call_id:
                        held.add(event.offset, event.text)
                        write(held.take())
                    case SessionInfo():
                        show(session, call_id, held)
                        if (code := find_end(session, call_id)) is not None:
                            return code
                    case ToolCallEnd() if event.call_id == call_id:
                        return exit_code_of(event.result) % 256
    raise AssertionError("events end by an error alone")


def show(session: RemoteSession, call_id: str, held: HeldOutput) -> None:
    """Write what the call has printed so far and was not written yet."""
    call = session.state.calls.get(call_id)
    if call is not None:
        held.add(call.output_start, call.output)
        write(held.take())


def find_end(session: RemoteSession, call_id: str) -> int | None:
    """The exit code of a call that does not run any more; None for one that runs."""
    if call_id in session.state.calls:
        return None
    entries: list[Event] = [*session.state.entries]
    for entry in reversed(entries):
        if isinstance(entry, ToolCallEnd) and entry.call_id == call_id:
            return exit_code_of(entry.result) % 256
    return ERROR


def write(text: str) -> None:
    """Write text without what could change the terminal."""
    sys.stdout.write(printable(text))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
