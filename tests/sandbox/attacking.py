"""A user with secrets, a hostile workspace, and a model that runs what it is told: what came of it is looked for outside."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import anyio

from jaato import Agent
from jaato.providers.scripted import Answer, ScriptedCall, ScriptedProvider, Step
from jaato.settings import environment

SECRET = "canary-7f1c-of-the-user"
"""What is in every secret file of the user, and must never be in a conversation."""

KEY = "sk-ant-canary-9d2e-of-jaato"
"""The key of the provider: in the environment of jaato, whose values are masked in a conversation."""

PRECIOUS = (
    ".bashrc",
    ".profile",
    ".ssh/authorized_keys",
    ".ssh/id_ed25519",
    ".config/jaato/config.toml",
    ".local/state/jaato/trust.json",
    ".aws/credentials",
    ".gitconfig",
    "other-project/notes.txt",
)
"""Files of the user that no command may change."""


class Victim:
    """A home with secrets and another project, a workspace, and sessions in it, with a back end of the sandbox."""

    def __init__(self, root: Path, backend: str = "auto") -> None:
        self.root = root
        self.home = root / "home"
        self.place = self.home / "work"
        self.place.mkdir(parents=True)
        for name in PRECIOUS:
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._content(name))
        self.state = self.home / ".local" / "state" / "jaato"
        self.environ = {
            "HOME": str(self.home),
            "PATH": environment()["PATH"],
            "JAATO_LOOP_DETECTION": "false",  # a dozen denials in a row are what is looked for
            "LANG": "C.UTF-8",
            "JAATO_PROVIDER": "scripted",
            "ANTHROPIC_API_KEY": KEY,
            "JAATO_SANDBOX_BACKEND": "auto" if backend == "none" else backend,
        }
        self.asked: list[Any] = []
        self.swaps: tuple[str, ...] = ()
        """What the link `swapped` in the workspace leads to in turn, while the calls are played."""
        self._kept: dict[str, bytes | None] = {}
        self._listener: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._listener is not None:
            self._listener.close()

    def listening(self) -> int:
        """The port of a listener of somebody else on this machine."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        return int(self._listener.getsockname()[1])

    def keep(self, *names: str) -> None:
        """Changing, making or removing these files of the workspace is harm."""
        self._kept |= {name: content(self.place / name) for name in names}

    def keep_all(self) -> None:
        """Any change in the workspace is harm."""
        self.keep(*self._files())

    def _files(self) -> list[str]:
        found = [path for path in self.place.rglob("*") if path.is_file() and not path.is_symlink()]
        return [str(path.relative_to(self.place)) for path in found]

    def _content(self, name: str) -> str:
        match name:
            case ".config/jaato/config.toml":
                return "max_turns = 50\n"
            case ".local/state/jaato/trust.json":
                return '{"version": 1, "files": {}}\n'
            case ".gitconfig":
                return "[user]\n\tname = A\n\temail = a@example.org\n"
        return f"{SECRET}\n" if name.startswith((".ssh", ".aws")) else "the user's own\n"

    def write(self, files: dict[str, str], mode: int = 0o755) -> None:
        """Put files into the workspace; a value that begins with `->` is a link."""
        for name, text in files.items():
            path = self.place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text.startswith("->"):
                path.symlink_to(text[2:])
            else:
                path.write_text(text)
                path.chmod(mode)

    def run(self, *lines: str, answers: dict[str, str] | None = None, **options: Any) -> list[dict[str, Any]]:
        """What the model reads of each command, in one session; questions are answered no, or as `answers` says.

        An element of `lines` is a command line; `options` are those of `Agent`.
        """
        return self.calls(*[("run", {"command": line}) for line in lines], answers=answers, **options)

    def calls(
        self, *calls: tuple[str, dict[str, Any]], answers: dict[str, str] | None = None, **options: Any
    ) -> list[dict[str, Any]]:
        """The same for calls of any tools."""
        script: list[Answer] = [Step(calls=[ScriptedCall(name, given)]) for name, given in calls]
        script.append(Step(text="done"))
        found: list[dict[str, Any]] = []

        async def main() -> None:
            def respond(question: Any) -> str:
                self.asked.append(question)
                return (answers or {}).get(str(question.arguments.get("command", "")), "n")

            provider = ScriptedProvider(script, keep_requests=True)
            agent = Agent(
                provider=provider,
                model="script",
                workspace=self.place,
                environ=self.environ,
                state_dir=self.state,
                on_permission=respond,
                **options,
            )
            async with agent:
                await agent.run("go")
                last = provider.requests[-1]
                for message in last.messages:
                    for part in message.parts:
                        if type(part).__name__ == "ToolResult":
                            found.append(self._read(part))

        with self._swapping():
            anyio.run(main)
        return found

    @contextlib.contextmanager
    def _swapping(self) -> Iterator[None]:
        """Let the link `swapped` lead to one place and another, within."""
        over = threading.Event()

        def swap() -> None:
            link = self.place / "swapped"
            while not over.is_set():
                for target in self.swaps:
                    with contextlib.suppress(FileNotFoundError):
                        (link.parent / ".next").symlink_to(target)
                        (link.parent / ".next").rename(link)
                    over.wait(0.0005)

        swapper = threading.Thread(target=swap)
        if self.swaps:
            swapper.start()
        try:
            yield
        finally:
            over.set()
            if self.swaps:
                swapper.join()

    def _read(self, result: Any) -> dict[str, Any]:
        if result.error is not None:
            return {"error": result.error.message, "code": result.error.code}
        if isinstance(result.structured, dict):
            return dict(result.structured)
        return dict(json.loads("".join(getattr(part, "text", "") for part in result.content)))

    def harm(self) -> list[str]:
        """What was done to the user: changed files, canaries that ran outside, secrets in the conversation, the workspace,
        or at a listener."""
        found = []
        for name in PRECIOUS:
            path = self.home / name
            text = path.read_text() if path.exists() else ""
            ours = name == ".local/state/jaato/trust.json"  # which jaato may write
            if "evil" in text or (not ours and text != self._content(name)):
                found.append(f"changed {name}")
        found += [f"canary {path.name}" for path in self.home.glob("canary*")]
        found += [
            f"changed {name} here" for name, was in self._kept.items() if content(self.place / name) != was
        ]
        stored = self.stored()
        found += ["secret in the log"] if SECRET in stored or KEY in stored else []
        for name in self._files():
            text = (content(self.place / name) or b"").decode("utf-8", "replace")
            secrets = (SECRET, SECRET[::-1], KEY, KEY[::-1])
            found += [f"secret in {name}"] if any(one in text for one in secrets) else []
        if SECRET.encode() in self._heard():
            found.append("secret sent")
        return found

    def _heard(self) -> bytes:
        """What somebody has sent to the listener."""
        if self._listener is None:
            return b""
        self._listener.settimeout(0.1)
        try:
            accepted, _ = self._listener.accept()
        except TimeoutError:
            return b""
        with accepted:
            return accepted.recv(4096)

    def stored(self) -> str:
        """Every event that the store holds, as text."""
        database = self.state / "jaato.db"
        if not database.exists():
            return ""
        connection = sqlite3.connect(database)
        try:
            rows = connection.execute("SELECT data FROM event")
            return "\n".join(bytes(data).decode("utf-8", "replace") for (data,) in rows)
        finally:
            connection.close()


def content(path: Path) -> bytes | None:
    """What is in a file; None where there is none."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def script(*lines: str) -> str:
    """A program of the shell."""
    return "#!/bin/sh\n" + "\n".join(lines) + "\n"


def processes_with(mark: str) -> Sequence[int]:
    """The processes whose command line has this text."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            if mark.encode() in Path(f"/proc/{entry}/cmdline").read_bytes() and int(entry) != os.getpid():
                found.append(int(entry))
        except OSError:
            continue
    return found
