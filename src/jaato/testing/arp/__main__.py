"""`python -m jaato.testing.arp URL`: whether a registry keeps to the contract."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from dataclasses import asdict, dataclass
from http.client import HTTPException
from typing import Literal
from urllib.parse import urlsplit

from jaato.testing.arp import ALL, Served, Skip
from jaato.testing.arp.peer import Check, Exchange

EPILOG = """\
Each sentence of the contract is a check: `ok`, `FAILED` with what was wrong, sent and received, or `skipped` with the
reason: what needs echo, calc or time_now is skipped where they are not, what needs a tool of yours where none is named.

exit code: 0 when every sentence that could be checked holds, 1 when one does not, 2 when nothing could be checked.
"""
Outcome = Literal["ok", "failed", "skipped"]
WRONG = (AssertionError, OSError, ValueError, LookupError, TypeError, AttributeError, HTTPException)


@dataclass(frozen=True)
class Found:
    """What came of a check; the last exchanges, where it failed."""

    name: str
    sentence: str
    outcome: Outcome
    why: str = ""
    exchanges: tuple[Exchange, ...] = ()


def run_check(check: Check, at: Served) -> Found:
    """Make a check."""
    name, sentence = check.__name__, " ".join((check.__doc__ or "").split())
    at.seen.clear()
    try:
        check(at)
    except Skip as reason:
        return Found(name, sentence, "skipped", str(reason))
    except WRONG as error:
        why = str(error).strip().splitlines() or ["what came is not what the sentence says"]
        kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        return Found(name, sentence, "failed", kind + why[0], tuple(at.seen[-2:]))
    return Found(name, sentence, "ok")


def format_result(one: Found) -> str:
    """It for a person."""
    word = one.outcome.upper() if one.outcome == "failed" else one.outcome
    lines = [f"{word:8}{one.name}: {one.sentence}"]
    if one.why:
        lines.append(f"        {'because ' if one.outcome == 'skipped' else ''}{one.why}")
    for exchange in one.exchanges:
        lines += [f"        sent    {exchange.sent}", f"        got     {exchange.got}"]
    return "\n".join(lines)


def arguments(given: list[str] | None = None) -> Namespace:
    """What the command is asked for."""
    parser = ArgumentParser(
        "python -m jaato.testing.arp",
        description="Check a tool registry from outside, sentence by sentence of the contract.",
        epilog=EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("url", metavar="URL", help="where it is, such as http://127.0.0.1:8000")
    parser.add_argument("--token", default="", help="the token it asks for")
    parser.add_argument("--tool", default="echo", metavar="TOOL", help="a tool to call (default: echo)")
    parser.add_argument("--arguments", metavar="JSON", help='what to call it with (default: {"text": "x"})')
    parser.add_argument("--denied", default="", metavar="TOOL", help="one without arguments that is denied")
    parser.add_argument("--raising", default="", metavar="TOOL", help="one whose handler raises an exception")
    parser.add_argument("--secret", default="", metavar="TEXT", help="what that exception says")
    parser.add_argument("--pair", default="", metavar="TOOL", help="one that takes whole numbers a and b")
    parser.add_argument("--only", action="append", metavar="CHECK", help="make this check (again: and this)")
    parser.add_argument(
        "--patience", type=float, default=20.0, metavar="S", help="wait so long for an answer"
    )
    parser.add_argument("--json", action="store_true", help="write what was found as JSON")
    args = parser.parse_args(given)
    args.arguments = args.arguments or ('{"text": "x"}' if args.tool == "echo" else "{}")
    try:
        if not isinstance(json.loads(args.arguments), dict):
            parser.error("--arguments is a JSON object")
        good = urlsplit(args.url).scheme in ("http", "https") and bool(urlsplit(args.url).hostname)
        if not good or urlsplit(args.url).port == 0:
            parser.error("the URL is like http://127.0.0.1:8000")
    except ValueError as error:
        parser.error(str(error))
    unknown = set(args.only or ()) - {check.__name__ for check in ALL}
    if unknown:
        parser.error(f"there is no check {', '.join(sorted(unknown))}")
    return args


def main() -> int:
    """Check, and say of each sentence whether it holds."""
    args = arguments()
    named = ("url", "token", "tool", "arguments", "denied", "raising", "secret", "pair")
    at = Served(**{name: getattr(args, name) for name in named}, patience_s=args.patience)
    try:
        at.line().close()
    except OSError as error:
        print(f"Nothing answers at {args.url}: {error}", file=sys.stderr)
        return 2
    results: list[Found] = []
    for check in ALL:
        if args.only and check.__name__ not in args.only:
            continue
        results.append(run_check(check, at))
        if not args.json:
            print(format_result(results[-1]), flush=True)
    counts = {kind: sum(one.outcome == kind for one in results) for kind in ("ok", "failed", "skipped")}
    if args.json:
        print(json.dumps({"url": args.url, **counts, "checks": [asdict(one) for one in results]}, indent=1))
    else:
        print(f"{counts['ok']} hold, {counts['failed']} do not, {counts['skipped']} were skipped")
    return 1 if counts["failed"] else 0 if counts["ok"] else 2


if __name__ == "__main__":
    sys.exit(main())
