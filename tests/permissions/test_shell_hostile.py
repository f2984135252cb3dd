"""Commands that try to be more than the rule that covers them, more than a read, or less than the blacklist sees."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.permissions.ground import RUN, call, explain, make_workspace

from jaato.protocol.specs import Grant
from jaato.tools.permissions import Gate, Policy

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
        ("tar *", "tar cIf 'sh -c x' a.tar src"), ("tar *", "tar xF prog a.tar"), ("tar *", "tar -cf a --rmt-command=x src"),
        ("git *", "git bisect run rm x"), ("git *", "git filter-branch --tree-filter x"), ("git *", "git difftool -y"),
        ("git fetch *", "git fetch 'ext::sh -c x'"), ("git * *", "git -c alias.x=!rm x"), ("git * x", "git -c x"),
        ("git bisect *", "git bisect run rm x"), ("git *", "git mergetool -t x"), ("git *", "git submodule foreach 'rm x'"),
        ("git *", "git for-each-repo --config=x y"), ("git log *", "git log --output=x"), ("git log *", "git log --outp=x"),
        ("go test *", "go test --exec=x"), ("go build *", "go build -ldflags=-extld=x"), ("go vet *", "go vet --vettool x"),
        ("npm test *", "npm test --script-shell=x"), ("npm run build *", "npm run build --script-shell x"),
        ("pylint *", "pylint --init-hook=x a.py"), ("prettier *", "prettier --plugin=./x a"), ("pytest *", "pytest --basetemp=src"),
        ("eslint *", "eslint --rulesdir x a"), ("kubectl get *", "kubectl get --kubeconfig=x pods"),
        ("cargo test *", "cargo test --manifest-path x/Cargo.toml"), ("make test *", "make test SHELL=./x"),
        ("make test *", "make test -C x"), ("make *", "make '--eval=$(shell rm x)'"),
        ("less *", "less '+!rm x' a.txt"), ("split *", "split --filter='rm x' a.txt"), ("man *", "man -P x ls"),
        ("sed *", "sed '1e rm x' a.txt"), ("sed *", "sed 's/a/b/e' a.txt"), ("sed *", "sed 'w out' a.txt"),
        ("sed *", "sed -e p -e 'w out' a.txt"), ("sed *", "sed -e'w out' a.txt"), ("sed *", "sed --expression='s/a/b/w x' a.txt"),
        ("sort *", "sort --compress-program=x a.txt"), ("rg *", "rg --pre x y"), ("wait *", "wait -p 'a[$(rm x)]'"),
        ("printf *", "printf -v 'a[$(rm x)]' x"), ("test *", "test -v 'a[$(rm x)]'"),
        ("rm src/*", "rm src/../a.txt"), ("rm src/*", "rm src/../../secret"), ("touch src/*", "touch src/./../a.txt"),
        ("./build.sh", "cd src && ./build.sh"), ("./build.sh *", "cd src; ./build.sh a"), ("src/../build.sh", "cd src && src/../build.sh"),
        ("python build.py", "cd src && python build.py"), ("python build.py *", "cd src && python build.py x"),
        ("git status *", "cd evil && git status"), ("git *", "cd evil; git status --short"), ("git status *", "cd hooked && git status"),
        ("python -W ignore", "cat a.txt | python -W ignore"), ("bash -o pipefail", "cat a.txt | bash -o pipefail"),
        ("bash -x", "cat a.txt | bash -x"), ("* x", "setarch x"), ("* x", "compgen x"), ("* x", "pkexec x"),
    ],
)  # fmt: skip
def test_a_rule_for_a_program_does_not_cover_what_the_program_is_made_to_run(
    workspace: Path, pattern: str, command: str
) -> None:
    """A `*` covers no argument that makes the program run, load or write something else, and no path that leads away;
    a program named by a relative path is another one after `cd`."""
    verdict = explain(command, workspace, [pattern])
    assert verdict.effect == "ask", verdict


@C4
@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("tar *", "tar xf a.tar"), ("tar *", "tar -xzf a.tar -C src"), ("git *", "git commit -m run"), ("git *", "git -p log"),
        ("git fetch *", "git fetch origin main"), ("sed *", "sed 's/a/b/g; 2,3d' a.txt"), ("sed *", "sed -n -e '/x/p' a.txt"),
        ("sed *", "sed 's|a/e|b/w|' w"), ("go test *", "go test -run TestExec ./..."), ("less *", "less -N a.txt"),
        ("rm src/*", "rm src/b.py"), ("rm src/*", "rm src/x/../b.py"), ("git commit *", "cd src && git commit -m x"),
        ("python *", "cd src && python b.py"), ("pytest *", "cd src && pytest -q"), ("make test *", "make test V=1"),
        ("npm run build *", "npm run build -- --watch"), ("git log *", "git log --oneline -5"),
    ],
)  # fmt: skip
def test_a_rule_covers_the_ordinary_use_of_a_program(workspace: Path, pattern: str, command: str) -> None:
    """What is careful about options does not ask about every use."""
    assert explain(command, workspace, [pattern]).effect == "allow"


@C4
def test_the_question_says_which_argument_a_rule_does_not_cover(workspace: Path) -> None:
    """Whoever has allowed a program and is asked again is told what is different this time."""
    verdict = explain("git fetch --upload-pack=x y", workspace, ["git fetch *"])
    assert "--upload-pack=x makes git run or write something else" in verdict.reason
    many = explain("mkdir a; mkdir b; mkdir c; mkdir d; mkdir e", workspace)
    assert "mkdir c" in many.reason
    assert many.reason.endswith("and 2 more")


@C4
@pytest.mark.parametrize(
    "command",
    ["rg -L root .", "ls -RL .", "ls -L", "du -aL .", "tree -l .", "diff -r . src", "diff --recursive . src",
     "strings @a.txt", "echo /etc/*", "which /etc/*", "basename -a /etc/*", "echo src/../../*", "echo link-dir/*"],
)  # fmt: skip
def test_a_read_that_leaves_the_workspace_is_asked_about(workspace: Path, command: str) -> None:
    """Links that are followed on the way down, argument files and patterns of names lead out as paths do."""
    assert explain(command, workspace).effect == "ask"


FORBIDDING = {"defaultPolicy": "allow", "blacklist": {"patterns": ["run(rm *)", "run(git push *)"]}}


@C4
@pytest.mark.parametrize(
    "command",
    ["/bin/r[m] x", "/bin/r? x", "echo rm x | sh", "sh <<< 'rm x'", "sh <<EOF\nrm x\nEOF", "sh < a.txt", "printf 'rm x' | bash -s",
     "git --no-pager push", "git -C . push -f", "git -c a.b=c push", "env -S'rm x'", "source /dev/stdin <<< 'rm x'",
     "git bisect run rm x", "shopt -s expand_aliases\nalias x=rm\nx y", "setarch x rm y", "cat a.txt | xargs env", "cat a.txt | sudo sh",
     "cat a.txt | parallel", "awk 'BEGIN{system(\"rm x\")}'", "python -c 'import os; os.system(\"rm x\")'", "make SHELL='rm x'"],
)  # fmt: skip
def test_the_blacklist_is_not_got_around(workspace: Path, command: str) -> None:
    """With a default that allows, a command that a blacklist forbids, or that it cannot see, does not just run."""
    assert explain(command, workspace, **FORBIDDING).effect in ("deny", "ask")
    whole = {**FORBIDDING, "defaultPolicy": "ask", "whitelist": {"tools": ["run"]}}
    gate = Gate(Policy.of(whole), workspace=workspace)
    assert gate.explain(call(RUN, workspace, command=command), RUN).effect in ("deny", "ask")


@C4
def test_a_refusal_of_this_session_is_not_got_around_either(workspace: Path) -> None:
    """What was refused and could not be kept in a file hides as little as what stands there."""
    refusal = Grant(id="g", effect="deny", tool="run", scope="session", shape="rm *")
    gate = Gate(Policy.of({"defaultPolicy": "allow"}), workspace=workspace, grants=[refusal])
    assert gate.explain(call(RUN, workspace, command="rm x"), RUN).effect == "deny"
    assert gate.explain(call(RUN, workspace, command="echo rm x | sh"), RUN).effect == "ask"


@pytest.mark.parametrize(
    "command", ["ls | xargs cat", "cat a.txt | python src/b.py", "git pull", "find . | sed -n 3p"]
)
def test_a_blacklist_lets_the_ordinary_pass(workspace: Path, command: str) -> None:
    """A pipe into a program that only gets data is no way around a blacklist."""
    assert explain(command, workspace, **FORBIDDING).effect == "allow"


@C4
@pytest.mark.parametrize(
    "command",
    ["cp evil .g{i,}t/config", "touch .{jaato,x}/permissions.json", "touch .g?t/x", "cp -r evil .g?t", "cp -r x .[g]it",
     "d=.gi; touch ${d}t/config", "export d=.gi; touch ${d}t/config", "touch $'.\\x67it/config'", "touch $'.\\147it/config'",
     "touch ~/.ba'sh'rc", "touch \"$HOME\"/.ba'sh'rc", "tee \"/proc/$$/cwd/.gi\"t/config", "touch .gi$x", "touch {a,.en}vrc",
     "mv ../work ../w2", "mv .. x", "cp -rT evil .", "cp -r evil/work ..", "cp evil/.* .", "mv -t . evil/.env*",
     "cp --target-directory=. evil/.envrc", "rm -rf $PWD", "rm -rf \"${PWD}\"", "rm -rf *", "rm -rf ./*", "find . -delete",
     "find -delete", "find . -name config -exec tee {} +", "find . ! -name x -delete", "find . -name '*.py' -o -name y -delete",
     "sudo rm -rf .", "env rm -rf .", "bash -c 'rm -rf .'", "bash -c \"touch .gi''t/config\"", "eval \"touch .gi''t/config\"",
     "sudo git config x y", "xargs touch .en'v'rc", "nice -n 5 mv .. x", "bash -c 'cd src; touch ../.en\"v\"rc'",
     "touch " + "{a,b}" * 9, ": > .gi{t,x}/config", "cd .gi''t && touch config", "touch .xprof''ile", "tee -a .pam_environment"],
)  # fmt: skip
def test_control_paths_are_found_however_a_command_spells_them(workspace: Path, command: str) -> None:
    """Braces, variables that the line sets, quotes, wrappers, and moving or sweeping a whole directory hide nothing."""
    gate = Gate(Policy.of({"whitelist": {"tools": ["run"]}}), workspace=workspace)
    verdict = gate.explain(call(RUN, workspace, command=command), RUN)
    assert (verdict.effect, verdict.method) == ("ask", "control_path"), verdict


@pytest.mark.parametrize(
    "command",
    ["mv a.txt src", "cp a.txt .", "mv src/b.py .", "find . -name '*.pyc' -delete", "find src -delete", "rm -rf src/*", "touch {a,b}.py",
     "for f in *.py; do mv $f src; done", "find . -name '*.py' -exec sed -i s/a/b/ {} +", "x=1; touch $x", "cp -r src lib",
     "python -c 'print(user.login)'", "find . -name config -exec grep x {} +"],
)  # fmt: skip
def test_ordinary_changes_are_no_changes_of_control_paths(workspace: Path, command: str) -> None:
    """What cannot reach a control path is left to the rules."""
    gate = Gate(Policy.of({"whitelist": {"tools": ["run"]}}), workspace=workspace)
    assert gate.explain(call(RUN, workspace, command=command), RUN).effect == "allow"
