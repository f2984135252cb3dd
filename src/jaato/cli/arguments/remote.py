"""The arguments of the commands for tools of others: MCP servers, registries and flows."""

from __future__ import annotations

from jaato.cli.arguments.options import (
    MODEL,
    OPENING,
    Command,
    choice,
    flag,
    natural,
    positive,
    repeated,
    value,
)

MCP = """Servers of the Model Context Protocol stand in ~/.mcp.json (yours) and in .mcp.json of a workspace, which start only
once you have trusted them as they are. A server is started when one of its tools is used, never to list them.

examples:
  jaato mcp add files -- npx -y @modelcontextprotocol/server-filesystem .
  jaato mcp add tickets --url https://mcp.example.com/mcp --header 'Authorization: Bearer ${TICKETS_TOKEN}'
  jaato mcp list --check
  jaato mcp trust files
  jaato mcp login tickets
  jaato mcp logout tickets
  jaato mcp remove files
  jaato mcp logs files -n 200
  jaato mcp tools files --json
  jaato mcp call files read_text_file '{"path": "README.md"}'
  jaato mcp call http://127.0.0.1:8000/mcp add '{"a": 1, "b": 2}'
  jaato mcp serve --tools readFile,grep_content,glob_files
  jaato mcp serve --http :7391

exit codes: 0 ok, 1 the server or the tool failed, 2 wrong usage or configuration, 4 denied, not trusted or held back, 130 interrupted"""
REGISTRY = """Tool registries offer tools over HTTP. Yours stand in registries.json of your configuration directory, those of a
workspace in its .jaato/registries.json, which are asked only once you have trusted them as they are. An agent finds
their tools with list_tools. `serve` is a registry of your own, for programs elsewhere.

examples:
  jaato registry add weather https://tools.example.com --token '${WEATHER_TOKEN}'
  jaato registry trust weather
  jaato registry remove weather
  jaato registry list
  jaato registry list weather
  jaato registry get weather forecast
  jaato registry invoke http://127.0.0.1:8000 calc '{"expression": "6 * 7"}'
  jaato registry serve                         echo, calc and time_now, at http://127.0.0.1:8000
  jaato registry serve --domains core,tools/weather.py --port 8765
  jaato registry serve --plugins git,file_edit --read-only
  jaato registry put http://127.0.0.1:8000 forecast forecast.json --webhook https://tools.example.com/forecast
  jaato registry delete http://127.0.0.1:8000 forecast --version 1.0.0
  jaato registry key add ci --tools 'weather_*' --expires 30d     from then on nobody comes in without a key
  jaato registry key list
  jaato registry key remove ci
  jaato registry log --failed --since 1h

exit codes: 0 ok, 1 the registry or the tool failed, 2 wrong usage or configuration, 4 denied or not trusted, 130 interrupted"""
FLOW = """A flow carries out one instruction with the tools of registries: the model plans which of them to call, knowing names
and descriptions alone; for each step the tool's definition is fetched, the model gives the arguments, and they are checked
before anything is sent (refused ones are asked for once more, with what is wrong); in the end the model answers from the
results. It works in this process, also where a server runs.

examples:
  jaato flow run "What is 6 times 7?" --registry http://127.0.0.1:8000 --yes
  jaato flow run "Will it rain in Bern tomorrow?" --registry weather --trace rain.jsonl
  jaato flow show rain.jsonl
  jaato flow replay rain.jsonl"""
FLOW_RUN = """The answer goes to stdout, everything else to stderr. Without --registry all that are configured and trusted are used.
A call asks for permission on the terminal; without one it is denied: allow it beforehand with --allow or --yes.

examples:
  jaato flow run "What is 6 times 7?" --registry http://127.0.0.1:8000 --allow calc
  jaato flow run "Will it rain in Bern tomorrow?" --registry weather --registry cities --json
  cat letter.txt | jaato flow run "What does this ask for?" --trace letter.jsonl --max-steps 3

exit codes: 0 ok; 1 a step failed; 2 wrong usage or configuration; 3 the provider failed; 4 a call was denied, or a registry is not
trusted; 5 a limit was reached; 130 interrupted"""
FLOW_REPLAY = """Plays the trace without model and registries, and compares every prompt, check and ending with what was recorded.

examples:
  jaato flow replay rain.jsonl

exit codes: 0 it plays as it was recorded; 1 it does not, or was cut off; 2 no trace or wrong usage"""

SCOPES = ("user", "workspace")
A_REGISTRY = "a registry by its address or its configured name, again for more"
SERVING = "--yes --allow --deny --read-only:serve"
OPTIONS = {
    "--token": value("TOKEN", "a bearer token for a URL; ${VAR} and keyring:NAME are filled in"),
    "--header": repeated("'NAME: VALUE'", "sent with every request to the URL; ${VAR} is filled in"),
    "--header:webhook": repeated("'NAME: VALUE'", "sent to the webhook"),
    "--scope:add": choice(SCOPES, "yours (default), or the workspace's", "user"),
    "--scope:remove": choice(SCOPES, "from which file (default: where it is)"),
    "--replace": flag("in the place of one of the same name"),
    "--revoke": flag("trust it no longer"),
    "--check": flag("start or ask each one, to see whether it answers"),
    "arguments": value("JSON", "its arguments, as a JSON object; - reads stdin"),
    "tool": value("TOOL", "the tool, by the name it has there"),
    "--timeout": value("S", "how long a call may take (default 60)", type=float),
    "--plugins": value("X,Y", "offer the tools of these plugins only"),
    "--plugins:registry": value("X,Y", "offer the tools of these plugins too, to who has the token"),
    "--domains": value(
        "A,B", "of the registry: core, modules by import path, files ending in .py (default: core)"
    ),
    "--allow-entry-point": repeated(
        "PATTERN", "serve functions that are put into the registry, such as 'package.module:*'"
    ),
    "server": value("SERVER|URL", "a server, or the address of one"),
    "server:name": value("NAME", "the server"),
    "server:new": value("NAME", "what to call it"),
    "--url": value("URL", "the address of a server that runs elsewhere"),
    "--sse": flag("the URL speaks the older HTTP with server-sent events"),
    "--login": flag("log in where that is needed, also without a terminal"),
    "--refresh": flag("ask the server, also when its tools are known"),
    "--env": repeated("NAME=VALUE", "given to the command; ${VAR} is filled in"),
    "--sandbox-profile": choice(
        ("read-only", "workspace-write", "full"),
        "what its process may reach (default: workspace-write with one of the next two, else as the scope has it)",
    ),
    "--allow-domain:mcp": repeated(
        "HOST", "a host that it reaches from the sandbox: pypi.org, *.npmjs.org, host:8443"
    ),
    "--add-dir:mcp": repeated("DIR", "a directory outside the workspace that it may change"),
    "--cwd": value("DIR", "where the command runs (default: the workspace)"),
    "program": {"default": ()},
    "--lines": value("N", "the last N lines (default 50)", short="-n", type=positive, default=50),
    "--all-tools": flag("list every tool from the start, not a few and discovery"),
    "--tools": value("A,B", "offer these tools and no others"),
    "--registry:mcp": flag("offer what `jaato registry serve` does, and no plugins but those named"),
    "--http": value("[HOST]:PORT", "serve at /mcp of this address (host: 127.0.0.1; port 0: any)"),
    "registry": value("NAME|URL", "a registry, or the address of one"),
    "registry:name": value("NAME", "the registry"),
    "registry:new": value("NAME", "what to call it"),
    "url": value("URL", "its address, below which /v1/tools is"),
    "--prefix": value("TEXT", "what the names of its tools always begin with"),
    "--stream": flag("show on stderr what the tool says while it is at work"),
    "definition": value("FILE", "its description, version and parameters, as JSON; - reads stdin"),
    "--webhook": value("URL", "have its calls posted there"),
    "--mcp": value("SERVER/TOOL", "have them made of an MCP server of the registry's"),
    "--entry-point": value("MODULE:FUNCTION", "have them made of a function there"),
    "--create": flag("only where there is none of this name"),
    "--if-match": value("ETAG", "only where it is still the one of this ETag"),
    "--version": value("VERSION", "only this version (default: all of them)"),
    "--host": value("HOST", "the address to listen at (default: 127.0.0.1)"),
    "--port": value("PORT", "the port (default: 8000; 0: any)", type=natural),
    "--token:serve": flag("ask for a token, as beyond loopback is always done"),
    "--log": value("FILE", "keep what the registry says of itself there, not on stderr"),
    "name": value("NAME", "its name: letters, digits, ._-"),
    "--scope:key": value(
        "A,B",
        "tools:read, tools:invoke, tools:write (default: tools:read,tools:invoke)",
        default="tools:read,tools:invoke",
    ),
    "--tools:key": value("PATTERN,…", "which tools there are for it: weather_*,calc (default: all)"),
    "--expires": value("30d", "how long it is good: 30d, 12h (default: until removed)"),
    "--rate": value("100/min", "how often it may ask (default: tool_registry_rate)"),
    "--request": value("ID", "the call with this X-Request-Id"),
    "--trace:log": value("ID", "the calls of this trace, as traceparent has it"),
    "--flow": value("ID", "the calls of this flow"),
    "--tool": value("NAME", "the calls of this tool"),
    "--key": value("NAME", "the calls made with this key; anyone and owner are names too"),
    "--failed": flag("those that failed"),
    "--since": value("1h", "those of the last 30min, 12h, 7d"),
    "--limit": value("N", "the newest N (default 50)", type=positive, default=50),
    "--follow": flag("go on with those that come"),
    "--json:lines": flag("one JSON object a line"),
    "instruction": value("INSTRUCTION", "what is to be done; piped text is appended; - is that text alone"),
    "--registry": repeated("URL|NAME", f"{A_REGISTRY} (default: all that are configured and trusted)"),
    "--max-steps": value("N", "tools that may be called (default 8)", type=positive, default=8),
    "--trace": value("FILE", "write a trace, into a file that is not there yet"),
    "file": value("FILE", "a trace that flow run --trace has written"),
}
MCP_ACTIONS = (
    Command("list", "the servers, their state and what is wrong with them", "--check --json --workspace"),
    Command(
        "add",
        "configure a server",
        "server:new --url --sse --header --env --sandbox-profile --allow-domain:mcp --add-dir:mcp --cwd --scope:add "
        "--replace --workspace",
        unused="program",
        help_usage="jaato mcp add NAME [options] -- COMMAND [ARGUMENT ...]\n       jaato mcp add NAME --url URL [options]",
    ),
    Command("remove", "take a server out of the configuration", "server:name --scope:remove --workspace"),
    Command(
        "tools",
        "the tools of a server or of all, with what each costs in tokens",
        "[server] --refresh --header --sse --login --json --workspace",
    ),
    Command("call", "call one tool", "server tool [arguments] --header --sse --login --json --workspace"),
    Command("login", "log in to a server, in the browser", "server --workspace"),
    Command("logout", "forget the login of a server", "server --workspace"),
    Command("logs", "what a server printed as errors", "server:name --lines --workspace"),
    Command(
        "trust",
        "look at what a workspace's server runs, or at definitions that changed, and accept them",
        "server --yes:no-question --revoke --workspace",
    ),
    Command(
        "serve",
        "offer the tools of this workspace to MCP clients, at the standard streams or over HTTP",
        f"--workspace --all-tools --tools --plugins --registry:mcp --domains --allow-entry-point {SERVING} "
        "--http --allow-host --allow-origin",
        module="commands.mcp_serve",
    ),
)
KEY_ACTIONS = (
    Command("add", "make a key, and print it", "name --scope:key --tools:key --expires --rate"),
    Command("list", "the keys there are", "--json"),
    Command("remove", "take a key away", "name"),
)
REGISTRY_ACTIONS = (
    Command(
        "list",
        "the registries and their state, or the tools of one",
        "[registry] --check --token --json --workspace",
    ),
    Command("get", "the definition of a tool", "registry tool --token --workspace"),
    Command("invoke", "call a tool", "registry tool [arguments] --stream --token --json --workspace"),
    Command(
        "add",
        "configure a registry",
        "registry:new url --token --header --prefix --timeout --replace --scope:add --workspace",
    ),
    Command("remove", "take a registry out of the configuration", "registry:name --scope:remove --workspace"),
    Command(
        "trust",
        "look at a workspace's registry, and have it asked",
        "registry:name --yes:no-question --revoke --workspace",
    ),
    Command(
        "put",
        "put a tool into a registry of ours, or another in its place",
        "registry tool definition --webhook|--mcp|--entry-point --header:webhook --timeout --create --if-match --token --json "
        "--workspace",
        module="sources.publish",
    ),
    Command(
        "delete",
        "take a tool out of a registry that was put there",
        "registry tool --version --if-match --token --workspace",
        module="sources.publish",
    ),
    Command(
        "serve",
        "offer tools to programs elsewhere, over HTTP",
        f"--workspace --domains --plugins:registry --allow-entry-point {SERVING} --host --port --token:serve --log "
        "--allow-host --allow-origin",
        module="commands.registry_serve",
    ),
    Command(
        "key",
        "say who may use the registry you serve, and for what",
        module="commands.registry_keys",
        action="list",
        actions=KEY_ACTIONS,
        unused="--json",
    ),
    Command(
        "log",
        "the calls of the registry you serve: when, who, what, how",
        "--workspace --request --trace:log --flow --tool --key --failed --since --limit --follow --json:lines",
        module="commands.registry_log",
    ),
)
FLOW_UNUSED = f"--session --continue --system-prompt --max-turns {OPENING}"
"""What a flow's session is never told: each begins anew, and has its own words for the model."""
FLOW_ACTIONS = (
    Command(
        "run",
        "carry out one instruction",
        f"[instruction...] --registry --token --max-steps --trace --json {MODEL} --workspace --name --yes --allow --deny",
        FLOW_RUN,
        unused=FLOW_UNUSED,
    ),
    Command(
        "replay",
        "play a trace again, and say whether it plays as recorded",
        "file --json",
        FLOW_REPLAY,
    ),
    Command("show", "what a trace tells, to be read", "file --full --json"),
)
COMMANDS = (
    Command(
        "mcp",
        "configure, trust, list and use MCP servers",
        epilog=MCP,
        module="sources.mcp",
        actions=MCP_ACTIONS,
    ),
    Command(
        "registry",
        "configure and use tool registries, or serve one",
        epilog=REGISTRY,
        module="sources.registry",
        actions=REGISTRY_ACTIONS,
    ),
    Command(
        "flow",
        "carry out an instruction with the tools of registries, step by step",
        epilog=FLOW,
        actions=FLOW_ACTIONS,
    ),
)
