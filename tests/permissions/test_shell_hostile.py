"""Commands that try to be more than the rule that covers them, more than a read, or less than the blacklist sees."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest
from tests.permissions.ground import RUN, call, enforced, explain, make_workspace, reach

from jaato.protocol.specs import Grant
from jaato.tools.permissions.gate import Gate, Policy

C4 = pytest.mark.spec("C4", "Permissions")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One workspace for all cases: nothing is run in it."""
    work = make_workspace(tmp_path_factory.mktemp("hostile"))
    (work / "build.sh").write_text("")
    return work


@C4
@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("rm src/*", "rm src/../a.txt"), ("rm src/*", "rm src/../../secret"), ("touch src/*", "touch src/./../a.txt"),
        ("./build.sh", "cd src && ./build.sh"), ("./build.sh *", "cd src; ./build.sh a"), ("src/../build.sh", "cd src && src/../build.sh"),
        ("python build.py", "cd src && python build.py"), ("python build.py *", "cd src && python build.py x"),
        ("python -W ignore", "cat a.txt | python -W ignore"), ("bash -o pipefail", "cat a.txt | bash -o pipefail"),
        ("bash -x", "cat a.txt | bash -x"), ("* x", "setarch x"), ("* x", "compgen x"), ("* x", "pkexec x"), ("git *", "git x | head"),
        ("git *", "git x > f"), ("git *", "git x < $f"), ("git *", "git $(rm x)"), ("git *", "git x; rm y"), ("git *", "cd $x; git y"),
        ("git *", "pushd src; git x"), ("git *", "echo $(date); git x"), ("git *", "echo x > f; git x"), ("echo *", "cd src; pwd"),
    ],
)  # fmt: skip
def test_a_rule_for_a_program_covers_no_other_structure(workspace: Path, pattern: str, command: str) -> None:
    """What the words of a rule do not say opens nothing: another part, a pipe, a redirection, a substitution, a path that
    leads away, a program that is another one after `cd`."""
    assert reach(command, workspace, [pattern]) == "read-only"


@C4
@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("tar *", "tar xf a.tar"), ("tar *", "tar -xzf a.tar -C src"), ("git *", "git commit -m run"), ("git *", "git -p log"),
        ("git fetch *", "git fetch origin main"), ("sed *", "sed 's/a/b/g; 2,3d' a.txt"), ("sed *", "sed -i -e '/x/p' a.txt"),
        ("go test *", "go test -run TestExec ./..."), ("rm src/*", "rm src/b.py"), ("rm src/*", "rm src/x/../b.py"),
        ("git commit *", "cd src && git commit -m x"), ("python *", "cd src && python b.py"), ("pytest *", "cd src && pytest -q"),
        ("make test *", "make test V=1"), ("npm run build *", "npm run build -- --watch"), ("git log *", "git log --oneline -5"),
        ("git *", "git -c alias.x='!rm y' x"), ("make *", "echo building; make all"), ("./run.sh *", "cd . && ./run.sh x"),
    ],
)  # fmt: skip
def test_a_rule_opens_the_workspace_and_never_more(workspace: Path, pattern: str, command: str) -> None:
    """What a program is told to run is held by the sandbox, so that a rule for it covers any of its options."""
    assert reach(command, workspace, [pattern]) == "workspace-write"


@C4
def test_a_question_names_the_parts_that_no_rule_covers(workspace: Path) -> None:
    """At most three parts, and how many more there are."""
    policy = Policy()
    gate = Gate(policy, workspace=workspace, profiles=enforced)
    command = "mkdir a; mkdir b; mkdir c; mkdir d; mkdir e"
    many = gate.explain(call(RUN, workspace, command=command, need=["write"]), RUN)
    assert "mkdir c" in many.reason
    assert "and 2 more" in many.reason


@C4
def test_what_is_covered_in_part_names_the_rest(workspace: Path) -> None:
    """Where a rule covers some of a line, the verdict says which part keeps all of it from writing; else it is short."""
    gate = Gate(
        Policy.of({"whitelist": {"patterns": ["run(pytest *)"]}}), workspace=workspace, profiles=enforced
    )
    for command, named in (("pytest -q | tail -5", "tail -5"), ("pytest && make x; pytest a", "make x")):
        found = gate.explain(call(RUN, workspace, command=command), RUN)
        assert (found.effect, found.method) == ("allow", "sandbox")
        assert found.reason == f"{named}: no rule covers it; so the whole line runs in the read-only sandbox"
        asked = gate.explain(call(RUN, workspace, command=command, need=["write"]), RUN)
        assert asked.effect == "ask"
        assert asked.reason.startswith(f"{named}: no rule covers it; a yes opens")
    alone = gate.explain(call(RUN, workspace, command="make x | tail"), RUN)
    assert alone.reason == "no rule covers it, so it runs in the read-only sandbox"
    strict = Policy.of({"defaultPolicy": "deny", "whitelist": {"patterns": ["run(pytest *)"]}})
    denied = Gate(strict, workspace=workspace, profiles=enforced)
    found = denied.explain(call(RUN, workspace, command="pytest | tail"), RUN)
    assert (found.effect, found.reason) == ("deny", "tail: no rule covers it, and the default is deny")


FORBIDDING = {"defaultPolicy": "allow", "blacklist": {"patterns": ["run(rm *)", "run(git push *)"]}}


@C4
@pytest.mark.parametrize(
    "command",
    ["find . -exec cat {} +", "find . -execdir sh -c 'x' \\;", "ls | xargs cat", "eval \"$(cat a.txt)\"", "eval $x", "sh -c \"$(cat a.txt)\"",
     "bash <(cat a.txt)", "bash -c $x", "sh -c 'eval $y'", "$(cat a.txt)", "`cat a.txt`", "x=rm; $x y", "f() { ls; }; f", "alias ls=rm; ls x",
     ". ./a.txt", "timeout 5 $x", "env $x y", "nohup $(cat a.txt)", "timeout 5 python -c 'x'", "perl -e 'x'", "node --eval x", "ruby -ne x a",
     "sed '1e r''m x' a.txt", "sed -f a.txt b", "awk -f a.txt", "vim -c ':!x'", "vim +x", "make --eval=x", "env -S 'find . -exec x'",
     "bash -c 'bash -c \"bash -c \\\"bash -c ls\\\"\"'", "sh -c 'ls | xargs x'", "sudo find . -ok x", "{rm,x}", "~/x", "\\r$x", "coproc x",
     "git -c alias.zz='!rm x' zz", "tar xf a --to-command='rm x'", "rsync -e 'rm x' a b:", "GIT_SSH_COMMAND='rm x' git fetch", "uv run rm x",
     "tar cf a --checkpoint-action=exec='rm x' b", "test -v 'a[$(rm x)]'", "git config alias.x '!rm y'", "php -r 'x'", "psql -c x",
     "bash -lc \"$x\"", "exec $x", "command $x", "trap \"$x\" EXIT", "if $x; then ls; fi", "for c in rm; do $c x; done", "ls | sh",
     "cat <<E | bash\nls\nE", "python3 - <<E\nprint(1)\nE", "sh -s < a.txt", "xargs -a a.txt rm", "parallel ls", "/bin/r[m] x", "/bin/r? x", "echo rm x | sh", "sh <<< 'rm x'", "sh <<EOF\nrm x\nEOF", "sh < a.txt", "printf 'rm x' | bash -s",
     "git --no-pager push", "git -C . push -f", "git -c a.b=c push", "env -S'rm x'", "source /dev/stdin <<< 'rm x'",
     "git bisect run rm x", "shopt -s expand_aliases\nalias x=rm\nx y", "setarch x rm y", "cat a.txt | xargs env", "cat a.txt | sudo sh",
     "cat a.txt | parallel", "awk 'BEGIN{system(\"rm x\")}'", "python -c 'import os; os.system(\"rm x\")'", "make SHELL='rm x'"],
)  # fmt: skip
def test_the_blacklist_is_not_got_around(workspace: Path, command: str) -> None:
    """With a default that allows, a command that a blacklist forbids, or that it cannot see, does not just run."""
    assert explain(command, workspace, **FORBIDDING).effect in ("deny", "ask")
    assert explain(command, workspace, blacklist=FORBIDDING["blacklist"]).effect in ("deny", "ask")
    reading = Policy.of(FORBIDDING).with_flags(read_only=True)
    verdict = Gate(reading, workspace=workspace, profiles=enforced).explain(
        call(RUN, workspace, command=command), RUN
    )
    assert verdict.effect in ("deny", "ask")
    assert not verdict.lasting or verdict.effect == "deny"
    whole = {**FORBIDDING, "defaultPolicy": "ask", "whitelist": {"tools": ["run"]}}
    gate = Gate(Policy.of(whole), workspace=workspace, profiles=enforced)
    assert gate.explain(call(RUN, workspace, command=command), RUN).effect in ("deny", "ask")


@C4
def test_a_refusal_of_this_session_is_not_got_around_either(workspace: Path) -> None:
    """What was refused and could not be kept in a file hides as little as what stands there."""
    refusal = Grant(id="g", effect="deny", tool="run", scope="session", shape="rm *")
    gate = Gate(
        Policy.of({"defaultPolicy": "allow"}), workspace=workspace, grants=[refusal], profiles=enforced
    )
    assert gate.explain(call(RUN, workspace, command="rm x"), RUN).effect == "deny"
    assert gate.explain(call(RUN, workspace, command="echo rm x | sh"), RUN).effect == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "cat a.txt | python src/b.py",
        "git pull",
        "find . | sed -n 3p",
        "sh -c 'ls -l'",
        "timeout 5 make test",
        "env A=1 pytest -q",
        "echo $(date)",
        "for f in a b; do cat $f; done",
        "awk '{print $1}' a.txt",
        "sed -i 's/a/b/' a.txt",
        "make -j4 test",
        "python3 tool.py --check",
        "bash build.sh <<E\nx\nE",
        "git commit -m 'remove rm calls'",
        "cd src && ls > out",
        "eval 'ls -l'",
        "find . -name '*.py'",
    ],
)
def test_a_blacklist_lets_the_ordinary_pass(workspace: Path, command: str) -> None:
    """What a rule that forbids commands can be held against runs: data in a pipe, literal lines, scripts by name."""
    assert reach(command, workspace, **FORBIDDING) == "workspace-write"
