"""Values with numbered sources, which are listed once below."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.quantities import format_quantity
from perfatlas.report.text import quantities
from perfatlas.report.text.breakdown import break_name
from perfatlas.report.text.rows import print_labelled
from perfatlas.report.text.terminal import print_line, print_plain, typeset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console

MAX_ITEMS: Final = 12  # length up to which a list of numbers is shown in full
MAX_BRIEF: Final = 72  # letters of a value in brief output
NOTHING: Final = frozenset({"0 s", "0 B", "no"})  # of parts that an entry does not have
GENERAL: Final = "general"  # group of values whose name has no prefix
SOURCES: Final = ("source", "sources")


class SourcedValue(NamedTuple):
    """A value: its name, text, kind of source, references and note."""

    field: str
    value: str
    kind: str = ""
    refs: tuple[str, ...] = ()
    note: str = ""


def print_sourced(console: Console, values: Sequence[SourcedValue]) -> None:
    """Write values as a table, then the numbered sources, then the notes."""
    from rich.table import Table

    refs = list(dict.fromkeys(ref for value in values for ref in value.refs))
    numbers = {ref: f"[{number}]" for number, ref in enumerate(refs, start=1)}
    has_kinds = any(value.kind for value in values)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("  field", no_wrap=True, header_style="dim")
    table.add_column("value", overflow="fold", header_style="dim")
    for name in ("kind", "source") if has_kinds else ("source",):
        table.add_column(name, no_wrap=True, style="dim", header_style="dim")
    for value in values:
        cells = [break_name(value.field, console.width // 2 - 4), value.value or quantities.MISSING]
        cells += [value.kind] if has_kinds else []
        table.add_row(*cells, "".join(numbers[ref] for ref in value.refs))
    print_plain(console, table)
    _print_list(console, "sources", [(numbers[ref], ref) for ref in refs])
    _print_list(console, "notes", [(value.field, value.note) for value in values if value.note])


def print_grouped(console: Console, values: Sequence[SourcedValue], *, levels: int = 1) -> None:
    """Write values without their sources: one line per group, then how many have which kind.

    Values longer than a line, and times and sizes of zero, are left to `print_sourced`.

    Args:
        levels: Words of a name that form its group: with 2, `device.memory.capacity` and
            `device.memory.bandwidth` share a line.
    """
    groups: dict[str, list[str]] = {}
    short = [
        value for value in values if len(value.value) <= MAX_BRIEF and value.value not in NOTHING
    ]
    heads = {value.field.partition(".")[0] for value in short if "." in value.field}
    for value in short:
        words = value.field.split(".")
        depth = min(levels, len(words) - 1)
        group = ".".join(words[:depth]) or (words[0] if words[0] in heads else GENERAL)
        name = ".".join(words[depth:]) if depth or group == GENERAL else ""
        groups.setdefault(group, []).append(f"{name} {typeset(value.value)}".lstrip())
    print_labelled(console, [(group, "; ".join(texts)) for group, texts in groups.items()])
    kinds = Counter(value.kind for value in values if value.kind)
    counts = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    console.print()
    if counts:
        print_line(console, f"values: {counts}", style="dim")
    shown = f"all {len(values)} values with their sources and notes"
    print_line(console, f"--verbose shows {shown}", style="dim")


def _print_list(console: Console, title: str, lines: Sequence[tuple[str, str]]) -> None:
    from rich.table import Table

    if not lines:
        return
    console.print()
    print_line(console, title, style="bold")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for label, text in lines:
        name = f"  {label}" if " " in label else break_name(label, console.width // 2 - 4)
        table.add_row(name, text)
    print_plain(console, table)


def system_values(facts: Mapping[str, Any]) -> list[SourcedValue]:
    """Return the values of a system.

    Args:
        facts: `results` of `catalog systems show`: values by field, with kind, ref and note.
    """
    return [
        SourcedValue(field, row["value"], row["kind"], (row["ref"],), row["note"])
        for field, row in facts["values"].items()
        if row["value"] or row["note"]
    ]


def profile_values(profile: Mapping[str, Any]) -> list[SourcedValue]:
    """Return the values of an engine profile; sizes use binary units where exact.

    Args:
        profile: `results` of `catalog engines show`.

    Example:
        >>> from perfatlas.report.text import profile_values
        >>> rules = {"max_bytes": 8388608.0, "formats": [], "source": "its manual"}
        >>> profile_values({"all_reduce": rules})
        [SourcedValue(field='all_reduce.max_bytes', value='8 MiB', kind='', refs=('its manual',), \
note='')]
    """
    borrows = bool(profile.get("borrowed"))
    left_out = (
        ("read_by",)
        if borrows
        else ("read_by", "borrowed_is_newer", "borrowed_gain", "vendor_gains")
    )
    return list(_flat({k: v for k, v in profile.items() if k not in left_out}, "", ()))


def print_readers(console: Console, read_by: Mapping[str, Sequence[str]]) -> None:
    """Write which fields of a profile each kind of prediction reads.

    Args:
        read_by: What reads each field, by its path.
    """
    readers = dict.fromkeys(reader for readers in read_by.values() for reader in readers)
    lines = [
        (reader, ", ".join(path for path, values in read_by.items() if reader in values))
        for reader in readers
    ]
    _print_list(console, "which predictions read which fields", lines)


def _flat(facts: Mapping[str, Any], path: str, refs: tuple[str, ...]) -> Iterator[SourcedValue]:
    """Yield the values of a nested mapping; `source` applies to its siblings."""
    own_refs = _refs(facts) or refs
    for name, value in facts.items():
        if name in SOURCES or name.endswith(("_source", "_sources")) or quantities.is_empty(value):
            continue
        field = f"{path}{name}"
        refs_of = (str(facts[f"{name}_source"]),) if facts.get(f"{name}_source") else own_refs
        if name == "format_aliases":
            for alias, meaning in value.items():
                where = f" on {', '.join(meaning['architectures'])}"
                text = meaning["value"] + (where if meaning["architectures"] else "")
                yield SourcedValue(f"{field}.{alias}", text, refs=(meaning["source"],))
        elif name == "norm_fusion_bytes":
            for device, limits in value.items():
                yield SourcedValue(
                    f"{field}.{device}",
                    ", ".join(
                        f"{quantities.format_exact_bytes(size)} at tp {tp}"
                        for tp, size in limits.items()
                    ),
                    refs=refs_of,
                )
        elif isinstance(value, dict):
            yield from _flat(value, f"{field}.", refs_of)
        elif isinstance(value, list) and isinstance(value[0], dict):
            for item in value:
                facts_of = {key: part for key, part in item.items() if key not in SOURCES}
                yield SourcedValue(
                    field, quantities.format_value(name, facts_of), refs=_refs(item) or refs_of
                )
        else:
            yield SourcedValue(field, _text(name, value), refs=refs_of)


def _refs(facts: Mapping[str, Any]) -> tuple[str, ...]:
    stated = facts.get("sources") or facts.get("source") or ()
    return (stated,) if isinstance(stated, str) else tuple(stated)


def _text(name: str, value: Any) -> str:  # noqa: ANN401 - a scalar or a list of them
    if isinstance(value, list) and len(value) > MAX_ITEMS:
        first = ", ".join(quantities.format_value(name, item) for item in value[:5])
        return f"{first} ... {quantities.format_value(name, value[-1])} ({len(value)} in all)"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return quantities.format_value(name, value)
    if name.endswith("_bytes"):
        return quantities.format_exact_bytes(value)
    unit = quantities.unit_of(name)
    return format_quantity(value, unit, digits=4) if unit else f"{value:,.6g}"
