"""Sessions of one name: what is said when a name is given that another session has."""

from __future__ import annotations

from jaato.abc.store import Store


def namesakes(store: Store, session_id: str, name: str | None) -> str:
    """What the user should know of a name that was just given to a session; empty when no other one has it."""
    others = [row for row in store.named(name) if row.id != session_id] if name else []
    if not others:
        return ""
    newest = f"{others[0].id} of {others[0].updated_at[:16].replace('T', ' ')} in {others[0].workspace}"
    more = " (and of others)" if len(others) > 1 else ""
    return f"{name!r} is the name of {newest}, too{more}: name either by its id, or give one another name."
