"""What a user does in each scenario of the conformance suite, as commands of `jaato mcp`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tests.mcp.zygote import Done

METADATA_URL = "https://conformance-test.local/client-metadata.json"


class Runner(Protocol):
    """Runs `jaato mcp` on a machine of its own."""

    log: list[str]

    def configure(self, entry: dict[str, Any]) -> None: ...
    def run(self, *args: str, stdin: str = "") -> Done: ...


def play(asked: dict[str, Any], runner: Runner) -> tuple[int, str]:
    """Play one scenario; gives the exit code of the last command that failed, and all that was said."""
    scenario, context = asked["scenario"], asked["context"]
    entry: dict[str, Any] = {"type": "http", "url": asked["url"], "call_timeout_s": 60, "start_timeout_s": 60}
    if scenario.startswith("auth/"):
        entry["oauth"] = login_options(scenario, context)
    runner.configure(entry)
    codes = [
        runner.run(*args, stdin=stdin).code
        for args, stdin in commands(scenario, context, asked["url"], runner)
    ]
    return max(codes), "\n".join(runner.log) + "\n"


def login_options(scenario: str, context: dict[str, Any]) -> dict[str, Any]:
    """What the configuration says about logging in."""
    options: dict[str, Any] = {}
    if "client_id" in context:
        options["client_id"] = context["client_id"]
        options["client_secret"] = context.get("client_secret")
        options["issuer"] = context.get("issuer")
        options["private_key"] = context.get("private_key_pem")
        options["signing_algorithm"] = context.get("signing_algorithm")
    if scenario.startswith("auth/client-credentials"):
        options["grant"] = "client_credentials"
    if scenario == "auth/basic-cimd":
        options["client_metadata_url"] = METADATA_URL
    return {name: value for name, value in options.items() if value is not None}


def commands(
    scenario: str, context: dict[str, Any], url: str, runner: Runner
) -> list[tuple[tuple[str, ...], str]]:
    """The commands of a scenario, each with what is typed into it."""
    calls = [call(one["name"], given(one.get("arguments", {}))) for one in context.get("toolCalls", [])]
    match scenario:
        case "initialize":
            return [(("tools", url), "")]
        case "tools_call":
            return [(("call", url, "add_numbers", '{"a": 5, "b": 3}'), "")]
        case "elicitation-sep1034-client-defaults":
            return [call("test_client_elicitation_defaults", stdin="\n" * 20)]
        case "sse-retry":
            return [call("test_reconnection")]
        case "sep-2322-client-request-state":
            names = (
                "test_mrtr_echo_state",
                "test_mrtr_no_state",
                "test_mrtr_unrelated",
                "test_mrtr_no_result_type",
            )
            return [call(name, stdin="yes\n" * 20) for name in names]
        case "http-standard-headers":
            return [call("test_headers"), *calls]
        case "http-invalid-tool-headers":
            return [call(name, {"region": "x"}) for name in listed(runner)]
        case "json-schema-2020-12-preservation":
            schema = listed(runner)["json_schema_2020_12_tool"]
            return [call("json_schema_echo", {"schema": schema})]
    if scenario.startswith("auth/"):
        return [(("tools", "it", "--login"), ""), call("test-tool", more=("--login",))]
    return calls or [(("tools", "it"), "")]


def given(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments as a person gives them: what has no value is left out, since null fits no schema of the suite."""
    return {name: value for name, value in arguments.items() if value is not None}


def call(
    name: str, arguments: dict[str, Any] | None = None, *, stdin: str = "", more: tuple[str, ...] = ()
) -> tuple[tuple[str, ...], str]:
    """The command that calls a tool."""
    return ("call", "it", name, json.dumps(arguments or {}), *more), stdin


def listed(runner: Runner) -> dict[str, Any]:
    """The schemas of the server's tools, by name."""
    tools = json.loads(runner.run("tools", "it", "--json").out or "[]")
    return {tool["name"]: tool["parameters"] for tool in tools}
