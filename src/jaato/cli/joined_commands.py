"""The `/` commands at a session of the server."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaato.cli.joined_sessions import (
    fork_command,
    new_command,
    rename_command,
    resume_command,
    session_command,
    sessions_command,
)
from jaato.cli.narrate import closing_line, price_text, usage_text
from jaato.cli.screen import one_line
from jaato.cli.shown import file_text, plan_lines, root_plan
from jaato.errors import ConfigError, JaatoError
from jaato.protocol.commands import SessionUpdate, TaskStop, TurnContinue

if TYPE_CHECKING:
    from jaato.cli.joined import Joined

COMMANDS = {
    "help": "this list",
    "tools": "[CATEGORY] the tools the agent has; * is declared to the model now",
    "model": "[NAME | PROVIDER NAME] the model that answers, or another one from now on",
    "plan": "the agent's plan",
    "tasks": "the background tasks; /tasks stop ID stops one",
    "mode": "[NAME] what runs without a question, or another mode: ask, accept-edits, auto, plan, read-only",
    "permissions": "how lasting answers are listed and taken back",
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
    "save": "save the session as a file of its workspace",
    "delete-session": "ID remove that file of a session; its log stays",
    "continue": "go on with a turn that was cut off; what had begun is not repeated",
    "stop": "stop what the agent is doing, as Ctrl-C does",
    "exit": "leave",
}
"""Every command with its arguments and meaning."""
ALIASES = {"quit": "exit", "?": "help", "": "help", "clear": "new", "cost": "usage", "status": "session"}
MODELS = "`jaato models` lists what there is."
MODELS_SHOWN = 40
ELSEWHERE = {
    "permissions": "`jaato permissions` lists and revokes lasting answers, beside the server too.",
}


async def obey(joined: Joined, text: str) -> None:
    """Carry out one command; what fails is said. Raises `JaatoError`."""
    name, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    name = ALIASES.get(name, name)
    command = BUILTIN.get(name)
    try:
        if command is not None:
            await command(joined, rest)
        elif name in ELSEWHERE:
            joined.screen.note(ELSEWHERE[name])
        else:
            joined.screen.note(await joined.session.execute(name, rest))
    except ConfigError as error:
        unknown = f"There is no command /{name}." in str(error)
        more = " /help lists them." if unknown else ""
        joined.screen.note(f"{one_line(str(error), 1_000)}{more}", "yellow")
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        joined.screen.note(f"{place}{error.strerror or error}", "red")


async def help_command(joined: Joined, _rest: str) -> None:
    """/help"""
    for name, text in COMMANDS.items():
        joined.screen.note(f"/{name:<15} {text}")
    for command in joined.session.state.commands:
        if command.name not in COMMANDS:
            text = " ".join(filter(None, [command.parameters, command.description]))
            joined.screen.note(one_line(f"/{command.name:<15} {text}", joined.screen.width))


async def tools_command(joined: Joined, rest: str) -> None:
    """/tools"""
    tools = joined.session.info.tools if joined.session.info is not None else []
    if not tools:
        joined.screen.note("The session rests; its tools are known once it works.")
        return
    categories = sorted({tool.get("category", "") for tool in tools})
    if rest and rest not in categories:
        known = ", ".join(categories)
        joined.screen.note(f"There is no category {one_line(rest, 60)}; there are {known}.", "yellow")
        return
    for category in [rest] if rest else categories:
        joined.screen.note(category, "bold")
        for tool in tools:
            if tool.get("category", "") == category:
                sign = "*" if tool.get("declared") else " "
                line = f"{sign} {tool['name']}: {tool['description']}"
                joined.screen.note(one_line(line, joined.screen.width - 2))


async def model_command(joined: Joined, rest: str) -> None:
    """/model"""
    state = joined.session.state
    if not rest:
        joined.screen.note(f"{state.provider} {state.model} answers.")
        others = [
            name
            for name in (joined.session.info.models if joined.session.info else [])
            if name != state.model
        ]
        joined.screen.note(f"/model NAME: {', '.join(others[:MODELS_SHOWN])}" if others else MODELS)
        return
    words = rest.split()
    provider, model = (words[0], words[1]) if len(words) > 1 else (state.provider, words[0])
    await joined.client.ask(SessionUpdate(session_id=joined.session.id, provider=provider, model=model))
    joined.screen.note(f"{model} answers from now on.")


async def mode_command(joined: Joined, rest: str) -> None:
    """/mode"""
    before, joined.hearing.mode = joined.hearing.mode, rest or joined.hearing.mode
    try:
        joined.screen.note(await joined.session.execute("mode", rest))
    except JaatoError:
        joined.hearing.mode = before
        raise


async def plan_command(joined: Joined, _rest: str) -> None:
    """/plan"""
    state = joined.session.state
    plan_id = root_plan(state)
    if not plan_id:
        joined.screen.note("There is no plan.")
        return
    for line in plan_lines(state.agents[state.root_agent_id].plans[plan_id]):
        joined.screen.note(line)


async def tasks_command(joined: Joined, rest: str) -> None:
    """/tasks"""
    verb, _, task_id = rest.partition(" ")
    if verb == "stop":
        await joined.client.ask(TaskStop(session_id=joined.session.id, task_id=task_id.strip()))
        joined.screen.note(f"{one_line(task_id, 60)} was told to stop.")
        return
    tasks = joined.session.state.tasks
    for task in tasks.values():
        joined.screen.note(f"{task.task_id}  {task.status:<10} {task.tool}")
    if not tasks:
        joined.screen.note("There are no background tasks.")


async def files_command(joined: Joined, _rest: str) -> None:
    """/files"""
    state = joined.session.state
    for file in state.files.values():
        joined.screen.note(one_line(file_text(file), joined.screen.width))
    if state.files_left_out:
        joined.screen.note(f"and {state.files_left_out} more")
    if not state.files:
        joined.screen.note("No tool has changed a file.")


async def usage_command(joined: Joined, _rest: str) -> None:
    """/usage"""
    state = joined.session.state
    cost = None if state.unpriced else state.cost_usd
    joined.screen.note(f"session: {usage_text(state.usage)}, {price_text(cost)}, {state.turns} turns")
    if joined.hearing.turns:
        joined.screen.note(f"here:    {closing_line(joined.hearing.turns, state.session_id)}")
    agent = state.agents.get(state.root_agent_id)
    if agent is not None:
        limit = f" of {agent.context_limit:,}" if agent.context_limit else ""
        joined.screen.note(f"context: {agent.context_tokens:,}{limit} tokens")


async def who_command(joined: Joined, _rest: str) -> None:
    """/who"""
    clients = joined.session.info.clients if joined.session.info is not None else []
    for client in clients:
        own = " (this terminal)" if client.id == joined.client.welcome.client_id else ""
        joined.screen.note(f"{one_line(client.name, 80)}, {client.role}{own}")


async def image_command(joined: Joined, rest: str) -> None:
    """/image"""
    from jaato.cli.asked import file_at

    if not rest:
        joined.screen.note("Say which: /image FILE")
        return
    path = Path(os.path.expanduser(rest))  # noqa: ASYNC240 a moment's work
    joined.files.append(file_at(path))
    joined.screen.note(f"{path.name} goes with your next message.", "dim")


async def save_command(joined: Joined, rest: str) -> None:
    """/save"""
    if rest:
        raise ConfigError(
            f"`jaato sessions export {joined.session.id} --to FILE` writes the events to a file."
        )
    joined.screen.note(await joined.session.execute("save"))


async def continue_command(joined: Joined, _rest: str) -> None:
    """/continue"""
    await joined.client.ask(TurnContinue(session_id=joined.session.id))


async def stop_command(joined: Joined, _rest: str) -> None:
    """/stop"""
    await joined.session.stop()


async def exit_command(joined: Joined, _rest: str) -> None:
    """/exit"""
    joined.leaving = True


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
