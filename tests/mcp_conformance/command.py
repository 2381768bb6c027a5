"""What the suite starts for each scenario: hands it over to `driving`, and ends as that says. Loads next to nothing.

python -I -S command.py SOCKET SERVER_URL
"""

import json
import os
import socket
import sys

if __name__ == "__main__":
    place, url = sys.argv[1], sys.argv[2]
    handed = {
        "scenario": os.environ["MCP_CONFORMANCE_SCENARIO"],
        "context": json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")),
        "url": url,
    }
    with socket.socket(socket.AF_UNIX) as driver:
        driver.connect(place)
        driver.sendall(json.dumps(handed).encode() + b"\n")
        words = json.loads(driver.makefile().readline())
    if words:
        sys.exit(words)
