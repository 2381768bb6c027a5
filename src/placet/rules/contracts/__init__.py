"""What a tool promises, and how arguments and results are held against it.

a typed function ── deriving ── Tool: Contract, ArgumentsCheck, ResultCheck, the one handler
"""

from placet.rules.contracts.deriving import WideInt, tool
from placet.rules.contracts.digest import contract_digest
from placet.rules.contracts.importing import tool_from_schema
from placet.rules.contracts.limits import MAX_RESULT_BYTES
from placet.rules.contracts.names import GENERIC_FIELDS, GENERIC_NAME_PARTS, SERVER_NAMES
from placet.rules.contracts.tools import Handler, Precondition, Probe, Tool

__all__ = [
    "GENERIC_FIELDS",
    "GENERIC_NAME_PARTS",
    "MAX_RESULT_BYTES",
    "SERVER_NAMES",
    "Handler",
    "Precondition",
    "Probe",
    "Tool",
    "WideInt",
    "contract_digest",
    "tool",
    "tool_from_schema",
]
