"""Sessions a server has open, as the commands on stored sessions and terminals that come back see them."""

from __future__ import annotations

from tests.cli.environment import CliEnvironment, call, say
from tests.cli.terminal import talking
from tests.cli.test_attach import attached, served

__all__ = ["served"]


def test_what_a_server_has_open(served: CliEnvironment) -> None:
    """After a crash of the server a terminal that comes back says how to go on, and not that it has left itself. Another
    name, and the end, of a session that a terminal has open go through its server; in this process a turn is refused."""
    script = served.script(say("First."), call("run", command="sleep 60"), say("Second."))
    served.env["USER"] = "ana"
    with talking(served, *script, "--yes", "--name", "shared", "hello") as one:
        one.expect("First.")
        one.expect("> $")
        one.sendline("work")
        one.expect("> run sleep 60")
        served.kill_server()
        served.start_server()
        one.expect("Reconnected")
        one.expect("calls that had started are not repeated.*resumes it")
        assert "has left" not in one.before
        told = one.before + one.after
        with attached(served, "shared") as two:
            two.expect(r"answer \(.*empty: unknown\): $")
            one.expect("bea at .* joined")
            assert (told + one.before).count("was interrupted") == 1
            assert two.before.count("was interrupted") == 1
            assert served.run("sessions", "rename", "shared", "open").returncode == 0
            assert "(cut off, 1 question waiting) open" in served.run("sessions", "list").stdout
            refused = served.run("run", "--no-daemon", "--session", "open", "hi")
            assert (refused.returncode, "`jaato attach s" in refused.stderr) == (1, True), refused.stderr
            two.sendline("/save")
            two.expect(r"Saved as \.jaato/sessions/s")
            assert served.run("sessions", "delete", "--yes", "open").returncode == 0
            assert served.sessions() == []
            two.expect("This session was removed")
