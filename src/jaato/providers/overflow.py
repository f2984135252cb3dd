"""Reads the numbers in a provider's message that a request is too long: the limit of the context, and the request's size."""

from __future__ import annotations

import re
from collections.abc import Iterable

from jaato.lazy_pattern import lazy_pattern

NUMBER = r"(?P<n>\d[\d,_]*)"


def make_patterns(*texts: str) -> list[re.Pattern[str]]:
    """Patterns in which `N` stands for a number."""
    return [lazy_pattern(text.replace("N", NUMBER)) for text in texts]


LIMITS = make_patterns(
    r"context limit: \d+ \+ \d+ > N",
    r"> N maximum",
    r"maximum (?:context|prompt|input|model|allowed) ?(?:context)? length (?:is|of|:|\()?\s*N",
    r"N maximum context length",
    r"tokens allowed:? \(?N",
    r"(?:available )?context (?:size|length|window|limit)\s*(?:is|of|:|=|\()\s*N",
    r"n_ctx\W+N",
    r"token limit: N",
    r"max(?:imum)? size: N tokens",
    r"must be <= N",
    r"cannot exceed N",
    r"exceeds the limit of N",
    r"limit:? N, requested",
)
"""How servers name the limit, in lower case: Anthropic, OpenAI and those like it, xAI, Mistral, Gemini, llama.cpp, LM Studio,
vLLM, Moonshot, GitHub Models, TGI, Cohere, Groq."""
SIZES = make_patterns(
    r"context limit: N \+",
    r"N tokens >",
    r"resulted in N tokens",
    r"requested (?:about )?N",
    r"token count (?:of |\()N",
    r"request (?:has|contains) N",
    r"request \(N tokens",
    r"prompt contains N tokens",
    r"(?:prompt|input|length) \((?:length )?N",
    r"n_prompt_tokens\W+N",
    r"keep the first N tokens",
    r"received N",
    r"given: N",
)
"""How they name the size of the request."""
MOST_TOKENS = 10**9


REPLY = [
    lazy_pattern(pattern.replace("N", NUMBER))
    for pattern in (r"context limit: \d+ \+ N >", r"N in the completion")
]
"""How they name the tokens that the reply may take, where these count."""


def overflow_limit(message: str) -> int | None:
    """How many tokens a request may have, as the message of a refusal names it: the limit, without what is for the reply."""
    limit = find_number(LIMITS, message)
    reply = find_number(REPLY, message)
    return limit - reply if limit is not None and reply is not None and reply < limit else limit


def overflow_size(message: str) -> int | None:
    """The tokens of the request, as the message of a refusal names them."""
    return find_number(SIZES, message)


def find_number(patterns: Iterable[re.Pattern[str]], message: str) -> int | None:
    """The number that the first matching pattern finds."""
    lowered = message.lower()
    for pattern in patterns:
        if found := pattern.search(lowered):
            number = int(re.sub(r"\D", "", found["n"]))
            return number if 0 < number <= MOST_TOKENS else None
    return None
