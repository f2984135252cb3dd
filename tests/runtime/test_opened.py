"""What flags, arguments and settings open to the commands of a session: what counts, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from jaato import Agent
from jaato.agent.state import State
from jaato.errors import ConfigError
from jaato.protocol.specs import SandboxAccess
from jaato.providers.scripted import ScriptedProvider
from jaato.runtime.policy_setup import parse_host, policy_for
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.tools.permissions.gate import Policy

OWN = "jaato's own state"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a workspace, a directory beside it, and jaato's own places."""
    for name in ("home/work", "home/data", "home/.config/jaato", "home/.local/state/jaato", "else"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path / "home"


def policy(home: Path, config: str = "", earlier: Any = None, **given: Any) -> Policy:
    """The policy of a session in that home."""
    (home / ".config/jaato/config.toml").write_text(config)
    blueprint = SessionOptions(
        workspace=home / "work", environ={"HOME": str(home), "PATH": "/usr/bin"}, **given
    )
    return policy_for(blueprint, settings_for(blueprint, home / "work"), home / "work", State(mode=earlier))


def test_nothing_is_opened_by_default(home: Path) -> None:
    """A session asks, and a command that a rule allows may change the workspace alone."""
    made = policy(home)
    assert (made.mode, made.access) == ("ask", SandboxAccess("workspace-write"))


def test_flags_and_settings_open_together(home: Path) -> None:
    """Hosts and directories of both count, each once, real and in lower case; the flag decides about the rest."""
    (home / "link").symlink_to(home / "data")
    config = 'mode = "plan"\nsandbox = "full"\nallow_domains = ["PyPI.org"]\nadd_dirs = ["~/data"]\n'
    made = policy(
        home,
        config,
        mode="auto",
        sandbox="workspace-write",
        allow_domains=("*.npmjs.org", "pypi.org"),
        add_dirs=(str(home / "link"), str(home.parent / "else")),
    )
    assert made.mode == "auto"
    assert made.access == SandboxAccess(
        "workspace-write", ("pypi.org", "*.npmjs.org"), (str(home / "data"), str(home.parent / "else"))
    )
    assert policy(home, config).access.profile == "full"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/", "whole machine"),
        ("{home}", "home directory"),
        ("{home}/..", "home directory"),
        ("{home}/.config/jaato", OWN),
        ("{home}/.config", OWN),
        ("{home}/.local/state/jaato/x", OWN),
        ("{home}/link", OWN),
        ("{home}/nothing", "No such file"),
        ("{home}/file", "no directory"),
        ("{home}/loop", "cannot be opened"),
        ("data", "absolute"),
        ("", "absolute"),
        ("/a\0b", "absolute"),
        ("/proc/self", "kernel"),
        ("/dev/shm", "kernel"),
    ],
)
def test_what_is_too_much_or_not_there_is_refused(home: Path, path: str, why: str) -> None:
    """The root, the home, what decides about jaato, and what is no directory cannot be opened, by whatever name."""
    (home / "link").symlink_to(home / ".config")
    (home / "loop").symlink_to(home / "loop")
    (home / "file").touch()
    (home / ".local/state/jaato/x").mkdir()
    with pytest.raises(ConfigError, match=why):
        policy(home, add_dirs=(path.format(home=home),))


def test_a_directory_around_the_workspace_is_refused(home: Path) -> None:
    """Its other files would be writable beside the control files of the workspace: one works in it instead."""
    (home / "work/below").mkdir()
    blueprint = SessionOptions(
        workspace=home / "work/below", environ={"HOME": str(home)}, add_dirs=(str(home / "work"),)
    )
    with pytest.raises(ConfigError, match="--workspace"):
        policy_for(blueprint, settings_for(blueprint, home / "work/below"), home / "work/below")


def test_an_untrusted_workspace_opens_nothing(home: Path) -> None:
    """Its settings may choose a stricter mode; hosts, directories and a looser mode do not count."""
    (home / "work/.jaato").mkdir()
    config = home / "work/.jaato/config.toml"
    config.write_text(
        f'mode = "auto"\nsandbox = "full"\nallow_domains = ["evil.example"]\nadd_dirs = ["{home}/data"]\n'
        'sandbox_backend = "none"\n'
    )
    assert (policy(home).mode, policy(home).access) == ("ask", SandboxAccess("workspace-write"))
    config.write_text('mode = "plan"\n')
    assert policy(home).mode == "plan"
    config.write_text('mode = "read-only"\n')
    assert policy(home).mode == "read-only"


@pytest.mark.parametrize(
    "host", ["pypi.org", "*.npmjs.org", "localhost:8443", "*", "*:443", "[2606:4700::1]:80", "10.0.0.1"]
)
def test_a_host_is_a_name_an_address_or_a_family(host: str) -> None:
    """With or without a port."""
    assert parse_host(host) == host


@pytest.mark.parametrize(
    "text",
    ["https://pypi.org", "pypi.org/simple", "", " ", "a b", "*.*.org", "a.*", "host:0", "host:70000", "host:", "-x",
     "user@host", "a\nb", "a\0", "x" * 300, "pypi.org,npmjs.org", "http:80:90"],
)  # fmt: skip
def test_what_is_no_host_is_refused(text: str) -> None:
    """With what a host looks like."""
    with pytest.raises(ConfigError, match="give a name such as"):
        parse_host(text)


@pytest.mark.parametrize("closed", [{"read_only": True}, {"mode": "read-only"}])
@pytest.mark.parametrize(
    ("opened", "what"),
    [
        ({"sandbox": "full"}, "--sandbox full"),
        ({"allow_domains": ("pypi.org",)}, "--allow-domain"),
        ({"add_dirs": ("/srv",)}, "--add-dir"),
    ],
)
def test_read_only_opens_nothing(
    home: Path, closed: dict[str, Any], opened: dict[str, Any], what: str
) -> None:
    """To close everything and open something in the same breath is a mistake, and said to be one."""
    with pytest.raises(ConfigError, match=what):
        policy(home, **closed, **opened)


def test_read_only_is_a_mode(home: Path) -> None:
    """Both spellings are the same; with another mode it contradicts."""
    assert policy(home, read_only=True).mode == policy(home, mode="read-only").mode == "read-only"
    assert policy(home, read_only=True, mode="read-only").mode == "read-only"
    with pytest.raises(ConfigError, match="--read-only"):
        policy(home, read_only=True, mode="auto")


def test_what_was_said_in_the_session_holds_until_something_else_is_said(home: Path) -> None:
    """The mode of an earlier visit goes before the setting; a flag, and a setting that opens nothing, before that."""
    assert policy(home, 'mode = "auto"', earlier="plan").mode == "plan"
    assert policy(home, earlier="auto", mode="ask").mode == "ask"
    assert policy(home, 'mode = "read-only"', earlier="auto").mode == "read-only"
    assert policy(home, earlier="auto", read_only=True).mode == "read-only"
    assert policy(home, "read_only = true", earlier="auto").mode == "read-only"


def test_an_agent_takes_them_as_arguments(home: Path) -> None:
    """`Agent(mode=…, sandbox=…, allow_domains=…, add_dirs=…)` says the same; one text is no list."""

    async def main(**given: Any) -> Policy:
        async with Agent(
            provider=ScriptedProvider([]), workspace=home / "work", environ={"HOME": str(home)}, **given
        ) as agent:
            return agent.live.gate.policy

    made = anyio.run(
        lambda: main(mode="auto", allow_domains=["pypi.org"], add_dirs=[home / "data"], sandbox="full")
    )
    assert made.mode == "auto"
    assert made.access == SandboxAccess("full", ("pypi.org",), (str(home / "data"),))
    with pytest.raises(ConfigError, match="is a list"):
        anyio.run(lambda: main(allow_domains="pypi.org"))
