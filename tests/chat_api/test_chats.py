"""Chats of front ends: which session a request continues, and what becomes of edited and regenerated messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.chat_api.api import Api, serving

from jaato.abc.provider import ModelRequest
from jaato.client.connection import connect
from jaato.client.state import apply
from jaato.protocol.commands import SessionDelete
from jaato.protocol.events import Event, MessageUser, PermissionRequested
from jaato.protocol.events.state import State
from jaato.protocol.messages import Text
from jaato.providers.scripted import Answer, ScriptedCall, Step
from jaato.server.openai.branches import find_place, normalize, sent_exchanges
from jaato.server.openai.requests import ChatMessage

HEADER = "X-OpenWebUI-Chat-Id"


def echo(request: ModelRequest) -> Step:
    """An answer that tells what the model was sent by the user, in order."""
    said = [one.words for one in request.messages if one.role == "user"]
    return Step("I know " + ", ".join(said) + ".")


class Front:
    """A front end that keeps the conversation, as Open WebUI does."""

    def __init__(self, api: Api, chat: str, header: str = HEADER) -> None:
        self.api = api
        self.headers = {header: chat}
        self.messages: list[tuple[str, str]] = []

    async def say(self, text: str, **options: Any) -> str:
        """The answer to one more message; both are kept."""
        self.messages.append(("user", text))
        return await self.regenerate(**options)

    async def regenerate(self, **options: Any) -> str:
        """The answer to the last message of the user, once more."""
        while self.messages[-1][0] == "assistant":
            self.messages.pop()
        answer = await self.api.ask(*self.messages, extra_headers=self.headers, **options)
        text: str = answer.choices[0].message.content
        self.messages.append(("assistant", text))
        return text


def said(api: Api, session: str) -> list[str]:
    """What the user has said in a session."""
    events = api.hub.store.read(session, 0)
    return [one.message.words for one in events if isinstance(one, MessageUser)]


@pytest.mark.parametrize("header", ["X-OpenWebUI-Chat-Id", "X-Conversation-Id", "X-Jaato-Session"])
def test_a_chat_is_one_session(tmp_path: Path, header: str) -> None:
    """Only the newest message is new; the session has the rest, what its tools gave too."""

    async def main() -> None:
        async with serving(tmp_path, [echo] * 9) as api:
            one, two = Front(api, "first", header), Front(api, "second", header)
            assert await one.say("a") == "I know a."
            assert await two.say("x") == "I know x."
            assert await one.say("b") == "I know a, b."
            assert await one.say("c") == "I know a, b, c."
            assert sorted(map(len, (said(api, session) for session in api.sessions()))) == [1, 3]

    anyio.run(main)


def test_edits_and_regeneration_fork(tmp_path: Path) -> None:
    """An edited or regenerated message continues before it, in a fork; the version before stays and can be returned to."""

    async def main() -> None:
        async with serving(tmp_path, [echo] * 20) as api:
            front = Front(api, "chat")
            for text in "abc":
                await front.say(text)
            before = list(front.messages)
            assert await front.regenerate() == "I know a, b, c."
            assert len(api.sessions()) == 2
            front.messages = [*before[:2]]
            assert await front.say("B") == "I know a, B."
            front.messages = list(before)
            assert await front.say("d") == "I know a, b, c, d.", "back to the first version"
            front.messages = []
            assert await front.say("A") == "I know A."
            assert await front.say("again") == "I know A, again."
            assert sorted(said(api, session) for session in api.sessions()) == [
                ["A", "again"],
                ["a", "B"],
                ["a", "b", "c"],
                ["a", "b", "c", "d"],
            ]

    anyio.run(main)


def test_a_deleted_version_hides_no_other(tmp_path: Path) -> None:
    """Whichever version of a chat was deleted, the others continue; a repeated request finds its turn in them, too."""

    async def main() -> None:
        async with serving(tmp_path, [echo] * 20) as api, connect(api.socket) as client:
            front = Front(api, "chat")
            versions: list[str] = []
            for text in "abc":
                front.messages = []
                await front.say(text)
                versions += set(api.sessions()) - set(versions)
            whole = list(front.messages)
            await client.ask(SessionDelete(session_id=versions[0]))
            assert await front.say("d") == "I know c, d."
            again = front.headers | {"x-stainless-retry-count": "1"}
            await api.ask(*front.messages[:-1], extra_headers=again)
            assert [said(api, version) for version in versions[1:]] == [["b"], ["c", "d"]]
            front.messages = []
            assert await front.say("e") == "I know e."
            assert len(api.sessions()) == 3
            await client.ask(SessionDelete(session_id=versions[2]))
            front.messages = whole
            assert await front.say("f") == "I know c, f."
            front.messages = [("user", "b"), ("assistant", "I know b.")]
            assert await front.say("g") == "I know b, g."

    anyio.run(main)


def test_an_edited_answer_is_believed(tmp_path: Path) -> None:
    """When the user has edited an answer the model gets the edited one, in a session of its own."""

    async def main() -> None:
        answers: list[str] = []

        def look(request: ModelRequest) -> Step:
            answers[:] = [one.text for one in request.messages if one.role == "assistant"]
            return Step("The answer is 41.")

        async with serving(tmp_path, [look] * 9) as api:
            front = Front(api, "chat")
            await front.say("How much?")
            front.messages[-1] = ("assistant", "The answer is 42.")
            await front.say("Sure?")
            assert answers == ["The answer is 42."]
            assert len(api.sessions()) == 2

    anyio.run(main)


@pytest.mark.parametrize(
    "kept",
    [
        '<details type="reasoning" done="true">\n<summary>Thought</summary>\n> Hm.\n</details>\nThe  answer\nis 41.',
        "<think>Hm.</think>The answer is 41.",
        "The answer",
        "> Denied: run(). No.\n\nThe answer is 41.",
        "",
    ],
)
def test_what_front_ends_make_of_an_answer(tmp_path: Path, kept: str) -> None:
    """Folded reasoning, other white space, an answer that was cut, and our notes are no edit."""

    async def main() -> None:
        async with serving(tmp_path, [Step("The answer is 41.")] * 9) as api:
            front = Front(api, "chat")
            await front.say("How much?")
            front.messages[-1] = ("assistant", kept)
            await front.say("Sure?")
            assert len(api.sessions()) == 1

    anyio.run(main)


def test_a_chat_with_files(tmp_path: Path) -> None:
    """What Open WebUI puts before the newest message in a chat with files, and removes later, is no edit."""

    async def main() -> None:
        async with serving(tmp_path, [Step("one"), Step("two"), Step("three"), Step("four")]) as api:
            front = Front(api, "chat")
            for text in ("first", "second", "third"):
                await front.say(
                    "### Task:\nRespond to the user query using the provided context.\n\n<context>\n"
                    f'<source id="1">parrots </context> of {text}\n</source>\n</context>\n\n{text}'
                )
                front.messages[-2] = ("user", text)
            assert len(api.sessions()) == 1
            front.messages[-2:] = []
            await front.say("third, edited")
            assert len(api.sessions()) == 2

    anyio.run(main)


def test_a_chat_that_began_elsewhere(tmp_path: Path) -> None:
    """A chat whose first messages another model has answered begins with them; one with another model is another session."""

    async def main() -> None:
        async with serving(tmp_path, [echo] * 9) as api:
            front = Front(api, "chat")
            front.messages = [
                ("user", "a"),
                ("assistant", "of another model"),
                ("user", "b"),
                ("assistant", "too"),
            ]
            assert await front.say("c") == "I know a, b, c."
            assert await front.say("d") == "I know a, b, c, d."
            assert len(api.sessions()) == 1
            assert await front.say("e", model="scripted/script") == "I know a, b, c, d, e."
            assert len(api.sessions()) == 2

    anyio.run(main)


def test_a_front_end_that_forgets(tmp_path: Path) -> None:
    """A front end that sends the newest messages alone continues the same session."""

    async def main() -> None:
        async with serving(tmp_path, [echo] * 9) as api:
            front = Front(api, "chat")
            for text in "abcd":
                await front.say(text)
                front.messages = front.messages[-4:]
            assert [said(api, session) for session in api.sessions()] == [["a", "b", "c", "d"]]

    anyio.run(main)


def test_a_session_by_name(tmp_path: Path) -> None:
    """X-Jaato-Session takes the name or id of any session, and only the newest message; a name that is unknown is given to a new
    session, an id that is unknown refused."""

    async def main() -> None:
        async with serving(tmp_path, [echo] * 9) as api, connect(api.socket) as client:
            session = await client.create(api.work, name="tea")
            await session.run("before")
            assert await Front(api, "tea", "X-Jaato-Session").say("b") == "I know before, b."
            assert await Front(api, session.id, "X-Jaato-Session").say("c") == "I know before, b, c."
            await Front(api, "te", "X-Jaato-Session").say("x")  # no prefix of a name or id
            names = {row.name for row in api.hub.store.sessions(None, limit=9)}
            assert names == {"tea", "te"}
            with pytest.raises(openai.NotFoundError):
                await Front(api, "s" + "0" * 26, "X-Jaato-Session").say("x")

    anyio.run(main)


@pytest.mark.parametrize("value", ["", "new", "null", "undefined", "{{CHAT_ID}}", "None"])
def test_a_header_that_names_no_chat(tmp_path: Path, value: str) -> None:
    """A placeholder that was not filled in is no chat: no two users get one session."""

    async def main() -> None:
        async with serving(tmp_path, [echo] * 9) as api:
            for _ in range(2):
                assert await Front(api, value).say("a") == "I know a."
            assert len(api.sessions()) == 2

    anyio.run(main)


def test_another_client_answers(tmp_path: Path) -> None:
    """While another client of the session can answer, a question waits for it; what that client says itself is no edit of the
    chat."""

    async def main() -> None:
        write = ScriptedCall("writeNewFile", {"path": "a.txt", "content": "x"})
        script: list[Answer] = [Step("Ready."), Step(calls=[write]), Step("Written."), Step("Bye."), echo]
        async with serving(tmp_path, script) as api, connect(api.socket) as client:
            front = Front(api, "chat")
            await front.say("Hello")
            session = await client.attach(api.sessions()[0])
            with session.events() as events:
                async with anyio.create_task_group() as group:
                    group.start_soon(front.say, "Write")
                    async for event in events:
                        if isinstance(event, PermissionRequested):
                            await session.allow(event.question_id, "y")
                            break
            assert front.messages[-1] == ("assistant", "Written.")
            assert (api.work / "a.txt").read_text() == "x"
            assert await session.run("from elsewhere") == "Bye."
            assert await front.say("And?") == "I know Hello, Write, from elsewhere, And?."

    anyio.run(main)


def test_a_question_after_the_other_client_has_left(tmp_path: Path) -> None:
    """A question that waits for a client that leaves is denied soon, with the reason and a way to allow it."""

    async def main() -> None:
        write = ScriptedCall("writeNewFile", {"path": "a.txt", "content": "x"})
        async with serving(tmp_path, [Step("Ready."), Step(calls=[write]), Step("No.")]) as api:
            front = Front(api, "chat")
            await front.say("Hello")
            async with anyio.create_task_group() as group, connect(api.socket) as client:
                session = await client.attach(api.sessions()[0])
                with session.events() as events:
                    group.start_soon(front.say, "Write")
                    async for event in events:
                        if isinstance(event, PermissionRequested):
                            break
            answer = front.messages[-1][1]
            assert "no one can answer permission requests in this chat" in answer
            assert "jaato attach s" in answer
            assert answer.endswith("No.")

    anyio.run(main)


def test_two_messages_at_once(tmp_path: Path) -> None:
    """Two requests for one new chat at once share its session, and both get an answer."""

    async def main() -> None:
        async with serving(tmp_path, [echo] * 9) as api:
            answers: list[str] = []

            async def ask(text: str) -> None:
                answers.append(await Front(api, "chat").say(text))

            async with anyio.create_task_group() as group:
                for text in ("a", "b"):
                    group.start_soon(ask, text)
            assert len(answers) == 2
            assert all(answer.startswith("I know ") for answer in answers)
            stored = sorted(text for session in api.sessions() for text in said(api, session))
            assert stored == ["a", "b"]

    anyio.run(main)


def test_a_long_chat_costs_no_more(tmp_path: Path) -> None:
    """Messages that have left the newest part of a long session are taken to agree: the session continues."""

    async def main() -> None:
        async with serving(tmp_path, [lambda _: Step("ok")] * 999) as api:
            front = Front(api, "chat")
            front.messages = [
                message for n in range(150) for message in (("user", f"q{n}"), ("assistant", f"a{n}"))
            ]
            await front.say("new")
            await front.say("newer")
            assert len(api.sessions()) == 1
            front.messages[-4:] = []
            await front.say("edited")
            assert len(api.sessions()) == 2

    anyio.run(main)


def history(texts: list[str]) -> list[ChatMessage]:
    """Messages of a front end, each answered but the last."""
    found: list[ChatMessage] = []
    for text in texts:
        found += [ChatMessage("user", text), ChatMessage("assistant", f"on {text}")]
    return found[:-1]


def state_of(texts: list[str]) -> State:
    """The state of a session in which these messages came from the front end."""
    from jaato.protocol.events import MessageModel
    from jaato.protocol.messages import Message

    state = State(root_agent_id="a")
    head: dict[str, Any] = {"session_id": "s", "agent_id": "a", "turn_id": "t"}
    for number, text in enumerate(texts):
        user = Message("user", [Text(text)], once=f"chat:{number}")
        model = Message("assistant", [Text(f"on {text}")])
        events: list[Event] = [
            MessageUser(**head, seq=2 * number + 1, message=user),
            MessageModel(**head, seq=2 * number + 2, message=model, finish_reason="stop"),
        ]
        for event in events:
            apply(state, event)
    return state


TEXTS = st.lists(st.sampled_from("abc"), max_size=6)


@given(TEXTS, TEXTS, st.sampled_from("abc"))
def test_places(both: list[str], known: list[str], new: str) -> None:
    """A history that agrees with the session up to a place continues exactly there, whatever the texts are."""
    place = find_place(state_of([*both, *known]), sent_exchanges(history([*both, new])))
    assert place is not None
    assert place.kept == len(both)
    assert place.is_end == (not known)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("<details open>\n<summary>x</summary></details >\n\nYes. <think>a</think>b", "Yes. b"),
        ("<think>a<think>b</think>c", "c"),
        ("<thinking>a</think>b", "<thinking>a</think>b"),
        ("<think>a<details>b</think>c</details>d", "c</details>d"),
        ("a </think> b", "a </think> b"),
        ("<thinkers>a</think>", "<thinkers>a</think>"),
        ("<think " * 500_000, ("<think " * 500_000).strip()),
        ("<think " * 250_000 + "</think  " * 250_000, None),
    ],
)
def test_folded_reasoning(text: str, rest: str | None) -> None:
    """Reasoning around answers is left out; tags that nothing closes stay, and take no longer than other text."""
    assert normalize(text) == (" ".join(text.split()) if rest is None else rest)
