"""A process that speaks JSON with `Content-Length` frames over its pipes, bounded both ways."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec

from jaato.errors import ToolError
from jaato.tools.processes.command import Command, CommandLimits, Ended, signal_name
from jaato.tools.processes.launcher import WardenClient
from jaato.tools.processes.sandbox.sandbox import UNCONFINED, Confinement
from jaato.tools.processes.streams import Streams, open_pipes

READ_BYTES = 1 << 18
HEAD_BYTES = 8_192
TAIL_CHARS = 4_000
UNSENT_BYTES = 64 << 20


class ProcessEnded(ToolError):
    """The process has ended, or was ended because it does not keep to the protocol."""

    code = "process_ended"


class ContentLengthDecoder:
    """Bytes as messages. Raises ValueError for what is no frame, and for one above the bound before it is read."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._data = bytearray()
        self._wanted = -1

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """The messages that are whole now."""
        self._data += data
        found: list[dict[str, Any]] = []
        while True:
            if self._wanted < 0 and not self._head():
                return found
            if len(self._data) < self._wanted:
                return found
            body = bytes(self._data[: self._wanted])
            del self._data[: self._wanted]
            self._wanted = -1
            try:
                message = decode_message(body)
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                raise ValueError(f"a message that is no JSON ({error})") from None
            if not isinstance(message, dict):
                raise ValueError("a message that is no object")  # noqa: TRY004 of a kind with the others
            found.append(message)

    def _head(self) -> bool:
        end = self._data.find(b"\r\n\r\n", 0, HEAD_BYTES)
        if end < 0:
            if len(self._data) >= HEAD_BYTES:
                raise ValueError(f"no message but {bytes(self._data[:60])!r}")
            return False
        for line in bytes(self._data[:end]).split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length":
                if not value.strip().isdigit() or len(value) > 20:
                    raise ValueError(f"a message of no length ({value[:40]!r})")
                self._wanted = int(value)
        if self._wanted < 0:
            raise ValueError(f"no message but {bytes(self._data[:60])!r}")
        if self._wanted > self._most_bytes:
            raise ValueError(f"a message of {self._wanted:,} bytes, over the bound of {self._most_bytes:,}")
        del self._data[: end + 4]
        return True


def decode_message(body: bytes) -> Any:
    """A JSON value; halves of surrogate pairs, which JSON may have and text may not, become question marks.

    Raises msgspec.DecodeError and ValueError.
    """
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        if b"\\u" not in body:
            raise
        whole = json.dumps(json.loads(body), ensure_ascii=False, allow_nan=False)
        return msgspec.json.decode(whole.encode("utf-8", "replace"))


def encode_message(message: Mapping[str, Any]) -> bytes:
    """A message as it is sent."""
    body = msgspec.json.encode(message)
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


class FramedProcess:
    """One process and its messages, on the loop that `begin` is called on; `take` is called with each message.

    `over` is set when nothing of the process is left; `why` then describes how it ended.
    """

    def __init__(
        self,
        argv: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        *,
        take: Callable[[dict[str, Any]], None],
        most_bytes: int,
        limits: CommandLimits | None = None,
        confinement: Confinement = UNCONFINED,
    ) -> None:
        self.over = asyncio.Event()
        self.why = ""
        self.code: int | None = None
        self._argv, self._cwd, self._environment = list(argv), cwd, environment
        self._take = take
        self._frames = ContentLengthDecoder(most_bytes)
        self._limits = limits or CommandLimits()
        self._confinement = confinement
        self._fault = ""
        self._errors = ""
        self._unsent = bytearray()
        self._sending = asyncio.Event()
        self._command: Command | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self, launcher: WardenClient) -> None:
        """Start it in a task of its own; if the program cannot be started, `over` is set."""
        self._task = asyncio.create_task(self._run(launcher), name="jaato-talk")

    @property
    def errors(self) -> str:
        """The end of what it printed on its standard error."""
        return self._errors.strip()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message, in order, without waiting. Raises `ProcessEnded` when it is over or does not read."""
        if self.over.is_set() or self._fault:
            raise ProcessEnded(self.why or self._fault)
        data = encode_message(message)
        if len(self._unsent) + len(data) > UNSENT_BYTES:
            self.stop(f"it did not read what it was sent ({UNSENT_BYTES >> 20} MB)")
            raise ProcessEnded(f"{self._fault}.")
        self._unsent += data
        self._sending.set()

    def stop(self, fault: str = "") -> None:
        """Ask it to end; `over` is set when nothing of it is left."""
        self._fault = self._fault or fault
        if self._command is not None:
            self._command.stop()

    async def close(self) -> None:
        """End it, and wait until nothing of it is left."""
        self.stop()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self, launcher: WardenClient) -> None:
        try:
            streams = open_pipes()
        except OSError as error:
            self._end(None, f"it could not be given pipes: {error}")
            return
        self._command = Command(
            self._argv,
            self._cwd,
            self._environment,
            limits=self._limits,
            show=self._append_error,
            streams=streams.theirs,
            confinement=self._confinement,
        )
        ended: Ended | None = None
        failure = ""
        reader = asyncio.create_task(self._read(streams))
        writer = asyncio.create_task(self._write(streams))
        try:
            ended = await self._command.run(launcher)
        except ToolError as error:
            failure = str(error)
        finally:
            streams.close_theirs()
            if ended is not None:
                await asyncio.wait([reader], timeout=1.0)
            for task in (reader, writer):
                task.cancel()
            await asyncio.wait([reader, writer])
            streams.close()
            self._end(ended, failure)

    def _end(self, ended: Ended | None, failure: str) -> None:
        self.code = ended.code if ended is not None else None
        self.why = f"{self._argv[0]}: {self._fault or failure or describe_end(ended)}."
        if self.errors:
            self.why += f" Its last words: {self.errors[-800:]}"
        self.over.set()

    def _append_error(self, text: str) -> None:
        self._errors = (self._errors + text)[-TAIL_CHARS:]

    async def _read(self, streams: Streams) -> None:
        while True:
            await anyio.wait_readable(streams.output_fd)
            if streams.theirs and self._command is not None and self._command.pid:
                streams.close_theirs()
            try:
                data = os.read(streams.output_fd, READ_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                return
            if not data:
                return
            try:
                for message in self._frames.feed(data):
                    self._take(message)
            except ValueError as error:
                self.stop(f"it sent {error}")
                return

    async def _write(self, streams: Streams) -> None:
        while True:
            await self._sending.wait()
            try:
                sent = os.write(streams.input_fd, memoryview(bytes(self._unsent[:READ_BYTES])))
            except BlockingIOError:
                await anyio.wait_writable(streams.input_fd)
                continue
            except OSError:
                return
            del self._unsent[:sent]
            if not self._unsent:
                self._sending.clear()


def describe_end(ended: Ended | None) -> str:
    """Describe how it ended."""
    if ended is None:
        return "it was stopped"
    match ended.reason:
        case "failure":
            doing, error = ended.stuck
            return f"could not {doing} it: {error}"
        case "processes":
            return "it was stopped because it had started too many processes"
        case "stopped" | "orphaned":
            return "it was stopped"
        case "lost" | "silent":
            return "it was killed together with the process that supervised it"
    if ended.code is not None and ended.code < 0:
        return f"it was ended by {signal_name(-ended.code)}"
    return f"it ended with exit code {ended.code}"
