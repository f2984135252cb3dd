"""The screens by name, and what each shows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from jaato.tui.screens.context import ContextSubject
from jaato.tui.screens.list_screen import Subject
from jaato.tui.screens.listings import PERMISSIONS, PINS, USAGE, PlanSubject, TextSubject
from jaato.tui.screens.searches import ConversationSubject, HistorySubject
from jaato.tui.screens.sessions import SessionSubject
from jaato.tui.screens.tasks import TaskSubject
from jaato.tui.screens.tools import McpSubject, ToolSubject
from jaato.tui.screens.waypoints import WaypointSubject
from jaato.tui.session_screen import SessionScreen

SCREENS = {
    "sessions": ("Sessions", "search, preview and open sessions ({app.sessions})"),
    "search": ("Search", "search in the conversation ({app.search})"),
    "history": ("Messages sent before", "search and reuse them ({app.history})"),
    "plans": ("Plans", "the plans of all agents, with their steps ({app.plans})"),
    "waypoints": ("Waypoints", "the tree, what restoring would change, restore"),
    "tasks": ("Background tasks", "their state and live output; stop one ({app.tasks})"),
    "tools": ("Tools", "all tools and their price in tokens; switch one off"),
    "mcp": ("MCP servers", "how each stands, its tools and their price; restart one"),
    "permissions": ("Permissions", "lasting answers and the mode"),
    "usage": ("Usage", "tokens, price and time by agent, model, tool and day"),
    "context": ("Context", "what the model's context consists of, as bars"),
    "pins": ("Pinned texts", "what every compaction keeps"),
    "keys": ("Keys", "all keys ({app.keys})"),
}
"""The screens: title and description."""
TEXTS = {"usage": USAGE, "permissions": PERMISSIONS, "pins": PINS}


def make_subject(
    name: str, view: SessionScreen, load_earlier: Callable[[int], Awaitable[None]]
) -> Subject[Any]:
    """What a screen shows of the session in a view."""
    link = view.link
    match name:
        case "search":
            return ConversationSubject(link, view.agent_id, load_earlier, view.transcript.show_block)
        case "history":
            return HistorySubject(view.area.history.entries, view.prompt.begin)
        case "sessions":
            return SessionSubject(link)
        case "plans":
            return PlanSubject(link)
        case "waypoints":
            return WaypointSubject(link)
        case "tasks":
            return TaskSubject(link, view.transcript.marked_task)
        case "context":
            return ContextSubject(link)
        case "mcp":
            return McpSubject(link)
        case "tools":
            return ToolSubject(link)
    return TextSubject(link, SCREENS[name][0], TEXTS[name])
