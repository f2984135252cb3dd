"""The `/` commands of the REPL."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

import msgspec

from jaato.cli.arguments.values import Attachment, absolute_model, read_attachment
from jaato.cli.connect import same_state_dir
from jaato.cli.output.console import one_line
from jaato.cli.output.transcript import file_text, plans_lines
from jaato.cli.output.wording import sandbox_lines, summary_line, usage_text
from jaato.errors import ConfigError, JaatoError, SessionNotFound
from jaato.protocol.commands import SessionFork, SessionUpdate, TaskStop, TurnContinue
from jaato.protocol.frames import Done, Opened
from jaato.settings import environment
from jaato.settings.budgets import format_count, price_text

if TYPE_CHECKING:
    from jaato.cli.output.console import Look
    from jaato.client.connection import Client
    from jaato.client.session import RemoteSession
    from jaato.protocol.commands import SessionCreate
    from jaato.protocol.events import TurnCompleted

ALIASES = {
    "quit": "exit",
    "?": "help",
    "": "help",
    "clear": "new",
    "cost": "usage",
    "status": "session",
    "models": "model",
    "rewind": "undo",
}
AT_REST = {"model", "new", "resume", "fork", "continue", "delete-session"}
"""Commands that are not available during a turn."""
MAX_MODELS = 40
CONTINUE_S = 2.0
"""How long the prompt waits for a turn that is resumed; it may fail at once."""


class NoteWriter(Protocol):
    """Where commands write lines."""

    @property
    def width(self) -> int:
        """The columns of a line."""

    def note(self, text: str, look: Look = "") -> None:
        """Write a line."""


class Shown(Protocol):
    """What is known of the session where it is shown."""

    mode: str
    turns: list[TurnCompleted]

    async def wait_for_change(self) -> None:
        """Wait until the agent starts or stops working, or asks."""


class CommandContext(Protocol):
    """What a command works on: the REPL, or the full-screen client."""

    client: Client
    session: RemoteSession
    creation: SessionCreate | None
    """How the session was created or resumed; None when it was only attached to."""
    first_creation: SessionCreate | None
    """`creation` as given on the command line."""

    def attach(self, attachment: Attachment) -> None:
        """Attach a file to the next message."""

    @property
    def console(self) -> NoteWriter:
        """Where the command writes."""

    @property
    def output(self) -> Shown:
        """What is shown."""

    async def open_session(self, creation: SessionCreate | None, session_id: str | None) -> None:
        """Switch to another session. Raises `JaatoError`, and stays in this one."""

    async def end_input(self) -> None:
        """Leave the REPL, as at the end of input."""


Command = Callable[[CommandContext, str], Awaitable[None]]


def is_unknown(context: CommandContext, name: str) -> bool:
    """Whether the session has no command of this name, so that it may be a stored prompt; False until its commands are known."""
    found = context.session.state.commands
    return bool(found) and all(command.is_prompt or command.name != name for command in found)


async def run_slash_command(context: CommandContext, text: str, *, working: bool = False) -> bool:
    """Run one command and print its failure; False when there is none, as for a stored prompt. Raises `JaatoError`."""
    name, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    name = ALIASES.get(name, name)
    _, command = COMMANDS.get(name, ("", None))
    if name not in COMMANDS and is_unknown(context, name):
        return False
    if working and name in AT_REST:
        context.console.note(f"/{name} is not available during a turn; /stop or Ctrl-C interrupts it.", "dim")
        return True
    try:
        if command is not None:
            await command(context, rest)
        else:
            context.console.note(await context.session.execute(name, rest))
    except ConfigError as error:
        if name not in COMMANDS and is_unknown(context, name):
            return False
        context.console.note(one_line(str(error), 1_000), "yellow")
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        context.console.note(f"{place}{error.strerror or error}", "red")
    return True


async def help_command(context: CommandContext, _rest: str) -> None:
    """/help"""
    for name, (text, _) in COMMANDS.items():
        context.console.note(f"/{name:<15} {text}")
    for command in context.session.state.commands:
        if command.name not in COMMANDS:
            text = " ".join(filter(None, [command.parameters, command.description]))
            context.console.note(f"/{command.name:<15} {one_line(text, context.console.width - 17)}")


async def tools_command(context: CommandContext, rest: str) -> None:
    """/tools"""
    tools = context.session.info.tools if context.session.info is not None else []
    if not tools:
        context.console.note("The session is not loaded; its tools are available after the next message.")
        return
    categories = sorted({tool.get("category", "") for tool in tools})
    if rest and rest not in categories:
        known = ", ".join(categories)
        context.console.note(f"There is no category {one_line(rest, 60)}; there are {known}.", "yellow")
        return
    for category in [rest] if rest else categories:
        context.console.note(category, "bold")
        for tool in tools:
            if tool.get("category", "") == category:
                mark = "*" if tool.get("declared") else " "
                line = f"{mark} {tool['name']}: {tool['description']}"
                context.console.note(one_line(line, context.console.width - 2))


async def model_command(context: CommandContext, rest: str) -> None:
    """/model"""
    state, info = context.session.state, context.session.info
    if not rest:
        context.console.note(f"current model: {state.provider} {state.model}")
        others = [name for name in (info.models if info is not None else []) if name != state.model]
        context.console.note(
            f"/model NAME: {', '.join(others[:MAX_MODELS])}" if others else "`jaato models` lists the models."
        )
        return
    words = rest.split()
    provider, model = (words[0], words[1]) if len(words) > 1 else (state.provider, words[0])
    if context.client.welcome.state_dir:
        model = absolute_model(provider, model) or model
    await context.client.ask(SessionUpdate(session_id=context.session.id, provider=provider, model=model))
    if context.creation is not None:
        context.creation = msgspec.structs.replace(context.creation, provider=provider, model=model)
    context.console.note(f"switched to {model}")


async def mode_command(context: CommandContext, rest: str) -> None:
    """/mode"""
    before, context.output.mode = context.output.mode, rest or context.output.mode
    try:
        context.console.note(await context.session.execute("mode", rest))
    except JaatoError:
        context.output.mode = before
        raise


async def plan_command(context: CommandContext, _rest: str) -> None:
    """/plan"""
    for line in list(plans_lines(context.session.state)) or ["There is no plan."]:
        context.console.note(line)


async def tasks_command(context: CommandContext, rest: str) -> None:
    """/tasks"""
    verb, _, task_id = rest.partition(" ")
    if verb == "stop":
        await context.client.ask(TaskStop(session_id=context.session.id, task_id=task_id.strip()))
        context.console.note(f"stopping {one_line(task_id, 60)}")
        return
    context.console.note(await context.session.execute("tasks", rest))


async def files_command(context: CommandContext, _rest: str) -> None:
    """/files"""
    state = context.session.state
    for file in state.files.values():
        context.console.note(one_line(file_text(file), context.console.width))
    if state.files_left_out:
        context.console.note(f"and {state.files_left_out} more")
    if not state.files:
        context.console.note("No tool has changed a file.")


async def usage_command(context: CommandContext, rest: str) -> None:
    """/usage"""
    for line in (await context.session.execute("usage", rest)).splitlines():
        context.console.note(line)
    state = context.session.state
    cost = None if state.unpriced else state.cost_usd
    context.console.note(
        f"session: {usage_text(state.usage)}, {price_text(cost)}, {format_count(state.turns, 'turn')}"
    )
    if context.output.turns:
        context.console.note(f"client:  {summary_line(context.output.turns, state.session_id)}")
    agent = state.agents.get(state.root_agent_id)
    if agent is not None:
        used, limit = agent.context_tokens, agent.context_limit
        of_all = f" of {limit:,} ({used * 100 / limit:.0f} %)" if limit else ""
        context.console.note(f"context: {used:,} tokens{of_all}")


async def who_command(context: CommandContext, _rest: str) -> None:
    """/who"""
    clients = context.session.info.clients if context.session.info is not None else []
    for client in clients:
        own = " (this terminal)" if client.id == context.client.welcome.client_id else ""
        context.console.note(f"{one_line(client.name, 80)}, {client.role}{own}")


async def image_command(context: CommandContext, rest: str) -> None:
    """/image"""
    if not rest:
        raise ConfigError("Name a file: /image FILE")
    path = Path(os.path.expanduser(rest))  # noqa: ASYNC240 a moment's work
    context.attach(Attachment(path.absolute(), read_attachment(path)))  # noqa: ASYNC240 no access
    context.console.note(f"{path.name} is attached to your next message.", "dim")


async def save_command(context: CommandContext, rest: str) -> None:
    """/save"""
    if not rest:
        context.console.note(await context.session.execute("save"))
        return
    if not same_state_dir(context.client.welcome.state_dir, environment()):
        raise ConfigError(
            f"The session is stored elsewhere: run `jaato sessions export {context.session.id} --to FILE` on that machine."
        )
    path = Path(os.path.expanduser(rest))  # noqa: ASYNC240 nothing is read
    with open(path, "xb") as file:  # noqa: ASYNC230 a moment's work, and the agent rests
        count = write_log(file, context.session.id, Path(context.session.state.workspace))
    context.console.note(f"wrote {format_count(count, 'event')} to {path}")


def write_log(file: IO[bytes], session_id: str, workspace: Path) -> int:
    """Write every event of a stored session as a JSON line; return their number."""
    from jaato.cli.output.transcript import write_events
    from jaato.runtime.secrets import collect_secrets
    from jaato.runtime.session_options import SessionOptions, settings_for
    from jaato.runtime.session_store import open_store

    settings = settings_for(SessionOptions(workspace=workspace), workspace)
    store = open_store(settings)
    try:
        return write_events(store, session_id, file, collect_secrets(settings, workspace=workspace))
    finally:
        store.close()


async def continue_command(context: CommandContext, _rest: str) -> None:
    """/continue"""
    await context.client.ask(TurnContinue(session_id=context.session.id))
    with suppress(TimeoutError):
        async with asyncio.timeout(CONTINUE_S):
            await context.output.wait_for_change()


async def stop_command(context: CommandContext, _rest: str) -> None:
    """/stop"""
    await context.session.stop()


async def exit_command(context: CommandContext, _rest: str) -> None:
    """/exit"""
    await context.end_input()


async def session_command(context: CommandContext, rest: str) -> None:
    """/session"""
    verb, _, name = rest.partition(" ")
    if verb == "name" and name.strip():
        await rename_command(context, name.strip())
        return
    if rest:
        raise ConfigError(
            f"There is no /session {one_line(rest, 60)}: /session shows this session, /rename NAME renames it, "
            "/fork [NAME] copies it."
        )
    state, info = context.session.state, context.session.info
    context.console.note(f"{state.session_id} {state.name or '(no name)'}")
    turns = format_count(state.turns, "turn")
    context.console.note(f"workspace {state.workspace}, {state.provider} {state.model}, {turns}")
    for line in sandbox_lines(info.sandbox) if info is not None and info.sandbox is not None else ():
        context.console.note(line)


async def rename_command(context: CommandContext, rest: str) -> None:
    """/rename"""
    if not rest:
        raise ConfigError("Give a name: /rename NAME")
    done = await context.client.ask(SessionUpdate(session_id=context.session.id, name=rest))
    context.console.note(f"renamed {context.session.id} to {rest}")
    if isinstance(done, Done) and done.notice:
        context.console.note(done.notice, "yellow")


async def fork_command(context: CommandContext, rest: str) -> None:
    """/fork"""
    before = context.session.id
    fork = await context.client.ask(SessionFork(session_id=before, name=rest or None))
    assert isinstance(fork, Opened)
    await switch_to(context, fork.session_id)
    if fork.notice:
        context.console.note(fork.notice, "yellow")
    context.console.note(f"This is the fork; /resume {before} returns to the original.")


async def sessions_command(context: CommandContext, _rest: str) -> None:
    """/sessions"""
    found = await context.client.list(context.session.state.workspace, 20)
    for row in found.sessions:
        mark = "*" if row.id == context.session.id else " "
        head = f"{mark} {row.id}  {row.updated_at[:16].replace('T', ' ')}  {row.model}  "
        title = one_line(row.name or row.description or "", max(20, context.console.width - len(head)))
        context.console.note(f"{head}{title}".rstrip())


async def new_command(context: CommandContext, rest: str) -> None:
    """/new"""
    creation = context.creation
    if creation is None:
        raise JaatoError("/new is not available in an attached session; `jaato chat` starts a new one.")
    if not creation.provider and context.first_creation is not None:
        creation = context.first_creation
    new = msgspec.structs.replace(
        creation, session_id="", resume=False, name=rest or None, once=new_key(creation.once)
    )
    await context.open_session(new, None)


def new_key(once: str) -> str:
    """Another idempotency key, if one is used."""
    return os.urandom(12).hex() if once else ""


async def resume_command(context: CommandContext, rest: str) -> None:
    """/resume"""
    if not rest:
        await sessions_command(context, "")
        context.console.note("Choose one: /resume ID, or the beginning of an ID")
        return
    try:
        await switch_to(context, rest)
    except SessionNotFound:  # it may be saved in the workspace
        context.console.note(await context.session.execute("resume", rest), "dim")
        await switch_to(context, rest)


async def switch_to(context: CommandContext, session_id: str) -> None:
    """Switch to another session. Raises `JaatoError`, and stays in this one."""
    if context.creation is None:
        await context.open_session(None, session_id)
        return
    creation = msgspec.structs.replace(
        context.creation,
        session_id=session_id,
        resume=False,
        name=None,
        provider=None,
        model=None,
        once=new_key(context.creation.once),
    )
    await context.open_session(creation, None)


COMMANDS: dict[str, tuple[str, Command | None]] = {
    "help": ("list the commands", help_command),
    "tools": ("[CATEGORY] list the tools; * marks those declared to the model", tools_command),
    "model": ("[NAME | PROVIDER NAME] show or switch the model", model_command),
    "plan": ("show the plans of the agent and its subagents", plan_command),
    "tasks": ("[ID | stop ID] list the background tasks, show the output of one or stop it", tasks_command),
    "mode": (
        "[NAME] show or switch the permission mode: ask, accept-edits, auto, plan, read-only",
        mode_command,
    ),
    "permissions": (
        "[revoke ID | trust] show the permissions; revoke a grant, or trust the permission file",
        None,
    ),
    "files": ("list the files that tools changed, except those changed by shell commands", files_command),
    "usage": ("[agent | model | tool | day] show tokens, price and the size of the context", usage_command),
    "context": ("[json] show what the model's context consists of", None),
    "compact": ("[WORDS] compact the context now; WORDS say what the summary is to keep", None),
    "pin": ("[TEXT | remove ID] pin a text that every compaction keeps; list the pins", None),
    "session": ("show this session", session_command),
    "rename": ("NAME rename this session", rename_command),
    "fork": ("[NAME] continue in a copy of this session", fork_command),
    "sessions": ("list the sessions of this workspace", sessions_command),
    "who": ("list the connected clients", who_command),
    "new": ("[NAME] start a new session (in jaato chat)", new_command),
    "resume": ("ID switch to another session", resume_command),
    "image": ("FILE attach an image to your next message", image_command),
    "save": (
        "[FILE] save the session in its workspace, or write its events to a file, as JSON lines",
        save_command,
    ),
    "delete-session": ("ID delete the saved file of a session; its log is kept", None),
    "continue": ("resume an interrupted turn; calls that had started are not repeated", continue_command),
    "stop": ("interrupt the agent, like Ctrl-C", stop_command),
    "exit": ("leave", exit_command),
}
"""Every command: its arguments and meaning, and its function; those without one are run by the session."""
