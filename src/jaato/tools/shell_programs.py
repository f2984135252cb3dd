"""What is known of programs: which run other programs, which read code from their input, how wide a grant
may be."""

from __future__ import annotations

import itertools
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
    setarch linux32 linux64 i386 x86_64 uname26 pkexec runcon sg newgrp aa-exec capsh choom numactl
    run-parts crontab chronic ifne pee vipe zrun timelimit daemonize softlimit envdir setlock chpst proot
    dbus-launch ssh-agent ccache distcc dtach abduco catchsegv eatmydata sem perf valgrind hyperfine socat
    compgen fc
    torify faketime fakeroot rlwrap ld.so watchexec nodemon npx pnpx bunx uvx pipx tmux screen""".split()
)
"""Programs and builtins that run their arguments or change what later commands mean: covered only when
named."""

INTERPRETERS = re.compile(
    r"(?:ba|da|z|k|c|tc|a|fi|mk|pdk|r)?sh|fish|pwsh|python[\d.]*|pypy[\d.]*|node|nodejs|deno|bun|perl[\d.]*|ruby[\d.]*|"
    r"php[\d.]*|lua(?:jit)?[\d.]*|tclsh[\d.]*|[gmn]?awk|sed|ed|ex|view|rvi(?:m|ew)|vimdiff|vim?|nvim|emacs|bc|dc|psql|mysql|sqlite3|julia|R|"
    r"Rscript|ghci|ocaml|scala|groovy|jshell|gdb|osascript|m4|make|gmake"
)

EXECUTING: dict[str, tuple[str, ...]] = {
    # options by which a program runs, loads or writes what its name does not say
    "git": ("--config-env", "--exec-path", "--upload-pack", "--receive-pack", "--exec", "--output",
            "--ext-diff",
            "--open-files-in-pager", "-O", "--extcmd", "-x", "--git-dir", "--work-tree",
            "--textconv", "--template", "--tool", "--strategy", "--sendmail-cmd"),
    "find": ("-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprintf", "-fprint0", "-fls", "-delete"),
    "tar": ("--checkpoint-action", "--to-command", "--use-compress-program", "-I", "--rsh-command",
            "--rmt-command", "--info-script",
            "--new-volume-script", "-F"),
    "rsync": ("-e", "--rsh", "--rsync-path"),
    "sort": ("-o", "--output", "--compress-program", "-T"),
    "split": ("--filter",),
    "rg": ("--pre", "--hostname-bin"),
    "tree": ("-o",),
    "less": ("-o", "-O", "--log-file", "--LOG-FILE", "-k", "--lesskey-file", "--lesskey-src", "--lesskey-content"),
    "printf": ("-v",),
    "wait": ("-p",),
    "test": ("-v", "-R"),
    "fd": ("-x", "-X", "--exec", "--exec-batch"),
    "zip": ("-TT", "--unzip-command"),
    "man": ("-P", "--pager", "-H", "--html", "-C", "--config-file"),
    "sed": ("-i", "--in-place", "-f", "--file"),
    "yq": ("-i", "--inplace"),
    "curl": ("-o", "-O", "--output", "--remote-name", "-K", "--config"),
    "wget": ("-O", "--output-document", "--use-askpass", "-e", "--execute", "--config"),
    "make": ("-f", "--file", "--makefile", "-C", "--directory", "-I", "--include-dir", "--eval", "-E"),
    "pip": ("--config-settings", "--python", "--log"),
    "uv": ("--config-file", "--directory", "--project", "--python", "--index-url", "--default-index",
           "--extra-index-url", "--index", "--find-links"),
    "go": ("-exec", "-toolexec", "-vettool", "-ldflags", "-gcflags", "-gccgoflags", "-overlay", "-modfile", "-o"),
    "cargo": ("--config", "--manifest-path", "--target-dir"),
    "npm": ("--script-shell", "--prefix", "--node-options", "--userconfig", "--globalconfig", "--viewer", "--git"),
    "pnpm": ("--script-shell", "--dir", "-C", "--node-options", "--config"),
    "yarn": ("--script-shell", "--cwd", "--use-yarnrc", "--node-options"),
    "docker": ("--config", "--host", "--context"),
    "kubectl": ("--kubeconfig",),
    "pytest": ("--basetemp",),
    "pylint": ("--init-hook", "--load-plugins", "--rcfile", "--output"),
    "mypy": ("--python-executable", "--config-file"),
    "eslint": ("-c", "--config", "--rulesdir", "--plugin", "--resolve-plugins-relative-to", "--parser",
               "-f", "--format", "-o", "--output-file"),
    "prettier": ("--plugin", "--plugin-search-dir", "--config"),
    "jest": ("-c", "--config", "--rootDir", "--runner", "--globalSetup"),
    "vitest": ("-c", "--config"),
    "mocha": ("-r", "--require", "--config"),
    "ruff": ("-o", "--output-file"),
    "flake8": ("--output-file", "--config"),
    "isort": ("--settings-path", "--settings-file"),
}  # fmt: skip

RUNNING_GIT = frozenset(
    "filter-branch difftool mergetool for-each-repo send-email daemon shell instaweb web--browse p4 svn "
    "remote-ext remote-fd citool gui".split()
)
"""Subcommands of git that run what they are told or configured to."""

SED_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n]|\\.)*/I?)"
SED_CHANGE = "|".join(
    rf"s{sign}(?:[^{sign}\\\n]|\\.)*{sign}(?:[^{sign}\\\n]|\\.)*{sign}[gpiI0-9]*"
    for sign in ("/", "#", ",", "@", ":", r"\|")
)
SED_COMMAND = rf"(?:{SED_ADDRESS}(?:,(?:{SED_ADDRESS}|\+\d+))?!?\s*)?(?:[dDgGhHlnNpPqQx=]|{SED_CHANGE})"
PLAIN_SED = re.compile(rf"\s*(?:{SED_COMMAND}(?:\s*[;\n]\s*{SED_COMMAND})*)?\s*;?\s*")
"""A script for sed that prints, deletes and substitutes, and neither runs (`e`) nor writes (`w`) anything."""

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
    if any(text in ("-", "-s", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0") for text in rest):
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


def executing_flag(program: str, word: Word) -> bool:
    """Whether this argument makes the program run or write something its name does not say."""
    text = word.value or ""
    if not text.startswith("-"):
        return False
    given = text.partition("=")[0]
    for flag in EXECUTING.get(last_name(program), ()):
        if flag.startswith("--"):
            if given.startswith("--") and len(given) > 2 and flag.startswith(given):
                return True
        elif len(flag) > 2:
            if given.lstrip("-") == flag[1:]:  # some programs take one dash or two
                return True
        elif not text.startswith("--") and flag[1] in text[1:]:
            return True
    return False


def changing(words: tuple[Word, ...]) -> Word | None:
    """The first argument that makes the program run or write something its name does not say."""
    program = words[0].literal or ""
    given = ((index, word) for index, word in enumerate(words) if index)
    return next((one for at, one in given if executing_flag(program, one) or executing_word(words, at)), None)


def executing_word(words: tuple[Word, ...], index: int) -> bool:
    """Whether this argument, by where it stands, makes the program run or be something its name does not say."""
    name, text = last_name(words[0].literal or ""), words[index].value or ""
    match name:
        case "git":
            return executing_git([word.value or "" for word in words[1 : index + 1]])
        case "tar" | "bsdtar" | "gtar":
            return index == 1 and not text.startswith("-") and not {"I", "F"}.isdisjoint(text)
        case "less" | "more" | "view" | "vi" | "vim" | "nvim" | "ex":
            return text.startswith("+")
        case "make" | "gmake":
            return text.startswith(("SHELL=", ".SHELLFLAGS=", "MAKEFLAGS=", "MAKE="))
        case "sed":
            return sed_script(words, index) and PLAIN_SED.fullmatch(text.removeprefix("-e")) is None
    return False


def executing_git(values: list[str]) -> bool:
    """Whether the last of these arguments changes what git is, or is a command that runs others."""
    text = values[-1]
    subcommand = next((value for value in values if not value.startswith("-")), None)
    if subcommand is None:
        return text.startswith(("-c", "-C", "--config", "--exec", "--git-dir", "--work"))
    if len(values) > 1 and (subcommand, text) in (("bisect", "run"), ("submodule", "foreach")):
        return True
    return text.startswith(("ext::", "fd::")) or (text is subcommand and text in RUNNING_GIT)


def sed_script(words: tuple[Word, ...], index: int) -> bool:
    """Whether this argument of sed is a script."""
    values = [word.value or "" for word in words]
    text, before = values[index], values[index - 1]
    if text.startswith("-"):
        return text.startswith(("-e", "--expression")) and len(text) > 2
    if re.fullmatch(r"-[a-zA-Z]*e|--expression", before):
        return True
    given = any(re.match(r"-[a-zA-Z]*e|--expression", value) for value in values[1:] if value.startswith("-"))
    return not given and all(value.startswith("-") for value in values[1:index])


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
