"""The HTTP API: proposals, approvals, effects, tools, audit and stops of one gate. It has no rules of its own.

app          the application, put together
door         what requests share, and who stands there
guard        around every request: ids, headers, numbers, faults
bodies       bodies, bounded and decoded strictly
outcomes     which outcome is which status
problems     everything else that goes wrong
streams      answers that come piece by piece
lookout      one look at what waits, for everybody who watches
proposals … operations    the addresses
"""

from placet.http_api.app import create_app
from placet.http_api.settings import HttpSettings

__all__ = ["HttpSettings", "create_app"]
