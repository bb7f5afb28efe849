"""NVIDIA Xid codes: component, kind of event and possible causes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from perfatlas.files import shipped_table
from perfatlas.reliability.telemetry.history.history import UNCLEAR

_NAMED: Final = re.compile(r"(?<!s)xid_([0-9]{1,9})$")


@dataclass(frozen=True, kw_only=True)
class XidCode:
    """One code."""

    xid: int  # Number
    title: str  # Description, "" for a code that is not in the table
    component: str  # Affected component
    kind: str  # Kind of event, one of `history.KINDS`
    # Possible causes in NVIDIA's table: hw_error, driver_error, user_app_error,
    # system_memory_corruption, bus_error, thermal_issue, fb_corruption. Most codes have several, as
    # a code is a symptom. Empty where none are stated.
    causes: frozenset[str]
    # Immediate action that NVIDIA's catalogue documents, "" for a code not in the table
    bucket: str = ""
    action: str = ""  # Action that ends it, one of `history.ACTIONS`; "" for none

    @property
    def cause(self) -> str:
        """Name of the code in a history."""
        return f"xid_{self.xid}"


def xid_code(xid: int) -> XidCode:
    """Return a code of the table; unknown codes are unclear events of the GPU.

    Source: data/telemetry/xid_codes.toml.

    Example:
        >>> from perfatlas.reliability.telemetry.history import xid_code
        >>> xid_code(79).title, sorted(xid_code(48).causes)
        ('fallen off the bus', ['hw_error'])
    """
    entry = _codes().get(xid)
    if entry is not None:
        return entry
    return XidCode(xid=xid, title="", component="gpu", kind=UNCLEAR, causes=frozenset())


@cache
def _codes() -> dict[int, XidCode]:
    rows = shipped_table("data/telemetry/xid_codes.toml")["code"]
    return {row["xid"]: XidCode(**(row | {"causes": frozenset(row["causes"])})) for row in rows}


def xid_meaning(cause: str) -> str:
    """Return the description of a cause, "" where it is not an Xid or has no title.

    Args:
        cause: Such as xid_79, or gpu_xid_79 with its component.

    Example:
        >>> from perfatlas.reliability.telemetry.history import xid_meaning
        >>> xid_meaning("node_fail"), xid_meaning("gpu_xid_79") != ""
        ('', True)
    """
    match = _NAMED.search(cause)
    return xid_code(int(match[1])).title if match else ""
