"""Resources, prompts and completion."""

from __future__ import annotations

import json
import re

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tests.mcp_conformance.everything.asking import CONTEXT, Context, accepted, needs
from tests.mcp_conformance.everything.media import PICTURE

_TEMPLATE = "test://template/{id}/data"
_FILLED = re.compile(r"test://template/([A-Za-z0-9_-]{1,64})/data")
_PLACES = ("paris", "park", "party", "parma")

RESOURCES = [
    types.Resource(
        uri="test://static-text", name="words", description="Words that stay the same.", mime_type="text/plain"
    ),
    types.Resource(
        uri="test://static-binary", name="picture", description="A picture that stays the same.", mime_type="image/png"
    ),
    types.Resource(
        uri="test://watched-resource", name="watched", description="Somebody may watch this.", mime_type="text/plain"
    ),
]


async def list_resources(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=RESOURCES)


async def list_templates(
    ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(
        uri_template=_TEMPLATE, name="entry", description="One entry by its id.", mime_type="application/json"
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    contents: types.TextResourceContents | types.BlobResourceContents
    if uri == "test://static-binary":
        contents = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PICTURE)
    elif uri in ("test://static-text", "test://watched-resource"):
        contents = types.TextResourceContents(uri=uri, mime_type="text/plain", text="These words stay the same.")
    elif filled := _FILLED.fullmatch(uri):
        words = json.dumps({"id": filled[1], "templateTest": True, "data": f"What is known of {filled[1]}"})
        contents = types.TextResourceContents(uri=uri, mime_type="application/json", text=words)
    else:
        raise MCPError(types.INVALID_PARAMS, "There is no such resource.", {"uri": uri})
    return types.ReadResourceResult(contents=[contents])


async def subscribe(ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
    return types.EmptyResult()


async def unsubscribe(ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
    return types.EmptyResult()


def _argument(name: str) -> types.PromptArgument:
    return types.PromptArgument(name=name, description=f"What stands for {name}.", required=True)


PROMPTS = [
    types.Prompt(name="test_simple_prompt", description="Words alone."),
    types.Prompt(
        name="test_prompt_with_arguments",
        description="Words with two things in them.",
        arguments=[_argument("arg1"), _argument("arg2")],
    ),
    types.Prompt(
        name="test_prompt_with_embedded_resource",
        description="A resource and a question.",
        arguments=[_argument("resourceUri")],
    ),
    types.Prompt(name="test_prompt_with_image", description="A picture and a question."),
    types.Prompt(name="test_input_required_result_prompt", description="Needs to know what for."),
]


async def list_prompts(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=PROMPTS)


def _says(*contents: types.ContentBlock) -> types.GetPromptResult:
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content) for content in contents])


def _words(words: str) -> types.TextContent:
    return types.TextContent(type="text", text=words)


async def get_prompt(
    ctx: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            return _says(_words("Say something simple."))
        case "test_prompt_with_arguments":
            return _says(_words(f"arg1='{given.get('arg1')}' and arg2='{given.get('arg2')}'"))
        case "test_prompt_with_embedded_resource":
            uri = given.get("resourceUri", "test://static-text")
            contents = types.TextResourceContents(uri=uri, mime_type="text/plain", text="It is in the prompt.")
            return _says(types.EmbeddedResource(type="resource", resource=contents), _words("What does it say?"))
        case "test_prompt_with_image":
            return _says(types.ImageContent(type="image", data=PICTURE, mime_type="image/png"), _words("What is it?"))
        case "test_input_required_result_prompt":
            wanted = accepted(params, "user_context", "context")
            return needs({"user_context": CONTEXT}) if wanted is None else _says(_words(f"For: {wanted}"))
        case _:
            raise MCPError(types.INVALID_PARAMS, "There is no such prompt.")


async def complete(ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    fitting = [place for place in _PLACES if place.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=fitting, total=len(fitting), has_more=False))


async def set_level(ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
    return types.EmptyResult()
