"""Ordinary work in the sandbox: what people do all day goes on as without one."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sandbox.working import READ_ONLY, Project

from jaato.protocol.specs import SandboxAccess

PYTEST_FILE = """
import multiprocessing, sqlite3
def square(x): return x * x
def test_it(tmp_path):
    (tmp_path / "a").write_text("a")
    with multiprocessing.Pool(2) as pool:
        assert pool.map(square, [1, 2]) == [1, 4]
"""
PACKAGE = '[build-system]\nrequires = []\nbuild-backend = "hatchling.build"\n[project]\nname = "little"\nversion = "1.0"\n'


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project whose processes and files are gone afterwards."""
    made = Project(tmp_path)
    yield made
    made.close()


@pytest.mark.slow
def test_pytest_runs_with_processes_and_temporary_files(project: Project) -> None:
    """A test run makes processes, semaphores, temporary directories and a cache in the workspace."""
    (project.place / "test_a.py").write_text(PYTEST_FILE)
    assert "1 passed" in project.works(f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {sys.executable} -m pytest -q")
    assert (project.place / ".pytest_cache").is_dir()


def test_make_and_gcc_build_a_program(project: Project) -> None:
    """A compiler writes objects and programs, which then run."""
    (project.place / "a.c").write_text('#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n')
    (project.place / "Makefile").write_text("a: a.c\n\tgcc -o a a.c\n")
    assert project.works("make && ./a").endswith("built\n")


PIPS = [
    pytest.param(
        "env/bin/pip", "", id="of its own", marks=pytest.mark.system
    ),  # which pip installs, for seconds
    pytest.param(f"{sys.executable} -m pip --python env", "--without-pip", id="from outside"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("pip", "option"), PIPS)
def test_a_virtual_environment_is_made_and_a_package_installed(
    project: Project, pip: str, option: str
) -> None:
    """`python -m venv` and pip with a local wheel work; the caches are the sandbox's own."""
    (project.place / "pyproject.toml").write_text(PACKAGE)
    (project.place / "little.py").write_text("word = 'installed'\n")
    build = f"{sys.executable} -m hatchling build -t wheel -d dist"
    assert "little-1.0" in project.works(build)
    project.works(f"{sys.executable} -m venv {option} env && {pip} install -q --no-index dist/little-*.whl")
    assert project.works("env/bin/python -c 'import little; print(little.word)'") == "installed\n"
    assert not (project.home / ".cache").exists()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_npm_installs_a_local_package_and_runs_a_script(project: Project) -> None:
    """npm writes node_modules and its cache, and runs scripts."""
    (project.place / "dep").mkdir()
    (project.place / "dep" / "package.json").write_text('{"name": "dep", "version": "1.0.0"}')
    (project.place / "dep" / "index.js").write_text("module.exports = 41\n")
    scripts = '{"name": "x", "version": "1.0.0", "scripts": {"test": "node -e \\"console.log(require(\'dep\') + 1)\\""}}'
    (project.place / "package.json").write_text(scripts)
    project.works("npm install --offline --no-audit --no-fund ./dep")
    assert "42" in project.works("npm test --silent")
    assert not (project.home / ".npm").exists()


def test_git_commits_branches_stashes_and_rebases(project: Project) -> None:
    """Everything of git that changes neither configuration nor hooks works."""
    project.git()
    lines = (
        "echo one > a && git add a && git commit -qm one && git switch -qc side && echo two > a && git commit -qam two && "
        "git switch -q main && echo x > b && git add b && git stash -q && git stash pop -q && git commit -qm b && "
        "git rebase -q main side && git tag v1 && git log --oneline --all | wc -l"
    )
    assert project.works(lines).strip() == "4"


def test_git_pushes_to_a_remote_inside_and_with_a_directory_outside(project: Project) -> None:
    """A push goes to a bare repository in the workspace at once, and to one outside where that is granted."""
    project.git()
    outside = project.home / "remotes"
    outside.mkdir()
    project.works("git init -q --bare inner.git && git push -q inner.git main")
    refused = project.run(f"git init -q --bare {outside}/outer.git")
    assert refused["exit_code"] != 0
    assert "Read-only file system" in refused["output"]
    granted = SandboxAccess("workspace-write", paths=(str(outside),))
    project.works(f"git init -q --bare {outside}/outer.git && git push -q {outside}/outer.git main", granted)
    assert (outside / "outer.git" / "refs" / "heads" / "main").is_file()


def test_sqlite_keeps_a_database_in_wal_mode(project: Project) -> None:
    """Shared memory files and locks of SQLite work in the workspace, and reading works read-only."""
    (project.place / "db.py").write_text(
        "import sqlite3\nc = sqlite3.connect('x.db')\nc.execute('pragma journal_mode=wal')\n"
        "c.execute('create table if not exists t(a)')\nc.execute('insert into t values (1)')\nc.commit()\n"
        "print(c.execute('select count(*) from t').fetchone()[0])\n"
    )
    assert project.works(f"{sys.executable} db.py && {sys.executable} db.py") == "1\n2\n"
    (project.place / "read.py").write_text(
        "import sqlite3\nc = sqlite3.connect('file:x.db?immutable=1', uri=True)\n"
        "print(c.execute('select count(*) from t').fetchone()[0])\n"
    )
    assert project.works(f"{sys.executable} read.py", READ_ONLY) == "2\n"


def test_a_debugger_steps_through_a_program(project: Project) -> None:
    """pdb reads its commands from a pipe and shows values."""
    (project.place / "h.py").write_text("x = 6 * 7\nprint(x)\n")
    assert "42" in project.works(f"printf 'n\\np x\\nq\\n' | {sys.executable} -m pdb h.py")


def test_temporary_files_last_from_one_command_to_the_next(project: Project) -> None:
    """`/tmp` is the session's own: what one command leaves there the next one finds, and nobody else."""
    project.works("echo kept > /tmp/kept-by-a-command", READ_ONLY)
    assert project.works("cat /tmp/kept-by-a-command") == "kept\n"
    assert not Path("/tmp/kept-by-a-command").exists()


def test_reading_commands_work_read_only(project: Project) -> None:
    """What looks at a project needs nothing more than the read-only profile."""
    (project.place / "a.py").write_text("def f():\n    return 1\n")
    project.git()
    for line in (
        "git status --short && git log --oneline && git diff HEAD && git blame a.py",
        "grep -rn def . && find . -name '*.py' | xargs wc -l && sed -n 1p a.py && sort a.py | uniq -c",
        f"{sys.executable} -c 'import ast; print(ast.dump(ast.parse(open(\"a.py\").read())))'",
        "ps aux && df -h . && uname -a && env && ls -la ~ && cat /proc/meminfo | head -1",
        "head -c 100 /dev/urandom | base64 && date && mktemp && diff a.py /dev/null || true",
    ):
        project.works(line, READ_ONLY)
