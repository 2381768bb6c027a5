"""`python -m placet.demos.mcp` is `placet demo mcp`."""

import sys

from placet.demos.mcp.program import main

sys.exit(main())
