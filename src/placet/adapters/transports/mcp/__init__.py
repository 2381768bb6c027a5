"""MCP servers below: their sessions, and the calls that are carried over them. It discovers, and carries; nothing else.

Source: DESIGN section 17; REQUIREMENTS B183 to B186; ADR 0046.
"""
