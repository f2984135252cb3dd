"""How long questions wait, and what counts when nobody has answered."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.kit import call, recorded, results, say, session

from jaato.errors import ConfigError
from jaato.protocol.events import ClarificationQuestion
from jaato.runtime.session_factory import question_timeout
from jaato.settings import load


def test_a_clarification_waits_until_its_deadline(tmp_path: Path) -> None:
    """With `question_timeout_s` the question names its deadline; after it the defaults stand, and it is settled."""

    async def main() -> None:
        asked = call(
            "request_clarification",
            context="",
            questions=[{"question": "Which?", "choices": ["a", "b"], "default": "a"}, "Why?"],
        )
        script = [call("get_tool_schemas", names=["request_clarification"]), asked, say("ok")]
        plugins = ("introspection", "clarification")
        async with session(tmp_path, script, plugins=plugins, question_timeout_s=0.05) as live:
            leave = live.questions.add_responder()
            await live.post("go")
            leave()
            found = results(live)[1].structured
            assert found is not None
            assert (found["answered"], found["qa_pairs"]) == (False, [["Which?", "a"], ["Why?", None]])
            [question] = [e for e in recorded(live) if isinstance(e, ClarificationQuestion)]
            assert question.deadline is not None
            assert question.deadline > question.timestamp
            assert live.state.questions == {}

    anyio.run(main)


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "1e12"])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    """`question_timeout_s` is 0 or up to a year."""
    with pytest.raises(ConfigError, match=r"(?i)question_timeout_s"):
        question_timeout(load(environ={"JAATO_QUESTION_TIMEOUT_S": text}))
    assert question_timeout(load(environ={})) is None
    assert question_timeout(load(environ={"JAATO_QUESTION_TIMEOUT_S": "5"})) == 5
