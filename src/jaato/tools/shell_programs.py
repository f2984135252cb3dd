"""What is known of programs: which run other programs, which read code from their input, how wide a grant
may be."""

from __future__ import annotations

import re

from jaato.tools.shell_words import Word

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
    torify faketime fakeroot rlwrap ld.so watchexec nodemon npx pnpx bunx uvx pipx tmux screen""".split()
)
"""Programs and builtins that run their arguments or change what later commands mean: covered only when
named."""

INTERPRETERS = re.compile(
    r"(?:ba|da|z|k|c|tc|a|fi|mk|pdk|r)?sh|fish|pwsh|python[\d.]*|pypy[\d.]*|node|nodejs|deno|bun|perl[\d.]*|ruby[\d.]*|"
    r"php[\d.]*|lua(?:jit)?[\d.]*|tclsh[\d.]*|[gmn]?awk|sed|ed|ex|vim?|nvim|emacs|bc|dc|psql|mysql|sqlite3|julia|R|"
    r"Rscript|ghci|ocaml|scala|groovy|jshell|gdb|osascript|m4|make|gmake"
)

EXECUTING: dict[str, tuple[str, ...]] = {
    # options by which a program runs or writes what its name does not say
    "git": ("--config-env", "--exec-path", "--upload-pack", "--receive-pack", "--exec", "--output",
            "--ext-diff",
            "--open-files-in-pager", "-O", "--extcmd", "-x", "--git-dir", "--work-tree",
            "--textconv", "--template"),
    "find": ("-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprintf", "-fprint0", "-fls", "-delete"),
    "tar": ("--checkpoint-action", "--to-command", "--use-compress-program", "-I", "--rsh-command",
            "--info-script",
            "--new-volume-script", "-F"),
    "rsync": ("-e", "--rsh", "--rsync-path"),
    "sort": ("-o", "--output", "--compress-program", "-T"),
    "rg": ("--pre", "--hostname-bin"),
    "tree": ("-o",),
    "printf": ("-v",),
    "test": ("-v", "-R"),
    "fd": ("-x", "-X", "--exec", "--exec-batch"),
    "zip": ("-TT", "--unzip-command"),
    "man": ("-P", "--pager", "-H", "--html"),
    "sed": ("-i", "--in-place", "-f", "--file"),
    "yq": ("-i", "--inplace"),
    "curl": ("-o", "-O", "--output", "--remote-name", "-K", "--config"),
    "wget": ("-O", "--output-document", "--use-askpass", "-e", "--execute", "--config"),
    "pip": ("--config-settings", "--python"),
    "go": ("-exec", "-toolexec", "-vettool"),
    "cargo": ("--config",),
}  # fmt: skip

WIDE = frozenset(
    "pytest ruff mypy pyright black isort flake8 pylint eslint prettier tsc jest vitest mocha "
    "rustfmt gofmt shellcheck yamllint markdownlint hadolint clang-format mkdir touch".split()
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
HARMLESS_VARIABLES = re.compile(
    r"LANG|LC_[A-Z]+|TZ|NO_COLOR|FORCE_COLOR|CLICOLOR|COLUMNS|LINES|CI|RUST_BACKTRACE|PYTHONUNBUFFERED|"
    r"PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED|NODE_ENV"
)
HARMLESS_VALUE = re.compile(r"[A-Za-z0-9_.,@+-]*")


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
    return last_name(program) in RUNNERS


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
    return not any(text and not text.startswith("-") for text in rest) or any(
        text in ("-", "-s", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0") for text in rest
    )


def executing_flag(program: str, word: Word) -> bool:
    """Whether this argument makes the program run or write something its name does not say."""
    text = word.value or ""
    if not text.startswith("-"):
        return False
    given = text.partition("=")[0]
    for flag in EXECUTING.get(last_name(program), ()):
        if given == flag:
            return True
        if flag.startswith("--") and given.startswith("--") and len(given) > 2 and flag.startswith(given):
            return True
        if len(flag) == 2 and not text.startswith("--") and flag[1] in text[1:]:
            return True
    return False


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
