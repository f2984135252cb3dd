"""The mode of a session outlives the process that it was changed in; what a session made for its commands does not."""

from __future__ import annotations

from pathlib import Path

import anyio
from tests import kit
from tests.runtime.agents import agent

from jaato.abc.asker import Answer
from jaato.protocol.events import PermissionRequested
from jaato.protocol.ids import new_id
from jaato.providers.scripted import Answer as Scripted
from jaato.providers.scripted import ScriptedProvider
from jaato.runtime.secrets import session_secrets
from jaato.runtime.session_factory import SessionFactory, close_all
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.runtime.session_store import open_store
from jaato.runtime.user_commands import mode_command
from jaato.tools.permissions.access import READ_ONLY
from jaato.tools.processes.sandbox.network_namespace import SessionNetwork
from jaato.tools.processes.sandbox.sandbox import Sandbox


def test_a_mode_that_an_approved_plan_ends_stays_ended(tmp_path: Path) -> None:
    """The log says so: who takes the session up later does not find it waiting for a plan again."""
    asked: list[str] = []

    def yes(question: PermissionRequested) -> Answer:
        asked.append(question.tool)
        return Answer(answer="y")

    async def main() -> None:
        steps = {"title": "t", "steps": [{"description": "one"}]}
        script: list[Scripted] = [kit.call("createPlan", **steps), kit.call("startPlan"), kit.say("done")]
        async with agent(tmp_path, script, mode="plan", on_permission=yes) as one:
            assert one.live.gate.mode == "plan"
            await one.run("plan it")
            assert asked == ["startPlan"]
            assert (one.live.gate.mode, one.live.state.mode) == ("ask", "ask")
            mode_command(one.live, "auto")
            assert (one.live.gate.mode, one.live.state.mode) == ("auto", "auto")

    anyio.run(main)


def test_what_a_session_made_for_its_commands_ends_with_it(tmp_path: Path) -> None:
    """Two sessions of one workspace: with the first go its `/tmp` and its network, those of the second stay."""
    (tmp_path / "work").mkdir()
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    mark = new_id("m")
    script = [kit.call("run", command=f"touch /tmp/{mark}"), kit.say("done")]
    blueprint = SessionOptions(
        workspace=tmp_path / "work",
        provider=ScriptedProvider([*script, *script]),
        state_dir=tmp_path / "state",
        environ=environ,
    )

    async def main() -> None:
        settings = settings_for(blueprint, tmp_path / "work")
        store = open_store(settings, blueprint.state_dir)
        shop = SessionFactory(tmp_path / "work", settings, store, session_secrets(settings, blueprint))
        sessions = [await shop.session(blueprint), await shop.session(blueprint)]
        networks: list[SessionNetwork] = []
        for session, _ in sessions:
            sandbox: Sandbox = session.services["registry"].services["sandbox"]
            await session.post("go")
            confined = await sandbox.confine(READ_ONLY, tmp_path, session.state.session_id)
            assert confined.network is not None
            networks.append(confined.network)
        for gone, (_, leave) in enumerate(sessions, 1):
            assert [opened(network) for network in networks].count(True) == len(left(mark)) == 3 - gone
            await leave()
            assert [opened(network) for network in networks] == [False] * gone + [True] * (2 - gone)
            assert len(left(mark)) == 2 - gone
        await close_all(shop, store)

    anyio.run(main)


def left(mark: str) -> list[Path]:
    """The temporary directories of sessions with this file."""
    return [*Path("/tmp").glob(f"jaato-private-*/{mark}")]


def opened(network: SessionNetwork) -> bool:
    """Whether processes can still enter a session's network."""
    with network.open_namespaces() as descriptors:
        return bool(descriptors)
