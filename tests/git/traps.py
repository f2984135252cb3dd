"""A repository in which everything that can name a program names a trap."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.git.desk import Desk

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("git_status", {}),
    ("git_diff", {}),
    ("git_diff", {"staged": True}),
    ("git_diff", {"from_revision": "HEAD~1"}),
    ("git_log", {}),
    ("git_log", {"paths": ["a.txt"]}),
    ("git_blame", {"path": "a.txt"}),
    ("git_show", {}),
    ("git_show", {"path": "a.txt"}),
]
KEYS = [
    "core.fsmonitor", "core.pager", "pager.status", "pager.log", "pager.diff", "core.sshCommand", "core.editor",
    "core.askPass", "core.gitProxy", "core.alternateRefsCommand", "diff.external", "diff.trap.command",
    "diff.trap.textconv", "filter.trap.clean", "filter.trap.smudge", "filter.trap.process", "filter.a=b.c.clean",
    "gpg.program", "gpg.ssh.program", "credential.helper", "interactive.diffFilter", "diff.tool", "alias.status",
    "alias.log", "alias.diff", "uploadpack.packObjectsHook", "remote.origin.uploadpack", "trailer.x.command",
]  # fmt: skip


def trapped(desk: Desk) -> Path:
    """A repository in which everything that can name a program names a trap; the file the trap would leave."""
    sprung = desk.work.parent / "sprung"
    trap = desk.work / "trap.sh"
    trap.write_text(f'#!/bin/sh\necho "$0 $*" >> {sprung}\nexit 0\n')
    trap.chmod(0o755)
    desk.commit("first", a_txt="1\n", _gitattributes="* filter=trap diff=trap\n*.b filter=a=b.c\n")
    desk.commit("second", a_txt="2\n")
    for name in [*os.listdir(desk.work / ".git" / "hooks"), "post-index-change", "fsmonitor-watchman"]:
        hook = desk.work / ".git" / "hooks" / name.removesuffix(".sample")
        hook.write_bytes(trap.read_bytes())
        hook.chmod(0o755)
    for key in KEYS:
        desk.git("config", "--local", key, str(trap))
    desk.git("config", "--local", "log.showSignature", "true")
    desk.git("config", "--local", "filter.trap.required", "true")
    desk.git("config", "--local", "diff.submodule", "diff")
    desk.git("config", "--local", "core.untrackedCache", "true")
    (desk.work / "a.txt").write_text("3\n")
    (desk.work / "x.b").write_text("3\n")
    return sprung
