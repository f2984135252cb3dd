"""Waypoints as people and models read them."""

from __future__ import annotations

from typing import Any

from jaato.plugins.waypoint.course import Restored
from jaato.plugins.waypoint.plan import paths_of
from jaato.protocol.specs import Waypoint
from jaato.tools.waypoints import START, Tree

MAX_SHOWN = 100
MAX_DEPTH = 12
"""From this depth on the branches are drawn no deeper, as nobody could follow them."""


def printable(text: str) -> str:
    """One line that does nothing to a terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def drawn(tree: Tree) -> str:
    """The tree in lines, the waypoint the session stands at marked."""
    lines = [headline(tree.waypoints[START], tree)]
    waiting = [(one, "") for one in reversed(tree.children(START))]
    while waiting:
        one, above = waiting.pop()
        last = not waiting or waiting[-1][1] != above
        deeper = above if len(above) >= 4 * MAX_DEPTH else above + ("    " if last else "│   ")
        lines.append(f"{above}{'└' if last else '├'}── {headline(one, tree)}")
        waiting += [(child, deeper) for child in reversed(tree.children(one.id))]
    return "\n".join(lines)


def headline(waypoint: Waypoint, tree: Tree) -> str:
    """One line about a waypoint."""
    words = [waypoint.id, f'"{printable(waypoint.description)}"']
    if waypoint.id != START:
        words.append(f"[{waypoint.owner}{', ceiling' if waypoint.ceiling else ''}]")
    if waypoint.id == tree.current:
        words.append("◀ current" if tree.saved else "◀ current, some files differ")
    return " ".join(words)


def entry(waypoint: Waypoint, tree: Tree) -> dict[str, Any]:
    """A waypoint as data."""
    said: dict[str, Any] = {
        "waypoint_id": waypoint.id,
        "description": waypoint.description,
        "owner": waypoint.owner,
        "parent": waypoint.parent,
        "created_at": waypoint.created_at,
    }
    flags = {"ceiling": waypoint.ceiling, "current": waypoint.id == tree.current}
    return said | {name: True for name, value in flags.items() if value}


def details(waypoint: Waypoint, tree: Tree, since: Restored | None) -> dict[str, Any]:
    """Everything about a waypoint: the conversation then, and what going back would do where that is possible."""
    said = entry(waypoint, tree) | {
        "message_count": waypoint.message_count,
        "turn_index": waypoint.turn_index,
        "preview": waypoint.preview,
        "children": [one.id for one in tree.children(waypoint.id)],
    }
    return said if since is None else said | {"restoring_would": effects(since)}


def effects(done: Restored) -> dict[str, Any]:
    """What going back changes, and what it leaves alone."""
    changes = paths_of(done.plan)
    kept = done.plan.kept
    said: dict[str, Any] = {
        "changed": [{"path": path, "change": change} for path, change in changes[:MAX_SHOWN]]
    }
    if kept:
        said["kept"] = [{"path": path, "reason": reason} for path, reason in kept[:MAX_SHOWN]]
    totals = {"changed_in_all": len(changes), "kept_in_all": len(kept)}
    return said | {name: number for name, number in totals.items() if number > MAX_SHOWN}


def result(done: Restored, *, dry_run: bool) -> dict[str, Any]:
    """What the model is told of going back."""
    said: dict[str, Any] = {"waypoint_id": done.waypoint.id} | effects(done)
    if dry_run:
        said |= {"dry_run": True, "makes_ceiling": done.unsaved}
    elif done.ceiling is not None:
        said["ceiling"] = done.ceiling.id
        said["note"] = (
            f"What the files held before is kept in {done.ceiling.id}; restore it to go there again."
        )
    if done.plan.kept:
        said["kept_note"] = (
            "These are as they were; nobody's work is overwritten. Ask the user what is to become of them."
        )
    return said


def told(done: Restored, *, dry_run: bool) -> str:
    """What the user is told of going back."""
    changes, kept = paths_of(done.plan), done.plan.kept
    lines = [f"  {printable(path)}: {change}" for path, change in changes[:MAX_SHOWN]]
    if len(changes) > MAX_SHOWN:
        lines.append(f"  and {len(changes) - MAX_SHOWN} more")
    verb = "would change" if dry_run else "changed"
    head = f"{done.waypoint.id}: {len(changes)} file{'' if len(changes) == 1 else 's'} {verb}"
    lines.insert(0, f"{head}." if not changes else f"{head}:")
    if kept:
        lines.append(
            f"Kept as {'it is' if len(kept) == 1 else 'they are'} (--force overrules other people's changes):"
        )
        lines += [f"  {printable(path)}: {printable(reason)}" for path, reason in kept[:MAX_SHOWN]]
    if done.ceiling is not None:
        lines.append(f"What was there before is {done.ceiling.id}.")
    elif dry_run and done.unsaved:
        lines.append("What is there now would become a waypoint first.")
    return "\n".join(lines)
