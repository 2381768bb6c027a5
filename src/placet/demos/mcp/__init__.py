"""An upstream that pulls the rug: its tool is accepted and approved, and then it says something else.

courier     the supplier's MCP server, a process of its own that only the gateway starts; `releases` is what it says
project     the operator's folder and commands: `placet mcp accept`, `placet approvals approve`, ...
gateway     what an agent's client sees: `placet mcp serve` behind two pipes
story       chapter by chapter
program     `placet demo mcp`
"""
