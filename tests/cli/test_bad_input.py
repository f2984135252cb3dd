"""Every kind of bad input: names, keys, files and directories, always with a message and never a traceback."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator

import pytest
from tests.cli.environment import CliEnvironment, call, say
from tests.sandbox.users import OTHER, as_another_user, ground


def complaint(desk: CliEnvironment, *args: str, code: int, words: str, **options: object) -> None:
    """A command that fails with this code and these words, and without a traceback."""
    made = desk.run(*args, **options)  # type: ignore[arg-type]
    assert made.returncode == code, made.stderr
    assert words in made.stderr
    assert "Traceback" not in made.stderr
    assert "Internal error" not in made.stderr


def test_unknown_names(desk: CliEnvironment) -> None:
    """Unknown provider, tool, session, plan of a script: each is named, with what to do."""
    complaint(desk, "run", "--provider", "nobody", "x", code=2, words="choose one of anthropic")
    complaint(desk, "run", "--provider", "scripted", "x", code=2, words="--model PATH")
    complaint(
        desk,
        "run",
        "--provider",
        "scripted",
        "--model",
        "no.json",
        "x",
        code=2,
        words="neither a file nor a stored session",
    )
    complaint(desk, "tools", "schema", "raedFile", code=2, words="did you mean readFile")
    complaint(desk, "sessions", "show", "s_no", code=2, words="'s_no'")
    complaint(desk, "models", "--provider", "nobody", code=2, words="choose one of")
    complaint(desk, "permissions", "revoke", "abc", code=2, words="no grant 'abc'")
    complaint(desk, "run", *desk.script(say("x")), code=2, words="There is no prompt")
    complaint(
        desk, "run", *desk.script(say("x")), "--workspace", "gone", "x", code=2, words="not a directory"
    )


@pytest.mark.parametrize(
    ("provider", "variable"), [("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY")]
)
def test_no_key(desk: CliEnvironment, provider: str, variable: str) -> None:
    """Without a key the message names the variable and `jaato login`."""
    complaint(desk, "run", "--provider", provider, "x", code=2, words=variable)


def test_nothing_configured_says_what_could_be(desk: CliEnvironment) -> None:
    """With no key, no Ollama and no model, the message names every way to have one, and nothing is downloaded."""
    complaint(desk, "run", "x", code=2, words="jaato login")
    complaint(desk, "models", code=2, words="OPENAI_BASE_URL")
    complaint(desk, "login", code=2, words="jaato login anthropic | openai")
    assert not (desk.home / ".cache").exists()


def test_unknown_commands(desk: CliEnvironment) -> None:
    """A word that is no command is named with the one it resembles, not with a list of all."""
    complaint(desk, "modles", code=2, words="there is no command 'modles'; did you mean models?")
    complaint(desk, "nothing", code=2, words="jaato --help lists them")


def test_names_of_other_agents(desk: CliEnvironment) -> None:
    """A command or option that other agents have is answered with what stands for it."""
    complaint(desk, "exec", "fix it", code=2, words="there is no command 'exec'; jaato run PROMPT")
    complaint(desk, "undo", code=2, words="jaato -c /undo")
    complaint(desk, "-p", "fix it", code=2, words="there is no option '-p'; jaato run PROMPT")
    complaint(desk, "tui", "--resume", code=2, words="jaato -c resumes")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"model = ", "is not valid TOML"),
        (b"\xff\xfe", "is not valid TOML"),
        (b"x = " + b"[" * 2000, "is not valid TOML"),
        (b"#" * 1_100_000, "larger than"),
        (b"temperature = 'hot'", "temperature must be a number"),
        (b"effort = 'immense'", "effort is one of"),
    ],
)
def test_hostile_config_files(desk: CliEnvironment, content: bytes, words: str) -> None:
    """A malformed, huge or wrong configuration file is exit 2 with its name; `jaato doctor` still speaks."""
    desk.config.mkdir(parents=True)
    (desk.config / "config.toml").write_bytes(content)
    complaint(desk, "run", *desk.script(say("x")), "x", code=2, words=words)
    made = desk.run("doctor", "--json")
    assert made.returncode == 1
    assert any(words in check["text"] for check in json.loads(made.stdout)["checks"])


@pytest.mark.parametrize(
    "content",
    [b"{", b"\xff", b"[]", b'{"version": 1, "defaultPolicy": "maybe"}', b'{"a":' * 5000, b" " * 5_000_000],
)
def test_hostile_permission_files(desk: CliEnvironment, content: bytes) -> None:
    """A malformed or huge permission file stops the run with its name instead of being passed over."""
    path = desk.work / ".jaato" / "permissions.json"
    path.parent.mkdir()
    path.write_bytes(content)
    complaint(desk, "run", *desk.script(say("x")), "x", code=2, words="permissions.json")


@pytest.fixture
def open_desk() -> Iterator[CliEnvironment]:
    """A command line environment that another user can reach: each start of pytest closes the directory above its own to others."""
    with ground("this user") as place:
        yield CliEnvironment(place)


def test_unreadable_files_of_another_user(open_desk: CliEnvironment) -> None:
    """Configuration and permission files that may not be read are named, with exit 2."""
    desk = open_desk
    desk.config.mkdir(parents=True)
    path = desk.config / "config.toml"
    path.write_text("model = 'x'")
    path.chmod(0o600)
    subprocess.run(["chown", "-R", f"{OTHER}:{OTHER}", str(desk.home), str(desk.work)], check=True)
    os.chown(path, 0, 0)
    script = desk.script(say("x"))
    (desk.root / "script.json").chmod(0o644)
    complaint(desk, "run", *script, "x", code=2, words="config.toml cannot be read", prefix=as_another_user())


def test_a_store_that_cannot_be_used(desk: CliEnvironment) -> None:
    """A foreign, damaged or unwritable store is named, left as it is, and nothing runs."""
    desk.state.mkdir(parents=True, mode=0o700)
    database = desk.state / "jaato.db"
    script = desk.script(say("x"))
    with sqlite3.connect(database) as foreign:
        foreign.execute("CREATE TABLE mine (a)")
    foreign.close()
    before = database.read_bytes()
    complaint(desk, "run", *script, "x", code=1, words="jaato.db is not a session store")
    assert database.read_bytes() == before
    database.write_bytes(b"SQLite format 3\x00" + b"\x00rubbish" * 1000)
    complaint(desk, "run", *script, "x", code=1, words="jaato.db")
    complaint(desk, "sessions", "list", code=1, words="jaato.db")
    made = desk.run("doctor")
    assert made.returncode == 1
    assert "fail  sessions" in made.stdout


def test_many_damaged_events_are_counted(desk: CliEnvironment) -> None:
    """A session with damaged events is resumed; five of them are named, the others counted."""
    desk.run(
        "run", *desk.script(*[call("get_tool_schemas", names=["run"])] * 4, say("x")), "--name", "worn", "x"
    )
    with sqlite3.connect(desk.state / "jaato.db") as store:
        store.execute("UPDATE event SET data = x'7b' WHERE position & 65535 BETWEEN 6 AND 13")
    store.close()
    made = desk.run("run", "--session", "worn", *desk.script(*[say("again")] * 6, name="again.json"), "y")
    assert made.returncode == 0, made.stderr
    assert made.stderr.count("of this session is damaged: it cannot be read") == 5
    assert "3 more events of this session are damaged" in made.stderr


def test_a_state_directory_that_cannot_be_written(open_desk: CliEnvironment) -> None:
    """As a user who may not write the state directory, the message names it; nothing runs."""
    desk = open_desk
    desk.state.mkdir(parents=True)
    script = desk.script(say("x"))
    complaint(desk, "run", *script, "x", code=1, words=str(desk.state), prefix=as_another_user())


def test_a_session_whose_workspace_is_gone(desk: CliEnvironment) -> None:
    """Going on in a directory that was removed names the directory."""
    work = desk.root / "brief"
    work.mkdir()
    desk.run("run", *desk.script(say("x")), "--name", "brief", "x", cwd=work)
    work.rmdir()
    complaint(desk, "run", "--session", "brief", "y", code=2, words=str(work))


def test_broken_plugins_harm_nobody(desk: CliEnvironment) -> None:
    """A plugin that cannot be imported is reported by `jaato tools`; the run goes on without it."""
    plugins = desk.config / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "broken.py").write_text("raise RuntimeError('no')")
    made = desk.run("tools", "list")
    assert made.returncode == 0
    assert "broken cannot be imported: RuntimeError: no" in made.stderr
    assert desk.run("run", *desk.script(say("fine")), "x").stdout == "fine\n"


def test_debugging_shows_where(desk: CliEnvironment) -> None:
    """JAATO_DEBUG=1 gives the traceback."""
    made = desk.run("run", "--provider", "nobody", "x", environ={"JAATO_DEBUG": "1"})
    assert "Traceback" in made.stderr


def test_settings_without_effect_are_named(desk: CliEnvironment) -> None:
    """A setting that does not exist, and one of a file that is not trusted, are named when a session begins."""
    desk.config.mkdir(parents=True)
    (desk.config / "config.toml").write_text('modle = "m"\r\n')
    (desk.work / ".jaato").mkdir()
    (desk.work / ".jaato/config.toml").write_text('effort = "high"\n')
    made = desk.run("run", *desk.script(say("Hello.")), "hello")
    assert made.returncode == 0, made.stderr
    assert made.stdout == "Hello.\n"
    assert "unknown setting 'modle'; did you mean mode or model?" in made.stderr
    assert "effort is ignored until the file is trusted: jaato config --trust" in made.stderr
