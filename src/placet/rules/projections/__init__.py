"""What each provider is told of a tool, made from its contract: strict where the provider can be held to it.

A hint may be weaker than the contract, never stronger, and it decides nothing.
"""

from placet.rules.projections.mcp import mcp_tool
from placet.rules.projections.providers import anthropic_tool, anthropic_tools, openai_responses_tool, openai_tool

__all__ = ["anthropic_tool", "anthropic_tools", "mcp_tool", "openai_responses_tool", "openai_tool"]
