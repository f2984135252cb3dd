"""The programs that only read: with which options, and which of their arguments are files."""

from __future__ import annotations

import re
from dataclasses import dataclass


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
    obeys_files: bool = False
    """It reads further arguments from a file named with `@`."""


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
        "aAbBcCdFfgGhHiklmnNopqQrRsStuUvxXZ1",
        "all almost-all author escape block-size ignore-backups color directory classify file-type "
        "format full-time "
        "group-directories-first no-group human-readable si dereference hide hyperlink indicator-"
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
        "abBcdeEiNpqstTuwyZ",
        "normal brief report-identical-files context unified ed rcs side-by-side width left-column "
        "suppress-common-lines show-c-function show-function-line new-file unidirectional-new-file "
        "ignore-case ignore-tab-expansion ignore-trailing-space ignore-space-change ignore-all-space "
        "ignore-blank-lines text strip-trailing-cr minimal speed-large-files color exclude label",
        "CUxW",
    ),
    "cmp": reader("bls", "print-bytes verbose quiet silent bytes", "in"),
    "grep": reader(GREP_SHORT, GREP_LONG, "ABCme", skip=1),
    "rg": reader(
        "FHIlncivwxSsNUPoqp0au",
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
        "0abcDhHklmPsSx",
        "all apparent-size bytes total human-readable si summarize max-depth separate-dirs one-file-"
        "system exclude",
        "dt",
    ),
    "df": reader("ahHiklPT", "all human-readable si inodes local portability print-type total"),
    "tree": reader("adfhipqrstuDFJNQSXC", "noreport dirsfirst du si prune gitignore charset", "LIP"),
    "basename": reader("az", "multiple zero suffix", "s", no_files=True),
    "dirname": reader("z", "zero", no_files=True),
    "realpath": reader("eLmPqsz", "canonicalize-existing canonicalize-missing no-symlinks quiet strip zero"),
    "readlink": reader("efmnqsvz", "canonicalize canonicalize-existing canonicalize-missing no-newline zero"),
    "md5sum": HASH,
    "sha1sum": HASH,
    "sha256sum": HASH,
    "sha512sum": HASH,
    "cksum": HASH,
    "strings": reader("afw", "all print-file-name bytes radix encoding", "netsS", obeys_files=True),
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
