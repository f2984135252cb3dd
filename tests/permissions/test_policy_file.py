"""Permission files: what they may say, whom they bind, how answers are kept, and what a workspace cannot
do by them."""

# ruff: noqa: E501

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.permissions.ground import NOOP, READ, RUN, Script, call, step

from jaato.errors import ConfigError
from jaato.protocol.specs import Grant
from jaato.tools.permissions import Gate, Policy
from jaato.tools.trust import Trust

C4 = pytest.mark.spec("C4", "Permissions")
LOOSE = {
    "version": 1,
    "defaultPolicy": "allow",
    "whitelist": {"tools": ["noop", "run"], "patterns": ["*"], "arguments": {"run": {"command": ["*"]}}},
    "channel": {"type": "queue", "timeout": 0.001},
}


def file_of(workspace: Path, document: Any) -> Path:
    """The workspace's permission file, holding this."""
    path = workspace / ".jaato" / "permissions.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
    return path


def load(tmp_path: Path) -> Policy:
    """The policy of the workspace, as every door loads it."""
    path = tmp_path / ".jaato" / "permissions.json"
    return Policy.load(path, workspace=tmp_path, state_dir=tmp_path / "state")


def allowed(policy: Policy, tmp_path: Path, command: str | None = None) -> bool:
    """Whether a call is allowed with nobody to ask."""
    gate = Gate(policy, workspace=tmp_path)
    if command is not None:
        return step(gate, call(RUN, tmp_path, command=command), RUN).allowed
    return step(gate, call(NOOP, tmp_path), NOOP).allowed


@C4
@pytest.mark.parametrize(
    "part",
    [
        {"defaultPolicy": "allow"},
        {"whitelist": {"tools": ["noop"]}},
        {"whitelist": {"patterns": ["no*"]}},
        LOOSE,
    ],
)
def test_a_workspace_file_may_only_tighten_until_it_is_trusted(tmp_path: Path, part: dict[str, Any]) -> None:
    """What a cloned workspace allows does not count before its content hash is trusted; one byte more and
    it must be again."""
    path = file_of(tmp_path, part)
    assert not allowed(load(tmp_path), tmp_path)
    Trust(tmp_path / "state").add(path, path.read_bytes())
    assert allowed(load(tmp_path), tmp_path)
    path.write_bytes(path.read_bytes() + b" ")
    assert not allowed(load(tmp_path), tmp_path)


@C4
def test_an_untrusted_file_tightens(tmp_path: Path) -> None:
    """Its blacklist and a stricter default apply at once; its channel does not."""
    document = {
        "defaultPolicy": "deny",
        "blacklist": {"tools": ["readFile"]},
        "channel": {"type": "queue", "timeout": 1},
    }
    file_of(tmp_path, document)
    policy = load(tmp_path)
    gate = Gate(policy, asker=Script("y"), workspace=tmp_path)
    assert step(gate, call(NOOP, tmp_path), NOOP).permission.method == "default"
    assert step(gate, call(READ, tmp_path, path="x"), READ).permission.method == "blacklist"
    assert policy.channel.type is None
    assert not allowed(policy.with_flags(default="allow"), tmp_path)


@C4
def test_flags_allow_and_deny(tmp_path: Path) -> None:
    """Patterns from the command line count as the user's own."""
    policy = load(tmp_path).with_flags(allow=["run(make *)"], deny=["run(make clean)"])
    assert allowed(policy, tmp_path, "make x")
    assert not allowed(policy, tmp_path, "make clean")


@C4
def test_always_and_never_survive_a_restart(tmp_path: Path) -> None:
    """Both are written to the file, private and whole, and hold in the next process."""
    script = Script("a", "never")
    gate = Gate(load(tmp_path), asker=script, workspace=tmp_path)
    assert step(gate, call(RUN, tmp_path, command="git commit -m x"), RUN).allowed
    assert not step(gate, call(NOOP, tmp_path), NOOP).allowed
    path = tmp_path / ".jaato" / "permissions.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    document = json.loads(path.read_bytes())
    assert document["whitelist"]["patterns"] == ["run(git commit *)"]
    assert document["blacklist"]["tools"] == ["noop"]
    again = load(tmp_path)
    assert allowed(again, tmp_path, "git commit -m y")
    assert not allowed(again, tmp_path, "git push")
    assert Gate(again, workspace=tmp_path).explain(call(NOOP, tmp_path), NOOP).method == "blacklist"
    assert [(one.tool, one.effect) for one in again.grants()] == [("run", "allow"), ("noop", "deny")]


@C4
def test_always_trusts_exactly_its_own_write(tmp_path: Path) -> None:
    """Answering `always` in a workspace with a loose file believes the new line, never the lines that came
    with it."""
    file_of(tmp_path, {**LOOSE, "whitelist": {"patterns": ["run(rm *)"]}, "comment": "kept"})
    gate = Gate(load(tmp_path), asker=Script("a"), workspace=tmp_path)
    assert step(gate, call(RUN, tmp_path, command="make x"), RUN).allowed
    again = load(tmp_path)
    assert allowed(again, tmp_path, "make x")
    assert not allowed(again, tmp_path, "rm x")
    assert not allowed(again, tmp_path)
    document = json.loads((tmp_path / ".jaato" / "permissions.json").read_bytes())
    assert document["comment"] == "kept"
    assert document["whitelist"]["patterns"] == ["run(rm *)", "run(make x)"]


@C4
def test_a_file_swapped_after_always_is_not_trusted(tmp_path: Path) -> None:
    """A later change of the file ends the trust, but not the answer that is kept beside it."""
    gate = Gate(load(tmp_path), asker=Script("a"), workspace=tmp_path)
    step(gate, call(RUN, tmp_path, command="make x"), RUN)
    path = tmp_path / ".jaato" / "permissions.json"
    document = json.loads(path.read_bytes())
    document["whitelist"]["tools"] = ["run"]
    path.write_text(json.dumps(document))
    assert allowed(load(tmp_path), tmp_path, "make x")
    assert not allowed(load(tmp_path), tmp_path, "make y")


@C4
def test_never_for_a_command_that_has_no_shape(tmp_path: Path) -> None:
    """A refused command is refused by its exact text when nothing more general can be said of it."""
    command = "for f in *; do rm [$f]; done"
    gate = Gate(load(tmp_path), asker=Script("never"), workspace=tmp_path)
    assert not step(gate, call(RUN, tmp_path, command=command), RUN).allowed
    again = Gate(load(tmp_path), workspace=tmp_path)
    assert again.explain(call(RUN, tmp_path, command=command), RUN).method == "blacklist"
    assert again.explain(call(RUN, tmp_path, command="for f in a; do rm $f; done"), RUN).method == "default"


@C4
def test_a_running_session_hears_of_another_process(tmp_path: Path) -> None:
    """`never` given elsewhere holds here from the next turn on."""
    here = Gate(load(tmp_path), asker=Script("t"), workspace=tmp_path)
    there = Gate(load(tmp_path), asker=Script("never"), workspace=tmp_path)
    assert step(here, call(NOOP, tmp_path), NOOP).allowed
    step(there, call(NOOP, tmp_path), NOOP)
    here.end_turn()
    assert step(here, call(NOOP, tmp_path), NOOP).permission.method == "blacklist"


@C4
def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    """Four processes keep ten answers each: all forty are in the file, in the book and in force."""
    code = """
import sys
from pathlib import Path
from tests.permissions.ground import RUN, Script, call, step
from tests.permissions.test_policy_file import load
from jaato.tools.permissions import Gate
root, name = Path(sys.argv[1]), sys.argv[2]
gate = Gate(load(root), asker=Script(*["a"] * 10), workspace=root)
for n in range(10):
    assert step(gate, call(RUN, root, command=f"make {name}{n}"), RUN).allowed
"""
    environ = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": "/usr/bin:/bin"}
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name], env=environ) for name in "abcd"
    ]
    assert [one.wait() for one in running] == [0] * 4
    policy = load(tmp_path)
    assert len(policy.grants()) == 40
    assert all(allowed(policy, tmp_path, f"make {name}{n}") for name in "abcd" for n in range(10))


@C4
def test_an_answer_that_cannot_be_kept_counts_once(tmp_path: Path) -> None:
    """On a directory that cannot be written `always` allows this call, says so, and grants nothing."""
    (tmp_path / ".jaato").write_text("in the way")
    gate = Gate(
        Policy.load(tmp_path / "nowhere" / "p.json", workspace=tmp_path, state_dir=tmp_path / "s"),
        asker=Script("a", "never"),
        workspace=tmp_path,
    )
    (tmp_path / "nowhere").write_text("in the way")
    decision = step(gate, call(NOOP, tmp_path), NOOP)
    assert (decision.allowed, decision.permission.method) == (True, "user_approved")
    assert "could not be kept" in decision.permission.reason
    assert not step(gate, call(NOOP, tmp_path), NOOP).allowed
    assert gate.explain(call(NOOP, tmp_path), NOOP).effect == "deny"


@C4
@pytest.mark.parametrize(
    ("content", "named"),
    [(b"{", "line 1"), (b'{"version": 1,\n"blacklist": {,}}', "line 2"), (b"\xff", "UTF-8"), (b"[]", "a list"), (b"null", "null"),
     (b'{"version": 2}', "version is 2"), (b'{"version": true}', "version"), (b'{"defaultPolicy": "yes"}', "defaultPolicy"),
     (b'{"defaultpolicy": "deny"}', "'defaultPolicy'"), (b'{"black_list": {}}', "'blacklist'"), (b'{"blacklist": ["rm"]}', "blacklist is a list"),
     (b'{"blacklist": {"tool": ["x"]}}', "blacklist.tool"), (b'{"blacklist": {"tools": "x"}}', "blacklist.tools"),
     (b'{"blacklist": {"tools": [1]}}', "blacklist.tools[0]"), (b'{"blacklist": {"tools": [""]}}', "blacklist.tools[0]"),
     (b'{"blacklist": {"arguments": {"run": ["x"]}}}', "blacklist.arguments.run"),
     (b'{"whitelist": {"arguments": {"run": {}}}}', "whitelist.arguments.run"),
     (b'{"whitelist": {"patterns": ["git x; rm y"]}}', "whitelist.patterns[0]"),
     (b'{"whitelist": {"patterns": ["run(git $x)"]}}', "whitelist.patterns[0]"),
     (b'{"blacklist": {"tools": ["a"]}, "blacklist": {}}', "twice"), (b'{"channel": {"timeout": -1}}', "channel.timeout"),
     (b'{"channel": {"timeout": NaN}}', "NaN"), (b'{"channel": {"type": 1}}', "channel.type"), (b"[" * 100_000, "nested"),
     (b" " * 1_100_000, "bytes")],
)  # fmt: skip
def test_a_damaged_file_is_named_and_loosens_nothing(tmp_path: Path, content: bytes, named: str) -> None:
    """A malformed or huge file is an error with file, line or field and remedy; a running session denies
    until repaired."""
    policy = load(tmp_path).with_flags(allow=["noop"])
    assert allowed(policy, tmp_path)
    path = file_of(tmp_path, content)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)
    assert str(path) in str(caught.value)
    assert named in str(caught.value)
    policy.reload()
    assert not allowed(policy, tmp_path)
    assert not allowed(policy, tmp_path, "ls")
    path.unlink()
    policy.reload()
    assert allowed(policy, tmp_path)


@C4
@pytest.mark.parametrize("kind", ["directory", "fifo", "unreadable", "loop"])
def test_what_is_no_readable_file_is_an_error(tmp_path: Path, kind: str) -> None:
    """A directory, a FIFO, a loop of links or a file of someone else in its place is named, and nothing
    hangs."""
    path = file_of(tmp_path, b"{}")
    path.unlink()
    match kind:
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "loop":
            path.symlink_to(path)
        case _:
            path.write_text("{}")
            path.chmod(0)
            tmp_path.chmod(0o755)
            code = f"from pathlib import Path; from jaato.tools.permissions import Policy; Policy.load(Path({str(path)!r}))"
            drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", code]
            for parent in tmp_path.parents[:3]:
                assert parent.exists()
            done = subprocess.run(
                drop,
                capture_output=True,
                text=True,
                cwd="/",
                env={"PYTHONPATH": os.pathsep.join(sys.path)},
                check=False,
            )
            assert "cannot be read" in done.stderr
            return
    with pytest.raises(ConfigError, match=r"permissions\.json"):
        load(tmp_path)


@C4
@pytest.mark.parametrize("name", ["trust.json", "grants.json"])
def test_damaged_state_is_an_error(tmp_path: Path, name: str) -> None:
    """A damaged trust or grant book is named with its remedy; it is never taken for an empty one."""
    file_of(tmp_path, {"whitelist": {"tools": ["noop"]}})
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / name).write_text("{")
    with pytest.raises(ConfigError, match=name):
        load(tmp_path)


@C4
def test_a_file_given_by_its_owner_is_believed(tmp_path: Path) -> None:
    """A policy outside the workspace was named by whoever started the program, so it may allow."""
    (tmp_path / "work").mkdir()
    mine = tmp_path / "policy.json"
    mine.write_text(json.dumps({"whitelist": {"tools": ["noop"]}}))
    assert allowed(
        Policy.load(mine, workspace=tmp_path / "work", state_dir=tmp_path / "state"), tmp_path / "work"
    )


def test_grants_of_another_workspace_do_not_hold(tmp_path: Path) -> None:
    """A session's grant is for its workspace."""
    grant = Grant(id="g", effect="allow", tool="noop", scope="session", workspace="/elsewhere")
    gate = Gate(Policy(), workspace=tmp_path, grants=[grant])
    assert not step(gate, call(NOOP, tmp_path), NOOP).allowed


@C4
def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    """The mark that some editors put in front changes nothing."""
    path = tmp_path / "policy.json"
    path.write_bytes(b'\xef\xbb\xbf{"blacklist": {"tools": ["noop"]}}')
    assert (
        Gate(Policy.load(path), workspace=tmp_path).explain(call(NOOP, tmp_path), NOOP).method == "blacklist"
    )


@C4
@pytest.mark.parametrize(
    ("content", "says"),
    [('{"version": ' + "1" * 5_000 + "}", "digits"), ('{"channel": {"timeout": 1e400}}', "at most a year"),
     ('{"channel": {"timeout": 1e12}}', "at most a year"), ('{"channel": {"timeout": ' + "9" * 400 + "}}", "at most a year"),
     ('{"blaklist": {}}', "Did you mean 'blacklist'"), ('{"default_policy": "deny"}', "'defaultPolicy'"),
     ('{"whitelists": {}}', "Did you mean 'whitelist'"), ('{"version": 12345}', "version 1")],
    ids=lambda text: text[:24],
)  # fmt: skip
def test_numbers_without_end_and_misspelt_fields_are_named(tmp_path: Path, content: str, says: str) -> None:
    """Whatever number stands in the file, and whatever letter is missing, the fault is told and not a traceback."""
    path = tmp_path / "policy.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=re.escape(str(path))) as caught:
        Policy.load(path)
    assert says in str(caught.value)


@C4
def test_a_lasting_answer_keeps_a_file_with_lone_surrogates(tmp_path: Path) -> None:
    """What JSON can say and UTF-8 cannot is written back as it was said."""
    path = tmp_path / "policy.json"
    path.write_text('{"note": "\\ud800", "version": 1}')
    policy = Policy.load(path, workspace=tmp_path, state_dir=tmp_path / "state", trusted=True)
    gate = Gate(policy, asker=Script("a"), workspace=tmp_path)
    assert step(gate, call(NOOP, tmp_path), NOOP).allowed
    assert json.loads(path.read_bytes())["note"] == "\ud800"
    assert json.loads(path.read_bytes())["whitelist"]["tools"] == ["noop"]


@C4
@pytest.mark.parametrize("half", ["whitelist", "blacklist"])
@pytest.mark.parametrize(
    ("pattern", "says"),
    [("Bash(git log:*)", "run(git log *)"), ("run(rm:*)", "run(rm *)"), ("run(git", "closing parenthesis")],
)
def test_a_pattern_of_another_program_is_no_silent_promise(half: str, pattern: str, says: str) -> None:
    """A pattern that means something elsewhere and nothing here is refused with what to write instead."""
    with pytest.raises(ConfigError) as caught:
        Policy.of({half: {"patterns": [pattern]}})
    assert says in str(caught.value)


@C4
def test_a_blacklist_pattern_with_a_colon_forbids_what_its_author_means(tmp_path: Path) -> None:
    """In the blacklist `git push:*` also forbids every `git push`; in the whitelist it allows nothing more."""
    gate = Gate(Policy.of({"blacklist": {"patterns": ["run(git push:*)"]}}), workspace=tmp_path)
    for command in ("git push", "git push -f", "git -C . push"):
        assert gate.explain(call(RUN, tmp_path, command=command), RUN).effect == "deny"
    gate = Gate(Policy.of({"whitelist": {"patterns": ["run(npm run test:*)"]}}), workspace=tmp_path)
    assert gate.explain(call(RUN, tmp_path, command="npm run test:unit"), RUN).effect == "allow"
    assert gate.explain(call(RUN, tmp_path, command="npm run test x"), RUN).effect == "ask"
