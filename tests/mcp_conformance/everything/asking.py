"""Tools and a prompt that need to know something first, each in the way the connection's revision has for it.

Since 2026-07-28 the answer says what is missing, and the client comes back with it; before, the client is asked while
the call waits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Context = ServerRequestContext[Any, Any]
Answer = types.CallToolResult | types.InputRequiredResult


def text(words: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)])


def form(message: str, properties: Mapping[str, Any], *, required: tuple[str, ...] = ()) -> types.ElicitRequest:
    schema = {"type": "object", "properties": dict(properties), "required": list(required)}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(prompt: str, *, max_tokens: int) -> types.CreateMessageRequest:
    said = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[said], max_tokens=max_tokens))


ROOTS = types.ListRootsRequest()
NAME = form("Who is asking?", {"name": {"type": "string"}}, required=("name",))
COLOUR = form("Which colour is it to be?", {"color": {"type": "string"}}, required=("color",))
CONSENT = form("Is it to go on?", {"ok": {"type": "boolean"}}, required=("ok",))
CONTEXT = form("What is the prompt for?", {"context": {"type": "string"}}, required=("context",))
REPORT = form("What is to be reported?", {"title": {"type": "string"}})


def is_modern(ctx: Context) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def needs(requests: dict[str, Any], *, state: str | None = None) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests, request_state=state)


def accepted(params: types.InputResponseRequestParams, key: str, member: str) -> Any:
    """What a form was answered with; None if it was not, or with something else."""
    response = (params.input_responses or {}).get(key)
    if isinstance(response, types.ElicitResult) and response.action == "accept":
        return (response.content or {}).get(member)
    return None


def answered(params: types.InputResponseRequestParams, key: str, kind: type[Any]) -> Any:
    response = (params.input_responses or {}).get(key)
    return response if isinstance(response, kind) else None


def said(result: types.ElicitResult) -> str:
    return f"action={result.action}, content={json.dumps(result.content or {}, sort_keys=True)}"


async def elicited(ctx: Context, params: types.CallToolRequestParams, request: types.ElicitRequest) -> Any:
    """The client's answer to one form, or what it has to be told so that it answers."""
    if is_modern(ctx):
        return answered(params, "form", types.ElicitResult) or needs({"form": request})
    asked = request.params
    assert isinstance(asked, types.ElicitRequestFormParams)
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        raise MCPError(types.INVALID_REQUEST, "This client takes no forms.")
    return await ctx.session.elicit_form(asked.message, asked.requested_schema, ctx.request_id)


# ------------------------------------------------------------ in both eras


async def elicitation(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    fields = {
        "username": {"type": "string", "description": "How to call you."},
        "email": {"type": "string", "description": "Where to write to."},
    }
    request = form((params.arguments or {})["message"], fields, required=("username", "email"))
    result = await elicited(ctx, params, request)
    return result if isinstance(result, types.InputRequiredResult) else text(f"They said: {said(result)}")


DEFAULTS = form(
    "Change what does not fit.",
    {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
)


def _titled(prefix: str, word: str) -> list[dict[str, str]]:
    return [
        {"const": f"{prefix}{number}", "title": f"{order} {word}"}
        for number, order in ((1, "First"), (2, "Second"), (3, "Third"))
    ]


OPTIONS = ["option1", "option2", "option3"]
CHOICES = form(
    "Choose.",
    {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {"type": "string", "oneOf": _titled("value", "Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": _titled("value", "Choice")}},
    },
)


async def defaults(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    result = await elicited(ctx, params, DEFAULTS)
    return result if isinstance(result, types.InputRequiredResult) else text(f"They chose: {said(result)}")


async def choices(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    result = await elicited(ctx, params, CHOICES)
    return result if isinstance(result, types.InputRequiredResult) else text(f"They chose: {said(result)}")


async def sampling(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    request = sample((params.arguments or {})["prompt"], max_tokens=100)
    if is_modern(ctx):
        result = answered(params, "model", types.CreateMessageResult)
        if result is None:
            return needs({"model": request})
    else:
        result = await ctx.session.create_message(
            request.params.messages, max_tokens=100, related_request_id=ctx.request_id
        )
    words = result.content.text if isinstance(result.content, types.TextContent) else "something else than words"
    return text(f"The model said: {words}")


# ------------------------------------------------------------ since 2026-07-28


async def greet(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    name = accepted(params, "user_name", "name")
    return needs({"user_name": NAME}) if not isinstance(name, str) else text(f"Good day, {name}!")


async def capital(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    result = answered(params, "capital_question", types.CreateMessageResult)
    if result is None:
        return needs({"capital_question": sample("Which city is the capital of France?", max_tokens=100)})
    return text(f"The model said: {getattr(result.content, 'text', '')}")


async def roots(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    result = answered(params, "client_roots", types.ListRootsResult)
    if result is None:
        return needs({"client_roots": ROOTS})
    return text("Roots: " + ", ".join(str(root.uri) for root in result.roots))


async def stateful(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    if params.request_state == "waits-for-consent" and accepted(params, "confirm", "ok") is not None:
        return text("state-ok")
    return needs({"confirm": CONSENT}, state="waits-for-consent")


async def everything_at_once(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    name = accepted(params, "user_name", "name")
    greeting = answered(params, "greeting", types.CreateMessageResult)
    listed = answered(params, "client_roots", types.ListRootsResult)
    if params.request_state != "waits-for-three" or name is None or greeting is None or listed is None:
        requests = {"user_name": NAME, "greeting": sample("Greet them.", max_tokens=50), "client_roots": ROOTS}
        return needs(requests, state="waits-for-three")
    return text(f"{name}, {getattr(greeting.content, 'text', '')}, {len(listed.roots)} roots")


async def rounds(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    state = json.loads(params.request_state) if params.request_state else {}
    if (name := state.get("name")) is not None and (colour := accepted(params, "step2", "color")) is not None:
        return text(f"{name} likes {colour}.")
    if (name := accepted(params, "step1", "name")) is not None and state.get("round") == 1:
        return needs({"step2": COLOUR}, state=json.dumps({"round": 2, "name": name}))
    return needs({"step1": NAME}, state=json.dumps({"round": 1}))


async def what_the_client_can(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    """Asks for nothing that the client did not declare."""
    if params.input_responses:
        return text("That is all.")
    capabilities = ctx.session.client_capabilities or types.ClientCapabilities()
    requests: dict[str, Any] = {}
    if capabilities.sampling is not None:
        requests["thought"] = sample("Say something.", max_tokens=20)
    if capabilities.elicitation is not None:
        requests["user_name"] = NAME
    if capabilities.roots is not None:
        requests["client_roots"] = ROOTS
    return needs(requests) if requests else text("There is nobody to ask.")


async def only_with_sampling(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        missing = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "This needs a model of the client's.", missing)
    return text("There is a model to ask.")


async def on_a_stream(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    await ctx.session.report_progress(1, 2, "About to ask.")
    title = accepted(params, "report", "title")
    return needs({"report": REPORT}) if title is None else text(f"Reported: {title}")
