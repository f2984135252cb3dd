"""Knowledge about programs: wrappers that run other programs, interpreters that read code from input, how wide a grant
may be."""

from __future__ import annotations

import itertools
import re

from jaato.lazy_pattern import lazy_pattern
from jaato.tools.shell.words import Word

RUNNERS = frozenset(
    """sudo su doas runuser setpriv env xargs parallel nohup setsid nice ionice chrt taskset time timeout
    command
    builtin exec eval source . trap watch strace ltrace gdb script expect flock chroot unshare nsenter
    bwrap firejail
    systemd-run at batch ssh sshpass busybox toybox stdbuf unbuffer caffeinate proxychains tsocks
    torsocks entr
    direnv make-run export declare typeset local readonly unset set shopt alias unalias enable hash read
    mapfile
    readarray getopts let printf-v bind complete coproc dbus-run-session xvfb-run start-stop-daemon
    cgexec prlimit
    setarch linux32 linux64 i386 x86_64 uname26 pkexec runcon sg newgrp aa-exec capsh choom numactl
    run-parts crontab chronic ifne pee vipe zrun timelimit daemonize softlimit envdir setlock chpst proot
    dbus-launch ssh-agent ccache distcc dtach abduco catchsegv eatmydata sem perf valgrind hyperfine socat
    compgen fc
    torify faketime fakeroot rlwrap ld.so watchexec nodemon npx pnpx bunx uvx pipx tmux screen""".split()
)
"""Programs and builtins that run their arguments or change what later commands mean: covered only when
named."""

LOADER = lazy_pattern(r"ld(?:-linux|-musl)?[\w.-]*\.so(?:\.\d+)*")
"""The loader of programs, which runs the one that it is given."""

INTERPRETERS = lazy_pattern(
    r"(?:ba|da|z|k|c|tc|a|fi|mk|pdk|r)?sh|fish|pwsh|python[\d.]*|pypy[\d.]*|node|nodejs|deno|bun|perl[\d.]*|ruby[\d.]*|"
    r"php[\d.]*|lua(?:jit)?[\d.]*|tclsh[\d.]*|[gmn]?awk|sed|ed|ex|view|rvi(?:m|ew)|vimdiff|vim?|nvim|emacs|bc|dc|psql|mysql|sqlite3|julia|R|"
    r"Rscript|ghci|ocaml|scala|groovy|jshell|gdb|osascript|m4|make|gmake"
)

DEVICE = lazy_pattern(r"/+(?:dev/+(?!null$)|proc/)")
"""A file that is another name of what a program reads."""

WIDE = frozenset(
    "pytest ruff mypy pyright black isort flake8 pylint eslint prettier tsc jest vitest mocha "
    "rustfmt gofmt shellcheck yamllint markdownlint hadolint clang-format mkdir touch head tail grep wc sort uniq cut tr".split()
)
"""Programs whose lasting grant covers any arguments."""

SUBCOMMANDS: dict[str, frozenset[str]] = {
    # programs whose lasting grant covers any arguments of these subcommands
    "git": frozenset(
        "add commit status log diff show fetch switch blame describe ls-files rev-parse shortlog".split()
    ),
    "cargo": frozenset("build check test clippy fmt doc tree bench".split()),
    "go": frozenset("build test vet fmt list doc version".split()),
    "npm": frozenset("test ls outdated view ci".split()),
    "pnpm": frozenset("test ls outdated".split()),
    "yarn": frozenset("test list outdated".split()),
    "pip": frozenset("list show freeze check".split()),
    "uv": frozenset("sync lock tree".split()),
    "gh": frozenset(),
    "docker": frozenset("ps images logs inspect".split()),
    "kubectl": frozenset("get describe logs".split()),
}
HARMLESS_VARIABLES = lazy_pattern(
    r"LANG|LC_[A-Z]+|TZ|NO_COLOR|FORCE_COLOR|CLICOLOR|COLUMNS|LINES|CI|RUST_BACKTRACE|PYTHONUNBUFFERED|"
    r"PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED|NODE_ENV"
)
HARMLESS_VALUE = lazy_pattern(r"[A-Za-z0-9_.,@+-]*")


def base_name(program: str) -> str:
    """The program without a system directory in front; any other path stays, so that `./git` is not `git`."""
    for directory in ("/usr/bin/", "/bin/"):
        if program.startswith(directory) and "/" not in program[len(directory) :]:
            return program[len(directory) :]
    return program


def last_name(program: str) -> str:
    """The program without any directory, to recognise what must never be overlooked."""
    return program.rpartition("/")[2]


def runs_others(program: str) -> bool:
    """Whether the program runs its arguments or changes what later commands mean."""
    name = last_name(program)
    return name in RUNNERS or LOADER.fullmatch(name) is not None


def interprets(program: str) -> bool:
    """Whether the program runs code from its arguments or its input."""
    return INTERPRETERS.fullmatch(last_name(program)) is not None


def obeys_input(words: tuple[Word, ...]) -> bool:
    """Whether what is piped into this command decides what runs."""
    program = words[0].literal or ""
    if runs_others(program):
        return True
    if not interprets(program):
        return False
    rest = [word.value or "" for word in words[1:]]
    if any(text in ("-", "-s") or DEVICE.match(text) for text in rest):
        return True
    if last_name(program) in ("sed", "awk", "gawk", "mawk", "nawk"):
        return not any(text and not text.startswith("-") for text in rest)
    return not any(names_code(before, text) for before, text in itertools.pairwise(["", *rest]))


def names_code(before: str, text: str) -> bool:
    """Whether this argument of an interpreter is its program: a file, code or a module, no option's value."""
    if not text or text.startswith("-"):
        return False
    if not before.startswith("-"):
        return True
    return before.startswith("--") or before[-1] in "cemf"


def width(words: tuple[Word, ...]) -> int | None:
    """How many leading words a lasting grant keeps before `*`; None when it covers these exact words only."""
    values = [word.literal for word in words]
    program = base_name(values[0] or "")
    second = values[1] if len(values) > 1 else None
    if program in WIDE:
        return 1
    if second is not None and second in SUBCOMMANDS.get(program, ()):
        return 2
    if re.fullmatch(r"python[\d.]*", program) and second == "-m" and len(values) > 2 and values[2] in WIDE:
        return 3
    if program in ("npm", "pnpm", "yarn") and second == "run" and len(values) > 2:
        return 3
    return None
