"""What stands below the help of each command: how it is used, and how it ends."""

from __future__ import annotations

TOP = """examples:
  jaato run "what does this project do?"
  git diff | jaato run --read-only "review this change"
  jaato run --continue --allow 'run(pytest *)' "now make the tests pass"
  jaato chat
  jaato doctor

exit codes: 0 ok, 1 error, 2 usage or configuration, 3 provider, 4 denied, 5 limit, 130 interrupted"""

RUN = """PROMPT is what the agent should do; text piped into the command is appended to it. The answer goes to stdout,
everything else to stderr. A call that needs permission is asked about on the terminal; without one it is denied with the
reason: allow it beforehand with --allow or --yes.

examples:
  jaato run "find the slowest test and say why"
  jaato run --allow 'run(make *)' --allow writeNewFile "add a Makefile target for the linter"
  jaato run --schema '{"type":"object","properties":{"files":{"type":"array"}}}' "which files are unused?"
  jaato run --output events --yes "format the code" > events.jsonl
  cat error.log | jaato run "explain this"

exit codes: 0 the agent finished; 1 error; 2 wrong usage or configuration; 3 the provider failed; 4 a call in the agent's last round of
calls was denied; 5 a limit was reached; 130 interrupted"""

TOOLS = """examples:
  jaato tools list filesystem
  jaato tools search "replace text in many files"
  jaato tools schema updateFile
  jaato tools tokens"""

MODELS = """examples:
  jaato models
  jaato models --provider ollama"""

PERMISSIONS = """examples:
  jaato permissions
  jaato permissions explain 'git log | head'
  jaato permissions explain writeNewFile '{"path": "a.txt", "content": ""}'
  jaato permissions revoke 3f9c2a61b07d"""

PLUGINS = """A plugin that a workspace brings (.jaato/plugins) is shown and never run, until its files are trusted as they are.
What you install, or copy into ~/.config/jaato/plugins, is yours and runs.

examples:
  jaato plugins
  jaato plugins trust notes
  jaato plugins check ./notes.py"""

CONFIG = """Settings come from flags, then JAATO_* variables, then a trusted .jaato/config.toml of the workspace, then the
user's config.toml, then the defaults. An untrusted workspace can only tighten.

examples:
  jaato config --explain
  jaato config --trust"""

LOGIN = """examples:
  jaato login anthropic
  pass show openai | jaato login openai --key-stdin"""

DOCTOR = """Exit code 1 when something is broken; a warning is something you may want.

examples:
  jaato doctor
  jaato doctor --json"""

CHAT = """Ctrl-C stops what the agent does, not the program; Ctrl-D or /exit leaves. What you type while the agent works reaches
it at its next pause. /help lists the commands.

examples:
  jaato chat
  jaato chat -c
  jaato chat "what changed since yesterday?"
  jaato chat --provider ollama --model qwen3"""
