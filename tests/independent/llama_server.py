"""llama.cpp's own HTTP server on a free port of loopback, with a template that shows all of a conversation.

Arguments: the model file and the key it asks for. It says its URL on a line and serves until stdin ends.
"""

from __future__ import annotations

import sys
from typing import Any

TEMPLATE = """\
{%- if tools %}{% if tools | length < 4 %}{{ tools | tojson }}{% else %}
{%- for tool in tools %}{{ tool.function.name }} {% endfor %}{% endif %}{% endif -%}
{%- for message in messages %}<|im_start|>{{ message.role }}
{%- if message.tool_call_id %} {{ message.tool_call_id }}{% endif %}
{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}
{{ call.id }} {{ call.function.name }} {{ call.function.arguments | tojson }}{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def main(model: str, key: str) -> None:
    """Serve until the process that started this one closes stdin or ends."""
    import xllamacpp  # type: ignore[import-not-found,unused-ignore]

    params: Any = xllamacpp.CommonParams()
    params.model.path = model
    params.chat_template = TEMPLATE
    params.use_jinja = True
    params.force_pure_content_parser = True
    params.port = 0
    params.api_keys = [key]
    params.n_ctx = 2048
    params.n_parallel = 1
    params.warmup = False
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
