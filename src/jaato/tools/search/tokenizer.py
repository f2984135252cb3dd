"""Tokenize text for search: identifiers split, stop words gone, stems with near ones; and split a query into steps."""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path

from jaato.lazy_pattern import lazy_pattern

FILE = Path(__file__).with_name("near_words.txt")
"""A line for each stem: near stems with their nearness in hundredths; made by `python -m bench.near_words`."""
MAX_KEPT = 4096


@cache
def table() -> bytes:
    """The whole file, 0.3 MB: looked up where it lies, because most of it is never asked for."""
    return FILE.read_bytes()


@lru_cache(MAX_KEPT)
def find_related_stems(term: str) -> tuple[tuple[str, float], ...]:
    """The stems near to one, each with its nearness up to 1; those that tools use for each other are at 1."""
    if not term.isascii() or not term.isalnum():
        return ()
    entries = (line_of(table(), term.encode()) or b"").decode().split()
    return tuple((other, int(near) / 100) for other, _, near in (entry.partition(":") for entry in entries))


def line_of(text: bytes, key: bytes) -> bytes | None:
    """The rest of the line that begins with `key` and a space; None without one.

    The text begins and ends with a line break, its lines are sorted, and each begins with a key and a space.
    """
    low, high = 0, len(text) - 1
    wanted = key + b" "
    while low < high:
        middle = text.rfind(b"\n", low, (low + high) // 2 + 1)
        middle = low if middle < 0 else middle
        end = text.find(b"\n", middle + 1)
        line = text[middle + 1 : end]
        if line.startswith(wanted):
            return line[len(wanted) :]
        if line < wanted:
            low = end
        else:
            high = middle
    return None


PIECE = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
RUN = lazy_pattern(r"[A-Za-z0-9]+(?:'[a-z]+)?")
WIDE = lazy_pattern(r"[^\W\d_]+")
MAX_WORD = 40

STOP_WORDS = """
a about above after again all also am an and any are as at be because been before being both but by
can could d did do does doing don done each few for from further had has have having he her here hers
him his how i if in into is it its itself just kindly let ll m me more most my myself no nor not now
of off on once only or other our ours out over own per please re s same she should so some such t
than that the their theirs them then there these they this those through to too under until up upon
us ve very via was we were what when where which while who whom whose why will with within without
would you your yours yourself able help hello hi hey like need needs want wants wanna gonna thank
thanks tell know give try trying using use used uses given specific specified based one provide
provides provided possible currently see sure well really actually going looking look interested tool
tools function returns return value parameter optional default eg etc ie
"""
STOP = frozenset(STOP_WORDS.split())

IRREGULAR = {
    "bought": "buy", "paid": "pay", "payment": "pay", "payments": "pay", "sold": "sell", "sent": "send", "found": "find",
    "written": "write", "wrote": "write", "ran": "run", "taken": "take", "took": "take", "made": "make", "got": "get",
    "gotten": "get", "built": "build", "people": "person", "persons": "person", "children": "child", "men": "man",
    "women": "woman", "spoken": "speak", "spoke": "speak", "drawn": "draw", "drew": "draw", "driven": "drive",
    "chosen": "choose", "chose": "choose", "choice": "choose", "shown": "show", "held": "hold", "kept": "keep",
    "lost": "lose", "read": "read", "seen": "see", "saw": "see", "gave": "give", "went": "go", "gone": "go",
    "left": "leave", "mice": "mouse", "indices": "index", "indexes": "index", "matrices": "matrix", "data": "data",
    "status": "status", "statuses": "status", "news": "news", "bus": "bus", "buses": "bus", "gas": "gas",
    "analyses": "analysis", "criteria": "criterion", "summaries": "summary", "summarize": "summary",
    "summarise": "summary", "summarization": "summary", "removal": "remove", "approval": "approve",
    "retrieval": "retrieve", "arrival": "arrive", "weekly": "week", "daily": "day", "monthly": "month",
    "sum": "sum", "classification": "classify", "notification": "notify", "verification": "verify",
    "identification": "identify", "modification": "modify", "specification": "specify", "multiplication": "multiply",
    "setting": "setting", "settings": "setting",
}  # fmt: skip

SUFFIXES = (
    ("ization", "iz"), ("isation", "iz"), ("ational", "at"), ("fulness", "ful"), ("iveness", "iv"), ("ability", "abl"),
    ("ibility", "ibl"), ("ically", "ic"), ("ative", "at"), ("ation", "at"), ("ator", "at"), ("ition", "it"),
    ("ysis", "ys"), ("tion", "t"), ("sion", "s"), ("ment", ""), ("ness", ""), ("ance", ""), ("ence", ""), ("able", ""),
    ("ible", ""), ("ical", "ic"), ("ive", ""), ("ity", ""), ("ful", ""), ("tor", "t"), ("sor", "s"), ("ize", "iz"),
    ("ise", "iz"), ("ate", "at"), ("ly", ""), ("er", ""), ("al", ""),
)  # fmt: skip


@cache
def stem(word: str) -> str:
    """The stem of a lower-case word; words of one family share it, whether or not it is a word itself."""
    settled = IRREGULAR.get(word)
    if settled == word:
        return word
    word = settled or word
    if len(word) <= 3 or not word.isalpha():
        return word
    word = without_plural(word)
    if word in IRREGULAR:
        word = IRREGULAR[word]
    for ending in ("ing", "ed"):
        rest = word[: -len(ending)]
        if word.endswith(ending) and len(rest) >= 3 and any(letter in "aeiouy" for letter in rest):
            word = rest[:-1] if rest[-1] == rest[-2] and rest[-1] not in "lsz" else rest
            break
    for suffix, kept in SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 4:
            word = word[: len(word) - len(suffix)] + kept
            break
    if word.endswith("e") and len(word) > 3:
        word = word[:-1]
    if word.endswith(("yz", "iz")):
        word = word[:-1] + "s"
    return word[:-1] + "i" if word.endswith("y") and len(word) > 2 else word


def without_plural(word: str) -> str:
    """A noun or verb without its plural or third-person s."""
    if not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > 4 else word[:-1]
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    return word[:-1]


@cache
def terms_of_run(run: str) -> tuple[str, ...]:
    """The terms in one run of letters and digits: its pieces and, when there are several, the whole."""
    run = run.partition("'")[0]
    if run.islower():
        return () if run in STOP or (len(run) == 1 and run.isalpha()) else (stem(run[:MAX_WORD]),)
    pieces = [piece.lower() for piece in PIECE.findall(run)]
    terms = [stem(piece[:MAX_WORD]) for piece in pieces if piece not in STOP]
    if len(pieces) > 1 and len(run) <= MAX_WORD:
        terms.append(stem(run.lower()))
    return tuple(terms)


def pieces(name: str) -> list[str]:
    """The terms of an identifier's pieces, without the joined ones."""
    return [
        term
        for run in RUN.findall(name)
        for piece in PIECE.findall(run)
        for term in terms_of_run(piece.lower())
    ]


def terms(text: str) -> list[str]:
    """The search terms in a text or identifier, in order, repeated as often as they occur."""
    found: list[str] = []
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text)
        text = "".join(letter for letter in text if not unicodedata.combining(letter))
        for run in WIDE.findall(text):
            if not run.isascii():
                found += wide_terms(run.lower())
    for run in RUN.findall(text):
        found += terms_of_run(run)
    return found


def wide_terms(run: str) -> list[str]:
    """Terms of a run in another script: itself and, where words are not spaced, its pairs of characters."""
    if len(run) > 2 and any(ord(letter) >= 0x2E80 for letter in run):
        return [run[at : at + 2] for at in range(len(run) - 1)]
    return [run[:MAX_WORD]]


VALUE_SHARE = 0.5
PHRASE_SHARE = 0.8
JOINED_SHARE = 0.5
MAX_QUERY = 4000
MAX_CLAUSES = 12
QUOTED = lazy_pattern(r"\"[^\"]{1,200}\"|(?<!\w)'[^']{1,200}'(?!\w)|`[^`]{1,200}`")
CLAUSE = lazy_pattern(
    r"(?<![.!?;\n])[.!?;\n]+\s+|,?\s+(?:and then|then|finally|next|lastly|also|additionally)\b,?|,\s+and\s+|\s+and\s+",
    re.IGNORECASE,
)

PHRASES = {
    "get rid of": "delete remove", "getting rid of": "delete remove", "throw away": "delete", "throw out": "delete",
    "look up": "search find", "look something up": "search find", "look for": "search find", "find out": "get",
    "get in touch": "contact send message", "reach out": "contact send message", "get hold of": "contact",
    "write to": "send message", "drop a line": "send message", "let them know": "notify send message",
    "sign up": "register account", "sign in": "login", "log in": "login", "log on": "login", "log out": "logout",
    "set up": "create configure", "put together": "create", "come up with": "generate create", "put off": "reschedule",
    "call off": "cancel", "back out": "cancel", "shut down": "stop", "turn down": "decrease", "turn up": "increase",
    "take down": "remove", "put up": "add publish", "take place": "event", "carry out": "execute", "kick off": "start",
    "fire up": "start", "hold on": "wait", "write down": "note save", "note down": "note save", "jot down": "note save",
    "how much is": "price cost", "how much are": "price cost", "how much does": "price cost", "how much do": "price cost",
    "how long": "duration time", "how far": "distance", "how big": "size", "how large": "size", "how many": "count",
    "how tall": "height", "how heavy": "weight", "how fast": "speed", "how old": "age", "how hot": "temperature",
    "how cold": "temperature", "what time": "time", "what day": "date", "what date": "date", "how do i get to": "route",
    "what does it mean": "definition", "in the sky": "astronomy", "to eat": "food restaurant", "to wear": "clothes",
    "to read": "book article", "to watch": "movie video", "to listen": "music audio", "place to stay": "hotel",
    "spend the night": "hotel", "pick up": "collect", "drop off": "deliver", "hand in": "submit", "fill in": "complete form",
    "fill out": "complete form", "split up": "divide", "add up": "sum", "work out": "calculate", "figure out": "calculate",
    "keep track": "track", "keep an eye on": "monitor", "make sure": "verify", "double check": "verify", "who wrote": "author",
    "take back": "undo revert", "taking back": "undo revert", "bring back": "restore", "hunt down": "search find",
    "track down": "search find", "dig up": "search find", "hand over": "transfer send", "pass on": "forward send",
    "pull out": "extract", "clean up": "clean remove", "check with": "ask confirm", "break down": "split",
    "break into": "split", "left to do": "remaining task", "how do you say": "translate", "how do i say": "translate",
    "wake me": "alarm", "swap out": "replace", "switch on": "enable", "switch off": "disable", "turn on": "enable",
    "turn off": "disable", "go wrong": "error", "went wrong": "error", "anything wrong": "error", "run into": "error",
    "in charge of": "owner manager", "pay back": "refund", "money back": "refund", "give back": "return",
    "make a copy": "copy", "blow up": "enlarge", "cut down": "reduce", "speed up": "optimize", "go back": "restore",
}  # fmt: skip
"""What people say for which tools have other words."""
PHRASE = lazy_pattern(
    rf"\b(?:{'|'.join(map(re.escape, sorted(PHRASES, key=len, reverse=True)))})\b", re.IGNORECASE
)


def parse_query(query: str) -> list[dict[str, float]]:
    """For each step of a request its terms, each with its share."""
    return [part for part in map(find_terms, clauses(query[:MAX_QUERY])) if part]


def clauses(text: str) -> list[str]:
    """A text cut where a step may end; what is left after `MAX_CLAUSES` cuts stays whole."""
    # spaces are joined first: the pattern would try each of them as the beginning of a cut
    flat = "\n ".join(" ".join(line.split()) for line in text.splitlines())
    return CLAUSE.split(flat, MAX_CLAUSES)


def find_terms(clause: str) -> dict[str, float]:
    """The terms of a clause, each with its share: what stands in quotes or has digits is a value more than a wish."""
    shares = dict.fromkeys(terms(QUOTED.sub(" ", clause)), 1.0)
    for term in list(shares):
        if any(letter.isdigit() for letter in term):
            shares[term] = VALUE_SHARE
    for quoted in QUOTED.findall(clause):
        for term in terms(quoted):
            shares.setdefault(term, VALUE_SHARE)
    for phrase in PHRASE.findall(clause):
        for term in terms(PHRASES[phrase.lower()]):
            shares.setdefault(term, PHRASE_SHARE)
    words = list(dict.fromkeys(terms(QUOTED.sub(" ", clause))))
    for first, second in pairwise(words):
        shares.setdefault(first + second, JOINED_SHARE)
    return shares


def split_steps(query: str, most: int) -> list[str]:
    """The steps of a request in its own words, neighbours joined where there are more than `most`; the whole of it when
    it has but one."""
    steps = [part.strip() for part in clauses(query[:MAX_QUERY]) if len(part.split()) > 1]
    if len(steps) < 2:
        return [query[:MAX_QUERY]]
    count = min(len(steps), most)
    borders = [len(steps) * at // count for at in range(count + 1)]
    return [". ".join(steps[start:end]) for start, end in pairwise(borders)]
