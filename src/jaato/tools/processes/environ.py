"""A command's environment: nothing pages, edits, prompts or colours, and jaato's own keys are not in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

PROVIDER_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")
"""What jaato calls models with. `GITHUB_TOKEN` stays: `gh` and git work with it."""

ASKS = ("PAGER", "EDITOR", "ASKPASS")
"""How the names end of what programs show, edit and ask with; those that are not made neutral are dropped."""

UNSET = ("COLORTERM", "FORCE_COLOR", "CLICOLOR_FORCE", "GPG_TTY", "SSH_TTY")

NEUTRAL = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GH_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "AWS_PAGER": "",
    "EDITOR": "true",  # leaves the text as it was: a commit without a message is refused, a rebase goes on
    "VISUAL": "true",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_MERGE_AUTOEDIT": "no",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "SUDO_ASKPASS": "false",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "TERM": "dumb",
    "NO_COLOR": "1",
}


def for_commands(
    environment: Mapping[str, str],
    hidden: Iterable[str] = (),
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The environment made neutral, without provider keys and `hidden` names; `extra` has the last word."""
    gone = {*PROVIDER_KEYS, *UNSET, *hidden}
    kept = {
        name: value for name, value in environment.items() if name not in gone and not name.endswith(ASKS)
    }
    return {**kept, **NEUTRAL, **(extra or {})}
