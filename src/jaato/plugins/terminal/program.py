"""One program at a terminal: reads its output, sends input, and detects whether it waits for input."""

from __future__ import annotations

import errno
import math
import os
import signal
import termios
import time
from dataclasses import dataclass
from datetime import UTC, datetime

import anyio

from jaato.errors import ToolError
from jaato.plugins.terminal.escape_sequences import EscapeSequences
from jaato.plugins.terminal.input_wait import (
    check_foreground,
    current_modes,
    process_name,
    read_modes,
    session_leader,
    terminal_size,
    unread_bytes,
)
from jaato.plugins.terminal.screen import Screen
from jaato.tools.call import Call
from jaato.tools.processes.command import Command, Ended
from jaato.tools.processes.launcher import WardenClient
from jaato.tools.processes.streams import Streams, resize

READ_BYTES = 65_536
BURST_BYTES = 262_144
MOST_WAITING_BYTES = 1 << 20
KEPT_BYTES = 262_144
SLICE_BYTES = 2048
SLICE_S = 0.004
LOOK_EVERY_S = 0.1
QUIET_S = 0.15
AMONG_OTHERS_S = 0.5
GUESS_S = 1.0
SEND_WITHIN_S = 2.0
UNREAD_S = 1.0
START_WITHIN_S = 5.0
SHELLS = frozenset("sh bash dash zsh ksh fish".split())
LONGEST_LINE_BYTES = 4095
"""What the kernel takes of a line before enter."""


@dataclass(frozen=True, slots=True)
class State:
    """What a program is doing: `running`, `awaiting_input` or `ended`; `secret` when what is typed is not shown."""

    name: str
    secret: bool = False


class TerminalProgram:
    """A program at a terminal; all of it happens on the loop it was made on."""

    def __init__(self, session_id: str, call: Call, line: str, command: Command, streams: Streams) -> None:
        self.id = session_id
        self.owner = call.session_id
        self.line = line
        self.command = command
        self.streams = streams
        self.access = call.access  # what it was started with
        self.started_at = datetime.now(UTC).isoformat(timespec="seconds")
        rows, columns = terminal_size(streams.output_fd)
        self.screen = Screen(rows, columns)
        self.ended: Ended | None = None
        self.problem = ""
        self.missed_bytes = 0
        self.secrets: set[str] = set()
        self.typed = ""
        """What was typed since the last enter."""
        self.over = anyio.Event()
        self._device = os.fstat(streams.theirs[0]).st_rdev
        self._sequences = EscapeSequences(self.screen)
        self._unparsed = bytearray()
        self._arrived = anyio.Event()
        self._sending = anyio.Lock()
        self._used_at = self._output_at = time.monotonic()
        self._input_at = -math.inf
        self._read_tick = self._read_missed = 0

    # --- the program -------------------------------------------------------------------------------------------

    async def run(self, launcher: WardenClient, idle_s: float) -> None:
        """Run the program to its end; when cancelled, end it with its child processes."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read)
                tasks.start_soon(self._update_screen)
                tasks.start_soon(self._close_when_idle, idle_s)
                try:
                    ended = await self.command.run(launcher)
                except ToolError as error:
                    ended, self.problem = Ended(reason="failure"), str(error)
                tasks.cancel_scope.cancel()
            self._read_burst()
            await self._feed()
            self.ended = ended
        finally:
            if self.ended is None:
                self.ended = Ended(reason="stopped")
            self.streams.close()
            self.over.set()

    async def _read(self) -> None:
        """Read output as fast as it comes: the program never waits for the screen."""
        while True:
            await anyio.wait_readable(self.streams.output_fd)
            size = self._read_burst()
            self._arrived.set()
            await anyio.sleep(0.002 if size >= BURST_BYTES else 0)

    def _read_burst(self) -> int:
        """Read the available output, up to a burst; beyond the limit only the newest stays."""
        size = 0
        while size < BURST_BYTES:
            try:
                data = os.read(self.streams.output_fd, READ_BYTES)
            except OSError:
                break
            if not data:
                break
            self._unparsed += data
            size += len(data)
        if size:
            self._output_at = time.monotonic()
        if len(self._unparsed) > MOST_WAITING_BYTES:
            gone = len(self._unparsed) - KEPT_BYTES
            newline = self._unparsed.find(b"\n", gone, gone + 4096)
            gone = newline + 1 if newline >= 0 else gone
            self._sequences.reset(bytes(self._unparsed[:gone]))
            del self._unparsed[:gone]
            self.missed_bytes += gone
        return size

    async def _update_screen(self) -> None:
        """Apply the output to the screen, in slices, half of the time at most."""
        while True:
            await self._arrived.wait()
            self._arrived = anyio.Event()
            await self._feed()

    async def _feed(self) -> None:
        while self._unparsed:
            started = time.monotonic()
            while self._unparsed and time.monotonic() - started < SLICE_S:
                piece = bytes(self._unparsed[:SLICE_BYTES])
                del self._unparsed[:SLICE_BYTES]
                self._sequences.feed(piece)
            self._send_replies()
            await anyio.sleep(time.monotonic() - started if self._unparsed else 0)

    def _send_replies(self) -> None:
        """Send replies to the program's queries, if its input has room."""
        replies, self._sequences.replies = self._sequences.replies, []
        if replies and self.streams.input_fd != -1:
            try:
                os.write(self.streams.input_fd, "".join(replies).encode())
            except OSError:
                pass  # it does not read

    async def _close_when_idle(self, idle_s: float) -> None:
        """End the program when it was not used for `idle_s`."""
        left = idle_s
        while left > 0:
            await anyio.sleep(left)
            left = self._used_at + idle_s - time.monotonic()
        self.problem = f"It was not used for {idle_s:g} s, so it was ended."
        self.command.stop()

    async def close(self) -> None:
        """Hang up, end the program with its child processes, and wait for that."""
        if self.ended is None and self.command.pid:
            try:
                os.killpg(self._get_leader(), signal.SIGHUP)
            except OSError:
                pass  # it ends just now, or is another user's
        self.command.stop()
        await self.over.wait()

    def _get_leader(self) -> int:
        """The process that leads the terminal's session; in the sandbox it is not the command itself."""
        return session_leader(self.streams.output_fd) or self.command.pid

    # --- state --------------------------------------------------------------------------------------

    def state(self) -> State:
        """The current state of the program."""
        if self.ended is not None:
            return State("ended")
        now = time.monotonic()
        quiet_s = now - max(self._output_at, self._input_at)
        if self._unparsed or quiet_s < QUIET_S:
            return State("running")
        try:
            if now - self._input_at < UNREAD_S and unread_bytes(self.streams.theirs[0]):
                return State("running")
            found = check_foreground(os.tcgetpgrp(self.streams.output_fd), self._device, self._get_leader())
            modes = read_modes(self.streams.output_fd)
        except (OSError, termios.error, IndexError):
            return State("running")
        secret = modes.by_line and not modes.echoes
        waits = found.reads or (found.polls and quiet_s >= AMONG_OTHERS_S)
        if not waits and found.idle and quiet_s >= GUESS_S:
            waits = secret or (modes.by_line and self.screen.column > 0)
        return State("awaiting_input" if waits else "running", waits and secret)

    async def settle(self, wait_s: float) -> State:
        """Wait until the program waits for input or has ended, up to `wait_s`; then its state."""
        self._used_at = time.monotonic()
        end = self._used_at + wait_s
        seen_at = -1.0
        while True:
            state = self.state()
            left = end - time.monotonic()
            certain = state.name == "ended" or (state.name == "awaiting_input" and seen_at == self._output_at)
            seen_at = self._output_at if state.name == "awaiting_input" else -1.0
            if certain or left <= 0:  # seen twice with no output between: all earlier output has arrived
                self._used_at = time.monotonic()
                return state
            with anyio.move_on_after(min(left, LOOK_EVERY_S)):
                await self.over.wait()

    # --- input -----------------------------------------------------------------------------------------

    async def send(self, data: bytes) -> int:
        """Write to its input; returns the number of bytes that the program did not read.

        Raises `ToolError` for a line that the terminal would cut.
        """
        async with self._sending:
            longest = max(map(len, data.replace(b"\n", b"\r").split(b"\r")))
            if longest > LONGEST_LINE_BYTES and current_modes(self.streams.input_fd).by_line:
                raise ToolError(
                    f"The program takes lines of at most {LONGEST_LINE_BYTES} bytes; write a file instead."
                )
            view = memoryview(data)
            with anyio.move_on_after(SEND_WITHIN_S):
                while view and self.ended is None:
                    try:
                        view = view[os.write(self.streams.input_fd, view[:1024]) :]
                    except BlockingIOError:
                        await anyio.sleep(0.01)
                    except OSError:
                        break  # the program has ended this moment, or let go of the terminal
            self._input_at = time.monotonic()
            return len(view)

    def is_echoing(self) -> bool:
        """Whether the terminal shows what is typed, as far as it decides."""
        modes = current_modes(self.streams.input_fd)
        return modes.echoes or not modes.by_line

    def uses_paste(self) -> bool:
        """Whether several lines go as one paste: for a line editor that asked for it and would indent each of them.

        A shell is typed to, and what fills the screen: there a line may be an order of its own.
        """
        if not self.screen.pastes or self.screen.grid.aside is not None:
            return False
        try:
            return process_name(os.tcgetpgrp(self.streams.output_fd)) not in SHELLS
        except OSError:
            return False

    async def signal(self, number: signal.Signals) -> None:
        """Signal the programs in the foreground, as soon as there are any. Raises OSError."""
        until = time.monotonic() + START_WITHIN_S
        while not self.command.pid and self.ended is None and time.monotonic() < until:
            with anyio.move_on_after(0.01):
                await self.over.wait()
        if self.ended is None:
            group = os.tcgetpgrp(self.streams.output_fd) or self._get_leader()
            if group <= 0:  # that would be jaato's own group
                raise ProcessLookupError(errno.ESRCH, "it has not started yet")
            os.killpg(group, number)
            self._input_at = time.monotonic()

    def resize(self, rows: int, columns: int) -> None:
        """Resize the screen and the terminal, which signals the program."""
        self.screen.resize(rows, columns)
        resize(self.streams.output_fd, rows, columns)
        self._input_at = time.monotonic()

    # --- output -----------------------------------------------------------------------------------------

    def get_changed_lines(self, whole: bool) -> tuple[list[str], int]:
        """The lines that changed since the last time, or the whole screen, and how many bytes were never shown."""
        grid = self.screen.grid
        lines = grid.lines() if whole or grid.aside is not None else grid.lines_since(self._read_tick)
        while lines and not lines[-1]:
            lines.pop()
        missed = self.missed_bytes - self._read_missed
        self._read_tick, self._read_missed = grid.tick, self.missed_bytes
        return lines, missed
