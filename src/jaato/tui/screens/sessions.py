"""The screen of the stored sessions: search, preview, open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from msgspec.structs import replace

from jaato.cli.output.console import one_line, time_text
from jaato.cli.output.transcript import entry_lines
from jaato.cli.output.wording import shorten_model
from jaato.cli.repl.slash_commands import switch_to
from jaato.protocol.commands import HistoryRequest, SessionList
from jaato.protocol.events import MessageModel
from jaato.protocol.frames import History, Sessions
from jaato.protocol.specs import SessionEntry
from jaato.settings.budgets import format_count
from jaato.tui.link import Link
from jaato.tui.screens.list_screen import Action, Line, LinkSubject, Row
from jaato.tui.transcript.lines import shorten_path

MOST = 200
"""Sessions that are loaded at once."""
PREVIEW_ENTRIES = 12
PREVIEW_WIDTH = 200


class SessionSubject(LinkSubject[SessionEntry]):
    """The stored sessions: those of this directory first, then of others; a search looks into their text."""

    title = "Sessions"
    empty = "No session has these words."
    searches = True

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._known: set[str] = set()
        self._next: SessionList | None = None
        """What asks for the sessions after those."""

    async def rows(self, query: str) -> Sequence[Row[SessionEntry]]:
        """The newest sessions, or those with the words."""
        here = None if query else self._link.session.state.workspace
        return await self._load(SessionList(query=query or None, workspace=here, limit=MOST), set())

    @property
    def has_more(self) -> bool:
        """Whether there are sessions after these."""
        return self._next is not None

    async def more_rows(self) -> Sequence[Row[SessionEntry]]:
        """The sessions after these."""
        return [] if self._next is None else await self._load(self._next, self._known)

    async def _load(self, command: SessionList | None, known: Set[str]) -> list[Row[SessionEntry]]:
        """The rows of a page that are not known yet; those of the other directories follow those of this one."""
        new: dict[str, SessionEntry] = {}
        while command is not None and len(new) < MOST:
            found = await self._link.client.ask(command)
            assert isinstance(found, Sessions)
            new |= {one.id: one for one in found.sessions if one.id not in known}
            if found.cursor is not None:
                command = replace(command, cursor=found.cursor)
            else:
                command = SessionList(limit=MOST) if command.workspace is not None else None
        self._known, self._next = {*known, *new}, command
        state = self._link.session.state
        return [
            Row(one.id, format_session(one, state.session_id, state.workspace), one) for one in new.values()
        ]

    async def preview(self, row: Row[SessionEntry]) -> Sequence[Line]:
        """What is known of it, and its last entries."""
        entry = row.item
        lines: list[Line] = [
            (entry.name or "Without a name", "bold"),
            (one_line(entry.description, 300), "") if entry.description else ("", ""),
            (f"{shorten_path(entry.workspace, self._link.client.welcome.home)} · {entry.id}", "dim"),
            (f"{entry.provider} {shorten_model(entry.model)} · {time_text(entry.updated_at)} UTC", "dim"),
        ]
        if entry.found:
            lines.append((f"found: {one_line(entry.found, 300)}", "yellow"))
        page = await self._link.client.ask(HistoryRequest(session_id=row.id, limit=PREVIEW_ENTRIES))
        assert isinstance(page, History)
        arguments: dict[str, dict[str, object]] = {}
        for event in page.events:
            if isinstance(event, MessageModel):
                arguments |= {call.call_id: call.arguments for call in event.message.function_calls}
            lines += [(line, "") for line in entry_lines(event, arguments, PREVIEW_WIDTH)]
        return [line for line in lines if line[0]]

    def actions(self) -> Mapping[str, Action[SessionEntry]]:
        """Open it."""
        return {"enter": Action("open", self._open, leaves=True)}

    async def _open(self, row: Row[SessionEntry]) -> None:
        self._link.start(switch_to(self._link, row.id))


def format_session(entry: SessionEntry, own: str, here: str) -> str:
    """A session on one line."""
    marks = ["this one"] if entry.id == own else []
    marks += ["at work"] if entry.busy else ["interrupted"] if entry.interrupted else []
    marks += [format_count(entry.questions, "question")] if entry.questions else []
    name = one_line(entry.name or entry.description or entry.id[:12], 60)
    place = "" if entry.workspace == here else f" · {one_line(entry.workspace.rpartition('/')[2], 30)}"
    return f"{time_text(entry.updated_at)[5:]} {name}{place}{''.join(f' ({mark})' for mark in marks)}"
