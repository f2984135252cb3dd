"""An agent through the `openai` SDK: `python openai_sdk.py http://127.0.0.1:8391/v1 TOKEN_FILE`."""

import sys
from pathlib import Path

from openai import OpenAI

client = OpenAI(base_url=sys.argv[1], api_key=Path(sys.argv[2]).read_text().strip())
for question in ("What is in here?", "Which of it is the newest?"):
    stream = client.chat.completions.create(
        model="jaato",
        messages=[{"role": "user", "content": question}],
        stream=True,
        extra_headers={"X-Jaato-Session": "tour"},
    )
    for chunk in stream:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
    print()
