"""What a change of a question changed of its answer, in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.text import format_value, label_of, shown_metrics, spelled_out

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Values = Mapping[str, str]
    Answer = Mapping[str, Any]

METRICS_TOLD: Final = 3
FIELDS_TOLD: Final = 3
SAME_SHARE: Final = 0.005  # smaller changes of a share are left out
SAME_METRIC: Final = 5e-4


def change_text(
    before: tuple[Values, Answer], after: tuple[Values, Answer], catalog: Values
) -> str:
    """Return what differs between two questions, and what that did; "" if nothing differs.

    Args:
        before: Values by field, and the object of --json.
        after: The same of the later question.
        catalog: Values of the system in the catalog, by field.
    """
    fields = list(_changed_fields(before[0], after[0], catalog))
    if not fields:
        return ""
    more = len(fields) - FIELDS_TOLD
    head = ", ".join(fields[:FIELDS_TOLD]) + (f" and {more} more" if more > 0 else "")
    told = list(_changed_metrics(before[1]["results"], after[1]["results"]))
    bounds = list(_changed_bounds(before[1]["breakdown"], after[1]["breakdown"]))
    return f"{head}: {', '.join([*told, *bounds]) or 'no change'}"


def _changed_fields(before: Values, after: Values, catalog: Values) -> Iterator[str]:
    """Yield the fields that differ with both values; overrides of systems one by one."""
    old, new = _apart(before), _apart(after)
    for name in dict.fromkeys((*old, *new)):
        default = catalog.get(name, "default")
        was, now = old.get(name, default), new.get(name, default)
        if was != now:
            words = name.removeprefix("device.").removeprefix("node.").replace(".", " ")
            yield f"{spelled_out(words)} {was} → {now}"


def _apart(values: Values) -> dict[str, str]:
    """Return values by field, with overrides of a system apart."""
    found: dict[str, str] = {}
    for name, text in values.items():
        head, _, inside = text.partition("{")
        found[name] = head.strip()
        for part in inside.removesuffix("}").split(",") if inside else ():
            path, _, value = part.partition("=")
            found[path.strip()] = value.strip()
    return found


def _changed_metrics(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield the first metrics that differ, with their change."""
    for name in shown_metrics(after)[:METRICS_TOLD]:
        was, now = before.get(name), after[name]
        if was and abs(now / was - 1.0) > SAME_METRIC:
            texts = " → ".join(format_value(name, value) for value in (was, now))
            yield f"{label_of(name, short=True)} {texts} ({now / was - 1.0:+.0%})"


def _changed_bounds(before: list[Any], after: list[Any]) -> Iterator[str]:
    """Yield the bounds whose share of the last phase changed most."""
    was, now = bound_shares(before), bound_shares(after)
    changes = {name: now.get(name, 0.0) - was.get(name, 0.0) for name in {*was, *now}}
    name = max(changes, key=lambda one: (abs(changes[one]), one), default="")
    if name and abs(changes[name]) > SAME_SHARE:
        yield f"{name} bound {was.get(name, 0.0):.0%} → {now.get(name, 0.0):.0%}"


def bound_shares(rows: list[Any]) -> dict[str, float]:
    """Return the share of the time of the last phase by bound; empty without bounds."""
    timed = [row for row in rows if row.get("bound") and row.get("time_s")]
    last = [row for row in timed if row.get("phase") == timed[-1].get("phase")]
    total = sum(row["time_s"] for row in last)
    shares: dict[str, float] = {}
    for row in last:
        shares[row["bound"]] = shares.get(row["bound"], 0.0) + row["time_s"] / total
    return shares
