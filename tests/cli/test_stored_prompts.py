"""Stored prompts as messages: `/review a.py` in `jaato run` and `jaato chat`, in this process and at a server."""

from __future__ import annotations

import pytest
from tests.cli.environment import CliEnvironment, say
from tests.cli.terminal import leave, talking


@pytest.fixture
def review(desk: CliEnvironment) -> CliEnvironment:
    """A workspace with the stored prompt of the guide, and a file."""
    folder = desk.work / ".jaato" / "commands"
    folder.mkdir(parents=True)
    (folder / "review.md").write_text(
        "---\ndescription: Review a file for bugs.\n---\nRead {{$1}} and look for {{$2:bugs}}.\n"
    )
    return desk


def messages(desk: CliEnvironment) -> list[list[str]]:
    """The texts of each message of the user in the newest session: what was typed, then what was added."""
    events = desk.events(desk.sessions()[0]["id"])
    said = [event["message"]["parts"] for event in events if event["type"] == "message.user"]
    return [[part["text"] for part in parts] for parts in said]


def test_in_a_run(review: CliEnvironment) -> None:
    """`jaato run '/review a.py'`: the message stays as it was typed, and the model gets the prompt filled in, piped text as
    its last argument."""
    made = review.run("run", *review.script(say("Fine.")), "/review a.py", stdin="leaks of\nmemory\n")
    assert (made.returncode, made.stdout) == (0, "Fine.\n"), made.stderr
    [[typed, added]] = messages(review)
    assert typed == "/review a.py\n\nleaks of\nmemory"
    assert "stored prompt review" in added
    assert "Read a.py and look for leaks of\nmemory." in added


def test_an_argument_is_missing(review: CliEnvironment) -> None:
    """A prompt that lacks an argument is refused before the model is called, with the number of those it needs."""
    made = review.run("run", *review.script(say("Fine.")), "/review")
    assert made.returncode == 1
    assert "The prompt review needs 1 argument, 0 given" in made.stderr
    assert messages(review) == []


def test_arguments_in_quotes(review: CliEnvironment) -> None:
    """A quoted argument is one; a quote that is not closed is an error before the model is called."""
    made = review.run("run", *review.script(say("Fine.")), "/review \"b c.py\" 'off by one'")
    assert (made.returncode, made.stdout) == (0, "Fine.\n"), made.stderr
    assert "Read b c.py and look for off by one." in messages(review)[0][1]
    wrong = review.run("run", *review.script(say("Fine.")), '/review "b c')
    assert wrong.returncode == 1
    assert 'A quote (") in the arguments of /review is not closed' in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_a_command_of_a_chat_in_a_run(review: CliEnvironment) -> None:
    """It is refused with exit code 2, and the line that runs it."""
    made = review.run("run", *review.script(say("Fine.")), "/skills")
    assert (made.returncode, made.stdout) == (2, "")
    assert "run `jaato chat --continue /skills`" in made.stderr


@pytest.mark.parametrize("text", ["/reviw a.py", "/help"])
def test_an_unknown_word_in_a_run(review: CliEnvironment, text: str) -> None:
    """Another word after the slash is refused with a hint, and exit code 2; it names the stored prompts, and how to send
    the text as it is."""
    made = review.run("run", *review.script(say("Fine.")), text)
    assert made.returncode == 2
    assert "there are /review" in made.stderr
    assert "begin it with a space" in made.stderr
    literal = review.run("run", *review.script(say("Fine.")), f" {text}")
    assert (literal.returncode, literal.stdout) == (0, "Fine.\n")
    assert messages(review) == [[f" {text}"]]


@pytest.mark.parametrize("text", ["/etc/hosts is what?", "/tmp is full", "// a comment", "/* a comment */"])
def test_a_path_is_a_message(review: CliEnvironment, text: str) -> None:
    """What begins with a path or a comment is sent as it is."""
    made = review.run("run", *review.script(say("Fine.")), text)
    assert (made.returncode, made.stdout) == (0, "Fine.\n"), made.stderr
    assert messages(review) == [[text]]


def test_in_a_chat(review: CliEnvironment) -> None:
    """In a chat the prompt is listed by /help and sent as a message; one that is written meanwhile works too; an unknown word
    gets a hint, and a blank before it sends the line as it is."""
    with talking(review, *review.script(say("One."), say("Two."), say("Three."))) as child:
        child.expect("> $")
        child.sendline("/help")
        child.expect("/review +Review a file for bugs")
        child.sendline('/review "a.py')
        child.expect(r'A quote \("\) in the arguments of /review is not closed')
        child.sendline('/review "a b.py" races')
        child.expect("One.")
        child.expect("> $")
        (review.work / ".jaato/commands/late.md").write_text("Say it late.\n")
        child.sendline("/late")
        child.expect("Two.")
        child.expect("> $")
        child.sendline("/nonsense")
        child.expect("no command /nonsense.*begin it with a space")
        child.expect("> $")
        child.sendline(" /nonsense")
        child.expect("Three.")
        assert leave(child) == 0
    first, second, third = messages(review)
    assert first[0] == '/review "a b.py" races'
    assert "Read a b.py and look for races." in first[1]
    assert "Say it late." in second[1]
    assert third == [" /nonsense"]


@pytest.mark.one_way
def test_attached_to_a_session_that_rests(review: CliEnvironment) -> None:
    """In a session that is not loaded, whose commands are not known yet, stored prompts and commands work at once."""
    assert review.run("run", *review.script(say("One."), say("Two.")), "--name", "k", "go").returncode == 0
    with review.serving(), talking(review, "k", command="attach") as child:
        child.expect("> $")
        child.sendline("/review a.py")
        child.expect("Two.")
        child.expect("> $")
        child.sendline("/skills")
        child.expect("There are none")
        assert leave(child) == 0
