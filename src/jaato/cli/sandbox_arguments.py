"""The arguments that say what commands may reach, and those of `jaato sandbox`; nothing but argparse is imported."""

from __future__ import annotations

from argparse import REMAINDER

from jaato.cli.arguments import Parser, command

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    from argparse import _SubParsersAction
    from collections.abc import Callable
    from typing import Any

    Commands = _SubParsersAction[Parser]

MODES = ("ask", "accept-edits", "auto", "plan", "read-only")
UNOPENED: dict[str, Any] = {"mode": None, "sandbox": None, "allow_domain": [], "add_dir": []}
"""What the arguments below are where a command does not take them."""
SANDBOX = """Runs COMMAND as the agent's commands run: the profile read-only sees the files and changes nothing, workspace-write may
change the workspace. The exit code is the command's.

examples:
  jaato sandbox -- ls -la ~/.ssh
  jaato sandbox --profile workspace-write -- make test
  jaato sandbox --profile workspace-write --allow-domain pypi.org --allow-domain files.pythonhosted.org -- pip download six
  jaato sandbox --profile workspace-write --explain"""


def opening_arguments(add: Callable[..., object]) -> None:
    """The mode, and what is opened to commands that may write."""
    add(
        "--mode",
        choices=MODES,
        help="what runs without a question: ask (default) what only reads; accept-edits file tools in the workspace too; auto "
        "commands in it too; plan only what reads, until a plan is approved; read-only nothing more, ever",
    )
    add("--read-only", action="store_true", help="as --mode read-only: nothing can be opened")
    add(
        "--sandbox",
        choices=("workspace-write", "full"),
        help="what a command that a rule allows may reach (default: workspace-write); full is no sandbox",
    )
    reach_arguments(add)


def reach_arguments(add: Callable[..., object]) -> None:
    """Hosts and directories."""
    add(
        "--allow-domain",
        action="append",
        default=[],
        metavar="HOST",
        help="a host that commands which may write reach, again for more: pypi.org, '*.npmjs.org', host:8443",
    )
    add(
        "--add-dir",
        action="append",
        default=[],
        metavar="DIR",
        help="a directory outside the workspace that they may change, again for more",
    )


def add_sandbox(commands: Commands) -> None:
    """`jaato sandbox`."""
    text = "run a command in the sandbox by hand, or show what the sandbox opens and hides"
    sandbox = command(commands, "sandbox", "sandbox", text, SANDBOX)
    add = sandbox.add_argument
    add(
        "--profile",
        choices=("read-only", "workspace-write"),
        default="read-only",
        help="how far the command may reach (default: read-only)",
    )
    reach_arguments(add)
    add("--explain", action="store_true", help="print what the command would see, and run nothing")
    add("--workspace", metavar="DIR", help="the directory to work in (default: this one)")
    add("--json", action="store_true", help="with --explain: as JSON")
    add("words", nargs=REMAINDER, metavar="COMMAND", help="after --: the program and its arguments")
