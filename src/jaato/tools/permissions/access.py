"""Sandbox accesses, which say what a process may reach: compare, combine and describe them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jaato.errors import ToolError
from jaato.lazy_pattern import lazy_pattern
from jaato.protocol.specs import Grant, SandboxAccess, SandboxProfile
from jaato.tools.filesystem.atomic import is_below, resolve_path
from jaato.tools.invisible_text import escape_all, printable_line

FULL = SandboxAccess("full")
READ_ONLY = SandboxAccess("read-only")
WORKSPACE_WRITE = SandboxAccess("workspace-write")
ORDER: dict[SandboxProfile, int] = {"read-only": 0, "workspace-write": 1, "full": 2}
LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
HOST = lazy_pattern(
    rf"(?:\*|(?:\*\.)?{LABEL}(?:\.{LABEL})*\.?|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{{1,5}}))?", re.IGNORECASE
)
NEED = "if refused: write, net:HOST, dir:/PATH, control, full"
"""The description of the parameter `need` of tools that start confined processes."""
POSSIBLE = "write, net:HOST, net:HOST:PORT, dir:/ABSOLUTE/PATH, control, full"
KERNEL_DIRECTORIES = ("/proc", "/sys", "/dev", "/run")
MAX_NEEDS = 32
MAX_CHARS = 4_096
MAX_REASON_CHARS = 300


def parse_wanted_access(arguments: Mapping[str, Any]) -> SandboxAccess | None:
    """The access requested in `need`, None for nothing; invalid entries are left out, see `need_issues`."""
    needs = arguments.get("need")
    if not isinstance(needs, list) or not needs:
        return None
    found = [one for need in needs if (one := access_of(need)) is not None]
    return union(*found) if found else None


def access_of(need: object) -> SandboxAccess | None:
    """One entry of `need`; None for what is none. Network and directories come with writing in the workspace."""
    if not isinstance(need, str) or len(need) > MAX_CHARS:
        return None
    kind, _, rest = need.partition(":")
    match kind:
        case "write" if need == "write":
            return WORKSPACE_WRITE
        case "full" if need == "full":
            return FULL
        case "control" if need == "control":
            return SandboxAccess("workspace-write", control=True)
        case "net" if is_host(rest):
            return SandboxAccess("workspace-write", domains=(rest.lower(),))
        case "dir" if rest.startswith("/") and rest.isprintable() and resolve_path(rest).isprintable():
            return SandboxAccess("workspace-write", paths=(resolve_path(rest),))
    return None


def find_closed_place(real: Path, workspace: Path, home: Path, private: Iterable[Path]) -> str | None:
    """Why a real directory may not be opened to commands, by no flag, setting or answer; None if it may."""
    if real == Path("/"):
        return "it is the whole machine. Name the directories that are needed."
    if home.resolve().is_relative_to(real):
        return "the home directory, with all keys and settings, is in it. Name a directory below it."
    for own in private:
        if real.is_relative_to(own.resolve()) or own.resolve().is_relative_to(real):
            return f"jaato's own state and configuration ({own}) decide what commands may do."
    if workspace.resolve() != real and workspace.resolve().is_relative_to(real):
        return f"the workspace lies in it. Work in it instead: --workspace {real}"
    if any(real.is_relative_to(place) for place in KERNEL_DIRECTORIES):
        return "what lies in it belongs to the kernel and to services, and is no file."
    return None


def is_host(text: str) -> bool:
    """Whether a text names a host, a family of hosts or every public host, with or without a port."""
    found = HOST.fullmatch(text)
    return found is not None and len(text) <= 260 and 0 < int(found["port"] or 1) < 65_536


def need_issues(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Validate `need`; returns the issues as (JSON Pointer, message)."""
    needs = arguments.get("need")
    if needs is None:
        return []
    if not isinstance(needs, list):
        return [("/need", f"must be a list of: {POSSIBLE}")]
    if len(needs) > MAX_NEEDS:
        return [("/need", f"has more than {MAX_NEEDS} entries")]
    return [
        (f"/need/{index}", f"is {repr(need)[:80]}; possible are {POSSIBLE}")
        for index, need in enumerate(needs)
        if access_of(need) is None
    ]


def union(*several: SandboxAccess) -> SandboxAccess:
    """Everything that any of them opens."""
    return SandboxAccess(
        max((one.profile for one in several), key=lambda profile: ORDER[profile]),
        unique(domain for one in several for domain in one.domains),
        unique(path for one in several for path in one.paths),
        any(one.control for one in several),
    )


def intersection(first: SandboxAccess, second: SandboxAccess) -> SandboxAccess:
    """The access that both of them open."""
    return SandboxAccess(
        min(first.profile, second.profile, key=lambda profile: ORDER[profile]),
        unique(
            domain
            for one, other in ((first, second), (second, first))
            for domain in one.domains
            if any(is_domain_in(domain, wide) for wide in other.domains)
        ),
        unique(
            path
            for one, other in ((first, second), (second, first))
            for path in one.paths
            if any(is_below(path, wide) for wide in other.paths)
        ),
        first.control and second.control,
    )


def difference(access: SandboxAccess, given: SandboxAccess) -> SandboxAccess | None:
    """The part of an access that another one does not open; None if that is only the profile."""
    domains = unique(one for one in access.domains if not any(is_domain_in(one, w) for w in given.domains))
    paths = unique(one for one in access.paths if not any(is_below(one, w) for w in given.paths))
    control = access.control and not given.control
    return SandboxAccess("workspace-write", domains, paths, control) if domains or paths or control else None


def covers(given: SandboxAccess, wanted: SandboxAccess, workspace: str | None = None) -> bool:
    """Whether an access opens everything that another one does; in `workspace` it needs no directory to be named."""
    if given.profile == "full":
        return True
    if ORDER[wanted.profile] > ORDER[given.profile] or (wanted.control and not given.control):
        return False
    places = (*given.paths, *((resolve_path(workspace),) if workspace is not None else ()))
    return all(any(is_domain_in(one, wide) for wide in given.domains) for one in wanted.domains) and all(
        any(is_below(one, wide) for wide in places) for one in wanted.paths
    )


def is_domain_in(domain: str, wide: str) -> bool:
    """Whether a host or family of hosts belongs to another; a port that is named is the only one."""
    if wide in ("*", domain):
        return True
    name, _, port = domain.partition(":")
    family, _, its_port = wide.partition(":")
    return (
        family.startswith("*.")
        and port == its_port
        and not name.startswith("*")
        and name.endswith(family[1:])
    )


def describe_access(access: SandboxAccess) -> str:
    """Describe what an access opens, for a permission question."""
    if access.profile == "full":
        return "no sandbox (everything that you may do yourself)"
    opened = ["reading"] if access.profile == "read-only" else ["writing in the workspace"]
    if access.domains:
        opened.append(f"network to {', '.join(access.domains)}")
    if access.paths:
        opened.append(f"writing in {', '.join(access.paths)}")
    if access.control:
        opened.append("changing control files (what decides what runs later)")
    return ", ".join(opened)


def flags_for(wanted: SandboxAccess) -> str:
    """The flags that open for a whole session what a call asks for."""
    if wanted.profile == "full":
        return "--sandbox full"
    flags = [f"--allow-domain {domain}" for domain in wanted.domains]
    flags += [f"--add-dir {path}" for path in wanted.paths]
    return " ".join(flags)


def format_reason(arguments: Mapping[str, Any]) -> str:
    """The model's own reason as one line of printable text."""
    reason = arguments.get("reason")
    if not isinstance(reason, str):
        return ""
    line = printable_line(reason)
    return line if len(line) <= MAX_REASON_CHARS else f"{line[: MAX_REASON_CHARS - 1]}…"


def unique(values: Iterable[str]) -> tuple[str, ...]:
    """The values in their order, each once."""
    return tuple(dict.fromkeys(values))


PROFILES: dict[SandboxProfile, str] = {
    "read-only": "reads files, changes nothing, no network",
    "workspace-write": "may change files of the workspace",
    "full": "NO SANDBOX: may do everything that you may",
}
CONTROL = "may change the workspace's control files, which decide what runs and what is allowed"
EVERY_HOST = "any public host"


def access_lines(access: SandboxAccess) -> list[str]:
    """Describe an access line by line: the profile, each host, each directory, control files."""
    lines = [
        f"{access.profile}: {PROFILES[access.profile]}" if access.profile != "full" else PROFILES["full"]
    ]
    lines += [f"network: {EVERY_HOST if host == '*' else escape_all(host)}" for host in access.domains]
    lines += [f"may change {escape_all(path)}" for path in access.paths]
    return [*lines, CONTROL] if access.control else lines


def access_text(access: SandboxAccess | None) -> str:
    """The same in a few words: `workspace-write, network pypi.org, /srv/data`."""
    if access is None:
        return ""
    parts: list[str] = ["NO SANDBOX" if access.profile == "full" else access.profile]
    parts += [f"network {EVERY_HOST if host == '*' else escape_all(host)}" for host in access.domains]
    parts += [escape_all(path) for path in access.paths]
    return ", ".join([*parts, "control files"] if access.control else parts)


def grant_text(grant: Grant) -> str:
    """A grant in one line: what it covers, and what a covered command may reach."""
    what = f"{grant.tool}({grant.shape})" if grant.shape else grant.tool
    reach = access_text(grant.access) if grant.effect == "allow" else ""
    return f"{what} [{reach}]" if reach else what


class ReachesFurther(ToolError):
    """The process was started with more than this call is allowed."""

    code = "sandbox_reaches_further"


def summarize_access(access: SandboxAccess) -> str:
    """An access in a few words."""
    more = [f"the hosts {', '.join(access.domains)}"] if access.domains else []
    more += [f"the directories {', '.join(access.paths)}"] if access.paths else []
    more += ["the control files"] if access.control else []
    return access.profile + (f" with {' and '.join(more)}" if more else "")


def check_reach(has: SandboxAccess | None, allowed: SandboxAccess | None, what: str, remedy: str) -> None:
    """Raise `ReachesFurther` where a process has more than the call is allowed; None is a call without permissions."""
    if allowed is None or covers(allowed, has or FULL):
        return
    now = summarize_access(has or FULL)
    raise ReachesFurther(
        f"{what} runs with {now}, and this call is allowed {summarize_access(allowed)} only. {remedy}"
    )


def sandbox_fields(access: SandboxAccess | None) -> dict[str, str]:
    """The field `sandbox` of a result; none for a call without permission check."""
    return {"sandbox": summarize_access(access)} if access is not None else {}
