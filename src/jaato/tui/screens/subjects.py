"""What the browsers show: sessions, waypoints, background tasks, tools and their sources, and the texts of commands."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from jaato.cli.output.console import one_line, time_text
from jaato.cli.output.transcript import entry_lines, plan_lines
from jaato.cli.output.wording import call_text, shorten_model
from jaato.cli.repl.slash_commands import switch_to
from jaato.protocol.commands import HistoryRequest, SessionList, TaskStop, ToolsDisable
from jaato.protocol.events import MessageModel
from jaato.protocol.frames import History, Sessions
from jaato.protocol.specs import SessionEntry
from jaato.settings.budgets import format_count
from jaato.tui.link import Link
from jaato.tui.panels import find_plans, summarize_plan
from jaato.tui.screens.browser import Action, Line, Row, Subject
from jaato.tui.transcript.blocks import CallBlock
from jaato.tui.transcript.lines import shorten_path

MOST = 200
"""Rows that are loaded at once."""
PREVIEW_ENTRIES = 12
PREVIEW_WIDTH = 200


class SessionSubject(Subject):
    """The stored sessions: those of this directory first, then of others; a search looks into their text."""

    title = "Sessions"
    empty = "No session has these words."
    searches = True

    def __init__(self, link: Link) -> None:
        self._link = link
        self._known: dict[str, SessionEntry] = {}
        self._next: SessionList | None = None
        """What asks for the sessions after those."""

    async def rows(self, query: str) -> Sequence[Row]:
        """The newest sessions, or those with the words."""
        here = None if query else self._link.session.state.workspace
        return await self._load(SessionList(query=query or None, workspace=here, limit=MOST), {})

    @property
    def has_more(self) -> bool:
        """Whether there are sessions after these."""
        return self._next is not None

    async def more_rows(self) -> Sequence[Row]:
        """The sessions after these."""
        return [] if self._next is None else await self._load(self._next, self._known)

    async def _load(self, command: SessionList | None, known: Mapping[str, SessionEntry]) -> list[Row]:
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
        self._known, self._next = {**known, **new}, command
        state = self._link.session.state
        return [Row(one.id, format_session(one, state.session_id, state.workspace)) for one in new.values()]

    async def preview(self, row_id: str) -> Sequence[Line]:
        """What is known of it, and its last entries."""
        entry = self._known[row_id]
        lines: list[Line] = [
            (entry.name or "Without a name", "bold"),
            (one_line(entry.description, 300), "") if entry.description else ("", ""),
            (f"{shorten_path(entry.workspace, self._link.client.welcome.home)} · {entry.id}", "dim"),
            (f"{entry.provider} {shorten_model(entry.model)} · {time_text(entry.updated_at)} UTC", "dim"),
        ]
        if entry.found:
            lines.append((f"found: {one_line(entry.found, 300)}", "yellow"))
        page = await self._link.client.ask(HistoryRequest(session_id=row_id, limit=PREVIEW_ENTRIES))
        assert isinstance(page, History)
        arguments: dict[str, dict[str, object]] = {}
        for event in page.events:
            if isinstance(event, MessageModel):
                arguments |= {call.call_id: call.arguments for call in event.message.function_calls}
            lines += [(line, "") for line in entry_lines(event, arguments, PREVIEW_WIDTH)]
        return [line for line in lines if line[0]]

    def actions(self) -> Mapping[str, Action]:
        """Open it."""
        return {"enter": Action("open", self._open, leaves=True)}

    async def _open(self, row_id: str) -> None:
        self._link.start(switch_to(self._link, row_id))


def format_session(entry: SessionEntry, own: str, here: str) -> str:
    """A session on one line."""
    marks = ["this one"] if entry.id == own else []
    marks += ["at work"] if entry.busy else ["interrupted"] if entry.interrupted else []
    marks += [format_count(entry.questions, "question")] if entry.questions else []
    name = one_line(entry.name or entry.description or entry.id[:12], 60)
    place = "" if entry.workspace == here else f" · {one_line(entry.workspace.rpartition('/')[2], 30)}"
    return f"{time_text(entry.updated_at)[5:]} {name}{place}{''.join(f' ({mark})' for mark in marks)}"


class WaypointSubject(Subject):
    """The waypoints as a tree; the preview says what restoring one would change."""

    title = "Waypoints"
    empty = "No waypoint yet: /waypoint create TEXT makes one."

    def __init__(self, link: Link) -> None:
        self._link = link

    async def rows(self, query: str) -> Sequence[Row]:
        """The tree, as the session draws it."""
        del query
        lines = (await self._link.session.execute("waypoint", "list")).splitlines()
        return [Row(waypoint_id, line) for line in lines if (waypoint_id := find_waypoint_id(line))]

    async def preview(self, row_id: str) -> Sequence[Line]:
        """What it is, and what restoring it would change."""
        return [
            (line, "")
            for line in (await self._link.session.execute("waypoint", f"info {row_id}")).splitlines()
        ]

    def actions(self) -> Mapping[str, Action]:
        """Restore or delete it."""
        return {
            "ctrl+r": Action("restore the files", self._restore),
            "ctrl+d": Action("delete", self._delete),
        }

    async def _restore(self, row_id: str) -> str:
        return await self._link.session.execute("waypoint", f"restore {row_id}")

    async def _delete(self, row_id: str) -> str:
        return await self._link.session.execute("waypoint", f"delete {row_id}")


def find_waypoint_id(line: str) -> str:
    """The id in a line of the tree; empty without one."""
    words = line.strip("│├└─ ").split(maxsplit=1)
    return words[0] if words else ""


class TaskSubject(Subject):
    """The background tasks, the running ones first, with the newest of their output as it comes."""

    title = "Background tasks"
    empty = "There are no background tasks."
    refresh_s = 0.5

    def __init__(self, link: Link, first: str = "") -> None:
        self._link = link
        self.first = first

    async def rows(self, query: str) -> Sequence[Row]:
        """State and call of each."""
        del query
        lines = (await self._link.session.execute("tasks")).splitlines()
        calls, found = self._find_calls(), []
        for line in lines:
            task_id, blank, facts = line.partition("  ")
            if blank:
                text = f"{facts.partition('  ')[0]}  {calls[task_id]}" if task_id in calls else facts
                found.append(Row(task_id, text, line))
        return sorted(found, key=lambda row: row.id != self.first)

    def _find_calls(self) -> dict[str, str]:
        """The calls that made the tasks, by the task's id, as far as the conversation has them."""
        blocks = [block for layout in self._link.conversation.layouts.values() for block in layout.blocks]
        return {
            block.task_id: call_text(block.tool, block.arguments, PREVIEW_WIDTH)
            for block in blocks
            if isinstance(block, CallBlock) and block.task_id
        }

    async def preview(self, row_id: str) -> Sequence[Line]:
        """The call that made it, and the newest of its output."""
        call = self._find_calls().get(row_id)
        head = [(call, "bold")] if call is not None else []
        lines = (await self._link.session.execute("tasks", row_id)).splitlines()
        return [*head, *((line, "") for line in lines)]

    def actions(self) -> Mapping[str, Action]:
        """Stop it."""
        return {"ctrl+d": Action("stop", self._stop)}

    async def _stop(self, row_id: str) -> None:
        await self._link.client.ask(TaskStop(session_id=self._link.session.id, task_id=row_id))


class ToolSubject(Subject):
    """The tools with the tokens of their declarations; those declared to the model are marked."""

    title = "Tools"
    empty = "The session is not loaded; its tools are available after the next message."
    refresh_s = 1.0

    def __init__(self, link: Link) -> None:
        self._link = link

    async def rows(self, query: str) -> Sequence[Row]:
        """The tools, declared ones first."""
        del query
        tools = sorted(
            list_tools(self._link),
            key=lambda tool: (not tool.get("declared"), tool["category"], tool["name"]),
        )
        return [
            Row(
                str(tool["name"]),
                format_tool(tool),
                f"{tool['category']} {tool['description']}",
            )
            for tool in tools
        ]

    async def preview(self, row_id: str) -> Sequence[Line]:
        """What it does, where it comes from, and its price."""
        tools = list_tools(self._link)
        tool = next(one for one in tools if one["name"] == row_id)
        declared = [one for one in tools if one.get("declared")]
        return [
            (str(tool["name"]), "bold"),
            (str(tool["description"]), ""),
            (f"category {tool['category']}, plugin {tool['plugin']}", "dim"),
            (
                f"about {format_count(tool.get('tokens', 0), 'token')} of the context once it is declared",
                "dim",
            ),
            (
                "declared to the model" if tool.get("declared") else "found by the model when it is needed",
                "dim",
            ),
            ("" if tool.get("enabled") else "switched off", "yellow"),
            (f"all that are declared: {price_tools(declared)}", "dim"),
        ]

    def actions(self) -> Mapping[str, Action]:
        """Switch it off or on."""
        return {"enter": Action("switch off or on", self._toggle)}

    async def _toggle(self, row_id: str) -> None:
        tool = next(one for one in list_tools(self._link) if one["name"] == row_id)
        session = self._link.session
        await self._link.client.ask(
            ToolsDisable(session_id=session.id, tools=[row_id], disabled=bool(tool.get("enabled")))
        )


def list_tools(link: Link) -> list[dict[str, Any]]:
    """The tools of the session, each with whether it is switched on now."""
    info, disabled = link.session.info, link.session.state.disabled
    tools = info.tools if info is not None else []
    return [{**tool, "enabled": tool["name"] not in disabled} for tool in tools]


class McpSubject(Subject):
    """The servers of the Model Context Protocol as `/mcp` has them, with the price of their tools."""

    title = "MCP servers"
    empty = "No MCP server is configured: `jaato mcp add` adds one."
    refresh_s = 1.0

    def __init__(self, link: Link) -> None:
        self._link = link
        self._servers: dict[str, dict[str, Any]] = {}

    async def rows(self, query: str) -> Sequence[Row]:
        """State and number of tools of each server."""
        del query
        shown = json.loads(await self._link.session.execute("mcp", "json"))
        self._servers = {row["name"]: row for row in shown["servers"]}
        return [
            Row(
                name,
                f"{MCP_MARKS.get(row['state'], '·')} {name:<12} {row['state']}{format_price(self._tools(name))}",
            )
            for name, row in self._servers.items()
        ]

    def _tools(self, server: str) -> list[dict[str, Any]]:
        names = self._servers[server].get("tool_names", ())
        return [tool for tool in list_tools(self._link) if tool["name"] in names]

    async def preview(self, row_id: str) -> Sequence[Line]:
        """How it stands, what it offers and costs, and its tools."""
        row, tools = self._servers[row_id], self._tools(row_id)
        facts = [f"transport {row['kind']}", f"configured by {row['scope']}"]
        facts += [f"protocol {row['protocol']}"] if "protocol" in row else []
        lines: list[Line] = [(f"{row_id}: {row['state']}", "bold"), (", ".join(facts), "dim")]
        lines += [(str(text), "yellow") for text in (row.get("why"), *row.get("held_back", ())) if text]
        if "tools" in row:
            counts = [format_count(row[key], key[:-1]) for key in ("tools", "prompts", "resources")]
            tokens = format_count(sum_tokens(tools), "token")
            lines.append((f"{', '.join(counts)}; {tokens} once declared", ""))
        if "last_start" in row:
            lines.append((f"started {time_text(row['last_start'])} UTC", "dim"))
        if row.get("last_error", row.get("why")) != row.get("why"):
            lines.append((f"last error: {row['last_error']}", "yellow"))
        lines += [(f"sandbox {row['sandbox']}", "dim")] if "sandbox" in row else []
        lines += [(f"left out: {text}", "dim") for text in row.get("left_out", ())]
        return [*lines, *((f"{format_tool(tool)}  {tool['description']}", "") for tool in tools)]

    def actions(self) -> Mapping[str, Action]:
        """Start, restart, switch off or on."""
        return {
            "enter": Action("start, list again", partial(self._run, "connect")),
            "ctrl+r": Action("restart", partial(self._run, "restart")),
            "ctrl+d": Action("its tools off or on", self._toggle),
            "ctrl+x": Action("off or on for good", self._switch),
        }

    async def _run(self, verb: str, row_id: str) -> None:
        await self._link.session.execute("mcp", f"{verb} {row_id}")

    async def _switch(self, row_id: str) -> None:
        is_off = self._servers[row_id]["state"] == "switched off"
        text = await self._link.session.execute("mcp", f"{'enable' if is_off else 'disable'} {row_id}")
        self._link.console.note(text)

    async def _toggle(self, row_id: str) -> None:
        tools, session = self._tools(row_id), self._link.session
        is_on = any(tool.get("enabled") for tool in tools)
        await self._link.client.ask(
            ToolsDisable(session_id=session.id, tools=[tool["name"] for tool in tools], disabled=is_on)
        )


MCP_MARKS = {"started": "✓", "failed": "✗", "needs trust": "!", "needs login": "!", "switched off": "-"}


def format_tool(tool: Mapping[str, Any]) -> str:
    """A tool on one line: whether it is declared, its name, its tokens, and whether it is switched off."""
    mark, off = "*" if tool.get("declared") else " ", "" if tool.get("enabled") else "  off"
    return f"{mark} {tool['name']:<28} {tool.get('tokens', 0):>5}{off}"


def format_price(tools: Sequence[Mapping[str, Any]]) -> str:
    """The number of tools, and the tokens of their declarations; nothing for none."""
    if not tools:
        return ""
    off = ", off" if not any(tool.get("enabled") for tool in tools) else ""
    return f", {price_tools(tools)}{off}"


def price_tools(tools: Sequence[Mapping[str, Any]]) -> str:
    """The number of tools, and the tokens of their declarations."""
    return f"{format_count(len(tools), 'tool')}, {format_count(sum_tokens(tools), 'token')}"


def sum_tokens(tools: Sequence[Mapping[str, Any]]) -> int:
    """The tokens of the declarations of tools."""
    return sum(int(tool.get("tokens", 0)) for tool in tools)


class TextSubject(Subject):
    """The texts of commands, one for each row."""

    def __init__(self, link: Link, title: str, commands: Mapping[str, str]) -> None:
        self._link = link
        self.title = title
        self._commands = commands

    async def rows(self, query: str) -> Sequence[Row]:
        """The commands."""
        del query
        return [Row(command, label) for label, command in self._commands.items()]

    async def preview(self, row_id: str) -> Sequence[Line]:
        """What the command writes."""
        name, _, rest = row_id.partition(" ")
        lines = (await self._link.session.execute(name, rest)).splitlines()
        return [(line, "") for line in (drop_empty_columns(lines) if name == "usage" else lines)]


class PlanSubject(Subject):
    """The plans of all agents, with their steps."""

    title = "Plans"
    empty = "There is no plan."

    def __init__(self, link: Link) -> None:
        self._link = link

    async def rows(self, query: str) -> Sequence[Row]:
        """The current plan of each agent, the root agent's first."""
        del query
        names = self._link.conversation.names.name_of
        found = find_plans(self._link.session.state)
        return [
            Row(agent_id, f"{names(agent_id) or 'main'}: {summarize_plan(plan)}") for agent_id, plan in found
        ]

    async def preview(self, row_id: str) -> Sequence[Line]:
        """The steps."""
        plan = dict(find_plans(self._link.session.state))[row_id]
        return [(line, "") for line in plan_lines(plan)]


class ContextSubject(Subject):
    """What the model's context consists of, as bars."""

    title = "Context"

    def __init__(self, link: Link) -> None:
        self._link = link
        self._account: dict[str, Any] = {}

    async def rows(self, query: str) -> Sequence[Row]:
        """The whole, and the largest messages."""
        del query
        self._account = json.loads(await self._link.session.execute("context", "json"))
        largest = sorted(self._account["messages"], key=lambda message: -message["tokens"])
        rows = [
            Row(message["id"], f"{message['tokens']:>7,}  {message['role']:<9} {message['title']}")
            for message in largest
        ]
        return [Row("", "all of it"), *rows[:MOST]]

    async def preview(self, row_id: str) -> Sequence[Line]:
        """A bar for each part, or a message."""
        account = self._account
        if row_id:
            message = next(one for one in account["messages"] if one["id"] == row_id)
            tokens = format_count(message["tokens"], "token")
            return [(f"{message['role']}, {tokens}", "bold"), (message["title"], "")]
        total, limit = account["total_tokens"], account["context_limit"]
        lines: list[Line] = [(f"{total:,} of {limit:,} tokens ({account['percent_used']:.1f}%)", "bold")]
        blocks = [(block.get("name") or block["kind"], block["tokens"]) for block in account["blocks"]]
        lines += [(format_bar(name, tokens, total), "") for name, tokens in blocks]
        lines += [
            ("Shares are of what is used.", "dim"),
            (f"free: {format_count(account['tokens_remaining'], 'token')}", "dim"),
        ]
        if (threshold := account["threshold_percent"]) is not None:
            lines.append((f"compacted at {threshold:g} %; /compact does it now", "dim"))
        return lines


def format_bar(name: str, tokens: int, total: int) -> str:
    """A part of the context: its name, a bar, its tokens and its share."""
    share = tokens / total if total else 0
    bar = "━" * round(share * BAR_CHARS) or "╸"
    return f"{one_line(name, 18):<18} {bar:<{BAR_CHARS}} {tokens:>9,} {share:>6.1%}"


BAR_CHARS = 24


def drop_empty_columns(lines: Sequence[str]) -> list[str]:
    """A table without the columns that have nothing but zeros, so that it is narrower; lines below it stay."""
    starts = [found.start() for found in re.finditer(r"\S+", lines[0])] if lines else []
    rows = (
        [line for line in lines if len(line) > starts[-1] and line[starts[-1] - 1 : starts[-1]] == " "]
        if starts
        else []
    )
    ends = [*starts[1:], None]
    table = [[row[start:end].strip() for start, end in zip(starts, ends, strict=True)] for row in rows]
    kept = [at for at in range(len(starts)) if any(row[at] not in ("", "0") for row in table[1:])]
    if len(table) < 2 or rows != list(lines[: len(rows)]):
        return list(lines)
    widths = [max(len(row[at]) for row in table) for at in kept]
    made = ["  ".join(f"{row[at]:<{width}}" for at, width in zip(kept, widths, strict=True)) for row in table]
    return [line.rstrip() for line in made] + list(lines[len(rows) :])


USAGE = {
    "by agent": "usage agent",
    "by model": "usage model",
    "by tool": "usage tool",
    "by day": "usage day",
}
PERMISSIONS = {"lasting answers": "permissions", "mode": "mode"}
PINS = {"pinned texts": "pin"}
