"""Permission files: what they may say, whom they bind, what a workspace cannot do by them, and damaged ones."""

# ruff: noqa: E501

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from tests.permissions.ground import C4, FREE, NOOP, READ, Script, call, step
from tests.permissions.policies import LOOSE, allowed, file_of, load
from tests.storage.logs import run

from jaato.errors import ConfigError
from jaato.tools.permissions.gate import Gate, Policy
from jaato.tools.permissions.trust import Trust

LOAD_AS_ANOTHER = """
from jaato.tools.permissions.gate import Policy
dropped()  # here, for another user may not be able to start this interpreter
try:
    Policy.load(Path(sys.argv[1]))
except ConfigError as error:
    print(error)
"""


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
            assert "cannot be read" in run(LOAD_AS_ANOTHER, path)
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
        assert gate.explain(call(FREE, tmp_path, command=command), FREE).effect == "deny"
    gate = Gate(Policy.of({"whitelist": {"patterns": ["run(npm run test:*)"]}}), workspace=tmp_path)
    assert gate.explain(call(FREE, tmp_path, command="npm run test:unit"), FREE).effect == "allow"
    assert gate.explain(call(FREE, tmp_path, command="npm run test x"), FREE).effect == "ask"
