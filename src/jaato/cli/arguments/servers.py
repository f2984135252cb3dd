"""The arguments of the commands for servers: the jaato server, MCP servers, tool registries, and flows that use them."""

from __future__ import annotations

from jaato.cli.arguments.parser import (
    MODEL,
    PERMISSIONS,
    Command,
    choice,
    flag,
    make_repeatable,
    natural,
    positive,
    value,
)

SERVE = """examples:
  jaato serve                            in the foreground, for this user; Ctrl-C stops it
  jaato serve --daemon                   in the background
  jaato serve --daemon --web-socket :8391  also for browsers and other machines, with a token
  jaato serve --web-socket :8391 --openai-workspace .  for Open WebUI, LibreChat and the openai SDK
  jaato serve --web-socket 0.0.0.0:8391 --tls-cert chain.pem --tls-key key.pem --allow-host box.example
  jaato serve --status
  jaato serve --stop

A client on another machine needs a token: create one with `jaato tokens add NAME`."""
WEB = """The server is started if it is not running, and listens on this machine only, unless it was started with --web-socket. The
link is valid once and for five minutes; the browser stays paired for 30 days. `jaato tokens list` shows paired browsers,
`jaato tokens remove` ends one.

examples:
  jaato web
  jaato web --no-open                    print the link
  jaato web --role viewer --no-open      a link for a user who only watches"""
TOKENS = """An access token lets a client connect over the network. It is printed once, when it is created; only its hash is stored.
Removing a token disconnects its clients within seconds. Your own token, with full access, is in the file `server-token` of
the state directory (usually ~/.local/state/jaato).

examples:
  jaato tokens add phone --role approver --days 30 > phone-token
  jaato attach --connect ws://HOST:8391 --token-file phone-token      on the other machine
  jaato tokens list
  jaato tokens remove phone"""
MCP = """MCP servers are configured in ~/.mcp.json (yours) and in .mcp.json of a workspace; those of a workspace are started only
after you trust their current configuration. A server is started when one of its tools is used, never to list them.

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

exit codes: 0 success, 1 server or tool failed, 2 usage or configuration, 4 denied, not trusted or held back, 130 interrupted"""
ACP = """Editors start this command by themselves: Zed, JetBrains IDEs, Neovim, Emacs, Toad. Their sessions are those of the server, which
is started if it is not running; other clients can attach to them.

examples:
  jaato acp
  jaato acp --provider anthropic --mode accept-edits
  jaato acp --connect ws://HOST:8391 --token-file ~/.config/jaato/laptop-token"""
REGISTRY = """Tool registries offer tools over HTTP. Yours are configured in registries.json of your configuration directory, those of a
workspace in its .jaato/registries.json; those of a workspace are used only after you trust their current configuration.
Agents find their tools with list_tools. `serve` runs a registry of your own for other programs.

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
  jaato registry key add ci --tools 'weather_*' --expires 30d     from then on every client needs a key
  jaato registry key list
  jaato registry key remove ci
  jaato registry log --failed --since 1h

exit codes: 0 success, 1 registry or tool failed, 2 usage or configuration, 4 denied or not trusted, 130 interrupted"""
FLOW = """A flow carries out one instruction with the tools of registries. The model first plans which tools to call, from their names
and descriptions alone. For each step the tool's definition is fetched and the model provides the arguments, which are validated
before the call (invalid arguments are requested once more, with the errors). Finally the model answers from the results. Flows
run in this process even when a server is running.

examples:
  jaato flow run "What is 6 times 7?" --registry http://127.0.0.1:8000 --yes
  jaato flow run "Will it rain in Bern tomorrow?" --registry weather --trace rain.jsonl
  jaato flow show rain.jsonl
  jaato flow replay rain.jsonl"""
FLOW_RUN = """The answer is printed on stdout, everything else on stderr. Without --registry, all configured and trusted registries are
used. Calls are confirmed on the terminal; without one they are denied: allow them with --allow or --yes.

examples:
  jaato flow run "What is 6 times 7?" --registry http://127.0.0.1:8000 --allow calc
  jaato flow run "Will it rain in Bern tomorrow?" --registry weather --registry cities --json
  cat letter.txt | jaato flow run "What does this ask for?" --trace letter.jsonl --max-steps 3

exit codes: 0 success; 1 a step failed; 2 usage or configuration; 3 provider failed; 4 a call was denied or a registry is not
trusted; 5 limit reached; 130 interrupted"""
FLOW_REPLAY = """Replays a trace without the model and the registries, and compares every prompt, validation and result with the recording.

examples:
  jaato flow replay rain.jsonl

exit codes: 0 the replay matches; 1 it differs, or the trace is incomplete; 2 not a trace, or wrong usage"""

SCOPES = ("user", "workspace")
A_REGISTRY = "URL or configured name of a registry (repeatable)"
SERVING = "--yes --allow --deny --read-only:serve"
OPTIONS = {
    "--login:acp": flag("save an API key, as jaato login does, instead of serving an editor"),
    "--ipc-socket": value("PATH", "Unix socket (default: jaato/jaato.sock in the runtime directory)"),
    "--web-socket": value("[HOST]:PORT", "also listen on this address, with tokens (host: 127.0.0.1)"),
    "--daemon": flag("run in the background"),
    "--print-unit": choice(("service", "socket"), "print a systemd unit file", nargs="?", const="service"),
    "--status": flag("show whether a server is running, and where"),
    "--reload": flag("reload settings and trust; idle sessions are restarted, busy ones once they are idle"),
    "--stop": flag("stop the server; turns are interrupted, and nothing is lost"),
    "--log:daemon": value("FILE", "log to a private, size-limited file instead of stderr"),
    "--idle-after": value(
        "SECONDS",
        "unload idle sessions without clients after this time (default: 300)",
        type=positive,
        default=300,
    ),
    "--mcp-workspace": value("DIR", "serve the tools of this workspace to MCP clients, at /mcp"),
    "--openai-workspace": value(
        "DIR", "where agents work for clients of the OpenAI API, at /v1/chat/completions"
    ),
    "--tls-cert": value("FILE", "use TLS for --web-socket, with this certificate chain (PEM)"),
    "--tls-key": value("FILE", "private key of the certificate"),
    "name": value("NAME", "name: letters, digits, ._-"),
    "--role": choice(
        ("viewer", "approver", "owner"),
        "viewer (default): watch; approver: also answer questions; owner: full access",
        "viewer",
    ),
    "--role:web": choice(
        ("viewer", "approver", "owner"),
        "owner (default): full access; approver: watch and answer questions; viewer: watch",
        "owner",
    ),
    "--ipc-socket:running": value("PATH", "Unix socket of a server that is running (default: yours)"),
    "--no-open": flag("print the link instead of opening the browser"),
    "--days": value("N", "days until it expires (default: never)", type=positive),
    "--token": value("TOKEN", "bearer token for a URL; ${VAR} and keyring:NAME are expanded"),
    "--header": make_repeatable("'NAME: VALUE'", "header for requests to the URL; ${VAR} is expanded"),
    "--header:webhook": make_repeatable("'NAME: VALUE'", "header for requests to the webhook"),
    "--scope:add": choice(SCOPES, "configuration file: user (default) or workspace", "user"),
    "--scope:remove": choice(SCOPES, "configuration file (default: the one that contains it)"),
    "--replace": flag("replace an existing entry of the same name"),
    "--revoke": flag("revoke the trust"),
    "--check": flag("connect to each one and report failures"),
    "arguments": value("JSON", "arguments as a JSON object; - reads stdin"),
    "tool": value("TOOL", "name of the tool"),
    "--timeout": value("S", "timeout of a call in seconds (default 60)", type=float),
    "--plugins": value("X,Y", "serve only the tools of these plugins"),
    "--plugins:registry": value("X,Y", "also serve the tools of these plugins, to clients with the token"),
    "--domains": value("A,B", "domains to serve: core, import paths of modules, .py files (default: core)"),
    "--allow-entry-point": make_repeatable(
        "PATTERN", "allow registered tools that call these functions, such as 'package.module:*'"
    ),
    "server": value("SERVER|URL", "name or URL of a server"),
    "server:name": value("NAME", "name of the server"),
    "server:new": value("NAME", "name for the server"),
    "--url": value("URL", "URL of a remote server"),
    "--sse": flag("use the older HTTP+SSE transport for the URL"),
    "--login": flag("log in where required, even without a terminal"),
    "--refresh": flag("fetch the list from the server even if it is cached"),
    "--env": make_repeatable("NAME=VALUE", "environment variable of the command; ${VAR} is expanded"),
    "--sandbox-profile": choice(
        ("read-only", "workspace-write", "full"),
        "sandbox of its process (default: workspace-write with one of the next two, else that of the scope)",
    ),
    "--allow-domain:mcp": make_repeatable(
        "HOST", "allow the sandbox to reach a host: pypi.org, *.npmjs.org, host:8443 (repeatable)"
    ),
    "--add-dir:mcp": make_repeatable(
        "DIR", "allow writing to a directory outside the workspace (repeatable)"
    ),
    "--cwd": value("DIR", "working directory of the command (default: the workspace)"),
    "program": {"default": ()},
    "--lines": value("N", "print the last N lines (default 50)", short="-n", type=positive, default=50),
    "--all-tools": flag("list all tools at once instead of a few and discovery"),
    "--tools": value("A,B", "serve only these tools"),
    "--registry:mcp": flag("serve what `jaato registry serve` does, and of the plugins only those named"),
    "--http": value("[HOST]:PORT", "serve at /mcp of this address (host: 127.0.0.1; port 0: any)"),
    "registry": value("NAME|URL", "name or URL of a registry"),
    "registry:name": value("NAME", "name of the registry"),
    "registry:new": value("NAME", "name for the registry"),
    "url": value("URL", "base URL, without /v1/tools"),
    "--prefix": value("TEXT", "prefix for the names of its tools"),
    "--stream": flag("print the tool's progress output on stderr"),
    "definition": value("FILE", "description, version and parameters, as JSON; - reads stdin"),
    "--webhook": value("URL", "URL that calls are posted to"),
    "--mcp": value("SERVER/TOOL", "tool of an MCP server of the registry that handles calls"),
    "--entry-point": value("MODULE:FUNCTION", "function at the registry that handles calls"),
    "--create": flag("fail if the tool exists"),
    "--if-match": value("ETAG", "fail unless the current ETag is this one"),
    "--version": value("VERSION", "only this version (default: all versions)"),
    "--host": value("HOST", "address to listen on (default: 127.0.0.1)"),
    "--port": value("PORT", "port to listen on (default: 8000; 0: any)", type=natural),
    "--token:serve": flag("require a token, which is always required beyond loopback"),
    "--log": value("FILE", "log to this file instead of stderr"),
    "--scope:key": value(
        "A,B",
        "tools:read, tools:invoke, tools:write (default: tools:read,tools:invoke)",
        default="tools:read,tools:invoke",
    ),
    "--tools:key": value("PATTERN,…", "tools it may use: weather_*,calc (default: all)"),
    "--expires": value("30d", "time until it expires: 30d, 12h (default: never)"),
    "--rate": value("100/min", "rate limit (default: tool_registry_rate)"),
    "--request": value("ID", "the call with this X-Request-Id"),
    "--trace:log": value("ID", "calls of this trace (traceparent)"),
    "--flow": value("ID", "calls of this flow"),
    "--tool": value("NAME", "calls of this tool"),
    "--key": value("NAME", "calls made with this key; `anyone` and `owner` are also names"),
    "--failed": flag("failed calls"),
    "--since": value("1h", "calls of the last 30min, 12h, 7d"),
    "--limit": value("N", "maximum number of calls (default 50)", type=positive, default=50),
    "--follow": flag("keep printing new calls"),
    "--json:lines": flag("print JSON lines"),
    "instruction": value("INSTRUCTION", "the instruction; piped input is appended; - reads only stdin"),
    "--registry": make_repeatable("URL|NAME", f"{A_REGISTRY} (default: all configured and trusted ones)"),
    "--max-steps": value("N", "maximum number of tool calls (default 8)", type=positive, default=8),
    "--trace": value("FILE", "write a trace to a new file"),
    "file": value("FILE", "a trace written by flow run --trace"),
}
TOKEN_ACTIONS = (
    Command("add", "create a token and print it", "name --role --days"),
    Command("list", "list tokens", "--json"),
    Command("remove", "remove a token", "name"),
)
MCP_ACTIONS = (
    Command("list", "list servers, their state and configuration errors", "--check --json --workspace"),
    Command(
        "add",
        "configure a server",
        "server:new --url --sse --header --env --sandbox-profile --allow-domain:mcp --add-dir:mcp --cwd --scope:add "
        "--replace --workspace",
        unused="program",
        help_usage="jaato mcp add NAME [options] -- COMMAND [ARGUMENT ...]\n       jaato mcp add NAME --url URL [options]",
    ),
    Command("remove", "remove a server from the configuration", "server:name --scope:remove --workspace"),
    Command(
        "tools",
        "list the tools of one or all servers, with their size in tokens",
        "[server] --refresh --header --sse --login --json --workspace",
    ),
    Command("call", "call a tool", "server tool [arguments] --header --sse --login --json --workspace"),
    Command("login", "log in to a server, in the browser", "server --workspace"),
    Command("logout", "remove the login of a server", "server --workspace"),
    Command("logs", "print the stderr output of a server", "server:name --lines --workspace"),
    Command(
        "trust",
        "review and accept a workspace's server, or changed tool definitions",
        "server --yes:no-question --revoke --workspace",
    ),
    Command(
        "serve",
        "serve the tools of this workspace to MCP clients, over stdio or HTTP",
        f"--workspace --all-tools --tools --plugins --registry:mcp --domains --allow-entry-point {SERVING} "
        "--http --allow-host --allow-origin",
        module="commands.mcp_serve",
    ),
)
KEY_ACTIONS = (
    Command("add", "create a key and print it", "name --scope:key --tools:key --expires --rate"),
    Command("list", "list keys", "--json"),
    Command("remove", "remove a key", "name"),
)
REGISTRY_ACTIONS = (
    Command(
        "list",
        "list registries and their state, or the tools of one",
        "[registry] --check --token --json --workspace",
    ),
    Command("get", "print the definition of a tool", "registry tool --token --workspace"),
    Command("invoke", "call a tool", "registry tool [arguments] --stream --token --json --workspace"),
    Command(
        "add",
        "configure a registry",
        "registry:new url --token --header --prefix --timeout --replace --scope:add --workspace",
    ),
    Command("remove", "remove a registry from the configuration", "registry:name --scope:remove --workspace"),
    Command(
        "trust",
        "review and accept a workspace's registry, or changed tool definitions",
        "registry:name --yes:no-question --revoke --workspace",
    ),
    Command(
        "put",
        "register a tool at a jaato registry, or replace it",
        "registry tool definition --webhook|--mcp|--entry-point --header:webhook --timeout --create --if-match --token --json "
        "--workspace",
    ),
    Command(
        "delete",
        "remove a registered tool from a registry",
        "registry tool --version --if-match --token --workspace",
    ),
    Command(
        "serve",
        "serve tools to other programs over HTTP",
        f"--workspace --domains --plugins:registry --allow-entry-point {SERVING} --host --port --token:serve --log "
        "--allow-host --allow-origin",
        module="commands.registry_server",
    ),
    Command(
        "key",
        "manage the access keys of the registry you serve",
        module="commands.registry_server",
        action="list",
        actions=KEY_ACTIONS,
        unused="--json",
    ),
    Command(
        "log",
        "show the call log of the registry you serve",
        "--workspace --request --trace:log --flow --tool --key --failed --since --limit --follow --json:lines",
        module="commands.registry_server",
    ),
)
FLOW_ACTIONS = (
    Command(
        "run",
        "carry out one instruction",
        f"[instruction...] --registry --token --max-steps --trace --json {MODEL} --workspace --name --yes --allow --deny",
        FLOW_RUN,
    ),
    Command(
        "replay",
        "replay a trace, and check that it matches the recording",
        "file --json",
        FLOW_REPLAY,
    ),
    Command("show", "print a trace in readable form", "file --full --json"),
)
COMMANDS = (
    Command(
        "serve",
        "start, inspect or stop the server that keeps sessions running",
        "--ipc-socket --web-socket --daemon|--print-unit|--status|--reload|--stop --log:daemon --idle-after "
        "--mcp-workspace --openai-workspace --allow-host --allow-origin --tls-cert --tls-key",
        SERVE,
    ),
    Command(
        "web",
        "open the page of the server in the browser",
        "--role:web --no-open --ipc-socket:running",
        WEB,
        module="clients.web",
    ),
    Command(
        "tokens",
        "manage the access tokens of the server",
        epilog=TOKENS,
        action="list",
        actions=TOKEN_ACTIONS,
        unused="--json",
    ),
    Command(
        "mcp",
        "configure, trust, list and use MCP servers",
        epilog=MCP,
        module="sources.mcp",
        actions=MCP_ACTIONS,
    ),
    Command(
        "acp",
        "serve an editor by the Agent Client Protocol, at the standard streams",
        f"{MODEL} --system-prompt --max-turns --budget {PERMISSIONS} --connect --token-file --no-daemon --login:acp",
        ACP,
        module="clients.acp",
        unused="--workspace --session --continue --name",
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
        "carry out an instruction with registry tools, step by step",
        epilog=FLOW,
        actions=FLOW_ACTIONS,
    ),
)
