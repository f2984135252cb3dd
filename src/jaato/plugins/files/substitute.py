"""Finding and replacing in a text, patterns in a process of their own that a bad one cannot outlive."""

from __future__ import annotations

from jaato.errors import ToolError
from jaato.tools.cancel import CancelToken
from jaato.tools.files.text import Lined

TIMEOUT_S = 5
MAX_MATCHES = 100_000

WORKER = f"""
import json, re, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, ({TIMEOUT_S}, {TIMEOUT_S}))
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
pattern, replacement, texts = json.load(sys.stdin)
found = []
compiled = re.compile(pattern, re.M)
for text in texts:
    spans = []
    for match in compiled.finditer(text):
        new = match.expand(replacement)
        if new != match[0]:
            spans.append((match.start(), match.end(), new))
        if len(spans) > {MAX_MATCHES}:
            sys.exit(3)
    found.append(spans)
json.dump(found, sys.stdout)
"""

Span = tuple[int, int, str]


class PatternRefused(ToolError):
    """The pattern cannot be used."""

    code = "pattern_refused"


def check(pattern: str, replacement: str, *, regex: bool) -> None:
    """Raise `PatternRefused` for a pattern or replacement that cannot work."""
    if not pattern:
        raise PatternRefused("The pattern is empty. Give the text to find.")
    if regex and len(pattern) + len(replacement) > 10_000:
        raise PatternRefused("The pattern is longer than 10,000 characters. Use a simpler one.")


def literal(text: str, pattern: str, replacement: str) -> list[Span]:
    """Where a literal text occurs, with its replacement."""
    found: list[Span] = []
    place = text.find(pattern)
    while place >= 0 and pattern != replacement:
        found.append((place, place + len(pattern), replacement))
        place = text.find(pattern, place + len(pattern))
    return found


def matches(
    texts: list[str], pattern: str, replacement: str, token: CancelToken, timeout_s: float = TIMEOUT_S
) -> list[list[Span]]:
    """Where a regular expression matches each text, with its expanded replacement.

    Raises `PatternRefused` when it takes more than `timeout_s` seconds or fails.
    """
    import json
    import subprocess
    import sys

    from jaato.tools.processes.sandbox.alone import alone, code_of

    with alone(sys.executable) as start:
        worker = subprocess.Popen(
            [*start.prefix, sys.executable, "-I", "-S", "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=start.descriptors,
        )
    with worker:
        forget = token.on_cancel(worker.kill)
        try:
            out, problem = worker.communicate(
                json.dumps([pattern, replacement, texts]).encode(), timeout=timeout_s
            )
        except subprocess.TimeoutExpired:
            worker.kill()
            raise too_slow() from None
        finally:
            forget()
    token.raise_if_cancelled()
    code = code_of(worker.returncode, start.prefix)
    if code == 0:
        return [[(a, b, new) for a, b, new in spans] for spans in json.loads(out)]
    if code < 0:
        raise too_slow()
    if code == 3:
        raise PatternRefused(
            f"The pattern matches more than {MAX_MATCHES} times in a file. Use a narrower one."
        )
    last = problem.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1]
    raise PatternRefused(f"The pattern or the replacement failed: {last[:300]}. Correct it and call again.")


def too_slow() -> PatternRefused:
    """The refusal of a pattern that explodes."""
    return PatternRefused(
        f"The pattern took more than {TIMEOUT_S} s, perhaps by nested repeats such as (a+)+. Simplify it."
    )


def substituted(raw: str, spans: list[Span]) -> str:
    """The text with each span of its view replaced; spans are in order and do not overlap."""
    lined = Lined(raw)
    parts: list[str] = []
    done = 0
    for start, end, new in spans:
        first, last = lined.position(start), lined.position(end)
        parts.append(raw[done:first])
        plain = new.replace("\r\n", "\n")
        parts.append(lined.with_line_ends(raw[first:last], plain, first) if lined.returns else plain)
        done = last
    return "".join([*parts, raw[done:]])
