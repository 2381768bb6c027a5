"""`placet mcp`: MCP in front of this project's gate, and behind it."""

from __future__ import annotations

from placet.cli.commands.mcp_add import add
from placet.cli.commands.mcp_login import login
from placet.cli.commands.mcp_pins import accept, diff, list_tools, quarantine
from placet.cli.commands.mcp_serve import serve
from placet.cli.session import epilog, new_app, with_list_session, with_session

app = new_app("mcp")
app.command("serve", epilog=epilog())(with_session(serve))
app.command("add", epilog=epilog())(with_session(add))
app.command("list", epilog=epilog())(with_list_session(list_tools))
app.command("diff", epilog=epilog())(with_session(diff))
app.command("accept", epilog=epilog())(with_session(accept))
app.command("quarantine", epilog=epilog())(with_session(quarantine))
app.command("login", epilog=epilog())(with_session(login))
