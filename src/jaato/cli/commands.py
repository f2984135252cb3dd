"""The `/` commands of a chat."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaato.cli.confined import sandbox_lines
from jaato.cli.kin import Kin
from jaato.cli.narrate import closing_line, price_text, usage_text
from jaato.cli.screen import one_line
from jaato.errors import ConfigError, JaatoError
from jaato.protocol.commands import CommandExecute
from jaato.protocol.events import SessionUpdated
from jaato.protocol.ids import session_name
from jaato.runtime.modes import sandbox_view
from jaato.runtime.namesakes import namesakes
from jaato.tools.access import grant_text

if TYPE_CHECKING:
    from jaato.agent.session import Session
    from jaato.cli.chat import Chat

COMMANDS = {
    "help": "this list",
    "tools": "[CATEGORY] the tools the agent has; * is declared to the model now",
    "model": "[NAME | PROVIDER NAME] the model that answers, or another one from now on",
    "plan": "the agent's plan",
    "tasks": "the background tasks; /tasks stop ID stops one",
    "mode": "[NAME] what runs without a question, or another mode: ask, accept-edits, auto, plan, read-only",
    "permissions": "what is allowed and denied for good; revoke ID takes an answer back, trust reads the file anew",
    "usage": "tokens, price and how full the context is",
    "session": "this session",
    "rename": "NAME give this session a name, or another one",
    "fork": "[NAME] go on in a new session that begins as this one is; this one stays",
    "sessions": "the sessions of this workspace",
    "new": "[NAME] begin a new session",
    "resume": "ID go on with another session",
    "image": "FILE show the model an image with your next message",
    "save": "[FILE] save the session in the workspace, or write its events to a file, as JSON lines",
    "exit": "leave",
}
"""Every command with its arguments and meaning."""
NOT_SESSION = (
    "There is no /session {rest}: /session shows this one, /rename NAME names it, /fork [NAME] copies it."
)
ALIASES = {"quit": "exit", "?": "help", "": "help", "clear": "new", "cost": "usage", "status": "session"}


async def obey(chat: Chat, text: str) -> None:
    """Carry out one command; what fails is said, and the chat goes on."""
    name, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    name = ALIASES.get(name, name)
    try:
        command = BUILTIN.get(name)
        if command is not None:
            await command(chat, rest)
        elif not await plugin_command(chat, name, rest):
            chat.screen.note(f"There is no command /{one_line(name, 60)}; /help lists them.", "yellow")
    except JaatoError as error:
        chat.screen.note(str(error), "red")
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        chat.screen.note(f"{place}{error.strerror or error}", "red")


async def help_command(chat: Chat, _rest: str) -> None:
    """/help"""
    for name, text in COMMANDS.items():
        chat.screen.note(f"/{name:<12} {text}")
    for command in chat.session.services["registry"].get_exposed_user_commands():
        if command.name not in COMMANDS:
            chat.screen.note(f"/{command.name:<12} {command.description}")


async def tools_command(chat: Chat, rest: str) -> None:
    """/tools"""
    catalog = chat.session.catalog
    if rest and not catalog.in_category(rest):
        known = ", ".join(sorted(catalog.categories))
        chat.screen.note(f"There is no category {one_line(rest, 60)}; there are {known}.", "yellow")
        return
    for category in sorted(catalog.categories) if not rest else [rest]:
        chat.screen.note(category, "bold")
        for tool in catalog.in_category(category):
            sign = "*" if chat.session.is_active(tool) else " "
            chat.screen.note(one_line(f"{sign} {tool.name}: {tool.spec.description}", chat.screen.width - 2))


async def model_command(chat: Chat, rest: str) -> None:
    """/model"""
    state = chat.session.state
    if not rest:
        chat.screen.note(f"{state.provider} {state.model}; `jaato models` lists what there is")
        return
    words = rest.split()
    provider, model = (words[0], words[1]) if len(words) > 1 else (state.provider, words[0])
    if await chat.open(provider=provider, model=model):
        chat.screen.note(f"{model} answers from now on.")


async def plan_command(chat: Chat, _rest: str) -> None:
    """/plan"""
    plan = chat.session.state.plan
    if plan is None:
        chat.screen.note("There is no plan.")
        return
    chat.screen.note(f"{plan.title} ({plan.status})", "bold")
    signs = {"completed": "x", "in_progress": ">", "failed": "!", "skipped": "-"}
    for step in plan.steps:
        chat.screen.note(f"  [{signs.get(step.status, ' ')}] {step.description}")


async def tasks_command(chat: Chat, rest: str) -> None:
    """/tasks"""
    verb, _, task_id = rest.partition(" ")
    if verb == "stop":
        task = chat.session.tasks.get(task_id.strip())
        if task is None:
            chat.screen.note("There is no such task; /tasks lists them.", "yellow")
        else:
            task.cancel()
            chat.screen.note(f"{task.id} was told to stop.")
        return
    tasks = chat.session.tasks.all()
    for task in tasks:
        chat.screen.note(f"{task.id}  {task.status.value:<10} {task.tool}")
    if not tasks:
        chat.screen.note("There are no background tasks.")


async def mode_command(chat: Chat, rest: str) -> None:
    """/mode"""
    chat.screen.note(await chat.session.dispatch(CommandExecute(name="mode", arguments=rest)))


async def permissions_command(chat: Chat, rest: str) -> None:
    """/permissions"""
    gate = chat.session.gate
    verb, _, grant_id = rest.partition(" ")
    if verb == "revoke":
        gate.revoke(grant_id.strip())
        chat.screen.note("Revoked.")
        return
    if verb == "trust":
        gate.policy.trust()
        chat.screen.note(f"{gate.policy.path} is trusted as it is now, and this session goes by it.")
        return
    grants = gate.grants()
    for grant in grants:
        line = f"{grant.id}  {grant.effect} {grant.scope:<7} {grant_text(grant)}"
        chat.screen.note(one_line(line, chat.screen.width))
    if not grants:
        chat.screen.note("No lasting answers; what reads runs, the rest is asked about.")


async def usage_command(chat: Chat, _rest: str) -> None:
    """/usage"""
    state, context = chat.session.state, chat.session.context()
    cost = None if state.unpriced else state.cost_usd
    chat.screen.note(f"session: {usage_text(state.usage)}, {price_text(cost)}, {state.turns} turns")
    if chat.turns:
        chat.screen.note(f"here:    {closing_line(chat.turns, state.session_id)}")
    limit = f" of {context.context_limit:,} ({context.percent_used:.0f} %)" if context.context_limit else ""
    chat.screen.note(f"context: {context.total_tokens:,} tokens{limit}")


async def session_command(chat: Chat, rest: str) -> None:
    """/session"""
    verb, _, name = rest.partition(" ")
    if verb == "name" and name.strip():
        await rename_command(chat, name.strip())
        return
    if rest:
        raise ConfigError(NOT_SESSION.format(rest=one_line(rest, 60)))
    state = chat.session.state
    chat.screen.note(f"{state.session_id} {state.name or '(no name)'}")
    chat.screen.note(f"workspace {state.workspace}, {state.provider} {state.model}, {state.turns} turns")
    for line in sandbox_lines(sandbox_view(chat.session)):
        chat.screen.note(line)


async def rename_command(chat: Chat, rest: str) -> None:
    """/rename"""
    name = session_name(rest)
    if name is None:
        raise ConfigError("Say which name: /rename NAME")
    rename(chat.session, name)
    chat.screen.note(f"{chat.session.state.session_id} is called {name}.")
    tell_namesakes(chat, name)


def rename(session: Session, name: str) -> None:
    """Give a session another name."""
    session.journal.record(SessionUpdated(**session.journal.head(), name=name))


def restore(kin: Kin, session: Session) -> None:
    """The subagents a stored session has had."""
    for member in session.journal.family.members.values():
        if member.created is not None:
            kin(member.created)


def tell_namesakes(chat: Chat, name: str | None) -> None:
    """Say so when another session has a name that was just given."""
    if notice := namesakes(chat.session.journal.store, chat.session.state.session_id, name):
        chat.screen.note(notice, "yellow")


async def fork_command(chat: Chat, rest: str) -> None:
    """/fork"""
    before = chat.session.state.session_id
    made = chat.session.journal.store.fork(before, None, session_name(rest))
    if await chat.open(session=made):
        tell_namesakes(chat, session_name(rest))
        chat.screen.note(f"This is the fork; /resume {before} goes back.")


async def sessions_command(chat: Chat, _rest: str) -> None:
    """/sessions"""
    for row in chat.session.journal.store.sessions(chat.session.state.workspace, limit=20):
        sign = "*" if row.id == chat.session.state.session_id else " "
        chat.screen.note(f"{sign} {row.id}  {row.updated_at[:16]}  {row.model}  {row.name or ''}")


async def new_command(chat: Chat, rest: str) -> None:
    """/new"""
    if await chat.open(session=None, resume=False, name=rest or None):
        tell_namesakes(chat, rest)


async def resume_command(chat: Chat, rest: str) -> None:
    """/resume"""
    if not rest:
        await sessions_command(chat, "")
        chat.screen.note("Say which: /resume ID")
        return
    found = await chat.session.services["keeper"].bring(rest)
    await chat.open(session=found, provider=None, model=None)


async def image_command(chat: Chat, rest: str) -> None:
    """/image"""
    from jaato.runtime.message import attach

    if not rest:
        chat.screen.note("Say which: /image FILE")
        return
    path = Path(os.path.expanduser(rest))  # noqa: ASYNC240 nothing is read
    chat.images.append(attach(chat.session, path))
    chat.screen.note(f"{path.name} goes with your next message.", "dim")


async def save_command(chat: Chat, rest: str) -> None:
    """/save"""
    from jaato.cli.transcript import write_events

    if not rest:
        place = await chat.session.services["keeper"].save()
        chat.screen.note(f"The session is saved as {place}; /save FILE writes its events elsewhere.")
        return
    path = Path(os.path.expanduser(rest))  # noqa: ASYNC240 nothing is read
    with open(path, "xb") as file:  # noqa: ASYNC230 a moment's work, and the agent rests
        journal = chat.session.journal
        count = write_events(journal.store, journal.state.session_id, file, journal.secrets)
    chat.screen.note(f"{count} events are in {path}.")


async def exit_command(chat: Chat, _rest: str) -> None:
    """/exit"""
    chat.leaving = True


async def plugin_command(chat: Chat, name: str, rest: str) -> bool:
    """A command a plugin brings; False when none does. Its output joins the conversation when the plugin says so."""
    known = chat.session.services["registry"].get_exposed_user_commands()
    if name not in [command.name for command in known]:
        return False
    chat.screen.note(await chat.session.dispatch(CommandExecute(name=name, arguments=rest)))
    return True


BUILTIN: dict[str, Callable[[Any, str], Awaitable[None]]] = {
    "help": help_command,
    "tools": tools_command,
    "model": model_command,
    "plan": plan_command,
    "tasks": tasks_command,
    "mode": mode_command,
    "permissions": permissions_command,
    "usage": usage_command,
    "session": session_command,
    "rename": rename_command,
    "fork": fork_command,
    "sessions": sessions_command,
    "new": new_command,
    "resume": resume_command,
    "image": image_command,
    "save": save_command,
    "exit": exit_command,
}
