"""The tools: each a name, a schema and what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
from mcp.server.subscriptions import InMemorySubscriptionBus, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

from tests.mcp_conformance.everything import asking
from tests.mcp_conformance.everything.asking import Answer, Context, text
from tests.mcp_conformance.everything.media import PICTURE, SOUND

Handler = Callable[[Context, types.CallToolRequestParams], Awaitable[Answer]]

BUS = InMemorySubscriptionBus()
PAUSE_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    name: str
    description: str
    handler: Handler
    properties: dict[str, Any] = field(default_factory=dict)
    has_read_only_hint: bool = True

    def listed(self) -> types.Tool:
        schema = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": self.properties,
            "required": list(self.properties),
            "additionalProperties": False,
        }
        hints = types.ToolAnnotations(read_only_hint=self.has_read_only_hint, open_world_hint=False)
        return types.Tool(name=self.name, description=self.description, input_schema=schema, annotations=hints)


def _picture() -> types.ImageContent:
    return types.ImageContent(type="image", data=PICTURE, mime_type="image/png")


def _embedded(uri: str, mime_type: str, words: str) -> types.EmbeddedResource:
    contents = types.TextResourceContents(uri=uri, mime_type=mime_type, text=words)
    return types.EmbeddedResource(type="resource", resource=contents)


async def _words(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    return text("Words, and nothing else.")


async def _image(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    return types.CallToolResult(content=[_picture()])


async def _audio(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    return types.CallToolResult(content=[types.AudioContent(type="audio", data=SOUND, mime_type="audio/wav")])


async def _resource(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    return types.CallToolResult(content=[_embedded("test://embedded-resource", "text/plain", "It is in the answer.")])


async def _mixed(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    said = types.TextContent(type="text", text="Three kinds:")
    table = _embedded("test://mixed-content-resource", "application/json", '{"answer":42}')
    return types.CallToolResult(content=[said, _picture(), table])


async def _error(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    said = types.TextContent(type="text", text="It never works, on purpose.")
    return types.CallToolResult(content=[said], is_error=True)


async def _logging(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    for words in ("It begins.", "It goes on.", "It ends."):
        await ctx.session.send_log_message("info", words, "everything", related_request_id=ctx.request_id)
        await anyio.sleep(PAUSE_SECONDS)
    return text("It was said three times.")


async def _progress(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100, f"{done} of 100")
        await anyio.sleep(PAUSE_SECONDS)
    return text("All done.")


async def _tools_change(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    await BUS.publish(ToolsListChanged())
    return text("Said so.")


async def _prompts_change(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    await BUS.publish(PromptsListChanged())
    return text("Said so.")


_STRING = {"type": "string", "maxLength": 400}
_ASKS = "test_input_required_result_"

ENTRIES = (
    Entry(name="test_simple_text", description="Answers in words.", handler=_words),
    Entry(name="test_image_content", description="Answers with a picture.", handler=_image),
    Entry(name="test_audio_content", description="Answers with a sound.", handler=_audio),
    Entry(name="test_embedded_resource", description="Answers with a resource inside.", handler=_resource),
    Entry(name="test_multiple_content_types", description="Answers in three kinds.", handler=_mixed),
    Entry(name="test_error_handling", description="Always fails.", handler=_error),
    Entry(name="test_tool_with_logging", description="Says what it does.", handler=_logging),
    Entry(name="test_logging_tool", description="Says what it does to who wants to hear it.", handler=_logging),
    Entry(name="test_tool_with_progress", description="Says how far it is.", handler=_progress),
    Entry(
        name="test_sampling",
        description="Asks the client's model.",
        handler=asking.sampling,
        properties={"prompt": _STRING},
    ),
    Entry(
        name="test_elicitation",
        description="Asks the client's user.",
        handler=asking.elicitation,
        properties={"message": _STRING},
    ),
    Entry(name="test_elicitation_sep1034_defaults", description="Asks with defaults.", handler=asking.defaults),
    Entry(name="test_elicitation_sep1330_enums", description="Asks for choices.", handler=asking.choices),
    Entry(name=_ASKS + "elicitation", description="Needs a name.", handler=asking.greet),
    Entry(name=_ASKS + "sampling", description="Needs a model.", handler=asking.capital),
    Entry(name=_ASKS + "list_roots", description="Needs to know the roots.", handler=asking.roots),
    Entry(name=_ASKS + "request_state", description="Remembers what it asked.", handler=asking.stateful),
    Entry(name=_ASKS + "tampered_state", description="Remembers what it asked.", handler=asking.stateful),
    Entry(name=_ASKS + "multiple_inputs", description="Needs three things.", handler=asking.everything_at_once),
    Entry(name=_ASKS + "multi_round", description="Asks twice.", handler=asking.rounds),
    Entry(name=_ASKS + "capabilities", description="Asks what can be answered.", handler=asking.what_the_client_can),
    Entry(name="test_missing_capability", description="Needs sampling.", handler=asking.only_with_sampling),
    Entry(name="test_streaming_elicitation", description="Asks on the way.", handler=asking.on_a_stream),
    Entry(name="test_trigger_tool_change", description="Says that tools changed.", handler=_tools_change),
    Entry(name="test_trigger_prompt_change", description="Says that prompts changed.", handler=_prompts_change),
)
BY_NAME = {entry.name: entry for entry in ENTRIES}


async def list_tools(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[entry.listed() for entry in ENTRIES])


async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    entry = BY_NAME.get(params.name)
    if entry is None:
        raise MCPError(types.INVALID_PARAMS, "There is no such tool.")
    return await entry.handler(ctx, params)
