"""The / commands a session carries out: those of plugins, of permissions, and of its mode."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, cast, get_args

import anyio.to_thread

from jaato.abc.plugin import Plugin, UserCommand
from jaato.abc.store import UsageQuery
from jaato.agent.compaction.account import account_lines
from jaato.agent.results import take_file_changes
from jaato.agent.services import Pins
from jaato.agent.session import Session
from jaato.errors import ConfigError, JaatoError, PluginError
from jaato.plugins.session import COMMANDS
from jaato.protocol.codec import encode
from jaato.protocol.events import SessionUpdated
from jaato.protocol.ids import new_id
from jaato.protocol.specs import CommandEntry, Mode, SandboxView
from jaato.runtime.plugins.isolation import BROKEN
from jaato.runtime.plugins.lazy import LazyPlugin
from jaato.runtime.plugins.lifecycle import PluginHost
from jaato.runtime.plugins.registry import PluginRegistry
from jaato.settings.budgets import format_count
from jaato.tools.call import CURRENT, Call, replace_surrogates, to_json_data
from jaato.tools.invisible_text import one_line
from jaato.tools.markdown import slash_name
from jaato.tools.permissions.access import grant_text

if TYPE_CHECKING:
    from jaato.tools.permissions.gate import Gate
    from jaato.tools.processes.sandbox.sandbox import Sandbox


PERMISSIONS_COMMAND = UserCommand(
    "permissions", "What is allowed and denied for good: permissions [json | revoke ID | trust]"
)
USAGE_COMMAND = UserCommand(
    "usage", "What this session and its subagents have used: usage [agent | model | tool | day]"
)
MAX_COMMANDS, MAX_NAME_CHARS, MAX_WORDS_CHARS, MAX_NAMED = 500, 100, 300, 20


async def run_command(session: Session, registry: PluginRegistry, name: str, rest: str = "") -> str | None:
    """Run a user command of a plugin; gives its output, None when no plugin has it. A native one gets the rest of the
    line, one of the documented shape `{"args": words, "input": rest}`.

    The output of a command that says `share_with_model` joins the conversation at the next pause. Raises `PluginError`
    for a command that fails.
    """
    own = await run_session_command(session, name, rest)
    if own is not None:
        return own
    for toolset in registry.toolsets():
        command, run = toolset.commands.get(name, (None, None))
        if command is None or run is None:
            continue
        given = (
            rest if isinstance(toolset.plugin, Plugin | LazyPlugin) else {"args": rest.split(), "input": rest}
        )
        call = call_of(session, name, rest)
        before = CURRENT.set(call)
        try:
            value = await anyio.to_thread.run_sync(run, given)
            if inspect.isawaitable(value):
                value = await value
        except JaatoError:
            raise
        except BROKEN as error:
            problem = f"The command /{name} of {toolset.name} failed: {type(error).__name__}: {error}"
            raise PluginError(problem) from error
        finally:
            CURRENT.reset(before)
            if changed := take_file_changes(session.journal, call):
                session.journal.record(*changed)
        text = (
            replace_surrogates(value)
            if isinstance(value, str)
            else ""
            if value is None
            else encode(to_json_data(value)).decode()
        )
        if command.share_with_model and text:
            session.notify(f"The user ran /{name} {rest}".rstrip() + f"\n{text}")
        return text
    keeper = session.services.get("keeper")
    if keeper is not None and name in (command.name for command in COMMANDS):
        return str(await keeper.command(name, rest))
    if name in await anyio.to_thread.run_sync(list_stored_prompts, registry):
        raise ConfigError(f"/{name} is a stored prompt: send it as a message.")
    return None


def list_stored_prompts(registry: PluginRegistry) -> dict[str, str]:
    """The stored prompts as their files are now: name and description; none where their plugin is off."""
    from jaato.plugins.skills import SlashCommandPlugin, discover  # not every session has any

    if registry.toolset(SlashCommandPlugin.name) is None:
        return {}
    found = discover(PluginHost(registry, {}), SlashCommandPlugin.kind).items
    return {item.name: item.description for item in found.values()}


async def check_prompt(registry: PluginRegistry, text: str) -> None:
    """Raise `ConfigError` for a text that begins with `/NAME` when no stored prompt has the name."""
    name = slash_name(text)
    if not name:
        return
    prompts = await anyio.to_thread.run_sync(list_stored_prompts, registry)
    if name not in prompts and is_user_command(registry, name):
        raise ConfigError(
            f"/{name} is a command and no prompt: type it in a chat, or run `jaato chat --continue /{name}`. To send the text "
            "as it is, begin it with a space."
        )
    if name not in prompts:
        known = ", ".join(f"/{one}" for one in list(prompts)[:MAX_NAMED])
        there = f"there are {known}" if known else ".jaato/commands/NAME.md makes one"
        raise ConfigError(
            f"There is no command /{name}, and no stored prompt of that name ({there}); /help in a chat lists all. To send "
            "the text as it is, begin it with a space."
        )


def is_user_command(registry: PluginRegistry, name: str) -> bool:
    """Whether a session or one of its plugins has a command of this name."""
    commands = (toolset.commands for toolset in registry.toolsets())
    return any(one.name == name for one in SESSION_COMMANDS) or any(name in found for found in commands)


async def run_session_command(session: Session, name: str, rest: str) -> str | None:
    """Run a command of the session itself; None when there is none of this name."""
    match name:
        case MODE_COMMAND.name:
            return mode_command(session, rest)
        case PERMISSIONS_COMMAND.name:
            return permissions_command(session, rest)
        case USAGE_COMMAND.name:
            return await usage_command(session, rest)
        case CONTEXT_COMMAND.name:
            return context_command(session, rest)
        case COMPACT_COMMAND.name:
            return await compact_command(session, rest)
        case PIN_COMMAND.name:
            return pin_command(session, rest)
    return None


def permissions_command(session: Session, rest: str) -> str:
    """Run `/permissions [json | revoke ID | trust]`; gives its output. Raises `ConfigError` for a grant that does not exist."""
    gate = session.gate
    verb, _, grant_id = rest.strip().partition(" ")
    match verb:
        case "revoke":
            gate.revoke(grant_id.strip())
            return "Revoked."
        case "trust":
            gate.trust()
            return f"{gate.policy.path} is trusted as it is now, and this session goes by it."
        case "json" if not grant_id:
            return encode(describe_permissions(gate)).decode()
        case "":
            lines = [
                one_line(f"{grant.id}  {grant.effect} {grant.scope:<7} {grant_text(grant)}", MAX_WORDS_CHARS)
                for grant in gate.grants()
            ]
            return "\n".join(lines) or "No lasting answers; what reads runs, the rest is asked about."
    raise ConfigError(
        "There is /permissions, /permissions json, /permissions revoke ID and /permissions trust."
    )


def describe_permissions(gate: Gate) -> dict[str, Any]:
    """The mode, the rules in force with their sources, and all grants. `distrust`, `deferred` and `locked` are why the
    permission file is not trusted, whether it allows more than the session has taken in, and why nothing is allowed."""
    policy = gate.policy
    policy.reload()
    return {
        "mode": policy.mode,
        "modes": MODES,
        "default": policy.default,
        "file": str(policy.path) if policy.path is not None else None,
        "distrust": policy.distrust,
        "deferred": policy.deferred,
        "locked": policy.locked,
        "rules": policy.rules(),
        "grants": [{"grant": grant, "covers": grant_text(grant)} for grant in gate.grants()],
    }


async def usage_command(session: Session, rest: str) -> str:
    """`/usage [GROUP]`: what the session and its subagents have used. Raises `ConfigError` for an unknown group."""
    from jaato.tools.usage import UsageReport, parse_groups

    report = UsageReport(parse_groups(rest or "agent,model"))
    query = UsageQuery(session_id=session.state.session_id)
    await anyio.to_thread.run_sync(lambda: report.add_all(session.journal.store.usage.read(query)))
    return report.text or "Nothing has been used yet."


def call_of(session: Session, name: str, rest: str) -> Call:
    """The call that a user command runs in."""
    state = session.state
    return Call(
        new_id("c"),
        name,
        {"input": rest},
        caller="user",
        session_id=state.session_id,
        agent_id=state.agent_id,
        services=session.services,
        workspace=session.workspace,
    )


def commands_of(session: Session, registry: PluginRegistry) -> list[CommandEntry]:
    """Every command `run_command` would run, and every stored prompt, by name; no more than some, and of bounded length."""
    found = {one.name: entry_of(one, "session") for one in SESSION_COMMANDS}
    for toolset in registry.toolsets():
        for name, (command, run) in toolset.commands.items():
            if run is not None and len(name) <= MAX_NAME_CHARS:
                found.setdefault(name, entry_of(command, toolset.name))
    if "keeper" in session.services:
        for command in COMMANDS:
            found.setdefault(command.name, entry_of(command, "session"))
    for name, description in list_stored_prompts(registry).items():
        words = one_line(description, MAX_WORDS_CHARS)
        found.setdefault(name, CommandEntry(name, words, plugin="slash_command", is_prompt=True))
    return [found[name] for name in sorted(found)[:MAX_COMMANDS]]


def entry_of(command: UserCommand, plugin: str) -> CommandEntry:
    """A command as it is listed for clients; its usage is split off the end of its description."""
    text, marker, usage = command.description.partition(f": {command.name} ")
    words = [one_line(word, MAX_WORDS_CHARS) for word in (text, usage if marker else "")]
    return CommandEntry(one_line(command.name, MAX_NAME_CHARS), words[0], words[1], plugin)


CONTEXT_COMMAND = UserCommand("context", "Show what the model's context consists of: context [json]")
COMPACT_COMMAND = UserCommand(
    "compact", "Compact the context now, and say what the summary is to keep: compact [WORDS]"
)
COMPACTS_LATER = "A turn is running: the context is compacted before its next call to the model, or when it ends. /stop drops this, too."
PIN_COMMAND = UserCommand(
    "pin", "Pin a text that every compaction keeps, or list the pins: pin [TEXT | remove ID]"
)


def context_command(session: Session, rest: str) -> str:
    """`/context [json]`: the account of the context. Raises `ConfigError` for anything else."""
    if rest.strip() not in ("", "json"):
        raise ConfigError("There is /context and /context json.")
    fields = session.model.account.describe(session.compaction.threshold_percent)
    return encode(fields).decode() if rest.strip() else "\n".join(account_lines(fields))


async def compact_command(session: Session, rest: str) -> str:
    """`/compact [WORDS]`: what was freed, or during a turn, when that will be. Raises `ConfigError` without a strategy."""
    reason, words = "asked to by /compact", one_line(rest.strip(), MAX_WORDS_CHARS)
    if session.is_busy:
        session.request_compaction(reason, words)
        return COMPACTS_LATER
    freed = await session.compact(reason, words)
    done = session.compaction.last
    if not freed or done is None:
        problem = done.problem if done is not None and done.problem else "the compaction was stopped"
        return f"The context stays as it is: {problem}."
    after = format_count(done.tokens_after, "token")
    lines = [f"The context was compacted, from {done.tokens_before:,} to about {after}."]
    if done.cleared:
        lines.append(f"Cleared: {format_count(done.cleared, 'tool result')}, readable by handle.")
    return "\n".join([*lines, *([done.notification] if done.notification else [])])


def pin_command(session: Session, rest: str) -> str:
    """`/pin [TEXT | remove ID]`: what it says. Raises `ConfigError`."""
    text = rest.strip()
    verb, _, pin_id = text.partition(" ")
    pins: Pins = session.services["pins"]
    if verb == "remove" and pin_id.strip() in session.state.pins:
        pins.remove(pin_id.strip())
        return "Removed."
    if text:
        return f"Pinned as {pins.add(text)}; /pin remove ID removes it."
    lines = [one_line(f"{pin_id}  {words}", MAX_WORDS_CHARS) for pin_id, words in session.state.pins.items()]
    return "\n".join(lines) or "Nothing is pinned; /pin TEXT pins a text."


MODES: dict[Mode, str] = {
    "ask": "what only reads runs, the rest is asked about",
    "accept-edits": "that, and file tools change the workspace without a question",
    "auto": "that, and commands change the workspace without a question",
    "plan": "nothing but reading, until a plan is approved",
    "read-only": "nothing but reading; nothing can be opened",
}
"""Every mode, and what runs in it without a question."""
MODE_COMMAND = UserCommand("mode", "Show or change what runs without a question: mode [NAME]")
SESSION_COMMANDS = (
    MODE_COMMAND,
    PERMISSIONS_COMMAND,
    USAGE_COMMAND,
    CONTEXT_COMMAND,
    COMPACT_COMMAND,
    PIN_COMMAND,
)
CHANGED = "The user has changed the mode of this session to {mode}: {text}."


def mode_command(session: Session, rest: str) -> str:
    """Run `/mode [NAME]`; gives its output. Raises `ConfigError` for a mode that does not exist or is not available."""
    policy = session.gate.policy
    name = rest.strip()
    if not name:
        lines = [f"{'*' if mode == policy.mode else ' '} {mode:<13} {text}" for mode, text in MODES.items()]
        return "\n".join([*lines, "/mode NAME changes it for this session."])
    if name not in get_args(Mode):
        raise ConfigError(f"There is no mode {one_line(name, 60)!r}; there are {', '.join(MODES)}.")
    mode = cast("Mode", name)
    if session.is_subagent:
        raise JaatoError("The mode is the session's; change it there.")
    if mode != policy.mode:
        session.gate.set_mode(mode)
        session.notify(CHANGED.format(mode=mode, text=MODES[mode]))
    return f"The mode is {mode}: {MODES[mode]}."


def keep_mode(session: Session, mode: Mode) -> None:
    """Record the mode in the log, so that a resumed session has it. Raises `StoreError`."""
    session.journal.record(SessionUpdated(**session.journal.head(), mode=mode))


async def find_backend(session: Session) -> None:
    """Find the sandbox of a session in a thread, since it runs a program."""
    sandbox: Sandbox | None = session.services["registry"].services.get("sandbox")
    if sandbox is not None:
        await anyio.to_thread.run_sync(lambda: sandbox.backend)


def sandbox_view(session: Session) -> SandboxView:
    """How the commands of a session are confined now; see `find_backend`."""
    policy = session.gate.policy
    sandbox: Sandbox | None = session.services["registry"].services.get("sandbox")
    backend = sandbox.backend if sandbox is not None else None
    return SandboxView(
        backend=backend.name if backend is not None else "",
        profiles=sorted(sandbox.profiles) if sandbox is not None else [],
        mode=policy.mode,
        domains=list(policy.access.domains),
        paths=list(policy.access.paths),
        full=policy.access.profile == "full",
    )
