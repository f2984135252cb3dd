"""Command lines without the secrets in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from jaato.tools.secret_words import WORDS, like_secret, names_secret

HIDDEN = "***"
NAMED = re.compile(rf"(?i)^(-{{0,2}}[\w.-]*(?:{WORDS})[\w.-]*)([=:]\s*)(.+)$", re.DOTALL)
"""An argument that carries its value: `--password=x`, `TOKEN=x`, `secret:x`."""
OPTION = re.compile(rf"(?i)^--?[\w-]*(?:{WORDS})[\w-]*$")
"""An option whose value comes next."""
HEADER = re.compile(rf"(?i)\b([\w-]*(?:{WORDS})[\w-]*\s*[:=]\s*)(?:(bearer|basic|token)\s+)?[^\s'\"&;,]+")
USERINFO = re.compile(r"(?<=://)[^/\s@]+@")
SHAPES = re.compile(
    r"\b(?:sk|pk|rk)[-_](?:[A-Za-z0-9]+[-_])*[A-Za-z0-9]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|"
    r"\bxox[abposr]-[\w-]{10,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{30,}|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|\bhf_[A-Za-z0-9]{20,}|"
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*"
)
"""What well-known keys look like."""
SHORT = {
    **dict.fromkeys(("mysql", "mysqldump", "mysqladmin", "mariadb", "mariadb-dump", "sshpass"), ("-p",)),
    **dict.fromkeys(("mongo", "mongosh", "mongodump", "mongorestore", "7z", "7za", "rabbitmqadmin"), ("-p",)),
    **dict.fromkeys(("zip", "unzip", "mosquitto_pub", "mosquitto_sub"), ("-P",)),
    **dict.fromkeys(("ldapsearch", "ldapmodify", "ldapadd", "ldapdelete", "ldapwhoami"), ("-w",)),
    "curl": ("-u", "-U", "--user", "--proxy-user"),
    "redis-cli": ("-a",),
    "smbclient": ("-U",),
    "login": ("-p",),
}
"""Programs whose option holds a password, in the same word or the next; `login` is a word after docker and its like."""


def hidden(command: Sequence[str], known: Iterable[str] = ()) -> str:
    """A command line with each secret replaced; `known` are values that are secret wherever they stand."""
    values = sorted((one for one in known if len(one) >= 8), key=len, reverse=True)
    return " ".join(veiled([without(argument, values) for argument in command]))


def veiled(words: Sequence[str]) -> list[str]:
    """Words of a command line without those that an option makes secret; also within the line a shell is given."""
    shown: list[str] = []
    after_option = False
    short: tuple[str, ...] = ()
    for word in words:
        if after_option and not word.startswith("--"):
            shown.append(HIDDEN)
            after_option = False
            continue
        short += SHORT.get(word.rpartition("/")[2], ())
        after_option = bool(OPTION.fullmatch(word)) or word in short
        joined = next((one for one in short if word.startswith(one) and word != one), None)
        if joined is not None and not word.startswith("--"):
            shown.append(joined + HIDDEN)
        elif re.search(r"\s", word):
            parts = re.split(r"(\s+)", word)
            shown.append("".join(map("".join, zip(veiled(parts[::2]), [*parts[1::2], ""], strict=True))))
        else:
            shown.append(word)
    return shown


def without(argument: str, values: Iterable[str]) -> str:
    """One argument without what is secret in it."""
    for value in values:
        argument = argument.replace(value, HIDDEN)
    named = NAMED.match(argument)
    if named:
        return f"{named[1]}{named[2]}{HIDDEN}"
    argument = USERINFO.sub(f"{HIDDEN}@", argument)
    argument = HEADER.sub(rf"\g<1>{HIDDEN}", argument)
    return SHAPES.sub(HIDDEN, argument)


def secret_values(environ: Iterable[tuple[str, str]]) -> list[str]:
    """The values of variables whose names say that they are secret."""
    return [value for name, value in environ if names_secret(name) and like_secret(value)]
