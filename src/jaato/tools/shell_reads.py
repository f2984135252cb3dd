"""Shell commands that only read: which programs, with which options, on which files."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from jaato.tools.atomic import resolved
from jaato.tools.shell_git import git_doubt
from jaato.tools.shell_parse import Part
from jaato.tools.shell_words import Word

MAX_MATCHES = 2_000


@dataclass(frozen=True, slots=True)
class Reader:
    """A program that only reads. `short` and `long` are the options that may appear; others ask.

    `skip` positional arguments are no files (a pattern, say); more than `most` positional arguments
    ask, because
    for some programs the second names an output. `plain` must match each positional that is no file.
    """

    short: str = ""
    long: frozenset[str] = frozenset()
    skip: int = 0
    most: int | None = None
    valued: str = ""
    """Short options that take a value: attached, or the next word."""
    plain: re.Pattern[str] | None = None
    no_files: bool = False


def reader(short: str = "", long: str = "", valued: str = "", **more: object) -> Reader:
    """A reader from lists of options separated by spaces."""
    return Reader(short + valued, frozenset(long.split()), valued=valued, **more)  # type: ignore[arg-type]


GREP_SHORT = "aEFGiyPnHhlLcoqrsvwxzbTIZU"
GREP_LONG = (
    "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case invert-match "
    "word-regexp "
    "line-regexp count color colour files-without-match files-with-matches max-count only-matching "
    "quiet silent "
    "no-messages byte-offset with-filename no-filename line-number initial-tab null after-context "
    "before-context "
    "context text binary-files exclude exclude-dir include recursive null-data line-buffered regexp"
)
HASH = reader("btw", "binary text tag zero")
SED_SCRIPT = re.compile(r"(?:\d+|\$)?(?:,(?:\d+|\$|\+\d+))?[pq]?(?:;(?:\d+|\$)(?:,(?:\d+|\$))?[pq])*")
NO_ARGUMENTS = reader(no_files=True, most=0)

READERS: dict[str, Reader] = {
    "ls": reader(
        "aAbBcCdFfgGhHiklLmnNopqQrRsStuUvxXZ1",
        "all almost-all author escape block-size ignore-backups color directory classify file-type "
        "format full-time "
        "group-directories-first no-group human-readable si dereference hide hyperlink indicator- "
        "style inode ignore "
        "kibibytes numeric-uid-gid literal hide-control-chars quote-name quoting-style reverse "
        "recursive size sort "
        "time time-style tabsize width zero context",
        "ITw",
    ),
    "cat": reader(
        "AbeEnstTuv", "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting"
    ),
    "head": reader("qvz0123456789", "bytes lines quiet silent verbose zero-terminated", "cn"),
    "tail": reader("qvz0123456789", "bytes lines quiet silent verbose zero-terminated", "cn"),
    "wc": reader("cmlLw", "bytes chars lines max-line-length words total"),
    "nl": reader("p", "body-numbering number-format number-width", "bdfhilnsvw"),
    "tac": reader("br", "before regex separator", "s"),
    "rev": reader(),
    "cut": reader(
        "nsz", "bytes characters delimiter fields complement only-delimited output-delimiter", "bcdf"
    ),
    "tr": reader("cCdst", "complement delete squeeze-repeats truncate-set1", no_files=True),
    "sort": reader(
        "bdfgiMhnRrVcCmsuz",
        "ignore-leading-blanks dictionary-order fold-case general-numeric-sort ignore-nonprinting month-sort "
        "human-numeric-sort numeric-sort reverse version-sort unique stable zero-terminated key "
        "field-separator",
        "kt",
    ),
    "uniq": reader(
        "cdDiuz", "count repeated all-repeated ignore-case unique skip-fields skip-chars", "fsw", most=1
    ),
    "comm": reader("123z", "check-order nocheck-order output-delimiter total zero-terminated"),
    "diff": reader(
        "abBcdeEiNpqrstTuwyZ",
        "normal brief report-identical-files context unified ed rcs side-by-side width left-column "
        "suppress-common-lines show-c-function show-function-line recursive new-file unidirectional-new-file "
        "ignore-case ignore-tab-expansion ignore-trailing-space ignore-space-change ignore-all-space "
        "ignore-blank-lines text strip-trailing-cr minimal speed-large-files color exclude label",
        "CUxW",
    ),
    "cmp": reader("bls", "print-bytes verbose quiet silent bytes", "in"),
    "grep": reader(GREP_SHORT, GREP_LONG, "ABCme", skip=1),
    "rg": reader(
        "FHIlLncivwxSsNUPoqp0au",
        "count count-matches files-with-matches files-without-match fixed-strings ignore-case "
        "smart-case "
        "case-sensitive line-number no-line-number line-regexp word-regexp invert-match max-count "
        "max-depth glob "
        "iglob type type-not hidden no-ignore only-matching pcre2 multiline multiline-dotall heading "
        "no-heading "
        "with-filename no-filename color json stats sort sortr context after-context before-context "
        "quiet text "
        "trim vimgrep column byte-offset max-columns passthru null replace regexp",
        "ABCmegtTrd",
        skip=1,
    ),
    "stat": reader("LftZ", "dereference file-system format printf terse", "c"),
    "file": reader("bhiLNrsv0", "brief mime mime-type mime-encoding dereference no-dereference"),
    "du": reader(
        "0abcDhHklLmPsSx",
        "all apparent-size bytes total human-readable si summarize max-depth separate-dirs one-file- "
        "system exclude",
        "dt",
    ),
    "df": reader("ahHiklPT", "all human-readable si inodes local portability print-type total"),
    "tree": reader("adfhilpqrstuDFJNQSXC", "noreport dirsfirst du si prune gitignore charset", "LIP"),
    "basename": reader("az", "multiple zero suffix", "s", no_files=True),
    "dirname": reader("z", "zero", no_files=True),
    "realpath": reader("eLmPqsz", "canonicalize-existing canonicalize-missing no-symlinks quiet strip zero"),
    "readlink": reader("efmnqsvz", "canonicalize canonicalize-existing canonicalize-missing no-newline zero"),
    "md5sum": HASH,
    "sha1sum": HASH,
    "sha256sum": HASH,
    "sha512sum": HASH,
    "cksum": HASH,
    "strings": reader("afw", "all print-file-name bytes radix encoding", "netsS"),
    "od": reader(
        "abcdfiloSsvx", "address-radix skip-bytes read-bytes format output-duplicates width", "AjNt"
    ),
    "hexdump": reader("bcCdovx", "canonical", "ns"),
    "column": reader("tx", "table fillrows", "cso"),
    "sed": reader("nEr", "quiet silent regexp-extended", skip=1, plain=SED_SCRIPT),
    "echo": reader("neE", no_files=True),
    "true": reader(no_files=True),
    "false": reader(no_files=True),
    "pwd": reader("LP", "logical physical", no_files=True, most=0),
    "date": reader(
        "uRI", "utc universal iso-8601 rfc-3339 rfc-email", no_files=True, plain=re.compile(r"\+.*")
    ),
    "whoami": NO_ARGUMENTS,
    "nproc": reader("", "all", no_files=True, most=0),
    "arch": NO_ARGUMENTS,
    "uname": reader("asnrvmpio", "all kernel-name nodename kernel-release machine operating-system", most=0),
    "id": reader("gGnruz", "group groups name real user zero", no_files=True),
    "which": reader("as", "all", no_files=True),
    "cd": reader("LP", most=1),
}
FIND_PLAIN = frozenset(
    "-a -and -o -or -not ! -print -print0 -ls -depth -mount -xdev -prune -quit -true -false -empty "
    "-executable "
    "-readable -writable -daystart -noleaf -nouser -nogroup".split()
)
FIND_VALUED = frozenset(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype "
    "-maxdepth -mindepth "
    "-size -mtime -atime -ctime -mmin -amin -cmin -user -group -uid -gid -perm -links -inum -newermt "
    "-printf".split()
)


def read_doubt(part: Part, workspace: Path, places: tuple[str, ...]) -> str | None:
    """Why this part is not a plain read inside the workspace; None when it is one.

    `places` are the directories the line may be in when the part runs.
    """
    if part.assignments:
        return "sets a variable"
    if not part.words:
        return "has no program"
    program = part.program
    if program is None:
        return "computes which program to run"
    for redirect in part.redirects:
        if redirect.harmless:
            continue
        if redirect.operator != "<":
            return f"redirects ({redirect.text})"
        if doubt := path_doubt(redirect.target, workspace, places):
            return doubt
    name = program.removeprefix("/usr/bin/").removeprefix("/bin/")
    match name:
        case "git":
            return git_doubt(part.words[1:], places) or paths_doubt(part.words[1:], workspace, places)
        case "find":
            return find_doubt(part.words[1:], workspace, places)
    known = READERS.get(name)
    if known is None:
        return f"runs {name}, which is not known to read only"
    return options_doubt(name, known, part.words[1:], workspace, places)


def options_doubt(
    name: str, known: Reader, words: tuple[Word, ...], workspace: Path, places: tuple[str, ...]
) -> str | None:
    """Why these arguments may do more than read."""
    rest = list(words)
    positional: list[Word] = []
    patterns_given = False
    while rest:
        word = rest.pop(0)
        text = word.value
        if text is None:
            return f"{word.text} is computed by the shell"
        if text == "--":
            positional += rest
            break
        if text.startswith("--"):
            flag, equals, value = text[2:].partition("=")
            if flag not in known.long or word.glob:
                return f"{name} {text} is not known to read only"
            patterns_given = patterns_given or flag == "regexp"
            if equals and (doubt := path_doubt(Word(word.text, value), workspace, places)):
                return doubt
        elif text.startswith("-") and len(text) > 1:
            if word.glob or (
                bad := next((c for c in flags_of(text, known.valued) if c not in known.short), None)
            ):
                return f"{name} -{bad if not word.glob else text[1:]} is not known to read only"
            flags = flags_of(text, known.valued)
            patterns_given = patterns_given or (known.skip > 0 and "e" in flags[-1:])
            if flags[-1] in known.valued and len(flags) == len(text) - 1 and rest:
                rest.pop(0)
        else:
            positional.append(word)
    return positional_doubt(name, known, positional, 0 if patterns_given else known.skip, workspace, places)


def positional_doubt(
    name: str, known: Reader, words: list[Word], skip: int, workspace: Path, places: tuple[str, ...]
) -> str | None:
    """Why what follows the options may not be read."""
    if known.most is not None and len(words) > known.most:
        return f"{name} has more arguments than a plain read"
    for index, word in enumerate(words):
        if word.value is None:
            return f"{word.text} is computed by the shell"
        if index < skip or known.no_files:
            if known.plain is not None and not known.plain.fullmatch(word.value):
                return f"{name} {word.text} is not known to read only"
            if word.glob and index < skip:
                return f"{word.text} is matched against file names"
        elif doubt := path_doubt(word, workspace, places):
            return doubt
    return None


def flags_of(text: str, valued: str) -> str:
    """The single letters of a group of short options, up to and with the first that takes a value."""
    for index, char in enumerate(text[1:], 1):
        if char in valued:
            return text[1 : index + 1]
    return text[1:]


def find_doubt(words: tuple[Word, ...], workspace: Path, places: tuple[str, ...]) -> str | None:
    """Why this `find` may do more than look."""
    expression = False
    rest = list(words)
    while rest:
        word = rest.pop(0)
        text = word.literal
        if text is None:
            return f"{word.text} is computed by the shell"
        if text in ("(", ")"):
            continue
        if not expression and text in ("-H", "-P"):
            continue
        if text.startswith("-") or text == "!":
            expression = True
            if text in FIND_VALUED:
                if not rest or rest.pop(0).literal is None:
                    return f"find {text} has no plain value"
            elif text not in FIND_PLAIN:
                return f"find {text} is not known to read only"
        elif expression or (doubt := path_doubt(word, workspace, places)):
            return f"find {text} is not understood" if expression else doubt
    return None


def paths_doubt(words: tuple[Word, ...], workspace: Path, places: tuple[str, ...]) -> str | None:
    """Why one of these words may lead out of the workspace."""
    for word in words:
        if word.value is None:
            return f"{word.text} is computed by the shell"
        value = word.value.partition("=")[2] if word.value.startswith("--") else word.value
        if doubt := path_doubt(Word(word.text, value, word.glob), workspace, places):
            return doubt
    return None


def path_doubt(word: Word, workspace: Path, places: tuple[str, ...]) -> str | None:
    """Why a path may lead out of the workspace or to something that is no file or directory."""
    value = word.value
    if value is None:
        return f"{word.text} is computed by the shell"
    root = resolved(str(workspace))
    for place in places:
        if word.glob:
            if doubt := glob_doubt(value, root, place):
                return doubt
        elif doubt := single_doubt(os.path.join(place, value), root):
            return doubt
    return None


def glob_doubt(value: str, root: str, place: str) -> str | None:
    """Why a pattern of file names may match something outside, or something that looks like an option."""
    directory, _, pattern = value.rpartition("/")
    if re.search(r"[*?\[]", directory):
        return f"{value} matches directories"
    starts_wild = not directory and not value.startswith("/") and pattern[:1] in ("*", "?", "[")
    option_like = starts_wild or value.startswith("-")
    base = os.path.join(place, directory)
    if doubt := single_doubt(base, root):
        return doubt
    try:
        with os.scandir(base) as entries:
            for count, entry in enumerate(entries):
                if count >= MAX_MATCHES:
                    return f"{value} matches against too many files"
                if option_like and entry.name.startswith("-"):
                    return f"{value} may match {entry.name}, which looks like an option"
                if entry.is_symlink() and (doubt := single_doubt(entry.path, root)):
                    return doubt
                if not (entry.is_dir() or entry.is_file()):
                    return f"{value} may match {entry.name}, which is neither a file nor a directory"
    except OSError:
        return None
    return None


def single_doubt(path: str, root: str) -> str | None:
    """Why one path, links followed, may not be read without asking."""
    if "\0" in path:
        return "a path contains NUL"
    real = resolved(path)
    if real != root and not real.startswith(root.rstrip("/") + "/"):
        return f"{path} is outside the workspace"
    try:
        mode = os.stat(real).st_mode
    except (OSError, ValueError):
        return None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        return f"{path} is neither a file nor a directory"
    return None
