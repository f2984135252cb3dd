"""Attacks within the workspace: control files, and programs that run as another user outside."""

from __future__ import annotations

import os

from tests.sandbox.attacks.table import AT_FDCWD, RENAME_EXCHANGE, World, attack, call, write


@attack()
def settings_of_git(w: World) -> object:
    write(f"{w.workspace}/.git/config", "[core]\n\tfsmonitor = harm\n")
    return None


@attack()
def hook_of_git(w: World) -> object:
    with open(f"{w.workspace}/.git/hooks/pre-commit", "w") as file:
        file.write("harm")
    return None


@attack()
def rename_git_and_back(w: World) -> object:
    git = f"{w.workspace}/.git"
    os.rename(git, f"{git}-away")
    os.rename(f"{git}-away", git)
    return True


@attack()
def exchange_git(w: World) -> object:
    git = f"{w.workspace}/.git"
    os.mkdir(f"{w.inside}/git")
    call(316, 276, AT_FDCWD, f"{w.inside}/git".encode(), AT_FDCWD, git.encode(), RENAME_EXCHANGE)
    call(316, 276, AT_FDCWD, f"{w.inside}/git".encode(), AT_FDCWD, git.encode(), RENAME_EXCHANGE)
    return True


@attack()
def permissions_of_jaato(w: World) -> object:
    write(f"{w.workspace}/.jaato/permissions.json", '{"defaultPolicy": "allow"}')
    return None


@attack()
def setuid_program_in_workspace(w: World) -> object:
    """A program that makes whoever runs it outside the user that runs this."""
    path = f"{w.inside}/program"
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o755))
    os.chmod(path, 0o4755)
    return bool(os.stat(path).st_mode & 0o4000)


@attack()
def setuid_file_from_its_start(w: World) -> object:
    path = f"{w.inside}/program"
    os.umask(0)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o4755))
    return bool(os.stat(path).st_mode & 0o4000)
