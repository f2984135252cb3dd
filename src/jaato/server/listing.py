"""What a client is shown of sessions and tools."""

from __future__ import annotations

from collections.abc import Mapping

from jaato.abc.store import Store
from jaato.protocol.specs import SessionEntry
from jaato.server.live import Live


def entries(
    store: Store,
    lives: Mapping[str, Live],
    workspace: str | None = None,
    limit: int = 50,
    before: str | None = None,
) -> tuple[list[SessionEntry], str | None]:
    """One page of stored sessions, newest first, and the cursor of the next one."""
    rows = store.sessions(workspace, limit=limit + 1, before=before)
    found = [
        SessionEntry(
            id=row.id,
            workspace=row.workspace,
            name=row.name,
            description=row.description,
            provider=row.provider,
            model=row.model,
            created_at=row.created_at,
            updated_at=row.updated_at,
            last_seq=row.last_seq,
            is_loaded=row.id in lives,
            busy=(live := lives.get(row.id)) is not None and live.session.busy,
        )
        for row in rows[:limit]
    ]
    return found, rows[limit - 1].cursor if len(rows) > limit else None


def tools_of(live: Live) -> list[dict[str, object]]:
    """The tools of a session, as `session.info` has them."""
    session = live.session
    return [
        {
            "name": tool.name,
            "description": tool.spec.description.partition("\n")[0][:200],
            "enabled": tool.name not in session.state.disabled,
            "plugin": tool.plugin,
            "category": tool.spec.category,
            "declared": session.is_active(tool),
        }
        for tool in session.catalog
    ]
