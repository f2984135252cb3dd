"""Lines that try to do harm, judged by the gate and really run: without a question nothing is written and nobody reached."""

# ruff: noqa: E501

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from tests.permissions.ground import C4
from tests.shell.running import OneHost

from jaato.plugins.shell import ShellPlugin
from jaato.protocol.specs import SandboxAccess
from jaato.tools.call import Call
from jaato.tools.permissions.gate import Gate, Policy
from jaato.tools.tool import Tool, tool_from

SECRET = "the-secret-key"
LINES = [
    "touch here", "echo x > a.txt", "echo x >> ../outside", "rm -rf src a.txt", "mv a.txt b.txt", "chmod 777 a.txt", "ln -sf /etc a.txt",
    "eval \"$(echo touch here)\"", "sh -c \"$(echo touch here)\"", "bash <(echo touch here)", "find . -execdir touch here \\;",
    "find . -delete", "echo here | xargs touch", "python3 -c 'open(\"here\", \"w\")'", "sed -i s/foo/bar/ a.txt", "sed -ne '1w here' a.txt",
    "sed -ne '1e touch here' a.txt", "awk 'BEGIN{system(\"touch here\")}'", "tar cf here src", "sort -o a.txt a.txt", "uniq a.txt here",
    "uniq two/*", "git -c alias.zz='!touch here' zz", "git --namespace x -c alias.zz='!touch here' zz", "cd sub && git status",
    "cd sub && git diff; cd ..; touch here", "git config core.fsmonitor 'touch here'", "git commit --allow-empty -m x", "git init here",
    "head a.txt", "diff -r a.txt .", "(setsid sh -c 'sleep 1; touch here' &)", "nohup touch here &", "trap 'touch here' EXIT",
    "cp a.txt .git/hooks/pre-commit", "echo x > .jaato/permissions.json", "mkdir -p .claude && touch .claude/settings.json", "cat ../.ssh/id_rsa",
    "cat $HOME/.ssh/id_rsa", "cp -r ../.ssh .", "echo x >> ~/.bashrc", "touch ~/.config/jaato/config.toml", "exec 3<>/dev/tcp/127.0.0.1/$PORT; echo x >&3",
    "python3 -c 'import os, socket; socket.create_connection((\"127.0.0.1\", int(os.environ[\"PORT\"])))'", "curl -s http://127.0.0.1:$PORT/",
    "bash -c 'bash -c \"touch here\"'", "ls; touch here", "true && touch here || touch here", "f() { touch here; }; f", "touch {here,there}",
    "cat <<E | bash\ntouch here\nE", "if true; then touch here; fi", "for i in 1; do touch here; done", "make", "mount --bind src two",
    "unshare -rm mount --bind src two", "kill -9 $HOSTPID", "dd if=/dev/zero of=a.txt count=1", "truncate -s 0 a.txt", "tee a.txt < /dev/null",
]  # fmt: skip


class Range:
    """A home with secrets, a workspace with traps, a listener that nobody is to reach, a process that is to live."""

    def __init__(self, root: Path, plugin: ShellPlugin, made: Tool, listener: socket.socket) -> None:
        self.root, self.work = root, root / "work"
        self.plugin, self.tool = plugin, made
        self.reached = 0
        self._listener = listener
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.reached += 1
            connection.close()

    def state(self) -> dict[str, str]:
        """Every file below the root by its content, mode and where it leads."""
        found = {}
        for directory, names, files in os.walk(self.root):
            for name in (*names, *files):
                path = Path(directory) / name
                info = path.lstat()
                content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
                target = os.readlink(path) if path.is_symlink() else ""
                digest = hashlib.sha256(content).hexdigest()
                found[str(path.relative_to(self.root))] = f"{info.st_mode:o} {target} {digest}"
        return found

    def run(self, gate: Gate, command: str) -> tuple[SandboxAccess | None, str]:
        """Judge a command and, where it is allowed, run it; what it may reach, and its output."""

        async def main() -> tuple[SandboxAccess | None, str]:
            call = Call("c", "run", {"command": command}, workspace=self.work, session_id="s")
            decision = await gate.check(call, self.tool)
            assert decision.allowed, decision
            call.access = decision.permission.access
            result = await self.plugin.run(command, timeout_s=60, call=call)
            return call.access, str(result["output"])

        return anyio.run(main)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Range]:
    """One range for all lines: none of them may change it."""
    root = tmp_path_factory.mktemp("executed")
    work = root / "work"
    for name in ("src", "two", "sub/objects", "sub/refs", "bin", ".jaato"):
        (work / name).mkdir(parents=True)
    (work / "a.txt").write_text("foo\nbar\n")
    (work / "two" / "1").write_text("1\n")
    (work / "two" / "2").write_text("2\n")
    (work / "Makefile").write_text("all:\n\ttouch here\n")
    (work / "sub" / "HEAD").symlink_to("refs/heads/nope")
    (work / "sub" / "config").write_text(
        "[core]\n\tfsmonitor = touch ../here; false\n\tbare = false\n\tworktree = .\n"
    )
    (work / "bin" / "head").write_text("#!/bin/sh\ntouch here\n")
    (work / "bin" / "head").chmod(0o755)
    (root / ".ssh").mkdir()
    (root / ".ssh" / "id_rsa").write_text(SECRET)
    (root / ".config" / "jaato").mkdir(parents=True)
    listener = socket.create_server(("127.0.0.1", 0))
    outside = subprocess.Popen(["sleep", "600"])
    environ = {
        "PATH": f"{work / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(root),
        "PORT": str(listener.getsockname()[1]),
        "HOSTPID": str(outside.pid),
    }
    subprocess.run(["git", "init", "-q", str(work)], check=True, env=environ)
    plugin = ShellPlugin(OneHost(work, environ=environ))
    made = Range(root, plugin, tool_from(plugin.run, "cli"), listener)
    yield made
    assert outside.poll() is None, "a command has ended a process outside"
    plugin.shutdown()
    plugin.sandbox.close()
    listener.close()
    outside.kill()
    outside.wait()


@C4
@pytest.mark.parametrize("command", LINES)
@pytest.mark.parametrize("mode", ["ask", "read-only"])
def test_what_runs_unasked_does_no_harm(ground: Range, command: str, mode: str) -> None:
    """Whatever a line does or computes, no file of the workspace or outside is changed, no secret is printed, nobody on the
    machine's network is reached."""
    before = ground.state()
    policy = Policy().with_flags(read_only=mode == "read-only")
    gate = Gate(policy, workspace=ground.work, profiles=lambda: ground.plugin.sandbox.profiles)
    access, output = ground.run(gate, command)
    assert access == SandboxAccess("read-only")
    assert ground.state() == before
    assert SECRET not in output
    assert ground.reached == 0


@C4
@pytest.mark.parametrize(
    "command", ["touch here", 'sh -c "$(echo touch here)"', "sed -ne '1w here' a.txt", "make"]
)
def test_the_same_lines_do_something_where_it_is_opened(ground: Range, command: str) -> None:
    """The harm that is looked for shows where a rule allows it, inside the workspace only."""
    gate = Gate(
        Policy.of({"defaultPolicy": "allow"}),
        workspace=ground.work,
        profiles=lambda: ground.plugin.sandbox.profiles,
    )
    before = ground.state()
    access, _ = ground.run(gate, command)
    assert access == SandboxAccess("workspace-write")
    assert set(ground.state()) - set(before) == {"work/here"}
    (ground.work / "here").unlink()
    ground.run(gate, "touch ../outside; echo x > ~/.bashrc; cp -r ~/.ssh .; touch .git/hooks/x")
    left = ground.state()
    assert not any(SECRET.encode() in path.read_bytes() for path in ground.work.rglob("id_rsa"))
    for name in set(left) - set(before):
        path = ground.root / name
        assert name.startswith("work/.ssh"), name
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()
