"""What a client says of a session it begins or goes on with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from jaato.abc.store import Store
from jaato.agent.turn import Limits
from jaato.errors import ConfigError, JaatoError, SessionNotFound
from jaato.protocol.commands import SessionCreate
from jaato.protocol.specs import ModelSettings
from jaato.runtime.blueprint import Blueprint


def blueprint_of(base: Blueprint, command: SessionCreate, workspace: Path) -> Blueprint:
    """The session a command describes, on the ground of what every session begins with. Raises `ConfigError`."""
    if command.max_turns is not None and command.max_turns < 1:
        raise ConfigError("max_turns is a number above zero.")
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
        read_only=command.read_only or base.read_only,
        plugins=tuple(command.plugins) if command.plugins is not None else base.plugins,
        limits=Limits(model_calls=command.max_turns) if command.max_turns else base.limits,
        settings=ModelSettings(
            temperature=command.temperature, effort=command.effort, response_schema=command.response_schema
        ),
    )


def stored_session(store: Store, command: SessionCreate) -> str | None:
    """The id of the stored session a command goes on with, None where it begins one. Raises `SessionNotFound`."""
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
    newest = store.sessions(workspace, limit=1)
    if not newest:
        raise SessionNotFound(f"No session has worked in {workspace} yet; begin one without --continue.")
    return newest[0].id


def workspace_of(text: str) -> Path:
    """A workspace a client names. Raises `JaatoError` for what is no absolute path."""
    if not text or "\0" in text or not Path(text).is_absolute():
        raise JaatoError("Name the workspace by its absolute path.")
    return Path(text)
