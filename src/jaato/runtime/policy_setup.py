"""The permission policy of a session, from the workspace's file, settings and flags, and what the user opens to its commands."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaato.errors import ConfigError
from jaato.lazy_pattern import lazy_pattern
from jaato.protocol.specs import Mode, SandboxAccess
from jaato.runtime.session_options import SessionOptions
from jaato.settings import Settings, home_of
from jaato.tools.permissions.access import LABEL, find_closed_place
from jaato.tools.permissions.gate import Policy

if TYPE_CHECKING:
    from jaato.agent.state import State

POLICY_FILE = Path(".jaato") / "permissions.json"
NAME = rf"(?:\*\.)?{LABEL}(?:\.{LABEL})*"
HOST = lazy_pattern(rf"(?:{NAME}|\[[0-9a-f:.]+\]|\*)(?::(?P<port>\d{{1,5}}))?")
MAX_HOST_CHARS = 253
OPENED_NOTHING = "In the mode read-only nothing can be opened: leave out {what}, or choose another mode."


def policy_for(
    options: SessionOptions, settings: Settings, workspace: Path, before: State | None = None
) -> Policy:
    """The permission rules of a session: the workspace's file, the user's settings, what this call adds; a session with the
    state `before` has the mode its user has chosen in it. Raises `ConfigError`."""
    policy = options.policy or Policy.load(
        workspace / POLICY_FILE, workspace=workspace, state_dir=options.state_dir or settings.state_dir
    )
    allow: Iterable[str] = (*settings["allow"], *options.allow)
    deny: Iterable[str] = (*settings["deny"], *options.deny)
    default: Any = "allow" if options.yes else None
    ruled = policy.with_flags(allow=allow, deny=deny, default=default)
    earlier = before.mode if before is not None else None
    if before is None or earlier != "read-only" or not before.is_mode_switched or options.mode is not None:
        return apply_session_flags(ruled, options, settings, workspace, earlier)
    began = apply_session_flags(ruled, options, settings, workspace, None)
    began.set_mode("read-only")  # which can be left, where the session did not begin so
    return began


def apply_session_flags(
    policy: Policy, options: SessionOptions, settings: Settings, workspace: Path, earlier: Mode | None
) -> Policy:
    """A policy with the mode of a session, and with what is opened in it; `earlier` is the mode its user has chosen in
    it. Raises `ConfigError`."""
    return policy.with_flags(
        read_only=is_read_only(options, settings),
        mode=session_mode(options, settings, earlier),
        access=sandbox_access(options, settings, workspace),
    )


def sandbox_access(options: SessionOptions, settings: Settings, workspace: Path) -> SandboxAccess:
    """What is opened to every command that may write: by flags and settings together. Raises `ConfigError`."""
    domains = [*settings["allow_domains"], *options.allow_domains]
    private = (options.state_dir or settings.state_dir, settings.config_dir)
    home = home_of(settings.environ)
    paths = [
        parse_directory(path, workspace, home=home, private=private)
        for path in (*settings["add_dirs"], *options.add_dirs)
    ]
    return SandboxAccess(
        "full" if (options.sandbox or settings["sandbox"]) == "full" else "workspace-write",
        tuple(dict.fromkeys(parse_host(text) for text in domains)),
        tuple(dict.fromkeys(paths)),
    )


def is_read_only(options: SessionOptions, settings: Settings) -> bool:
    """Whether the session can open nothing, whatever is requested in it. Raises `ConfigError` where something is opened in
    the same breath."""
    if options.read_only and options.mode not in (None, "read-only"):
        raise ConfigError(
            f"--read-only is the mode read-only; leave it out, or leave out --mode {options.mode}."
        )
    mode: Mode = options.mode or settings["mode"]
    if not (options.read_only or settings["read_only"] or mode == "read-only"):
        return False
    opened = {
        "--sandbox full": options.sandbox == "full",
        "--allow-domain": bool(options.allow_domains),
        "--add-dir": bool(options.add_dirs),
    }
    for what, is_given in opened.items():
        if is_given:
            raise ConfigError(OPENED_NOTHING.format(what=what))
    return True


def session_mode(options: SessionOptions, settings: Settings, earlier: Mode | None = None) -> Mode:
    """The mode of a session that does not start read-only: the requested one, else the one its user set `earlier`,
    else the setting."""
    configured: Mode = settings["mode"]
    return options.mode or earlier or configured


def parse_host(text: str) -> str:
    """A host as the proxy knows it: `pypi.org`, `*.npmjs.org`, `host:8443`, `[2606::1]:80`, `*`. Raises `ConfigError`."""
    host = text.strip().lower()
    found = HOST.fullmatch(host)
    if found is None or len(host) > MAX_HOST_CHARS or not 0 < int(found["port"] or 443) < 65_536:
        raise ConfigError(
            f"{text[:200]!r} is no host that can be opened: give a name such as pypi.org, *.npmjs.org or host:8443, "
            "without https:// and without a path."
        )
    return host


def parse_directory(text: str, workspace: Path, *, home: Path, private: Iterable[Path]) -> str:
    """A directory that commands may change, absolute and real. Raises `ConfigError` for what is none, or is too much."""
    path = Path(text)
    if text.startswith("~/"):
        path = home / text[2:]
    shown = f"The directory {text[:300]!r} cannot be opened"
    if "\0" in text or not path.is_absolute():
        raise ConfigError(f"{shown}: name it by its absolute path.")
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "it leads in a circle"
        raise ConfigError(f"{shown}: {reason}. Create it, or leave it out.") from None
    if not real.is_dir():
        raise ConfigError(f"{shown}: it is no directory.")
    if (why := find_closed_place(real, workspace, home, private)) is not None:
        raise ConfigError(f"{shown}: {why}")
    return str(real)
