"""The channel `file`: questions and answers as private files, and what hostile ones can do."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.permissions.test_webhook import C4, Change, as_it_is, question

from jaato.abc.asker import Answer
from jaato.errors import ConfigError
from jaato.plugins.permission.plugin import PermissionPlugin
from jaato.plugins.permission.webhook_file_channels import FileChannel
from jaato.protocol.ids import new_id


def answering(place: Path, *answers: Change) -> threading.Thread:
    """Somebody who answers each question file that appears, once, whole."""

    done = {file.name for file in place.glob("*.question.json")}

    def body() -> None:
        for change in answers:
            while not (new := [f for f in place.glob("*.question.json") if f.name not in done]):
                threading.Event().wait(0.005)
            done.add(new[0].name)
            asked = json.loads(new[0].read_text())
            said = {name: asked[name] for name in ("question_id", "digest")} | {"answer": "y"}
            said |= change(asked)
            part = place / ".part"
            part.write_text(json.dumps(said))
            part.rename(place / f"{asked['question_id']}.answer.json")

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    return thread


@C4
def test_a_question_is_a_private_file_and_so_is_its_answer(tmp_path: Path) -> None:
    """The question is readable by its owner alone; the answer counts once, and both are gone then."""
    modes: list[int] = []
    place = tmp_path / "questions"

    def look(_asked: dict[str, Any]) -> dict[str, Any]:
        modes.extend(stat.S_IMODE(file.stat().st_mode) for file in (place, *place.glob("*.question.json")))
        return {"answer": "e", "arguments": {"command": "make test"}, "by": "ann"}

    thread = answering(place, look)
    given = FileChannel(None, 20.0, state_dir=tmp_path).ask(question())
    thread.join()
    assert given == Answer(answer="e", arguments={"command": "make test"}, by="file (ann)")
    assert modes == [0o700, 0o600]
    assert [name for name in os.listdir(place) if not name.startswith(".")] == []


@C4
@pytest.mark.parametrize(
    "text",
    [
        '{"question_id": "QUESTION", "digest": "other", "answer": "y"}', '{"answer": "y"}', "[]}", "{}",
        '{"question_id": "q", "digest": "dddd", "answer": "y"}', "}" * 100_000, '{"answer": "y"',
    ],
)  # fmt: skip
def test_a_wrong_answer_file_does_not_count(tmp_path: Path, text: str) -> None:
    """An answer to something else, damaged, huge or half written, is not taken; the question waits until its deadline."""
    mine = question()
    place = tmp_path / "questions"
    place.mkdir(mode=0o700)

    async def main() -> None:
        async def answer_wrongly() -> None:
            while not (place / f"{mine.id}.question.json").exists():
                await anyio.sleep(0.005)
            (place / f"{mine.id}.answer.json").write_text(text.replace("QUESTION", mine.id))

        async with anyio.create_task_group() as group:
            group.start_soon(answer_wrongly)
            with pytest.raises(TimeoutError):
                await FileChannel(str(place), 0.5, state_dir=tmp_path).ask_async(mine)

    anyio.run(main)
    assert [name for name in os.listdir(place) if not name.startswith(".")] == []


@C4
def test_a_link_is_no_answer(tmp_path: Path) -> None:
    """A link in the place of an answer is not followed."""
    mine = question()
    place = tmp_path / "questions"
    place.mkdir(mode=0o700)
    good = {"question_id": mine.id, "digest": mine.digest, "answer": "y"}
    (tmp_path / "elsewhere").write_text(json.dumps(good))

    async def main() -> None:
        async def link() -> None:
            while not (place / f"{mine.id}.question.json").exists():
                await anyio.sleep(0.005)
            (place / f"{mine.id}.answer.json").symlink_to(tmp_path / "elsewhere")

        async with anyio.create_task_group() as group:
            group.start_soon(link)
            with pytest.raises(TimeoutError):
                await FileChannel(str(place), 0.3, state_dir=tmp_path).ask_async(mine)

    anyio.run(main)


@C4
def test_a_directory_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    """One with other rights, a link or a file in its place, has nobody to ask; a relative one is a `ConfigError`."""
    place = tmp_path / "questions"
    place.mkdir(mode=0o755)
    place.chmod(0o755)
    assert FileChannel(str(place), 1.0, state_dir=tmp_path).ask(question()) is None
    place.rmdir()
    place.symlink_to(tmp_path)
    assert FileChannel(str(place), 1.0, state_dir=tmp_path).ask(question()) is None
    place.unlink()
    place.write_text("")
    assert FileChannel(str(place), 1.0, state_dir=tmp_path).ask(question()) is None
    for endpoint in ("relative", "/"):
        with pytest.raises(ConfigError):
            FileChannel(endpoint, None, state_dir=tmp_path)


@C4
def test_a_late_answer_is_swept_away(tmp_path: Path) -> None:
    """An answer that comes after its deadline, and a question whose asker has died, are gone with the next question."""
    place = tmp_path / "questions"
    place.mkdir(mode=0o700)
    late, dead = new_id("q"), new_id("q")
    (place / f"{late}.answer.json").write_text("{}")
    (place / f"{dead}.question.json").write_text('{"deadline": "2020-01-01T00:00:00.000+00:00"}')
    (place / "mine.txt").write_text("mine")
    thread = answering(place, as_it_is)
    assert FileChannel(str(place), 20.0, state_dir=tmp_path).ask(question()) is not None
    thread.join()
    assert [name for name in os.listdir(place) if not name.startswith(".")] == ["mine.txt"]


@C4
def test_the_policy_names_the_channel(tmp_path: Path) -> None:
    """`channel: {type, endpoint, timeout}` of a permission file: its calls wait for the answer files."""
    place = tmp_path / "ask"
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"channel": {"type": "file", "endpoint": str(place), "timeout": 20}}))
    plugin = PermissionPlugin(policy, workspace=tmp_path, state_dir=tmp_path / "state", trusted=True)
    thread = answering(place, as_it_is, lambda _: {"answer": "n"})
    assert plugin.check_permission("run", {"command": "make"})[0] is True
    assert plugin.check_permission("run", {"command": "make"})[1]["method"] == "user_denied"
    thread.join()
