"""The plugin `waypoint`: five tools and the `waypoint` command, and how waypoints are rendered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar

import anyio.to_thread
from msgspec import Meta

from jaato.abc.plugin import Host, Plugin, UserCommand
from jaato.errors import ToolError
from jaato.plugins.waypoint.restore import (
    MAX_DESCRIPTION,
    InMemoryWaypoints,
    RestoreResult,
    WaypointRefused,
    WaypointRestorer,
    list_planned_changes,
)
from jaato.plugins.waypoint.undo import UndoPoint
from jaato.protocol.specs import Owner, Waypoint
from jaato.settings.budgets import format_count
from jaato.tools.call import CURRENT, Call, Output
from jaato.tools.filesystem.backup_directory import PLACE
from jaato.tools.filesystem.backups import Backups
from jaato.tools.filesystem.changes import Changes
from jaato.tools.filesystem.transactions import recover_transactions
from jaato.tools.host_services import roots_of
from jaato.tools.invisible_text import blank_unprintable
from jaato.tools.tool import tool
from jaato.tools.waypoints import START, Tree, WaypointLog

COORDINATION = "coordination"
USAGE = (
    "waypoint create TEXT | list | info ID | diff ID [--force] [--json] | restore ID [--dry-run] [--force] | "
    "delete ID"
)
UNDO_USAGE = "undo [--dry-run] [--force]"
WaypointId = Annotated[str, Meta(min_length=1, max_length=40), "such as w1"]
MAX_SHOWN = 100
MAX_DEPTH = 12
"""From this depth on the branches are drawn no deeper, to stay readable."""


class WaypointPlugin(Plugin):
    """Points of a session to which its files can go back. Tools are coroutines: what they note in the session's log is
    noted on its loop, and only the work on the disk happens away from it."""

    name: ClassVar[str] = "waypoint"
    looks_at = (f"{PLACE}/staging/*.set",)

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._kept: dict[str, InMemoryWaypoints] = {}
        self._roots = roots_of(host)
        self._changes = Changes(self._roots, Backups(self._roots.workspace, max_count=0))
        recover_transactions(self._changes)

    def set_workspace_path(self, path: str) -> None:
        """Work below this directory from now on."""
        self._roots.move(Path(path))
        if self._changes.backups.workspace != self._roots.workspace:
            self._changes = Changes(self._roots, Backups(self._roots.workspace, max_count=0))

    def _log(self, call: Call | None) -> WaypointLog:
        """The waypoints of the call's session; without one, those kept in memory."""
        if call is not None and "waypoints" in call.services:
            log: WaypointLog = call.services["waypoints"]
            return log
        return self._kept.setdefault(call.session_id if call is not None else "", InMemoryWaypoints())

    def _restorer(self, call: Call | None) -> WaypointRestorer:
        session_id = call.session_id if call is not None else ""
        return WaypointRestorer(self._changes, self._log(call), session_id, anyio.to_thread.run_sync)

    @tool(category=COORDINATION, access="read", aliases={"save_waypoint": {"name": "description"}})
    async def create_waypoint(
        self,
        description: Annotated[str, Meta(min_length=1, max_length=MAX_DESCRIPTION), "where this is"],
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Save a checkpoint before a risky or large change, so that restore_waypoint can go back to it. Costs nothing.
        Returns its id."""
        made = await self._restorer(call).create(description, "model")
        return waypoint_row(made, self._log(call).tree)

    @tool(category=COORDINATION, access="write")
    async def restore_waypoint(
        self,
        waypoint_id: WaypointId,
        dry_run: Annotated[bool, "only show what would change"] = False,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Roll back to a waypoint (checkpoint) all that tools have changed since: a failed attempt is undone. What others
        edited is kept and reported; the state before becomes a waypoint, too."""
        restorer = self._restorer(call)
        if dry_run:
            return restore_result(await restorer.look(waypoint_id, "model"), dry_run=True)
        return restore_result(await restorer.restore(waypoint_id, "model", call), dry_run=False)

    @tool(category=COORDINATION, access="read")
    async def delete_waypoint(self, waypoint_id: WaypointId, *, call: Call) -> dict[str, Any]:
        """Drop one of your own waypoints (checkpoints) that is no longer needed; nothing else changes. The user's stay."""
        gone = await self._restorer(call).delete(waypoint_id, "model")
        return {"deleted": gone.id, "current": self._log(call).tree.current}

    @tool(category=COORDINATION, access="read")
    async def list_waypoints(self, *, call: Call) -> Output:
        """List the waypoints (checkpoints) of this session as a tree: whose each is, and where the session stands."""
        tree = self._log(call).tree
        entries = [waypoint_row(one, tree) for one in tree.waypoints.values()]
        return Output(render_tree(tree), {"current": tree.current, "saved": tree.saved, "waypoints": entries})

    @tool(category=COORDINATION, access="read")
    async def waypoint_info(self, waypoint_id: WaypointId, *, call: Call) -> dict[str, Any]:
        """Tell all about one waypoint (checkpoint): owner, how far the conversation was, what restoring it would change."""
        return await self._info(waypoint_id, call, "model")

    async def _info(self, waypoint_id: str, call: Call | None, reader: Owner) -> dict[str, Any]:
        restorer, tree = self._restorer(call), self._log(call).tree
        found = restorer.find(waypoint_id)
        try:
            return waypoint_details(found, tree, await restorer.look(waypoint_id, "user"))
        except WaypointRefused as error:
            return waypoint_details(found, tree, None) | {
                "note": error.for_user if reader == "user" else str(error)
            }

    # --- the user ----------------------------------------------------------------------------------------------

    def user_commands(self) -> dict[UserCommand, Callable[[str], Any]]:
        """`waypoint`: the user's own, and every other; `undo`."""
        return {
            UserCommand("waypoint", f"Points the files can go back to: {USAGE}"): self.run_command,
            UserCommand("undo", f"Take back the newest changes of files: {UNDO_USAGE}"): self.run_undo,
        }

    async def run_command(self, line: str) -> str | dict[str, Any]:
        """Carry out what follows `waypoint`."""
        call = CURRENT.get()
        verb, _, rest = line.strip().partition(" ")
        words = rest.split()
        flags = {word.lower() for word in words if word.startswith("--")}
        names = [word for word in words if not word.startswith("--")]
        try:
            match verb:
                case "" | "list" if not words:
                    return render_tree(self._log(call).tree)
                case "create" if rest.strip():
                    made = await self._restorer(call).create(rest, "user")
                    return f"{made.id} is made."
                case "info" if len(names) == 1 and not flags:
                    return render_info(await self._info(names[0], call, "user"))
                case "diff" if len(names) == 1 and flags <= {"--force", "--json"}:
                    return await self._diff(names[0], call, flags)
                case "delete" if len(names) == 1 and not flags:
                    gone = await self._restorer(call).delete(names[0], "user")
                    return f"{gone.id} is deleted; the files are as they were."
                case "restore" if len(names) == 1 and flags <= {"--dry-run", "--force"}:
                    return await self._restore(names[0], call, flags)
        except ToolError as error:
            return error.for_user
        return f"Usage: {USAGE}"

    async def run_undo(self, line: str) -> str:
        """Take back the newest changes that are in effect: those since the last message of the user that led to any."""
        call, flags = CURRENT.get(), set(line.split())
        if not flags <= {"--dry-run", "--force"}:
            return f"Usage: {UNDO_USAGE}"
        restorer, session, force = self._restorer(call), session_of(call), "--force" in flags
        try:
            log = session.journal.store.read(session.state.session_id) if session is not None else ()
            point = await restorer.find_undo_point(log, force=force)
            if point is None:
                return "There is nothing to undo: no change of a file by a tool of this session is in effect."
            if "--dry-run" in flags:
                return render_undo(point, await restorer.look_at(point, force=force), dry_run=True)
            require_rest(session)
            done = await restorer.undo(point, call or Call("", "undo", {}), force=force)
        except ToolError as error:
            return error.for_user
        if session is not None and done.plan:
            session.notify(f"The user took the files back to waypoint {render_restore(done, dry_run=False)}")
        return render_undo(point, done, dry_run=False)

    async def _diff(self, waypoint_id: str, call: Call | None, flags: set[str]) -> str | dict[str, Any]:
        """What restoring would change, with a diff; with `--json` as data."""
        from jaato.plugins.waypoint.preview import preview_files

        done = await self._restorer(call).look(waypoint_id, "user", force="--force" in flags)
        found = restore_result(done, dry_run=True)
        diff = await anyio.to_thread.run_sync(preview_files, self._changes, done, found["changed"])
        if "--json" in flags:
            return found | {"diff": diff}
        return "\n".join(
            filter(None, [render_restore(done, dry_run=True), *map(blank_unprintable, diff.splitlines())])
        )

    async def _restore(self, waypoint_id: str, call: Call | None, flags: set[str]) -> str:
        """Restore the files for the user, and notify the model."""
        restorer, force = self._restorer(call), "--force" in flags
        if "--dry-run" in flags:
            return render_restore(await restorer.look(waypoint_id, "user", force=force), dry_run=True)
        session = session_of(call)
        require_rest(session)
        done = await restorer.restore(waypoint_id, "user", call or Call("", "waypoint", {}), force=force)
        result = render_restore(done, dry_run=False)
        if session is not None and done.plan:
            session.notify(f"The user took the files back to waypoint {result}")
        return result


def session_of(call: Call | None) -> Any:
    """The session a command was typed in; None without one."""
    return call.services.get("session") if call is not None else None


def require_rest(session: Any) -> None:
    """Raise `WaypointRefused` while the agent works."""
    if session is not None and session.is_busy:
        raise WaypointRefused("The agent is at work; stop it, or wait until its turn is over.")


def render_info(found: dict[str, Any]) -> str:
    """The details of a waypoint, for the terminal."""
    effects = found.get("restoring_would", {"changed": []})
    parts = [
        f"{found['waypoint_id']}  {found['description']}",
        f"  owner {found['owner']}, made {found['created_at'] or 'at the start'}, after {found['parent'] or 'nothing'}",
        f"  made after {format_count(found['message_count'], 'message')}, in turn {found['turn_index']}",
    ]
    if found["preview"]:
        parts.append(f"  last message: {found['preview']}")
    if found["children"]:
        parts.append(f"  followed by {', '.join(found['children'])}")
    if "note" in found:
        parts.append(f"  {found['note']}")
    parts += [f"  {one['path']}: would be {one['change']}" for one in effects["changed"]]
    parts += [f"  {one['path']}: would be kept; {one['reason']}" for one in effects.get("kept", ())]
    return "\n".join(map(blank_unprintable, parts))


def render_tree(tree: Tree) -> str:
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
    words = [waypoint.id, f'"{blank_unprintable(waypoint.description)}"']
    if waypoint.id != START:
        words.append(f"[{waypoint.owner}{', ceiling' if waypoint.ceiling else ''}]")
    if waypoint.id == tree.current:
        words.append("◀ current" if tree.saved else "◀ current, some files differ")
    return " ".join(words)


def waypoint_row(waypoint: Waypoint, tree: Tree) -> dict[str, Any]:
    """A waypoint as data."""
    result: dict[str, Any] = {
        "waypoint_id": waypoint.id,
        "description": waypoint.description,
        "owner": waypoint.owner,
        "parent": waypoint.parent,
        "created_at": waypoint.created_at,
    }
    flags = {"ceiling": waypoint.ceiling, "current": waypoint.id == tree.current}
    return result | {name: True for name, value in flags.items() if value}


def waypoint_details(waypoint: Waypoint, tree: Tree, since: RestoreResult | None) -> dict[str, Any]:
    """Everything about a waypoint: the conversation then, and what going back would do where that is possible."""
    result = waypoint_row(waypoint, tree) | {
        "message_count": waypoint.message_count,
        "turn_index": waypoint.turn_index,
        "preview": waypoint.preview,
        "children": [one.id for one in tree.children(waypoint.id)],
    }
    return result if since is None else result | {"restoring_would": restore_effects(since)}


def restore_effects(done: RestoreResult) -> dict[str, Any]:
    """The files that a restore changes, and those it keeps."""
    changes = list_planned_changes(done.plan)
    kept = done.plan.kept
    result: dict[str, Any] = {
        "changed": [{"path": path, "change": change} for path, change in changes[:MAX_SHOWN]]
    }
    if kept:
        result["kept"] = [{"path": path, "reason": reason} for path, reason in kept[:MAX_SHOWN]]
    totals = {"changed_in_all": len(changes), "kept_in_all": len(kept)}
    return result | {name: number for name, number in totals.items() if number > MAX_SHOWN}


def restore_result(done: RestoreResult, *, dry_run: bool) -> dict[str, Any]:
    """The result of a restore for the model."""
    result: dict[str, Any] = {"waypoint_id": done.waypoint.id} | restore_effects(done)
    if dry_run:
        result |= {"dry_run": True, "makes_ceiling": done.unsaved}
    elif done.ceiling is not None:
        result["ceiling"] = done.ceiling.id
        result["note"] = (
            f"What the files held before is kept in {done.ceiling.id}; restore it to go there again."
        )
    if done.plan.kept:
        result["kept_note"] = (
            "These are as they were; no foreign change is overwritten. Ask the user what is to become of them."
        )
    return result


def render_undo(point: UndoPoint, done: RestoreResult, *, dry_run: bool) -> str:
    """The result of `undo` for the user."""
    since = f' since "{blank_unprintable(point.label)}"' if point.label else ""
    verb = "Would take" if dry_run else "Took"
    head = f"{verb} back what changed{since}:" if done.plan else f"Nothing was taken back{since}."
    lines = [head, *effect_lines(done)]
    if done.ceiling is not None:
        lines.append(f"`/waypoint restore {done.ceiling.id}` undoes this.")
    return "\n".join(lines)


def render_restore(done: RestoreResult, *, dry_run: bool) -> str:
    """The result of a restore for the user."""
    count = len(list_planned_changes(done.plan))
    verb = "would change" if dry_run else "changed"
    head = f"{done.waypoint.id}: {format_count(count, 'file')} {verb}"
    lines = [f"{head}:" if count else f"{head}.", *effect_lines(done)]
    if done.ceiling is not None:
        lines.append(f"What was there before is {done.ceiling.id}.")
    elif dry_run and done.unsaved:
        lines.append("What is there now would become a waypoint first.")
    return "\n".join(lines)


def effect_lines(done: RestoreResult) -> list[str]:
    """The files that a restore changes, and those it keeps with the reason, in lines for the user."""
    changes, kept = list_planned_changes(done.plan), done.plan.kept
    lines = [f"  {blank_unprintable(path)}: {change}" for path, change in changes[:MAX_SHOWN]]
    if len(changes) > MAX_SHOWN:
        lines.append(f"  and {len(changes) - MAX_SHOWN} more")
    if kept:
        lines.append(
            f"Kept as {'it is' if len(kept) == 1 else 'they are'} (--force overrules other people's changes):"
        )
        lines += [
            f"  {blank_unprintable(path)}: {blank_unprintable(reason)}" for path, reason in kept[:MAX_SHOWN]
        ]
    return lines
