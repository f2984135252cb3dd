"""An embedding program that makes mistakes is told what they are, and never waits for itself."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests import kit

from jaato import Agent, CancelledException, ConfigError, JaatoClient, JaatoError, PluginError, tool
from jaato.providers.scripted import ScriptedProvider


def agent(tmp_path: Path, *steps: Any, **more: Any) -> Agent:
    """An agent that plays these steps."""
    given: dict[str, Any] = {"workspace": tmp_path, "state_dir": tmp_path / "state", "environ": {}} | more
    return Agent(provider=ScriptedProvider(steps or [kit.say("x")]), **given)


@pytest.mark.parametrize("name", ["allow", "deny", "plugins", "tools", "stop_sequences"])
def test_one_text_where_a_list_is_meant(tmp_path: Path, name: str) -> None:
    """A bare string is not taken for its letters: allow="run" would allow nothing, and say so nowhere."""
    with pytest.raises(ConfigError, match=rf"`{name}` is a list: {name}=\['run'\]"):
        agent(tmp_path, **{name: "run"}).run_sync("x")


@pytest.mark.parametrize("prompt", [3, b"bytes", ["x"]])
def test_a_prompt_that_is_no_text(tmp_path: Path, prompt: Any) -> None:
    """What is no text is named by its type."""
    with pytest.raises(ConfigError, match=f"is text, not {type(prompt).__name__}"):
        agent(tmp_path).run_sync(prompt)


def test_a_tool_that_cannot_be_called(tmp_path: Path) -> None:
    """A value among the tools that is none is named."""
    with pytest.raises(PluginError, match="3 is no tool"):
        agent(tmp_path, tools=[3]).run_sync("x")


def test_directories_may_be_given_as_text(tmp_path: Path) -> None:
    """state_dir and workspace are paths or text, for an agent and for a client."""
    places: dict[str, Any] = {"workspace": str(tmp_path), "state_dir": str(tmp_path / "state")}
    assert agent(tmp_path, **places).run_sync("x").text == "x"
    with JaatoClient(state_dir=places["state_dir"]) as client:
        client.connect(provider=ScriptedProvider([kit.say("y")]), model="m", workspace=places["workspace"])
        assert client.send_message("x") == "y"
    assert (tmp_path / "state" / "jaato.db").exists()


@pytest.mark.parametrize("is_async", [True, False])
def test_an_agent_does_not_wait_for_itself(tmp_path: Path, is_async: bool) -> None:
    """A tool that runs the agent whose call it is gets an error at once; another agent may be run."""
    mine = agent(tmp_path, kit.call("ask"), kit.say("Done."))
    said: list[str] = []

    def ask() -> str:
        """Ask again."""
        said.append(agent(tmp_path, kit.say("another")).run_sync("x").text)
        with pytest.raises(JaatoError, match="of the very agent") as refused:
            mine.run_sync("x")
        return str(refused.value)

    async def ask_async() -> str:
        """Ask again."""
        with pytest.raises(JaatoError, match=r"own event loop|of the very agent") as refused:
            mine.run_sync("x")
        return str(refused.value)

    mine.tools = [tool(name="ask")(ask_async if is_async else ask)]
    assert mine.run_sync("go").text == "Done."
    assert said == ([] if is_async else ["another"])


def test_hooks_that_raise_harm_nobody(tmp_path: Path) -> None:
    """Every hook may fail, the very first too: the message is answered, and the session closes."""

    class Hooks:
        """All nine, each raising."""

        def __getattr__(self, name: str) -> Any:
            def fail(*_: Any, **__: Any) -> None:
                raise RuntimeError(name)

            if name.startswith("on_"):
                return fail
            raise AttributeError(name)

    with JaatoClient(state_dir=tmp_path / "state") as client:
        client.connect(provider=ScriptedProvider([kit.say("y")]), model="m", workspace=tmp_path)
        client.set_ui_hooks(Hooks())
        assert client.send_message("x") == "y"


@pytest.mark.parametrize("given", [{"model": 5}, {"model": " "}])
def test_a_model_that_is_no_name(tmp_path: Path, given: dict[str, Any]) -> None:
    """A model of one run that is no text is refused like an empty one."""
    with pytest.raises(ConfigError, match="`model` is the name of a model, 'provider/name'"):
        agent(tmp_path).run_sync("x", **given)


def test_a_list_that_is_none(tmp_path: Path) -> None:
    """A number where a list is meant is named."""
    with pytest.raises(ConfigError, match="`tools` is a list, not 5"):
        agent(tmp_path, tools=5).run_sync("x")


def test_a_program_that_exits_in_its_answer(tmp_path: Path) -> None:
    """sys.exit() in on_permission denies the call; run_sync returns, and the next one works."""

    def leave(_question: object) -> Any:
        sys.exit(3)

    steps = (kit.call("writeNewFile", path="a.txt", content="a"), kit.say("Denied."), kit.say("Again."))
    mine = agent(tmp_path, *steps, on_permission=leave, plugins=["file_edit"])
    assert mine.run_sync("x").text == "Denied."
    assert not (tmp_path / "a.txt").exists()
    assert mine.run_sync("y").text == "Again."


def test_stopped_from_another_thread(tmp_path: Path) -> None:
    """A program without an event loop stops its run_sync from another thread."""
    started = threading.Event()

    async def wait() -> None:
        """Wait for ever."""
        started.set()
        await anyio.sleep_forever()

    mine = agent(tmp_path, kit.call("wait"), kit.say("On."), tools=[wait])

    def stop() -> None:
        started.wait()
        mine.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(CancelledException):
        mine.run_sync("x")
    stopper.join()
    mine.stop()
    assert mine.run_sync("y").text == "On."
