"""Words as a search sees them: identifiers split, stop words gone, the rest as stems with near relations."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
RUN = re.compile(r"[A-Za-z0-9]+(?:'[a-z]+)?")
WIDE = re.compile(r"[^\W\d_]+")
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
