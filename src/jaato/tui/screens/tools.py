"""The screens of the tools and of the MCP servers, with the price of their declarations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from jaato.cli.output.console import time_text
from jaato.protocol.commands import ToolsDisable
from jaato.settings.budgets import format_count
from jaato.tui.link import Link
from jaato.tui.screens.list_screen import Action, Line, LinkSubject, Row

Tool = dict[str, Any]
Server = dict[str, Any]


class ToolSubject(LinkSubject[Tool]):
    """The tools with the tokens of their declarations; those declared to the model are marked."""

    title = "Tools"
    empty = "The session is not loaded; its tools are available after the next message."
    refresh_s = 1.0

    async def rows(self, _query: str) -> Sequence[Row[Tool]]:
        """The tools, declared ones first."""
        tools = sorted(
            list_tools(self._link),
            key=lambda tool: (not tool.get("declared"), tool["category"], tool["name"]),
        )
        return [
            Row(
                str(tool["name"]),
                format_tool(tool),
                tool,
                f"{tool['category']} {tool['description']}",
            )
            for tool in tools
        ]

    async def preview(self, row: Row[Tool]) -> Sequence[Line]:
        """What it does, where it comes from, and its price."""
        tool = row.item
        declared = [one for one in list_tools(self._link) if one.get("declared")]
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

    def actions(self) -> Mapping[str, Action[Tool]]:
        """Switch it off or on."""
        return {"enter": Action("switch off or on", self._toggle)}

    async def _toggle(self, row: Row[Tool]) -> None:
        session = self._link.session
        is_on = row.id not in session.state.disabled
        await self._link.client.ask(ToolsDisable(session_id=session.id, tools=[row.id], disabled=is_on))


class McpSubject(LinkSubject[Server]):
    """The servers of the Model Context Protocol as `/mcp` has them, with the price of their tools."""

    title = "MCP servers"
    empty = "No MCP server is configured: `jaato mcp add` adds one."
    refresh_s = 1.0

    async def rows(self, _query: str) -> Sequence[Row[Server]]:
        """State and number of tools of each server."""
        shown = json.loads(await self._link.session.execute("mcp", "json"))
        return [Row(one["name"], self._format(one), one) for one in shown["servers"]]

    def _format(self, server: Server) -> str:
        """A server on one line."""
        state = server["state"]
        return f"{MCP_MARKS.get(state, '·')} {server['name']:<12} {state}{format_price(self._tools(server))}"

    def _tools(self, server: Server) -> list[Tool]:
        names = server.get("tool_names", ())
        return [tool for tool in list_tools(self._link) if tool["name"] in names]

    async def preview(self, row: Row[Server]) -> Sequence[Line]:
        """How it stands, what it offers and costs, and its tools."""
        server, tools = row.item, self._tools(row.item)
        facts = [f"transport {server['kind']}", f"configured by {server['scope']}"]
        facts += [f"protocol {server['protocol']}"] if "protocol" in server else []
        lines: list[Line] = [(f"{row.id}: {server['state']}", "bold"), (", ".join(facts), "dim")]
        lines += [(str(text), "yellow") for text in (server.get("why"), *server.get("held_back", ())) if text]
        if "tools" in server:
            counts = [format_count(server[key], key[:-1]) for key in ("tools", "prompts", "resources")]
            tokens = format_count(sum_tokens(tools), "token")
            lines.append((f"{', '.join(counts)}; {tokens} once declared", ""))
        if "last_start" in server:
            lines.append((f"started {time_text(server['last_start'])} UTC", "dim"))
        if server.get("last_error", server.get("why")) != server.get("why"):
            lines.append((f"last error: {server['last_error']}", "yellow"))
        lines += [(f"sandbox {server['sandbox']}", "dim")] if "sandbox" in server else []
        lines += [(f"left out: {text}", "dim") for text in server.get("left_out", ())]
        return [*lines, *((f"{format_tool(tool)}  {tool['description']}", "") for tool in tools)]

    def actions(self) -> Mapping[str, Action[Server]]:
        """Start, restart, switch off or on."""
        return {
            "enter": Action("start, list again", partial(self._run, "connect")),
            "ctrl+r": Action("restart", partial(self._run, "restart")),
            "ctrl+d": Action("its tools off or on", self._toggle),
            "ctrl+x": Action("off or on for good", self._switch),
        }

    async def _run(self, verb: str, row: Row[Server]) -> None:
        await self._link.session.execute("mcp", f"{verb} {row.id}")

    async def _switch(self, row: Row[Server]) -> None:
        is_off = row.item["state"] == "switched off"
        text = await self._link.session.execute("mcp", f"{'enable' if is_off else 'disable'} {row.id}")
        self._link.console.note(text)

    async def _toggle(self, row: Row[Server]) -> None:
        tools, session = self._tools(row.item), self._link.session
        is_on = any(tool.get("enabled") for tool in tools)
        await self._link.client.ask(
            ToolsDisable(session_id=session.id, tools=[tool["name"] for tool in tools], disabled=is_on)
        )


def list_tools(link: Link) -> list[Tool]:
    """The tools of the session, each with whether it is switched on now."""
    info, disabled = link.session.info, link.session.state.disabled
    tools = info.tools if info is not None else []
    return [{**tool, "enabled": tool["name"] not in disabled} for tool in tools]


MCP_MARKS = {"started": "✓", "failed": "✗", "needs trust": "!", "needs login": "!", "switched off": "-"}


def format_tool(tool: Tool) -> str:
    """A tool on one line: whether it is declared, its name, its tokens, and whether it is switched off."""
    mark, off = "*" if tool.get("declared") else " ", "" if tool.get("enabled") else "  off"
    return f"{mark} {tool['name']:<28} {tool.get('tokens', 0):>5}{off}"


def format_price(tools: Sequence[Tool]) -> str:
    """The number of tools, and the tokens of their declarations; nothing for none."""
    if not tools:
        return ""
    off = ", off" if not any(tool.get("enabled") for tool in tools) else ""
    return f", {price_tools(tools)}{off}"


def price_tools(tools: Sequence[Tool]) -> str:
    """The number of tools, and the tokens of their declarations."""
    return f"{format_count(len(tools), 'tool')}, {format_count(sum_tokens(tools), 'token')}"


def sum_tokens(tools: Sequence[Tool]) -> int:
    """The tokens of the declarations of tools."""
    return sum(int(tool.get("tokens", 0)) for tool in tools)
