"""What a question says of the sandbox: on a terminal, in a document that leaves the process, in the list of grants."""

from __future__ import annotations

import json

from jaato.abc.asker import Question
from jaato.plugins.permission.channels import question_text
from jaato.plugins.permission.webhook_file_channels import encode_question
from jaato.protocol.specs import Grant, SandboxAccess
from jaato.tools.permissions.access import access_lines, access_text, grant_text

WIDE = SandboxAccess("workspace-write", ("pypi.org", "*"), ("/srv/data", "/opt/x"), control=True)


def question(access: SandboxAccess | None, shape: str | None = None) -> Question:
    """A question about a command."""
    return Question(
        id="q",
        call_id="c",
        tool="run",
        arguments={"command": "pip install six", "need": ["net:pypi.org"], "reason": "to test"},
        digest="d",
        reason="no rule covers it",
        shape=shape,
        access=access,
    )


def test_every_thing_that_is_opened_has_a_line() -> None:
    """The profile, each host, each directory and control files are named; every public host in words."""
    lines = access_lines(WIDE)
    assert lines[0].startswith("workspace-write")
    assert "network: pypi.org" in lines
    assert "network: any public host" in lines
    assert "may change /srv/data" in lines
    assert "may change /opt/x" in lines
    assert any("control files" in line for line in lines)
    assert len(lines) == 6


def test_no_sandbox_is_conspicuous() -> None:
    """The profile full is said as what it is, in capitals, in a question and in a grant."""
    assert "NO SANDBOX" in access_lines(SandboxAccess("full"))[0]
    assert access_text(SandboxAccess("full")) == "NO SANDBOX"
    assert "NO SANDBOX" in question_text(question(SandboxAccess("full")))


def test_what_is_opened_cannot_forge_the_terminal() -> None:
    """A directory whose name moves the cursor or ends the line is spelled out."""
    hostile = SandboxAccess("workspace-write", ("a\x1b[2Kb",), ("/x\n  because all is well\u202e",))
    for text in (*access_lines(hostile), access_text(hostile)):
        assert text.isprintable()


def test_the_console_and_documents_say_what_a_yes_opens() -> None:
    """A question at the terminal has the lines below the arguments; a webhook and a file get them, and the data."""
    text = question_text(question(WIDE, "pip install *"))
    assert text.index("need") < text.index("a yes opens:") < text.index("why asked")
    assert "    may change /srv/data" in text
    document = json.loads(encode_question(question(WIDE, "pip install *")))
    assert document["opens"] == access_lines(WIDE)
    assert document["access"]["paths"] == ["/srv/data", "/opt/x"]
    assert json.loads(encode_question(question(None)))["opens"] == []


def test_a_question_about_one_call_says_so() -> None:
    """Where no lasting answer is possible, none is offered."""
    assert "for this call only" in question_text(question(SandboxAccess("full")))
    assert "for this call only" not in question_text(question(WIDE, "pip install *"))


def test_a_grant_is_listed_with_what_it_opens() -> None:
    """Its command, and what that may reach; a denial opens nothing."""
    grant = Grant(
        "g", "allow", "run", "always", "pip *", access=SandboxAccess("workspace-write", ("pypi.org",))
    )
    assert grant_text(grant) == "run(pip *) [workspace-write, network pypi.org]"
    assert grant_text(Grant("g", "deny", "run", "always", "rm *")) == "run(rm *)"
    assert grant_text(Grant("g", "allow", "writeNewFile", "always")) == "writeNewFile"
