"""What a request asks for: its steps, and how much each of their terms counts."""

from __future__ import annotations

import re
from itertools import pairwise

from jaato.tools.words import terms

VALUE_SHARE = 0.5
PHRASE_SHARE = 0.8
JOINED_SHARE = 0.5
MAX_QUERY = 4000
MAX_CLAUSES = 12
QUOTED = re.compile(r"\"[^\"]{1,200}\"|(?<!\w)'[^']{1,200}'(?!\w)|`[^`]{1,200}`")
CLAUSE = re.compile(
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
PHRASE = re.compile(
    rf"\b(?:{'|'.join(map(re.escape, sorted(PHRASES, key=len, reverse=True)))})\b", re.IGNORECASE
)


def asked_in(query: str) -> list[dict[str, float]]:
    """For each step of a request its terms, each with its share."""
    return [part for part in map(wanted_terms, clauses(query[:MAX_QUERY])) if part]


def clauses(text: str) -> list[str]:
    """A text cut where a step may end; what is left after `MAX_CLAUSES` cuts stays whole."""
    # spaces are joined first: the pattern would try each of them as the beginning of a cut
    flat = "\n ".join(" ".join(line.split()) for line in text.splitlines())
    return CLAUSE.split(flat, MAX_CLAUSES)


def wanted_terms(clause: str) -> dict[str, float]:
    """The terms of a clause, each with its share: what stands in quotes or has digits is a value more than a wish."""
    shares = dict.fromkeys(terms(QUOTED.sub(" ", clause)), 1.0)
    for term in list(shares):
        if any(letter.isdigit() for letter in term):
            shares[term] = VALUE_SHARE
    if VALUE_SHARE:
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


def steps_of(query: str, most: int) -> list[str]:
    """The steps of a request in its own words, neighbours joined where there are more than `most`; the whole of it when
    it has but one."""
    steps = [part.strip() for part in clauses(query[:MAX_QUERY]) if len(part.split()) > 1]
    if len(steps) < 2:
        return [query[:MAX_QUERY]]
    count = min(len(steps), most)
    borders = [len(steps) * at // count for at in range(count + 1)]
    return [". ".join(steps[start:end]) for start, end in pairwise(borders)]
