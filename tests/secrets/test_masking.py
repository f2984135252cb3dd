"""A session full of secrets: none of them is stored, shown or sent."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from tests.kit import call, plan, provider_of, results, runtime, say
from tests.secrets.canaries import CORE, SHAPES, VALUE, leaks

from jaato.abc.asker import Answer, Clarification, Question
from jaato.agent.session import Session
from jaato.protocol.codec import encode
from jaato.protocol.events import AgentOutput, ClarificationQuestion, Event, SessionUpdated, ToolOutput
from jaato.protocol.ids import new_id
from jaato.tools.call import Call
from jaato.tools.permissions.gate import Policy
from jaato.tools.redaction.redactor import Redactor
from jaato.tools.tool import tool

KEY = SHAPES["key"]
READ = {"core": True, "access": "read"}


@asynccontextmanager
async def session(
    path: Path, script: list[Any], tools: Sequence[Any] = (), **more: Any
) -> AsyncIterator[Session]:
    """A session that knows one secret value and every shape."""
    made = runtime(
        path, tools, more.pop("plugins", ("introspection", "cli", "file_edit", "background", "clarification"))
    )
    made.secrets = Redactor({"DEPLOY_TOKEN": VALUE})
    try:
        async with made.create(plan(path, script, **more)) as live:
            yield live
    finally:
        made.close()


def clean(path: Path, live: Session, heard: list[Event]) -> None:
    """Neither the state directory nor a request nor an event has a secret."""
    assert leaks(path / "state", VALUE, CORE) == []
    sent = b"".join(encode([r.system, r.messages]) for r in provider_of(live).requests)
    shown = encode(heard)
    for secret in (VALUE.encode(), CORE.encode()):
        assert secret not in sent
        assert secret not in shown
    for source in ("model", "thinking"):
        text = "".join(e.text for e in heard if isinstance(e, AgentOutput) and e.source == source)
        assert VALUE not in text
        assert CORE not in text
    printed = "".join(e.text for e in heard if isinstance(e, ToolOutput))
    assert VALUE not in printed
    assert CORE not in printed


@tool(name="fails", core=True, access="read")
async def fails() -> str:
    """Fail with a secret."""
    raise ValueError(f"cannot log in with {VALUE}")


@tool(name="large", core=True, access="read")
async def large() -> dict[str, Any]:
    """Give a megabyte with secrets all over it."""
    return {"lines": [f"line {n}: {VALUE} {KEY}" for n in range(12_000)], VALUE: "key"}


def test_no_secret_is_stored_shown_or_sent(tmp_path: Path) -> None:
    """Said by the user or the model, read, printed, raised, given as an argument: it runs with the real value, and the
    store with its log and blobs, the next request and every watcher get a placeholder."""

    async def main() -> None:
        seen: list[str] = []

        @tool(name="use", core=True, access="execute")
        async def use(key: str, *, call: Call) -> str:
            """Use a key."""
            seen.append(key)
            for piece in (VALUE[:5], VALUE[5:9], VALUE[9:], " ", KEY[:30], KEY[30:], "\n"):
                call.output(piece)
            return f"used {key}"

        script = [
            say(f"I know {KEY} and {VALUE}.", chunks=40, thinking=f"thinking of {VALUE}"),
            call("use", key=VALUE),
            call("fails"),
            call("large"),
            call("readFile", path="keys.env"),
            call("run", command="cat keys.env; printf Canary; printf -- -4711-; echo Quux9"),
            say("done"),
        ]
        async with session(
            tmp_path, script, [use, fails, large], name=f"about {VALUE}", prompt=f"know {VALUE}"
        ) as live:
            (tmp_path / "work" / "keys.env").write_text(f"A={VALUE}\n" + "\n".join(SHAPES.values()))
            heard: list[Event] = []
            live.journal.bus.listen(heard.append)
            await live.post(f"my key is {KEY}")
            await live.post(f"go on with {VALUE}")
            live.journal.record(SessionUpdated(**live.journal.head(), description=f"on {VALUE}"))
            assert seen == [VALUE]
            assert "[masked:DEPLOY_TOKEN:" in (live.state.name or "")
            clean(tmp_path, live, heard)
            results = [r for m in live.state.messages for p in m.parts if (r := p.function_response)]
            assert [r.name for r in results] == ["use", "fails", "large", "readFile", "run"]
            assert all("[masked:" in encode(r).decode() for r in results)
            assert results[1].error is not None
            assert "ValueError" in (results[1].error.traceback or "")
            whole = live.tools.results.read(results[2].handle or "", 0, 4_000_000)
            assert whole.count(b"[masked:DEPLOY_TOKEN:") >= 12_000

    anyio.run(main)


def test_questions_and_answers_are_masked(tmp_path: Path) -> None:
    """A permission question shows placeholders and its answer lets the real call run; what the user answers to a
    clarification reaches neither the log nor the model."""

    async def main() -> None:
        asked: list[Question] = []
        seen: list[str] = []

        class Person:
            async def ask(self, question: Question) -> Answer:
                asked.append(question)
                return Answer(answer="y", comment=f"with {VALUE}")

        @tool(name="use", core=True, access="execute")
        async def use(key: str) -> str:
            """Use a key."""
            seen.append(key)
            return "ok"

        @tool(name="inquire", core=True, access="read")
        async def inquire(*, call: Call) -> str:
            """Ask the user for a key."""
            given = await call.services["clarify"](
                Clarification(
                    id=new_id("q"),
                    call_id=call.id,
                    context=f"as {VALUE}",
                    questions=[{"question": f"still {VALUE}?"}],
                )
            )
            return f"they said {given}"

        script = [call("use", key=KEY), call("inquire"), say("ok")]
        async with session(tmp_path, script, [use, inquire], asker=Person(), policy=Policy.of({})) as live:
            heard: list[Event] = []
            live.journal.bus.listen(heard.append)
            live.questions.add_responder()

            def reply(event: Event) -> None:
                if isinstance(event, ClarificationQuestion):
                    live.questions.respond(event.question_id, [f"yes, {VALUE}"])

            live.journal.bus.listen(reply)
            await live.post("go")
            assert seen == [KEY]
            assert CORE not in encode(asked).decode()
            assert "[masked:key:" in str(asked[0].arguments)
            clean(tmp_path, live, heard)
            assert "they said ['yes, [masked:DEPLOY_TOKEN:" in str(results(live)[1].content)

    anyio.run(main)


def test_background_output_and_results_are_masked(tmp_path: Path) -> None:
    """A task in the background prints a secret in two halves, asked for in between: neither half is given away."""

    async def main() -> None:
        command = f"printf {VALUE[:7]}; sleep 0.3; printf {VALUE[7:]}; echo; echo {SHAPES['aws']}"
        script = [call("run", command=command, background=True), say("ok"), say("later")]
        async with session(tmp_path, script) as live:
            heard: list[Event] = []
            live.journal.bus.listen(heard.append)
            await live.post("go")
            task = live.tasks.all()[0]
            first = task.output.read()[0]
            while not task.done.is_set():
                await anyio.sleep(0.02)
            await live.post("and?")
            assert VALUE[:7] not in first
            assert VALUE not in task.output.read()[0]
            assert "[masked:DEPLOY_TOKEN:" in task.output.read()[0]
            assert SHAPES["aws"].encode() not in encode(heard)
            # the arguments name the halves, which are no secret; the whole is nowhere
            assert leaks(tmp_path / "state", VALUE, SHAPES["aws"]) == []

    anyio.run(main)


def test_an_output_of_twenty_megabytes_is_kept_masked(tmp_path: Path) -> None:
    """A command prints 20 MB with a secret at the start, across each megabyte and at the end: the blob has none."""

    async def main() -> None:
        code = "import os,sys; v=os.environ['V']; sys.stdout.write(v+('x'*(2**20-len(v)//2)+v)*20+v)"
        (tmp_path / "work").mkdir(exist_ok=True)
        (tmp_path / "work" / "say.py").write_text(code)
        script = [call("run", command=f"V=$(cat v) exec {PYTHON} say.py"), say("ok")]
        async with session(tmp_path, script) as live:
            (tmp_path / "work" / "v").write_text(VALUE)
            await live.post("go")
            while live.tasks.running():  # on a slow machine the call went on in the background
                await anyio.sleep(0.05)
            assert leaks(tmp_path / "state", VALUE) == []
            blobs = [p for p in (tmp_path / "state" / "blobs").rglob("*") if p.is_file()]
            assert [p.stat().st_size for p in blobs] == [20_971_976]
            assert blobs[0].read_bytes().count(b"[masked:DEPLOY_TOKEN:") == 22
            assert list((tmp_path / "state").rglob(".masked-*")) == []

    anyio.run(main)


PYTHON = __import__("sys").executable


def test_an_old_log_is_masked_when_it_is_read(tmp_path: Path) -> None:
    """A session stored without masking is masked when it goes on: its history reaches the model without the secret."""

    async def main() -> None:
        made = runtime(tmp_path)
        async with made.create(plan(tmp_path, [say(f"it is {VALUE}")])) as live:
            await live.post(f"what is {KEY}")
            session_id = live.state.session_id
        from jaato.runtime.session_store import load_session

        journal = load_session(made.store, session_id, secrets=Redactor({"T": VALUE}))
        async with made.open(journal, plan(tmp_path, [say("one"), say("two")])) as again:
            await again.post("go on")
            sent = encode(provider_of(again).requests[0].messages).decode()
            assert VALUE not in sent
            assert CORE not in sent
            assert sent.count("[masked:") == 2
        made.close()

    anyio.run(main)


def test_masking_off_changes_nothing(tmp_path: Path) -> None:
    """Without masking everything is stored as it was said."""

    async def main() -> None:
        made = runtime(tmp_path)
        async with made.create(plan(tmp_path, [say("ok")])) as live:
            await live.post(f"it is {VALUE}")
        made.close()
        with sqlite3.connect(tmp_path / "state" / "jaato.db") as connection:
            assert any(VALUE in line for line in connection.iterdump()) or leaks(tmp_path / "state", VALUE)
        connection.close()

    anyio.run(main)
