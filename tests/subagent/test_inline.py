"""Configurations given with a task, and the settings that bound all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, plan, results, say
from tests.subagent.acts import outcomes, problem, value
from tests.subagent.cast import Cast
from tests.subagent.written import delegating, home, played, with_settings, write

from jaato.agent.journal import Journal
from jaato.agent.state import State
from jaato.plugins.subagent.profiles import NoProfile, to_config


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("{", "object, or the JSON text"),
        ("[]", "inline_config"),
        ({"tols": []}, "tols"),
        ({"tools": "look"}, "tools"),
        ({"tools": ["lok"]}, "Did you mean look"),
        ({"tools": [""]}, "tools"),
        ({"plugins": ["nothing"]}, "There is no plugin 'nothing'"),
        ({"max_turns": 0}, "max_turns"),
        ({"max_turns": "many"}, "max_turns"),
        ({"timeout_s": -1}, "timeout_s"),
        ({"temperature": 99}, "temperature"),
        ({"effort": "herculean"}, "effort"),
        ({"provider": "nobody"}, "nobody"),
        ({"provider": "scripted", "model": "/etc/passwd"}, "a profile of the user can"),
        ({"provider": "anthropic"}, "anthropic"),
        ({"instructions": "x" * 40_000}, "instructions"),
        ({"name": "a b"}, "name"),
        ({"deny": ["run("]}, ""),
    ],
)
def test_a_configuration_that_cannot_be_used_is_refused(tmp_path: Path, config: Any, said: str) -> None:
    """The error names what is wrong and what could be written; no agent is made."""

    async def main() -> None:
        live = await played(tmp_path, delegating(inline_config=config))
        result = results(live)[0]
        if said:
            assert said in problem(live)
            assert not live.journal.session_state.subagents
        else:
            assert result.ok or "run(" in problem(live)

    anyio.run(main)


def test_a_configuration_may_come_as_text(tmp_path: Path) -> None:
    """Models that write JSON into a string are understood."""

    async def main() -> None:
        live = await played(tmp_path, delegating(name="one", inline_config='{"read_only": true}'))
        assert outcomes(live, "one") == ["ok", "permission_denied"]

    anyio.run(main)


def test_another_provider_is_made_once_and_let_go(tmp_path: Path) -> None:
    """A subagent whose profile names a provider speaks with it, and its parent with its own; after a restart too."""
    script = write(tmp_path, "other.json", [{"text": "from the other model"}, {"text": "again"}])
    write(home(tmp_path), "other.json", {"provider": "scripted", "model": str(script)})

    async def main() -> None:
        cast = Cast({"main": [call("delegate", task="x", profile="other"), say("done")]})
        cast.name = "cast"
        runtime = with_settings(tmp_path)
        try:
            async with runtime.create(plan(tmp_path, [], provider=cast, deferred=False)) as live:
                await live.post("go")
                assert value(live)["result"] == "from the other model"
                child = next(iter(live.supervisor.subagents.values()))
                assert child.session.model.provider is not live.model.provider
                assert live.model.provider is cast
                session_id = live.state.session_id
        finally:
            runtime.close()
        runtime = with_settings(tmp_path)
        try:
            journal = Journal(runtime.store, State())
            journal.load(session_id)
            async with runtime.open(journal, plan(tmp_path, [], provider=cast, deferred=False)) as live:
                child = next(iter(live.supervisor.subagents.values()))
                await live.supervisor.runner.start(child, "more")
                report = await live.supervisor.runner.see_through(None, child)
                assert report["result"] == "again"
        finally:
            runtime.close()

    anyio.run(main)


def test_an_unknown_model_fails_the_task_not_the_session(tmp_path: Path) -> None:
    """What the provider says of it is what the parent reads."""

    async def main() -> None:
        live = await played(
            tmp_path, {"main": [call("delegate", task="x", inline_config={"model": "no"}), say("d")]}
        )
        assert "failed" in problem(live)
        assert live.state.messages[-1].text == "d"

    anyio.run(main)


@pytest.mark.parametrize(
    ("variable", "value_", "said"),
    [
        ("JAATO_SUBAGENT_DEPTH", "0", "nest 0 deep"),
        ("JAATO_SUBAGENTS_OPEN", "-5", ""),
        ("JAATO_SUBAGENTS_AT_ONCE", "0", ""),
    ],
)
def test_the_bounds_are_settings(tmp_path: Path, variable: str, value_: str, said: str) -> None:
    """Depth 0 makes none; numbers that make no sense count as the smallest that does."""

    async def main() -> None:
        with anyio.fail_after(60):
            live = await played(tmp_path, delegating(name="one"), **{variable: value_})
        if said:
            assert said in problem(live)
        else:
            assert results(live)[0].ok

    anyio.run(main)


def test_what_a_configuration_may_say_is_checked_by_type() -> None:
    """Every wrong value is one error that names its key."""
    wrong: list[Any] = [None, 1, [], {"name": 1}, {"deny": None}, {"read_only": "yes"}, {"model": ""}]
    for value_ in wrong:
        with pytest.raises(NoProfile):
            to_config(value_, "here")
