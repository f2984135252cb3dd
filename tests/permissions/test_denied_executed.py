"""Lines that compute a command which a rule forbids: none runs it where nobody answers, and each would where no rule is."""

# ruff: noqa: E501

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from tests.permissions.ground import C4
from tests.shell.running import OneHost

from jaato.plugins.shell import ShellPlugin
from jaato.tools.call import Call
from jaato.tools.permissions.gate import Gate, Policy
from jaato.tools.tool import tool_from

FORBIDDING = {"defaultPolicy": "allow", "blacklist": {"patterns": ["run(rm *)"]}}
HIDDEN = "base64 -d <<< cm0gdmljdGlt"
PYTHON = "'import os; os.system(chr(114)+\"m victim\")'"
PERL = "'system chr(114).\"m victim\"'"
LINES = [
    "rm victim", "command rm victim", "trap 'r\"\"m victim' EXIT", "coproc r\\m victim; sleep 0.3", "x='$(r\\m victim)'; echo ${x@P}",
    "[ -v 'a[$(r\\m victim)]' ]", "[[ -v 'a[$(r\\m victim)]' ]]", "x='a[$(r\\m victim)]'; echo $((x))", "printf -v 'a[$(r\\m victim)]' x",
    f"{HIDDEN} | sh", f"{HIDDEN} | bash /dev//stdin", f"{HIDDEN} | bash /proc/thread-self/fd/0", f"{HIDDEN} | {{ sh; }}", f"{HIDDEN} | (sh)",
    f"{HIDDEN} | if true; then sh; fi", "if true; then sh; fi <<< $'r\\x6d victim'", "{ bash; } <<< $'r\\x6d victim'",
    "printf 'r\\x6d victim' > t; exec < t; bash", "printf 'r\\x6d victim' > >(sh); sleep 0.3", "printf 'r\\x6d victim' | tee >(sh); sleep 0.3",
    f"python3 -c{PYTHON}", f"python3 -Bc{PYTHON}", f"python3 -m timeit -n1 -r1 {PYTHON}", f"python3 -mtimeit -n1 -r1 {PYTHON}",
    f"echo {PYTHON} | python3 -m code", f"echo {PYTHON} | python3 -m pdb empty.py", f"perl -n0e {PERL} a", f"perl -0777ne {PERL} a",
    f"perl -ne{PERL} a", f"perl -le{PERL}", "perl '-Mwarnings;system(chr(114).\"m victim\")' a", "git grep -O'r\\m victim;:' one",
    "git rebase -x'r\"\"m victim' --root", "sqlite3 :memory: <<< '.shell r\"\"m victim'", "printf '.shell r\\x6d victim\\n' | sqlite3 :memory:",
    "sqlite3 :memory: '.shell printf \"r%s victim\" m | sh'",
    "node --import 'data:text/javascript,import(`child_process`).then(c=>c.execSync(String.fromCharCode(114)+`m victim`))' empty.py",
    "printf 'r\\x6d victim' > t; BASH_ENV=t bash -c true", "printf 'r\\x6d victim' > t; export BASH_ENV=t; bash script.sh",
    "printf 'r\\x6d victim' > t; env BASH_E''NV=t bash -c :", "printf 'r\\x6d victim' > t; set -a; printf -v BASH_ENV t; bash -c :",
    "printf 'r\\x6d victim' > t; set -a; for BASH_ENV in t; do bash -c :; done", "printf 'r\\x6d victim' > t; bash --rcfile t -i -c :",
    "printf 'r\\x6d victim' > t; bash --init-file t -i -c :", "printf 'r\\x6d victim' > t; timeout 9 bash --init-file t -i -c :",
    "printf 'r\\x6d victim' > .bash_profile; HOME=. bash -lc :", "printf 'r\\x6d victim' > .bash_profile; export HOME=.; bash --login script.sh",
    "printf 'r\\x6d victim' > t; ENV=./t sh -i -c :", "printf 'r\\x6d victim' > t; bash -c 'BASH_ENV=t bash -c :'",
    "PS4='$(r\\m victim)'; set -x; :", "printf 'system(chr(114).\"m victim\");' > T.pm; PERL5OPT='-I. -MT' perl -e 1",
    "$(ls /lib64/ld-linux* /lib/ld-linux* 2>/dev/null | head -1) /bin/rm victim", "/lib64/ld-linux-x86-64.so.2 /bin/rm victim",
]  # fmt: skip
ORDINARY = [
    "python3 -m pytest -x -q tests | tail -5", "python3 --version", "command -v python3", "bash script.sh", "make -j4 all 2>&1 | tail",
    "python3 script.py < in", "cat x | python3 -m json.tool", "python3 -m pip install -e .", "python3 -W ignore x.py", "node server.js", "node --test",
    "timeout 60 python3 -m pytest", "sqlite3 db 'select 1'", "grep -r \"a[$i]\" src", "git commit -m 'change a[0]'", "bash -c 'make test'",
    "bash -lc 'make test'", "HOME=/tmp/h npm test", "ENV=test pytest -q", "bash --norc -c 'make test'", "bash script.sh --rcfile x", "echo $HOME; bash script.sh",
    "env HOME=/tmp/h git status",
]  # fmt: skip


class Pit:
    """A workspace with a victim."""

    def __init__(self, root: Path) -> None:
        self.work = root / "w"
        self.work.mkdir()
        environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(root)}
        line = "git init -q && git config user.email a@b && git config user.name a && echo one >a && git add a && git commit -qm x"
        subprocess.run(line, shell=True, cwd=self.work, env=environ, check=True)
        (self.work / "empty.py").write_text("pass\n")
        self.plugin = ShellPlugin(OneHost(self.work, environ=environ))

    def play(self, command: str, *, forbidding: bool) -> bool:
        """Run a line where nobody answers; whether the victim is gone then."""
        (self.work / "victim").touch()
        policy = Policy.of(FORBIDDING if forbidding else {"defaultPolicy": "allow"})
        gate = Gate(policy, workspace=self.work, profiles=lambda: self.plugin.sandbox.profiles)
        tool = tool_from(self.plugin.run, "cli")

        async def main() -> None:
            call = Call("c", "run", {"command": command}, workspace=self.work, session_id="s")
            decision = await gate.check(call, tool)
            if decision.allowed:
                call.access = decision.permission.access
                await self.plugin.run(command, timeout_s=60, call=call)

        anyio.run(main)
        return not (self.work / "victim").exists()


@pytest.fixture(scope="module")
def pit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pit]:
    """One for all lines."""
    made = Pit(tmp_path_factory.mktemp("denied"))
    yield made
    made.plugin.shutdown()


@C4
@pytest.mark.parametrize("command", LINES)
def test_what_is_forbidden_is_not_computed(pit: Pit, command: str) -> None:
    """However a line comes to the command, everything else being allowed."""
    program = next((name for name in ("sqlite3", "node", "perl") if f"{name} " in command), "sh")
    if shutil.which(program) is None or (
        command.startswith("/lib64") and not Path(command.split()[0]).exists()
    ):
        pytest.skip(f"there is no {program}")
    assert not pit.play(command, forbidding=True)
    assert pit.play(command, forbidding=False)


@C4
@pytest.mark.parametrize("command", ORDINARY)
def test_ordinary_lines_are_not_taken_for_computing(pit: Pit, command: str) -> None:
    """A rule that forbids something else does not have them asked about."""
    gate = Gate(Policy.of(FORBIDDING), workspace=pit.work, profiles=lambda: pit.plugin.sandbox.profiles)
    call = Call("c", "run", {"command": command}, workspace=pit.work)
    assert gate.explain(call, tool_from(pit.plugin.run, "cli")).effect == "allow"
