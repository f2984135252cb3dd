"""Work in the sandbox with toolchains and programs that come from elsewhere than wheels: run by `make test-system`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sandbox.working import Project

pytestmark = pytest.mark.system


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project whose processes and files are gone afterwards."""
    made = Project(tmp_path)
    yield made
    made.close()


def needs(*programs: str) -> None:
    """Skip where a program is missing, and say which."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")


def test_gdb_steps_through_a_program(project: Project) -> None:
    """A debugger traces what it starts, inside."""
    needs("gdb", "gcc")
    (project.place / "a.c").write_text("int main(void) {\n  int x = 41;\n  x++;\n  return x - 42;\n}\n")
    project.works("gcc -g -O0 -o a a.c")
    output = project.works("gdb -batch -ex 'break main' -ex run -ex next -ex next -ex 'print x' ./a")
    assert "$1 = 42" in output


def test_cargo_builds_runs_and_tests(project: Project) -> None:
    """A crate without dependencies is built, run and tested; the user's registry is not written to."""
    needs("cargo")
    project.environ["CARGO_HOME"] = str(Path.home() / ".cargo")
    project.environ["RUSTUP_HOME"] = str(Path.home() / ".rustup")
    project.works(
        "cargo init -q --vcs none --name little . && cargo run -q --offline && cargo test -q --offline",
        timeout_s=300,
    )
    assert (project.place / "target").is_dir()


def test_go_builds_runs_and_tests(project: Project) -> None:
    """A module without dependencies is built, run and tested."""
    needs("go")
    (project.place / "main.go").write_text(
        'package main\nimport "fmt"\nfunc main() { fmt.Println("built") }\n'
    )
    assert "built" in project.works(
        "go mod init little && go build ./... && go run . && go vet ./...", timeout_s=300
    )


def test_tmux_and_script_have_terminals(project: Project) -> None:
    """Programs that make terminals of their own find devices and a place for their sockets."""
    needs("tmux", "script")
    assert "1 windows" in project.works("tmux new -d 'sleep 5' && tmux ls")
    assert "/dev/pts/" in project.works("script -qc tty /dev/null")


def test_strace_traces(project: Project) -> None:
    """ptrace works on what is inside."""
    needs("strace")
    assert "exit_group(0)" in project.works("strace -f true 2>&1")


def test_a_tree_is_configured_and_built_by_cmake(project: Project) -> None:
    """A build tree is made, compiled and tested."""
    needs("cmake", "gcc")
    (project.place / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.10)\nproject(little C)\nadd_executable(a a.c)\nenable_testing()\nadd_test(a a)\n"
    )
    (project.place / "a.c").write_text("int main(void) { return 0; }\n")
    assert "100% tests passed" in project.works(
        "cmake -S . -B build && cmake --build build && ctest --test-dir build", timeout_s=120
    )


def test_maven_and_java_compile(project: Project) -> None:
    """A compiler that needs much address space runs."""
    needs("javac", "java")
    (project.place / "A.java").write_text(
        'class A { public static void main(String[] a) { System.out.println("built"); } }\n'
    )
    assert project.works("javac A.java && java A") == "built\n"
