"""The library of another project's chat front ends at the server."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import anyio
import pytest
from tests.chat_api.api import serving

from jaato.protocol.messages import Usage
from jaato.providers.scripted import ScriptedCall, Step
from jaato.settings import environment

FOLDER = Path(__file__).parent
INSTALL = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--silent"]


@pytest.mark.system
def test_the_ai_sdk(tmp_path: Path) -> None:
    """The AI SDK streams text, reasoning and usage, continues a chat, has a title made, and gets errors with their status."""
    env = {"PATH": environment()["PATH"], "HOME": str(tmp_path), "NODE_NO_WARNINGS": "1"}
    for name in ("package.json", "front_end.mjs"):
        shutil.copy(FOLDER / name, tmp_path)
    subprocess.run(INSTALL, cwd=tmp_path, env=env, check=True, timeout=300)

    async def main() -> None:
        look = Step("I look.", calls=[ScriptedCall("readFile", {"path": "a.txt"})], usage=Usage(10, 2))
        script = [
            look,
            Step("One line.", thinking="So.", usage=Usage(20, 3)),
            Step("You are welcome.", usage=Usage(30, 4)),
            Step("A title", purpose="task"),
        ]
        async with serving(tmp_path, script) as api:
            (api.work / "a.txt").write_text("one\n")
            url = f"http://127.0.0.1:{api.port}/v1"
            words = ["node", "front_end.mjs", url, api.token]
            done = await anyio.run_process(words, cwd=tmp_path, env=env, check=False)
            assert done.stderr == b""
            first, second, title, error = map(json.loads, done.stdout.splitlines())
            assert first["text"] == "I look.\n\nOne line."
            assert first["reasoning"].startswith("`readFile(path=a.txt)`: done in ")
            assert first["reasoning"].endswith("So.")
            assert (first["reason"], first["usage"]) == ("stop", 35)
            assert (second["text"], second["usage"]) == ("You are welcome.", 34)
            assert title["text"] == "A title"
            assert error["status"] == 404
            assert "There is no model 'nothing'" in error["message"]
            assert len(api.sessions()) == 1

    anyio.run(main)
