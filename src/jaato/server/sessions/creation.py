"""Creates a session for a client or resumes one, with the options that hold while the client is connected."""

from __future__ import annotations

from pathlib import Path

import anyio
import msgspec
from msgspec.structs import replace

from jaato.abc.store import Store
from jaato.agent.turn import Limits
from jaato.errors import ConfigError, JaatoError, SessionBusy, SessionNotFound
from jaato.protocol.codec import encode
from jaato.protocol.commands import SessionCreate
from jaato.protocol.events import InitProgress
from jaato.protocol.frames import Opened
from jaato.protocol.ids import id_of
from jaato.protocol.specs import ModelSettings
from jaato.runtime.session_options import Progress, SessionOptions
from jaato.runtime.session_store import find_newest_session
from jaato.runtime.user_commands import keep_mode
from jaato.server.sessions.hub import Hub
from jaato.server.sessions.idempotency import remember
from jaato.server.sessions.listing import is_stored
from jaato.server.sessions.room import Room
from jaato.server.sessions.session_pool import RECONNECT_S, Live, Resume
from jaato.server.sessions.subscription import Wire, encode_frame
from jaato.settings.budgets import parse_budgets

GIVEN_SERVERS_WITHIN_S = 2.0
"""How long a client waits for the MCP servers that it gives a session: one that is there by then has its tools declared."""
MAX_WORD_CHARS = 200
REMEMBERED = 10_000
"""The most remembered commands with `once`."""
SHOWN_DAMAGED = 5
"""The most damaged events that a notice names."""


def blueprint_of(base: SessionOptions, command: SessionCreate, workspace: Path) -> SessionOptions:
    """The options of a session from a command and the defaults. Raises `ConfigError`."""
    if command.max_turns is not None and command.max_turns < 1:
        raise ConfigError("max_turns is a number above zero.")
    if command.max_output_tokens is not None and command.max_output_tokens < 1:
        raise ConfigError("max_output_tokens is a number above zero.")
    parse_budgets(command.budget)
    program = replace(
        base.program,
        mcp_servers={**base.program.mcp_servers, **command.mcp_servers},
        servers_within_s=GIVEN_SERVERS_WITHIN_S,
    )
    if command.history:
        from jaato.agent.history import parse_history  # few sessions begin with one

        program = replace(program, history=parse_history(command.history))
    return replace(
        base,
        workspace=workspace,
        name=command.name,
        provider=command.provider or base.provider,
        model=command.model or base.model,
        base_url=command.base_url or base.base_url,
        interface=command.interface or base.interface,
        prompt=command.system_prompt,
        allow=(*base.allow, *command.allow),
        deny=(*base.deny, *command.deny),
        yes=command.yes or base.yes,
        read_only=command.read_only or base.read_only or base.mode == "read-only",
        mode=command.mode or base.mode,
        sandbox=command.sandbox or base.sandbox,
        allow_domains=(*base.allow_domains, *command.allow_domains),
        add_dirs=(*base.add_dirs, *command.add_dirs),
        plugins=tuple(command.plugins) if command.plugins is not None else base.plugins,
        budget=(*base.budget, *command.budget),
        limits=Limits(model_calls=command.max_turns) if command.max_turns else base.limits,
        settings=ModelSettings(
            temperature=command.temperature,
            effort=command.effort,
            max_output_tokens=command.max_output_tokens,
            stop=command.stop,
            response_schema=command.response_schema,
        ),
        program=program,
    )


def find_stored_session(store: Store, command: SessionCreate) -> str | None:
    """The id of the stored session that a command resumes, None for a new one. Raises `SessionNotFound`."""
    workspace = command.workspace
    if command.session_id and command.resume:
        raise ConfigError("session_id and resume are two ways to name a session; give one of them.")
    if command.session_id:
        try:
            return store.find(command.session_id, workspace)
        except SessionNotFound:
            return store.find(command.session_id)
    if not command.resume:
        return None
    return find_newest_session(store, workspace)


def workspace_of(text: str) -> Path:
    """A workspace a client names. Raises `JaatoError` for what is no absolute path."""
    if not text or "\0" in text or not Path(text).is_absolute():
        raise JaatoError("Name the workspace by its absolute path.")
    return Path(text)


def check_key(once: str) -> str:
    """The idempotency key of a command. Raises `ConfigError` for one that is too long."""
    if len(once) > MAX_WORD_CHARS:
        raise ConfigError(f"A word for `once` has at most {MAX_WORD_CHARS} characters.")
    return once


async def create(
    hub: Hub,
    command: SessionCreate,
    client_id: str = "",
    progress: Progress | None = None,
    *,
    wants_info: bool = False,
) -> tuple[Room, Opened]:
    """Create a session, or resume a stored one with the options of the command; the reply says whether an earlier command
    with the same `once` created it. `progress` is called during long steps; with `wants_info` its sandbox is found, too.
    Raises `SessionBusy` for one that is busy, `JaatoError`s."""
    if not check_key(command.once):
        return await create_or_resume(hub, command, client_id, None, progress, wants_info=wants_info)
    named = id_of("s", command.once)
    async with hub.lock(f"{named} is made"):
        return await create_or_resume(hub, command, client_id, named, progress, wants_info=wants_info)


def send_progress(wire: Wire, step: str, done: int, total: int | None) -> None:
    """Send a client the progress of the session that it creates."""
    event = InitProgress(session_id="", agent_id="", seq=0, step=step, done=done, total=total, unit="bytes")
    wire.write(encode_frame(encode(event)))


async def create_or_resume(
    hub: Hub,
    command: SessionCreate,
    client_id: str,
    named: str | None,
    progress: Progress | None,
    *,
    wants_info: bool,
) -> tuple[Room, Opened]:
    """As `create`; `named` is the id for a new session whose command may be repeated, also after a crash."""
    key = ("create", command.once)
    made = hub.once.get(key) if command.once else None
    if made is not None and not is_stored(hub.store, made):
        made = None  # it was deleted
    if made is None and named is not None and not command.session_id and not command.resume:
        made = named if is_stored(hub.store, named) else None
    live = hub.pool.loaded.get(made or "")
    if made and (live is not None or not command.passing):
        room = await hub.room(made)
        if live is not None and live.visit:
            live.visitor = client_id  # its connection was lost; the visit continues
        opened = Opened(made, room.state.seq, room.state.name, again=True)
        return room, msgspec.structs.replace(opened, agent_id=room.state.root_agent_id)
    chosen: list[tuple[str, str]] = []
    blueprint = replace(
        blueprint_of(hub.base, command, workspace_of(command.workspace)),
        id=named,
        progress=progress,
        chosen=lambda choice, model: chosen.append((model, choice.reason)),
    )
    stored = made or find_stored_session(hub.store, command)
    if stored is None:
        await hub.pool.evict_surplus(hub.evict)
        live = await hub.pool.create(
            blueprint, command.environment, alone=command.alone, wants_info=wants_info
        )
        room, before = await hub.room(live.session.state.session_id), 0
        hub.attach_live(room, live)
        mode = "read-only" if command.read_only else command.mode
        if mode is not None and not command.passing:
            keep_mode(live.session, mode)
    else:
        room, before, live = await resume_with(hub, stored, command, blueprint, wants_info=wants_info)
    if command.passing:
        live.visit, live.visitor = command.once or client_id, client_id
    if command.once and room.session_id != named:  # else its id says it
        remember(hub.once, key, room.session_id, REMEMBERED)
    state = live.session.state
    model, reason = chosen[0] if chosen else (state.model, "")
    opened = Opened(room.session_id, room.state.seq, room.state.name, before=before)
    return room, msgspec.structs.replace(
        opened,
        provider=state.provider,
        model=model,
        reason=reason,
        agent_id=room.state.root_agent_id,
        workspace=state.workspace,
        notice=format_notice(live),
    )


def format_notice(live: Live) -> str:
    """What the client should know of a session: settings without effect and damaged events, one a line."""
    damaged = live.session.journal.damaged
    lines = [
        f"event {event.seq} of this session is damaged: {event.reason}" for event in damaged[:SHOWN_DAMAGED]
    ]
    if len(damaged) > SHOWN_DAMAGED:
        lines.append(f"{len(damaged) - SHOWN_DAMAGED:,} more events of this session are damaged")
    return "\n".join([*live.entry.factory.settings.notes, *lines])


async def resume_with(
    hub: Hub, session_id: str, command: SessionCreate, blueprint: SessionOptions, *, wants_info: bool
) -> tuple[Room, int, Live]:
    """Resume a stored session with the options of a client."""
    live = hub.pool.loaded.get(session_id)
    at_work = f"The session {session_id} is at work in the server; `jaato attach {session_id}` joins it."
    if live is not None and not live.is_evictable:
        raise SessionBusy(at_work)
    await hub.evict(session_id)
    room = await hub.room(session_id)
    room.catch_up()
    before = room.state.seq
    how = Resume(environment=command.environment, alone=command.alone, blueprint=blueprint)
    live = await hub.load(session_id, how, wants_info=wants_info)
    if live.how is not how:
        raise SessionBusy(at_work)  # another client was faster, under other rules
    return await hub.room(session_id), before, live


async def end_visit(hub: Hub, session_id: str, client_id: str, *, stop: bool) -> None:
    """End a client's visit: its options for a session no longer hold. With `stop` background tasks are stopped at once;
    without, the connection was lost: the client may reconnect, and the session runs while it has work."""
    live = hub.pool.loaded.get(session_id)
    if live is None or not live.visit or live.visitor != client_id:
        return
    live.visitor, live.left_since = "", anyio.current_time() - (RECONNECT_S if stop else 0)
    while stop and (live.session.is_busy or live.uses) and live.session.state.open_turn is None:  # noqa: ASYNC110
        await anyio.sleep(0.002)  # its turn is over, and about to be left
    if stop and not live.session.is_busy:
        await hub.evict(session_id)


async def load_interrupted(hub: Hub, session_id: str) -> None:
    """Load an interrupted session that no other process has, so that its questions are asked. Raises
    `JaatoError`s."""
    if hub.store.holder(session_id) is None and not hub.store.read_only and not hub.closing:
        await hub.load(session_id)
