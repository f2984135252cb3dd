"""Parses git's NUL-separated output into plain data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

STATES = {
    "M": "modified",
    "A": "added",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
    "T": "type changed",
    "U": "unmerged",
}


def decode_name(data: bytes) -> str:
    r"""A name as text; bytes that are no UTF-8 become `\xNN`."""
    return data.decode("utf-8", "backslashreplace")


def decode_content(data: bytes) -> str:
    """Content as text; bytes that are no UTF-8 become U+FFFD."""
    return data.decode("utf-8", "replace")


def split_fields(data: bytes, cut: bool) -> list[bytes]:
    """The fields of an output; the last one of a cut output is incomplete and left out."""
    parts = data.split(b"\0")
    return parts[:-1] if cut or not parts[-1] else parts


def parse_status(data: bytes, cut: bool) -> dict[str, Any]:
    """`git status --porcelain=v2 --branch -z` as the branch and four lists."""
    found: dict[str, Any] = {"staged": [], "unstaged": [], "conflicted": [], "untracked": []}
    rest = iter(split_fields(data, cut))
    for record in rest:
        kind = record[:2]
        if kind == b"# ":
            parse_header(record, found)
        elif kind in (b"1 ", b"2 "):
            renamed = kind == b"2 "
            _, state, *_others = record.split(b" ", 2)
            path = record.split(b" ", 9 if renamed else 8)[-1]
            old = next(rest, b"") if renamed else None
            for place, letter in (("staged", chr(state[0])), ("unstaged", chr(state[1]))):
                if letter != ".":
                    found[place].append(parse_change(letter, path, old if letter in "RC" else None))
        elif kind == b"u ":
            found["conflicted"].append({"path": decode_name(record.split(b" ", 10)[-1])})
        elif kind == b"? ":
            found["untracked"].append(decode_name(record[2:]))
    return found


def parse_header(record: bytes, found: dict[str, Any]) -> None:
    """One `# branch…` line."""
    name, _, value = record[2:].partition(b" ")
    match name:
        case b"branch.oid":
            found["commit"] = None if value == b"(initial)" else decode_content(value)
        case b"branch.head":
            found["branch"] = None if value == b"(detached)" else decode_name(value)
        case b"branch.upstream":
            found["upstream"] = decode_name(value)
        case b"branch.ab":
            ahead, behind = value.split()
            found["ahead"], found["behind"] = int(ahead), -int(behind)
        case b"stash":
            found["stashes"] = int(value)


def parse_change(letter: str, path: bytes, old: bytes | None) -> dict[str, Any]:
    """One changed file."""
    entry: dict[str, Any] = {"path": decode_name(path), "status": STATES.get(letter, letter)}
    if old is not None:
        entry["old_path"] = decode_name(old)
    return entry


def parse_changes(data: bytes, cut: bool) -> list[dict[str, Any]]:
    """`--raw --numstat -z`: each changed file with its state and counted lines (none for binary files)."""
    found: dict[bytes, dict[str, Any]] = {}
    touched: set[bytes] = set()
    rest = iter(split_fields(data, cut))
    for record in rest:
        if record.startswith(b":"):
            letter = chr(record.rpartition(b" ")[2][0])
            first = next(rest, b"")
            path = next(rest, b"") if letter in "RC" else first
            found.setdefault(path, parse_change(letter, path, first if letter in "RC" else None))
            modes = record[1:].split(b" ")
            if letter == "M" and modes[0] == modes[1] != b"160000":
                touched.add(path)  # perhaps nothing but its time: then no lines are counted
            else:
                touched.discard(path)
        elif record.count(b"\t") >= 2:
            added, deleted, path = record.split(b"\t", 2)
            if not path:  # a rename: the two names follow
                next(rest, b"")
                path = next(rest, b"")
            touched.discard(path)
            entry = found.setdefault(path, parse_change("M", path, None))
            entry |= {"binary": True} if added == b"-" else {"added": int(added), "deleted": int(deleted)}
    return [entry for path, entry in found.items() if cut or path not in touched]


COMMIT = ("%H", "%P", "%an", "%ae", "%aI", "%cI", "%D", "%s", "%b")
FORMAT = "--format=tformat:" + "%x00".join(COMMIT)


def parse_commits(data: bytes, cut: bool, body_chars: int) -> Iterator[dict[str, Any]]:
    """Commits written in `FORMAT` with `-z`."""
    parts = split_fields(data, cut)
    for at in range(0, len(parts) - len(COMMIT) + 1, len(COMMIT)):
        yield parse_commit(parts[at : at + len(COMMIT)], body_chars)


def parse_commit(parts: list[bytes], body_chars: int) -> dict[str, Any]:
    """One commit from its nine fields."""
    name, parents, author, email, date, committed, refs, subject, body = (
        decode_content(part) for part in parts
    )
    entry: dict[str, Any] = {
        "commit": name,
        "author": f"{author} <{email}>",
        "date": date,
        "subject": subject[:500],
    }
    if committed != date:
        entry["committed"] = committed
    if len(parents.split()) > 1:
        entry["parents"] = parents.split()
    if refs:
        entry["refs"] = refs.split(", ")
    body = body.strip()
    if body and body_chars:
        entry["body"] = body[:body_chars] + ("…" if len(body) > body_chars else "")
    return entry


def parse_blame(data: bytes, cut: bool) -> list[dict[str, Any]]:
    """`git blame --porcelain` as runs of lines of one commit."""
    known: dict[bytes, dict[str, str]] = {}
    runs: list[dict[str, Any]] = []
    name, number = b"", 0
    for line in data.split(b"\n")[:-1]:
        if line.startswith(b"\t"):
            about = known[name]
            if runs and runs[-1]["commit"] == decode_content(name)[:12] and runs[-1]["last"] == number - 1:
                runs[-1]["last"] = number
                runs[-1]["text"] += "\n" + decode_content(line[1:])
            else:
                runs.append({"commit": decode_content(name)[:12], **about, "first": number, "last": number,
                             "text": decode_content(line[1:])})  # fmt: skip
            continue
        word, _, rest = line.partition(b" ")
        if len(word) in (40, 64) and rest[:1].isdigit():
            name, number = word, int(rest.split()[1])
            known.setdefault(name, {})
        elif word in (b"author", b"summary", b"author-time", b"filename") and name:
            parse_blame_fact(known[name], word, rest)
    return runs


def parse_blame_fact(about: dict[str, str], word: bytes, rest: bytes) -> None:
    """One fact about a blamed commit."""
    import datetime

    match word:
        case b"author":
            about["author"] = decode_content(rest)
        case b"summary":
            about["subject"] = decode_content(rest)[:200]
        case b"author-time":
            seconds = min(int(rest), 253_402_300_799)
            about["date"] = datetime.datetime.fromtimestamp(seconds, datetime.UTC).date().isoformat()
