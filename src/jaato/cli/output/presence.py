"""Which other clients join and leave a session, in the words that every client shows."""

from __future__ import annotations

from jaato.cli.output.console import one_line
from jaato.protocol.events import SessionInfo

MAX_NAME_CHARS = 80


class OtherClients:
    """The other clients of a session. `own_id` is the id of this client at its connection."""

    def __init__(self, info: SessionInfo, own_id: str) -> None:
        self._names = names_of(info)
        self._own_ids = {own_id}

    def update(self, info: SessionInfo, own_id: str, *, connected: bool) -> list[str]:
        """The lines about who has joined and left; none across a new connection, with which all ids may change."""
        names, before = names_of(info), self._names
        lines: list[str] = []
        if connected and own_id in self._own_ids:
            joined = names.keys() - before.keys() - self._own_ids
            left = before.keys() - names.keys() - self._own_ids
            lines = [f"{one_line(names[one], MAX_NAME_CHARS)} joined" for one in sorted(joined)]
            lines += [f"{one_line(before[one], MAX_NAME_CHARS)} left" for one in sorted(left)]
        self._names = names
        self._own_ids.add(own_id)
        return lines


def names_of(info: SessionInfo) -> dict[str, str]:
    """The names of the clients of a session, by their ids."""
    return {client.id: client.name for client in info.clients}
