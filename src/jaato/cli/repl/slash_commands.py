"""The `/` commands of the terminal at a session, the same at a server and at a hub in this process."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from jaato.cli.connect import same_place
from jaato.cli.create_command import file_at
from jaato.cli.output.printer import closing_line, price_text, usage_text
from jaato.cli.output.renderers import sandbox_lines
from jaato.cli.output.terminal import one_line
from jaato.cli.output.transcript import file_text, plan_lines, root_plan
from jaato.errors import ConfigError, JaatoError, SessionNotFound
from jaato.protocol.commands import SessionFork, SessionUpdate, TaskStop, TurnContinue
from jaato.protocol.frames import Done, Opened
from jaato.settings import environment

if TYPE_CHECKING:
    from jaato.cli.output.terminal import Screen
    from jaato.cli.repl.session_output import SessionOutput
    from jaato.client.connection import Client
    from jaato.client.session import RemoteSession
    from jaato.protocol.commands import File, SessionCreate

COMMANDS = {
    "help": "this list",
    "tools": "[CATEGORY] the tools the agent has; * is declared to the model now",
    "model": "[NAME | PROVIDER NAME] the model that answers, or another one from now on",
    "plan": "the agent's plan",
    "tasks": "the background tasks; /tasks stop ID stops one",
    "mode": "[NAME] what runs without a question, or another mode: ask, accept-edits, auto, plan, read-only",
    "permissions": "[revoke ID | trust] what is allowed and denied for good; taken back, or the file read anew",
    "files": "the files the agent's tools have changed; not those that shell commands changed",
    "usage": "tokens, price and how full the context is",
    "session": "this session",
    "rename": "NAME give this session a name, or another one",
    "fork": "[NAME] go on in a new session that begins as this one is; this one stays",
    "sessions": "the sessions of this workspace",
    "who": "who else is here",
    "new": "[NAME] begin a new session (in jaato chat)",
    "resume": "ID go on with another session",
    "image": "FILE show the model an image with your next message",
    "save": "[FILE] save the session in its workspace, or write its events to a file, as JSON lines",
    "delete-session": "ID remove that file of a session; its log stays",
    "continue": "go on with a turn that was cut off; what had begun is not repeated",
    "stop": "stop what the agent is doing, as Ctrl-C does",
    "exit": "leave",
}
"""Every command with its arguments and meaning."""
ALIASES = {"quit": "exit", "?": "help", "": "help", "clear": "new", "cost": "usage", "status": "session"}
MODELS = "`jaato models` lists what there is."
MODELS_SHOWN = 40
NOT_SESSION = (
    "There is no /session {rest}: /session shows this one, /rename NAME names it, /fork [NAME] copies it."
)


@dataclass(frozen=True, slots=True)
class CommandContext:
    """What a command works on: the session at the terminal, and what the terminal itself can do."""

    client: Client
    session: RemoteSession
    screen: Screen
    output: SessionOutput
    creation: SessionCreate | None
    """How the session was created or opened from here; None at one that was only joined."""
    first_creation: SessionCreate | None
    """What the command line said."""
    attachments: list[File]
    """What goes with the next message."""
    set_creation: Callable[[SessionCreate], None]
    open_session: Callable[[SessionCreate | None, str | None], Awaitable[None]]
    """Go on in another session; where that fails, in this one."""
    leave: Callable[[], None]


async def run_slash_command(context: CommandContext, text: str) -> None:
    """Carry out one command; what fails is said. Raises `JaatoError`."""
    name, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    name = ALIASES.get(name, name)
    command = BUILTIN.get(name)
    try:
        if command is not None:
            await command(context, rest)
        else:
            context.screen.note(await context.session.execute(name, rest))
    except ConfigError as error:
        unknown = f"There is no command /{name}." in str(error)
        more = " /help lists them." if unknown else ""
        context.screen.note(f"{one_line(str(error), 1_000)}{more}", "yellow")
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        context.screen.note(f"{place}{error.strerror or error}", "red")


async def help_command(context: CommandContext, _rest: str) -> None:
    """/help"""
    for name, text in COMMANDS.items():
        context.screen.note(f"/{name:<15} {text}")
    for command in context.session.state.commands:
        if command.name not in COMMANDS:
            text = " ".join(filter(None, [command.parameters, command.description]))
            context.screen.note(one_line(f"/{command.name:<15} {text}", context.screen.width))


async def tools_command(context: CommandContext, rest: str) -> None:
    """/tools"""
    tools = context.session.info.tools if context.session.info is not None else []
    if not tools:
        context.screen.note("The session rests; its tools are known once it works.")
        return
    categories = sorted({tool.get("category", "") for tool in tools})
    if rest and rest not in categories:
        known = ", ".join(categories)
        context.screen.note(f"There is no category {one_line(rest, 60)}; there are {known}.", "yellow")
        return
    for category in [rest] if rest else categories:
        context.screen.note(category, "bold")
        for tool in tools:
            if tool.get("category", "") == category:
                sign = "*" if tool.get("declared") else " "
                line = f"{sign} {tool['name']}: {tool['description']}"
                context.screen.note(one_line(line, context.screen.width - 2))


async def model_command(context: CommandContext, rest: str) -> None:
    """/model"""
    state = context.session.state
    if not rest:
        context.screen.note(f"{state.provider} {state.model} answers.")
        others = [
            name
            for name in (context.session.info.models if context.session.info else [])
            if name != state.model
        ]
        context.screen.note(f"/model NAME: {', '.join(others[:MODELS_SHOWN])}" if others else MODELS)
        return
    words = rest.split()
    provider, model = (words[0], words[1]) if len(words) > 1 else (state.provider, words[0])
    await context.client.ask(SessionUpdate(session_id=context.session.id, provider=provider, model=model))
    if context.creation is not None:
        context.set_creation(msgspec.structs.replace(context.creation, provider=provider, model=model))
    context.screen.note(f"{model} answers from now on.")


async def mode_command(context: CommandContext, rest: str) -> None:
    """/mode"""
    before, context.output.mode = context.output.mode, rest or context.output.mode
    try:
        context.screen.note(await context.session.execute("mode", rest))
    except JaatoError:
        context.output.mode = before
        raise


async def plan_command(context: CommandContext, _rest: str) -> None:
    """/plan"""
    state = context.session.state
    plan_id = root_plan(state)
    if not plan_id:
        context.screen.note("There is no plan.")
        return
    for line in plan_lines(state.agents[state.root_agent_id].plans[plan_id]):
        context.screen.note(line)


async def tasks_command(context: CommandContext, rest: str) -> None:
    """/tasks"""
    verb, _, task_id = rest.partition(" ")
    if verb == "stop":
        await context.client.ask(TaskStop(session_id=context.session.id, task_id=task_id.strip()))
        context.screen.note(f"{one_line(task_id, 60)} was told to stop.")
        return
    tasks = context.session.state.tasks
    for task in tasks.values():
        context.screen.note(f"{task.task_id}  {task.status:<10} {task.tool}")
    if not tasks:
        context.screen.note("There are no background tasks.")


async def files_command(context: CommandContext, _rest: str) -> None:
    """/files"""
    state = context.session.state
    for file in state.files.values():
        context.screen.note(one_line(file_text(file), context.screen.width))
    if state.files_left_out:
        context.screen.note(f"and {state.files_left_out} more")
    if not state.files:
        context.screen.note("No tool has changed a file.")


async def usage_command(context: CommandContext, _rest: str) -> None:
    """/usage"""
    state = context.session.state
    cost = None if state.unpriced else state.cost_usd
    context.screen.note(f"session: {usage_text(state.usage)}, {price_text(cost)}, {state.turns} turns")
    if context.output.turns:
        context.screen.note(f"here:    {closing_line(context.output.turns, state.session_id)}")
    agent = state.agents.get(state.root_agent_id)
    if agent is not None:
        used, limit = agent.context_tokens, agent.context_limit
        of_all = f" of {limit:,} ({used * 100 / limit:.0f} %)" if limit else ""
        context.screen.note(f"context: {used:,} tokens{of_all}")


async def who_command(context: CommandContext, _rest: str) -> None:
    """/who"""
    clients = context.session.info.clients if context.session.info is not None else []
    for client in clients:
        own = " (this terminal)" if client.id == context.client.welcome.client_id else ""
        context.screen.note(f"{one_line(client.name, 80)}, {client.role}{own}")


async def image_command(context: CommandContext, rest: str) -> None:
    """/image"""
    if not rest:
        context.screen.note("Say which: /image FILE")
        return
    path = Path(os.path.expanduser(rest))  # noqa: ASYNC240 a moment's work
    context.attachments.append(file_at(path))
    context.screen.note(f"{path.name} goes with your next message.", "dim")


async def save_command(context: CommandContext, rest: str) -> None:
    """/save"""
    if not rest:
        context.screen.note(await context.session.execute("save"))
        return
    if not same_place(context.client.welcome.state_dir, environment()):
        raise ConfigError(
            f"`jaato sessions export {context.session.id} --to FILE` there writes the events to a file."
        )
    path = Path(os.path.expanduser(rest))  # noqa: ASYNC240 nothing is read
    with open(path, "xb") as file:  # noqa: ASYNC230 a moment's work, and the agent rests
        count = write_log(file, context.session.id, Path(context.session.state.workspace))
    context.screen.note(f"{count} events are in {path}.")


def write_log(file: IO[bytes], session_id: str, workspace: Path) -> int:
    """Write every event of a session of this machine as a line of JSON; gives their number."""
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


async def stop_command(context: CommandContext, _rest: str) -> None:
    """/stop"""
    await context.session.stop()


async def exit_command(context: CommandContext, _rest: str) -> None:
    """/exit"""
    context.leave()


async def session_command(context: CommandContext, rest: str) -> None:
    """/session"""
    verb, _, name = rest.partition(" ")
    if verb == "name" and name.strip():
        await rename_command(context, name.strip())
        return
    if rest:
        raise ConfigError(NOT_SESSION.format(rest=one_line(rest, 60)))
    state = context.session.state
    context.screen.note(f"{state.session_id} {state.name or '(no name)'}")
    context.screen.note(f"workspace {state.workspace}, {state.provider} {state.model}, {state.turns} turns")
    view = context.session.info.sandbox if context.session.info is not None else None
    for line in sandbox_lines(view) if view is not None else ():
        context.screen.note(line)


async def rename_command(context: CommandContext, rest: str) -> None:
    """/rename"""
    if not rest:
        raise ConfigError("Say which name: /rename NAME")
    done = await context.client.ask(SessionUpdate(session_id=context.session.id, name=rest))
    context.screen.note(f"{context.session.id} is called {rest}.")
    if isinstance(done, Done) and done.notice:
        context.screen.note(done.notice, "yellow")


async def fork_command(context: CommandContext, rest: str) -> None:
    """/fork"""
    before = context.session.id
    made = await context.client.ask(SessionFork(session_id=before, name=rest or None))
    assert isinstance(made, Opened)
    await go_on_in(context, made.session_id)
    if made.notice:
        context.screen.note(made.notice, "yellow")
    context.screen.note(f"This is the fork; /resume {before} goes back.")


async def sessions_command(context: CommandContext, _rest: str) -> None:
    """/sessions"""
    found = await context.client.list(context.session.state.workspace, 20)
    for row in found.sessions:
        sign = "*" if row.id == context.session.id else " "
        context.screen.note(f"{sign} {row.id}  {row.updated_at[:16]}  {row.model}  {row.name or ''}")


async def new_command(context: CommandContext, rest: str) -> None:
    """/new"""
    if context.creation is None:
        raise JaatoError("This terminal has joined a session; `jaato chat` begins one.")
    said = (
        context.creation
        if context.creation.provider or context.first_creation is None
        else context.first_creation
    )
    begun = msgspec.structs.replace(
        said, session_id="", resume=False, name=rest or None, once=again(said.once)
    )
    await context.open_session(begun, None)


def again(once: str) -> str:
    """Another word for `once`, where one is used at all."""
    return os.urandom(12).hex() if once else ""


async def resume_command(context: CommandContext, rest: str) -> None:
    """/resume"""
    if not rest:
        await sessions_command(context, "")
        context.screen.note("Say which: /resume ID")
        return
    try:
        await go_on_in(context, rest)
    except SessionNotFound:
        context.screen.note(
            await context.session.execute("resume", rest), "dim"
        )  # a saved one is stored again
        await go_on_in(context, rest)


async def go_on_in(context: CommandContext, named: str) -> None:
    """Leave for another session. Raises `JaatoError`, and stays."""
    if context.creation is None:
        await context.open_session(None, named)
        return
    fresh = {"name": None, "provider": None, "model": None, "once": again(context.creation.once)}
    begun = msgspec.structs.replace(context.creation, session_id=named, resume=False, **fresh)
    await context.open_session(begun, None)


BUILTIN: dict[str, Callable[[Any, str], Awaitable[None]]] = {
    "help": help_command,
    "tools": tools_command,
    "model": model_command,
    "mode": mode_command,
    "plan": plan_command,
    "tasks": tasks_command,
    "files": files_command,
    "usage": usage_command,
    "session": session_command,
    "rename": rename_command,
    "fork": fork_command,
    "sessions": sessions_command,
    "who": who_command,
    "new": new_command,
    "resume": resume_command,
    "image": image_command,
    "save": save_command,
    "continue": continue_command,
    "stop": stop_command,
    "exit": exit_command,
}
