"""The TypeScript client without the page: the example of the guide, and a connection that is lost."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

from tests.page.browser import Desk, desk
from tests.page.node import CLIENT, node

from jaato.settings import environment

GUIDE = Path(__file__).parents[2] / "docs/guides/browser.md"


def token_of(server: Desk) -> str:
    """The owner's token."""
    return (server.home / "state/server-token").read_text().strip()


def environ_of(server: Desk) -> dict[str, str]:
    """How a program finds the server."""
    url = f"ws://127.0.0.1:{server.port}/v1/connect"
    return environment() | {"JAATO_URL": url, "JAATO_TOKEN": token_of(server)}


def run_program(server: Desk, program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A program that uses the client, until it has ended."""
    return subprocess.run(
        [node(), str(program), *words],
        cwd=server.work,
        env=environ_of(server),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_example_of_the_guide_talks_to_an_agent(tmp_path: Path) -> None:
    """It is the file that stands in the guide; it prints the answer as it arrives, and denies what it is asked."""
    program = (CLIENT / "example.ts").read_text()
    (shown,) = re.findall(r"```ts\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert program.partition("\n")[2] == shown
    assert len([line for line in shown.splitlines() if line]) <= 12
    write = {"calls": [{"name": "run", "arguments": {"command": "printf x > x.txt", "need": ["write"]}}]}
    with desk(tmp_path, main=[write, {"text": "An answer in many pieces. 🙂"}]) as server:
        made = run_program(server, CLIENT / "example.ts", "Write a file.")
        assert (made.returncode, made.stdout) == (0, "An answer in many pieces. 🙂"), made.stderr
        assert not (server.work / "x.txt").exists()


def test_a_program_of_its_own_imports_the_client(tmp_path: Path) -> None:
    """By the name of the package, which `npm install` links; its turn is over before its message is confirmed."""
    packages = tmp_path / "own/node_modules"
    packages.mkdir(parents=True)
    (packages / "jaato-web").symlink_to(CLIENT)
    (packages.parent / "package.json").write_text('{"type": "module"}')
    program = packages.parent / "ask.ts"
    program.write_text((CLIENT / "example.ts").read_text().replace("./src/client/index.ts", "jaato-web"))
    with desk(tmp_path / "desk", main=[{"text": "At once."}]) as server:
        made = run_program(server, program)
        assert (made.returncode, made.stdout) == (0, "At once."), made.stderr


FOLLOW = """
import { Client } from "CLIENT/src/client/index.ts";
const client = new Client({ url: process.env.JAATO_URL, token: () => process.env.JAATO_TOKEN, onStatus: (s) => console.log(s) });
const session = await client.create({ workspace: process.cwd() });
session.listen((event) => {
  if (event?.type === "permission.requested") console.log("asked");
  if (event?.type !== "turn.completed") return;
  console.log("turns", session.state.turns);
  client.close();
});
await session.send("Do it.");
for await (const line of process.stdin) {
  const [question] = Object.values(session.state.questions);
  await session.answer(question, "y");
}
"""


def test_a_killed_server_is_resumed_by_seq(tmp_path: Path) -> None:
    """The client reconnects by itself, has the same state, and its answer continues the turn."""
    write = {"calls": [{"name": "run", "arguments": {"command": "printf x > x.txt", "need": ["write"]}}]}
    program = tmp_path / "follow.mts"
    program.write_text(FOLLOW.replace("CLIENT", str(CLIENT)))
    with desk(tmp_path / "desk", main=[write, {"text": "Well."}]) as server:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        client = subprocess.Popen([node(), str(program)], cwd=server.work, env=environ_of(server), **pipes)
        assert client.stdout is not None
        assert client.stdin is not None
        try:
            assert [client.stdout.readline().strip() for _ in range(3)] == ["connecting", "online", "asked"]
            server.kill()
            assert client.stdout.readline() == "offline\n"
            server.start()
            while client.stdout.readline() != "online\n":
                pass
            client.stdin.write("y\n")
            client.stdin.flush()
            turns = client.stdout.readline().split()
            assert turns[:2] == ["turns", "1"]
            client.stdin.close()
            assert client.stdout.read() == "closed\n"
        finally:
            client.kill()
            client.wait()
            client.stdout.close()
        assert (server.work / "x.txt").read_text() == "x"


LARGE = """
import { Client } from "CLIENT/src/client/index.ts";
const client = new Client({ url: process.env.JAATO_URL, token: () => process.env.JAATO_TOKEN });
const session = await client.create({ workspace: process.cwd() });
await session.send("x".repeat(17 << 20)).catch((error) => console.log(error.code));
session.listen((event) => event?.type === "turn.completed" && client.close());
await session.send("short");
"""


def test_a_message_that_is_too_large_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    """The server would close the connection, and the client send it again for ever; so it says no, and goes on."""
    program = tmp_path / "large.mts"
    program.write_text(LARGE.replace("CLIENT", str(CLIENT)))
    with desk(tmp_path / "desk", main=[{"text": "Well."}]) as server:
        made = run_program(server, program)
        assert (made.returncode, made.stdout) == (0, "too_large\n"), made.stderr
