"""Says where a fault of our own happened, without its text, which may hold anything; and of a store's, what to do."""

from __future__ import annotations

from typing import Any

from placet.errors import StoreError
from placet.rules.foreign import UNTRUSTED_EXCEPTION, safe_exception_name


def told(fault: BaseException) -> dict[str, Any]:
    """For a log record: the fault's safe name and the places it went through, outermost first."""
    places: list[str] = []
    trace = fault.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return {"error_type": safe_exception_name(type(fault)), "places": places[-16:]}


def told_of_round(fault: BaseException) -> dict[str, Any]:
    """As `told`; with code and next step where it is the fault of a store, whose words are ours to the letter."""
    name = safe_exception_name(type(fault))
    if name == UNTRUSTED_EXCEPTION or not isinstance(fault, StoreError):
        return told(fault)
    return {**told(fault), "code": fault.code, "hint": fault.hint}
