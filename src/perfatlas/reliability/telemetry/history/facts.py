"""Facts about a history without fitting: counts, causes, machines, days.

Shape legend: E events.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import DAY_S
from perfatlas.reliability.telemetry.history.exposure import utc
from perfatlas.reliability.telemetry.history.history import FAILURE
from perfatlas.reliability.telemetry.history.xid_codes import xid_meaning

if TYPE_CHECKING:
    from perfatlas.reliability.telemetry.history.history import History

MAX_ROWS: Final = 20
MAX_DAYS: Final = 4000


def history_facts(history: History) -> dict[str, Any]:
    """Return the facts about a history, as plain data.

    Returns:
        events, failures, first and last (UTC), kinds, causes (component, cause, meaning, kind,
        events, nodes, mean_down_s, the most frequent failure first), nodes (the most failures
        first), days and failures_per_day.
    """
    kind, node = history.kind.text(), history.node.text()
    failed_E = history.kind.is_any([FAILURE])
    rows: dict[tuple[str, str, str], list[int]] = {}
    named = zip(history.component.text(), history.cause.text(), kind, strict=True)
    for event, key in enumerate(named):
        rows.setdefault(key, []).append(event)
    down_E = history.recovered_s_E - history.start_s_E
    causes: list[dict[str, Any]] = []
    for (component, cause, what), events in rows.items():
        column = down_E[events][np.isfinite(down_E[events])]
        causes.append(
            {
                "component": component,
                "cause": cause,
                "meaning": xid_meaning(cause),
                "kind": what,
                "events": len(events),
                "nodes": len({node[event] for event in events if node[event]}),
                "mean_down_s": float(column.mean()) if column.size else None,
            }
        )
    causes.sort(key=lambda row: (row["kind"] != FAILURE, -row["events"], row["cause"]))
    failing = Counter(node[event] for event in np.flatnonzero(failed_E).tolist() if node[event])
    day_E = (history.start_s_E[failed_E] // DAY_S).astype(np.int64)
    days: list[str] = []
    per_day = np.zeros(0, np.int64)  # days without failures are included
    if day_E.size and day_E[-1] - day_E[0] <= MAX_DAYS:
        per_day = np.bincount(day_E - day_E[0])
        days = [utc(float(day_E[0] + n) * DAY_S)[:10] for n in range(per_day.size)]
    return {
        "events": history.size,
        "failures": int(failed_E.sum()),
        "first": utc(float(history.start_s_E[0])) if history.size else None,
        "last": utc(float(history.start_s_E[-1])) if history.size else None,
        "kinds": dict(Counter(kind)),
        "causes": causes,
        "nodes": [{"node": name, "failures": n} for name, n in failing.most_common(MAX_ROWS)],
        "days": days,
        "failures_per_day": per_day.tolist(),
    }
