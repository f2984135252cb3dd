"""Detect indirection: what a shell line runs besides its own words, computed or inside texts."""

from __future__ import annotations

import re

from jaato.lazy_pattern import lazy_pattern
from jaato.tools.shell.parser import Analysis, Part, parse_command
from jaato.tools.shell.programs import interprets, last_name, obeys_input, runs_others
from jaato.tools.shell.words import Word

MAX_TEXT_DEPTH = 3
GIT_VALUED = frozenset("-C -c --git-dir --work-tree --namespace --config-env --super-prefix".split())
QUOTED = lazy_pattern(r"\"([^\"]+)\"|'([^']+)'")
MAX_QUOTED = 50
STARTING = frozenset(("run", "exec", "--", "x", "-x"))
"""Arguments behind which many programs take a command."""


def blacklist_texts(analysis: Analysis, depth: int = 0) -> list[str]:
    """Every text a blacklist pattern is held against: each part as its words, without what runs it, and
    what it quotes."""
    texts: list[str] = []
    pipelines: dict[int, list[str]] = {}
    for part in analysis.parts:
        values = [word.value if word.value is not None else word.text for word in part.words]
        if not values:
            continue
        pipelines.setdefault(part.pipeline, []).append(" ".join(values))
        wraps = runs_others(values[0]) or interprets(values[0])
        for start in range(len(values)) if wraps or depth else (0,):
            rest = values[start:]
            texts += [" ".join(rest), " ".join([last_name(rest[0]), *rest[1:]])]
            if last_name(rest[0]) == "git":
                texts += git_texts(rest[1:])
        if last_name(values[0]) == "find" and any(value.startswith(("-exec", "-ok")) for value in values):
            texts += [" ".join(values[start:]) for start in range(1, len(values))]
        for inner in inner_texts(values, wraps) if depth < MAX_TEXT_DEPTH else ():
            texts += blacklist_texts(parse_command(inner), depth + 1)
    return [*texts, *(" | ".join(parts) for parts in pipelines.values() if len(parts) > 1)]


def git_texts(values: list[str]) -> list[str]:
    """A git command without the options in front of its subcommand, and what it runs for each step."""
    index = 0
    while index < len(values) and values[index].startswith("-"):
        index += 2 if values[index] in GIT_VALUED else 1
    texts = [" ".join(["git", *values[index:]])]
    if values[index : index + 2] in (["bisect", "run"], ["submodule", "foreach"]):
        texts += [" ".join(values[start:]) for start in range(index + 2, len(values))]
    return texts


def inner_texts(values: list[str], wraps: bool) -> list[str]:
    """What a program that runs others may be given as a whole line: an argument, what is glued to an option or a
    name, what its code quotes."""
    if not wraps:
        return []
    given = values[1:]
    glued = [value[2:] for value in given if value[:1] == "-" and value[1:2] != "-"]
    glued += [value.partition("=")[2] for value in given]
    quoted = [text for value in given for pair in QUOTED.findall(value) for text in pair]
    lines = [value for value in (*given, *glued, *quoted[:MAX_QUOTED]) if " " in value or ";" in value]
    return [*dict.fromkeys(lines), " ".join(given)]


def find_quoted_texts(analysis: Analysis) -> list[str]:
    """Texts inside arguments and assignments that some program may take as a command: for those of which nothing is known."""
    texts: list[str] = []
    for part in analysis.parts:
        values = [word.value for word in part.words[1:]] + [word.value for _name, word in part.assignments]
        for value in values:
            if value is None:
                continue
            pieces = {value, value.rpartition("=")[2], value.lstrip("-+!|:"), *re.split(r"[!|;:]", value)}
            pieces |= {value[2:]} if value[:1] == "-" and value[1:2] != "-" else set()
            pieces |= {text for pair in QUOTED.findall(value)[:MAX_QUOTED] for text in pair}
            for piece in pieces:
                if " " in piece.strip():
                    texts += blacklist_texts(parse_command(piece.strip().strip("\"'")))
        texts += [
            " ".join(value or "" for value in values[at + 1 :])
            for at, value in enumerate(values)
            if value in STARTING and at + 1 < len(values)
        ]
    return texts


MAX_DEPTH = 3
DEFINING = frozenset(
    "alias unalias shopt enable hash source . xargs parallel complete compgen bind fc".split()
)
"""Programs and builtins that take what runs, or what later words mean, from elsewhere."""

FEEDING = lazy_pattern(r"-(?:exec|execdir|ok|okdir)")
"""Options of `find` that run a command on what it finds."""

SHELL = lazy_pattern(r"(?:ba|da|z|k|c|tc|a|fi|mk|pdk|r)?sh")
SCRIPTS = lazy_pattern(r"[gmn]?awk|sed|make|gmake|view|rvi(?:m|ew)|vimdiff|vim?|nvim|ex")
CODE = lazy_pattern(
    r"-[A-Za-z]*[ceErpx]|-[cer].*|eval|"
    r"--(?:eval|exec|command|expression|execute|print|run|import|require|loader|experimental-loader)\b.*",
    re.DOTALL,
)
"""An argument of an interpreter behind which its code stands, or that brings it along."""

CODE_OF: dict[str, re.Pattern[str]] = {
    family: lazy_pattern(pattern, re.DOTALL)
    for family, pattern in {
        "make": r"--ev?a?l?\b.*|-E.*",
        "editor": r"\+.*|-[cS].*|--cmd.*",
        "awk": r"-(?:[fEil]|-).*|.*(?:system|getline|[|@]).*",
        "python": r"-[bBdEhiIOPqsSuvVx]*(?:c.*|m(?:code|timeit|pdb)|i[bBdEhIOPqsSuvVx]*)|code|timeit|pdb",
        "perl": r"-[^-ImM]*[eE].*|-[mM].*[^\w:=,+-].*|-[^-ImMeE]*[pxrc]",
        "ruby": r"-[^-IrEKTWx]*e.*|-[A-Za-z]*[ErpxcS]|--(?:eval|require)\b.*",
        "sqlite3": r"\s*\..*|-cmd|-init",
    }.items()
}
"""What `CODE` is, for the programs it does not fit: their harmless arguments look like it, or their code stands behind others."""

READING = lazy_pattern(rf"{SHELL.pattern}|(?:python|pypy|perl|ruby)[\d.]*|node|nodejs")
"""Programs that run what they read where they are given no program, wherever that comes from."""

OBEYING = frozenset("sqlite3 psql mysql ed ex dc bc gdb m4 tclsh ghci R julia vi vim nvim view".split())
"""Programs that take commands from what they read whatever else they are given."""

SHELL_OPTIONS = frozenset(
    "--login --norc --noprofile --posix --verbose --restricted --noediting --version --help".split()
)
"""Long options of shells that name no file or command to run; every other one may (`--rcfile`, `--init-command`)."""

STARTUP = lazy_pattern(
    r"(?<!\w)(?:BASH_ENV|ZDOTDIR|PROMPT_COMMAND|PS[0-4]|BASH_FUNC_\w*|PERL5OPT|PERL5DB|RUBYOPT|"
    r"LD_PRELOAD|LD_AUDIT)(?!\w)"
)
"""Variables by which a program runs code before, or beside, what it is started for; looked for in the whole line, since
a loop or `printf -v` sets one too."""

STARTUP_PLACES = frozenset(("HOME", "XDG_CONFIG_HOME", "ENV"))
"""The same for variables that are often only read: they count where the line sets them for a shell."""

INFORMING = frozenset(("--version", "--help", "--test", "-V", "-v", "-h"))
SUBSCRIPT = lazy_pattern(r"\w\[[^\]]*(?:\$\(|`)")
"""A subscript that runs a command where an arithmetic expression or a name is looked at, though it is quoted."""

SED_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n]|\\.)*/I?)"
SED_CHANGE = "|".join(
    rf"s{sign}(?:[^{sign}\\\n]|\\.)*{sign}(?:[^{sign}\\\n]|\\.)*{sign}[gpiI0-9]*"
    for sign in ("/", "#", ",", "@", ":", r"\|")
)
SED_COMMAND = rf"(?:{SED_ADDRESS}(?:,(?:{SED_ADDRESS}|\+\d+))?!?\s*)?(?:[dDgGhHlnNpPqQx=]|{SED_CHANGE})"
PLAIN_SED = lazy_pattern(rf"\s*(?:{SED_COMMAND}(?:\s*[;\n]\s*{SED_COMMAND})*)?\s*;?\s*")
"""A script for sed that prints, deletes and substitutes, and runs nothing (`e`)."""


def find_indirection(analysis: Analysis, depth: int = 0) -> str | None:
    """Why what this line runs cannot be determined from its text; None if rules see every command of it."""
    if analysis.unknown:
        return analysis.unknown[0]
    if depth > MAX_DEPTH:
        return "it nests too deeply"
    if analysis.functions:
        return f"it defines the function {analysis.functions[0]}"
    if SUBSCRIPT.search(analysis.command):
        return "a subscript computes what runs"
    if (variable := find_startup_variable(analysis)) is not None:
        return f"{variable} names code that programs run when they start"
    seen: set[int] = set()
    fed = bool(analysis.heredocs) or any(one.operator == "<" for one in analysis.redirects)
    for part in analysis.parts:
        piped = part.pipeline in seen
        seen.add(part.pipeline)
        doubt = check_part(part, piped, fed or "|" in analysis.operators, depth)
        if doubt is not None:
            return doubt
    return None


def find_startup_variable(analysis: Analysis) -> str | None:
    """A variable in this line by which a program that it starts runs code from elsewhere."""
    words = [word.value for part in analysis.parts for word in part.words if word.value is not None]
    names = [name for name, _value in analysis.assignments]
    found = next((one for text in (analysis.command, *names, *words) if (one := STARTUP.search(text))), None)
    if found is not None:
        return found[0]
    if not any(SHELL.fullmatch(last_name(word)) for word in words):
        return None
    for part in analysis.parts:
        if part.program is not None and runs_others(part.program):
            names += [(word.value or "").partition("=")[0].rstrip("+") for word in part.words[1:]]
    return next((name for name in names if name in STARTUP_PLACES), None)


def check_part(part: Part, piped: bool, fed_line: bool, depth: int) -> str | None:
    """Why it is unknown what one command of a line runs; `piped` when another one writes its input, `fed_line` when
    something in the line has an input that it may share."""
    if not part.words:
        return None
    if part.words[0].literal is None:
        return f"{part.words[0].text} computes which program to run"
    names = [word.literal or "" for word in part.words]
    wraps = runs_others(names[0])
    for start in range(len(names)) if wraps else (0,):
        doubt = check_program(last_name(names[start]), part.words[start:], depth)
        if doubt is not None:
            return doubt
    fed = piped or any("here-document" in doubt for doubt in part.doubts)
    fed = fed or any(one.operator == "<" for one in part.redirects)
    if (fed and runs_input(part.words)) or runs_any_input(part.words, fed_line):
        return f"{names[0]} runs what it reads"
    return check_wrapped(part.words, depth) if wraps else None


def check_program(name: str, words: tuple[Word, ...], depth: int) -> str | None:
    """Why it is unknown what a program with these arguments runs."""
    if name in DEFINING:
        return f"{name} takes from elsewhere what runs"
    if name == "find" and any(FEEDING.fullmatch(word.value or "") for word in words[1:]):
        return "find runs a command on what it finds"
    if name == "sed":
        return check_sed(words)
    if not interprets(name):
        return None
    if any(word.value is None for word in words[1:]):
        return f"what {name} runs is computed by the shell"
    if SHELL.fullmatch(name):
        return check_shell(name, words, depth)
    code = CODE_OF[family] if (family := family_of(name)) else CODE
    found = next((word.text for word in words[1:] if code.fullmatch(word.value or "")), None)
    return None if found is None else f"{name} is given code ({found[:40]})"


def family_of(name: str) -> str:
    """Which row of `CODE_OF` is about a program; empty for the usual one."""
    if name in ("make", "gmake"):
        return "make"
    if name.endswith("awk"):
        return "awk"
    plain = name.rstrip("0123456789.") if name not in CODE_OF else name
    if plain in ("python", "pypy"):
        return "python"
    return "editor" if SCRIPTS.fullmatch(name) else plain if plain in CODE_OF else ""


def check_shell(name: str, words: tuple[Word, ...], depth: int) -> str | None:
    """Why it is unknown what a shell runs; a literal line behind `-c` is parsed."""
    values = [word.value or "" for word in words[1:]]
    for value in values:
        if not value.startswith(("-", "+")) or value in ("-", "--"):
            break
        if value.startswith("--") and value not in SHELL_OPTIONS:
            return f"{name} may run a file or command by its option {value[:40]}"
        if re.fullmatch(r"-[A-Za-z]*i[A-Za-z]*", value) or (name == "fish" and value.startswith("-C")):
            return f"{name} runs what its startup files say ({value[:40]})"
    at = next((i for i, value in enumerate(values) if re.fullmatch(r"[-+][A-Za-z]*c[A-Za-z]*", value)), None)
    if at is None:
        return None
    line = next((value for value in values[at + 1 :] if not value.startswith(("-", "+"))), "")
    doubt = find_indirection(parse_command(line), depth + 1)
    return None if doubt is None else f"in the line given to {name}: {doubt}"


def check_wrapped(words: tuple[Word, ...], depth: int) -> str | None:
    """Why it is unknown what a program that runs its arguments runs."""
    name = words[0].literal or ""
    for word in words[1:]:
        if word.value is None:
            return f"what {name} runs is computed by the shell"
        text = word.value.partition("=")[2] if "=" in word.value.partition(" ")[0] else word.value
        if any(char in text for char in " \t\n;|&$`(<"):
            doubt = find_indirection(parse_command(text), depth + 1)
            if doubt is not None:
                return f"in what {name} is given: {doubt}"
    if name == "eval":
        line = " ".join(word.value or "" for word in words[1:])
        return find_indirection(parse_command(line), depth + 1) if line.strip() else None
    return None


def check_sed(words: tuple[Word, ...]) -> str | None:
    """Why a script for sed may run something."""
    scripts: list[str] = []
    values = [word.value for word in words[1:]]
    given = False
    for index, value in enumerate(values):
        if value is None:
            return "what sed does is computed by the shell"
        before = values[index - 1] if index else ""
        if re.fullmatch(r"-[A-Za-z]*f.*|--fi?l?e?(?:=.*)?", value):
            return "sed takes its script from a file"
        if re.fullmatch(r"-[A-Za-z]*e|--expression", before or ""):
            scripts.append(value)
            given = True
        elif found := re.fullmatch(r"(?:-[A-Za-z]*?e|--expression=)(.+)", value, re.DOTALL):
            scripts.append(found[1])
            given = True
    if not given:
        scripts += [value for value in values if value and not value.startswith("-")][:1]
    odd = next((script for script in scripts if PLAIN_SED.fullmatch(script) is None), None)
    return None if odd is None else f"sed is given a script that may run something ({odd[:40]})"


def runs_input(words: tuple[Word, ...]) -> bool:
    """Whether this command runs what it reads, itself or by the program it starts."""
    names = [last_name(word.literal or "") for word in words]
    if len(names) > 1 and runs_others(names[0]) and runs_others(names[-1]):
        return True
    if names[0] in ("at", "batch", "ssh", "sem", "socat", "eval"):
        return True
    starts = range(len(names)) if runs_others(names[0]) else (0,)
    return any(interprets(names[start]) and obeys_input(words[start:]) for start in starts)


def runs_any_input(words: tuple[Word, ...], fed: bool) -> bool:
    """Whether this command runs what it reads from an unknown source: a group may be redirected,
    or the shell itself. `fed` says that something in the line is."""
    names = [last_name(word.literal or "") for word in words]
    if INFORMING.intersection(names[1:]):
        return False
    for start in range(len(names)) if runs_others(names[0]) else (0,):
        if fed and names[start] in OBEYING:
            return True
        if READING.fullmatch(names[start]) and obeys_input(words[start:]) and not has_line(words[start:]):
            return True
    return False


def has_line(words: tuple[Word, ...]) -> bool:
    """Whether a shell is given a line, which is looked into."""
    return any(re.fullmatch(r"[-+][A-Za-z]*c[A-Za-z]*", word.value or "") for word in words[1:])
