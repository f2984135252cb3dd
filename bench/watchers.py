"""Clients that watch sessions, in a process of their own, and say what has reached them."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from jaato.client.blocking import Client
from jaato.protocol.commands import SessionAttach
from jaato.protocol.events import AgentOutput, MessageModel, SessionInfo
from jaato.protocol.events.state import State


class Seen(NamedTuple):
    """What has reached the clients, a number for each."""

    events: list[int]
    """Events but those that say who is there."""
    chars: list[int]
    """Characters of streamed text; those of a snapshot do not count."""
    turns: list[int]
    """Turns that have ended, as each client's state has it."""
    said: list[int]
    """Characters of what the model said last, as each client's state has it."""
    snapshots: list[int]


def main(path: str, count: int, sessions: Sequence[str]) -> None:
    """Watch until the input ends; every line of it is answered by what was seen."""
    clients = [Client(Path(path)).open() for _ in range(count)]
    seen = Seen(*[[0] * count for _ in Seen._fields])
    poll = select.poll()
    poll.register(0, select.POLLIN)
    numbers = {client.fileno(): number for number, client in enumerate(clients)}
    for number, client in enumerate(clients):
        client.ask(SessionAttach(session_id=sessions[number % len(sessions)]))
        poll.register(client.fileno(), select.POLLIN)
    for client in clients:
        while not client.states:
            client.receive()
        client.arrived()
    print("ready", flush=True)
    while True:
        for fd, _ in poll.poll():
            if fd:
                take(clients[numbers[fd]], numbers[fd], seen)
            elif not sys.stdin.readline():
                return
            else:
                for number, client in enumerate(clients):
                    state = next(iter(client.states.values()))
                    seen.turns[number], seen.said[number] = state.turns, said_last(state)
                print(json.dumps(seen), flush=True)


def take(client: Client, number: int, seen: Seen) -> None:
    """What has come to one client."""
    client.receive()
    for event in client.arrived():
        match event:
            case SessionInfo():
                seen.snapshots[number] += event.state is not None
                continue
            case AgentOutput():
                seen.chars[number] += len(event.text)
        seen.events[number] += 1


def said_last(state: State) -> int:
    """Characters of the newest message of the model."""
    said = [entry.message.text for entry in state.entries[-3:] if isinstance(entry, MessageModel)]
    return len(said[-1]) if said else 0


class Watchers:
    """The process, from outside."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def seen(self) -> Seen:
        """What has reached them by now."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: list[Any] = json.loads(self._process.stdout.readline())
        return Seen(*found)


@contextmanager
def watching(path: Path, count: int, sessions: Sequence[str]) -> Iterator[Watchers]:
    """So many clients at a socket, spread over the sessions, all of them attached."""
    command = [sys.executable, "-m", "bench.watchers", str(path), str(count), *sessions]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdout.readline()
            yield Watchers(process)
        finally:
            process.stdin.close()
            process.kill()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
