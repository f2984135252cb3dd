"""A masked file is never written back over the original."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, results, say
from tests.secrets.canaries import VALUE
from tests.secrets.test_masking import session

from jaato.abc.asker import Answer, Question
from jaato.abc.provider import ModelRequest
from jaato.protocol.codec import encode
from jaato.providers.scripted import Step
from jaato.runtime.embedding.executor import ToolExecutor
from jaato.tools.permissions.gate import Policy
from jaato.tools.redaction.redactor import PLACEHOLDER
from jaato.tools.tool import tool

BEFORE = f"name=app\nTOKEN={VALUE}\nport=1\n"


def writing(name: str, **arguments: Any) -> Any:
    """A step that makes a call with what the model was shown in place of `MASK`."""

    def step(request: ModelRequest) -> Step:
        mark = PLACEHOLDER.search(encode(request.messages).decode())
        assert mark is not None
        return call(name, **{key: value.replace("MASK", mark[0]) for key, value in arguments.items()})

    return step


@tool(name="remote", core=True, access="network")
async def remote(text: str) -> str:
    """Send text to a server."""
    raise AssertionError(f"{text} was sent")


PATCH = "--- a/c.env\n+++ b/c.env\n@@ -1,3 +1,3 @@\n name=app\n-TOKEN=MASK\n+TOKEN=MASK \n port=1\n"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("updateFile", {"path": "c.env", "new_content": "name=app\nTOKEN=MASK\nport=2\n"}),
        ("updateFile", {"path": "c.env", "old": "TOKEN=MASK", "new": "TOKEN=MASK2"}),
        ("writeNewFile", {"path": "d.env", "content": "TOKEN=MASK\n"}),
        ("run", {"command": "echo TOKEN=MASK > c.env"}),
        ("remote", {"text": "MASK"}),
        ("apply_patch", {"patch": PATCH}),
    ],
)
def test_a_placeholder_is_not_written(tmp_path: Path, name: str, arguments: dict[str, str]) -> None:
    """Reading gives the placeholder; every call that would carry it away is refused, with the place and the way."""

    async def main() -> None:
        script = [call("readFile", path="c.env"), writing(name, **arguments), say("ok")]
        async with session(
            tmp_path, script, [remote], plugins=("introspection", "cli", "file_edit"), deferred=False
        ) as live:
            path = tmp_path / "work" / "c.env"
            path.write_text(BEFORE)
            await live.post("go")
            refused = results(live)[1].error
            assert refused is not None
            assert refused.code == "arguments_invalid"
            assert "placeholder" in refused.message
            assert "lines around it" in refused.message
            assert path.read_text() == BEFORE
            assert not (tmp_path / "work" / "d.env").exists()

    anyio.run(main)


def test_the_lines_around_a_secret_can_be_changed(tmp_path: Path) -> None:
    """An edit that names other lines works, the secret stays, and a search for the placeholder only finds nothing."""

    async def main() -> None:
        script = [
            call("readFile", path="c.env"),
            call("updateFile", path="c.env", old="port=1", new="port=2"),
            writing("readFile", path="MASK"),
            say("ok"),
        ]
        async with session(tmp_path, script, deferred=False) as live:
            path = tmp_path / "work" / "c.env"
            path.write_text(BEFORE)
            await live.post("go")
            assert path.read_text() == BEFORE.replace("port=1", "port=2")
            assert results(live)[1].ok
            missing = results(live)[2].error
            assert missing is not None
            assert missing.code != "arguments_invalid"

    anyio.run(main)


def test_edited_arguments_are_looked_at_too(tmp_path: Path) -> None:
    """A person who edits the shown arguments cannot write the placeholder either."""

    async def main() -> None:
        class Editor:
            async def ask(self, question: Question) -> Answer:
                return Answer(answer="e", arguments={**question.arguments, "path": "e.env"})

        script = [call("writeNewFile", path="d.env", content=BEFORE), say("ok")]
        async with session(tmp_path, script, asker=Editor(), policy=Policy.of({}), deferred=False) as live:
            await live.post("go")
            refused = results(live)[0].error
            assert refused is not None
            assert "placeholder" in refused.message
            assert list((tmp_path / "work").iterdir()) == []

    anyio.run(main)


def test_the_synchronous_executor_refuses_too() -> None:
    """`ToolExecutor` has the same guard."""
    executor = ToolExecutor()
    executor.register("save", lambda args: args)
    ok, result = executor.execute("save", {"deep": [{"text": "[masked:TOKEN:0a1b2c]"}]})
    assert not ok
    assert "/deep/0/text" in result["error"]
