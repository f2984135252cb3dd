"""The model server of other people, installed from its package and run as a process of its own."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2

MANIFEST = Path(__file__).with_name("package.json")
PROGRAM = "node_modules/@copilotkit/aimock/dist/cli.js"
PATIENCE_S = 30.0
INSTALL_PATIENCE_S = 300.0
Reply = Mapping[str, Any]


def installed(path: str) -> Path:
    """The server's program, installed below this Python's environment when it is not there or the manifest is newer."""
    for name in ("node", "npm"):
        assert shutil.which(name, path=path), (
            f"{name} is needed (Node.js 20.15 or newer): it runs the model server"
        )
    folder = Path(sys.prefix) / "share" / "jaato-tests" / "aimock"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        manifest, program = folder / "package.json", folder / PROGRAM
        if not program.is_file() or manifest.read_bytes() != MANIFEST.read_bytes():
            manifest.write_bytes(MANIFEST.read_bytes())
            words = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]
            done = subprocess.run(
                words, cwd=folder, capture_output=True, text=True, timeout=INSTALL_PATIENCE_S, check=False
            )
            assert done.returncode == 0, done.stderr
    return program


class Aimock:
    """One server on loopback: what it answers is scripted, what it understood of each request is read back."""

    def __init__(self, folder: Path, path: str) -> None:
        program = installed(path)
        (folder / "first.json").write_text(
            json.dumps({"fixtures": [{"match": {"model": "nobody"}, "response": {"content": "-"}}]})
        )
        self._log = (folder / "log.txt").open("w+b")
        environ = {"PATH": path, "HOME": str(folder)}
        self.process = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL", "node", str(program), "--port", "0", "--strict"),
                *("--fixtures", str(folder / "first.json")),
            ],
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            self.url = self._listening(folder / "log.txt")
        except BaseException:
            self.stop()
            raise
        self._http = httpx2.Client(base_url=self.url, trust_env=False, timeout=PATIENCE_S)

    def _listening(self, log: Path) -> str:
        """The URL the server says it listens on."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            text = log.read_text()
            for line in text.splitlines(keepends=True):
                if "listening on http://" in line and line.endswith("\n"):
                    return line.rpartition(" ")[2].strip()
            assert self.process.poll() is None, f"the model server ended: {text}"
            time.sleep(0.02)
        raise AssertionError(f"the model server did not come up: {log.read_text()}")

    def stop(self) -> None:
        """End the server and everything it started."""
        if hasattr(self, "_http"):
            self._http.close()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(PATIENCE_S)
        self._log.close()

    def reset(self) -> None:
        """Forget what is scripted and what was asked."""
        self._http.post("/__aimock/reset").raise_for_status()

    def add(self, fixtures: Sequence[Reply]) -> None:
        """Add fixtures in the server's own form; the first that matches a request answers it."""
        self._http.post("/__aimock/fixtures", json={"fixtures": list(fixtures)}).raise_for_status()

    def script(self, *replies: Reply, **more: Any) -> None:
        """Answer the first request with the first reply, and so on; what comes after them is refused."""
        self.add(
            [
                {"match": {"sequenceIndex": index}, "response": reply, **more}
                for index, reply in enumerate(replies)
            ]
        )

    def asked(self, model: str | None = None) -> list[dict[str, Any]]:
        """The requests the server has answered, oldest first; `body` is how it read each."""
        found = self._http.get("/__aimock/journal").raise_for_status().json()
        assert isinstance(found, list)
        return [entry for entry in found if model is None or (entry["body"] or {}).get("model") == model]

    def post(self, path: str, body: Mapping[str, Any]) -> httpx2.Response:
        """Ask something directly, as no client of ours would."""
        return self._http.post(path, json=body)
