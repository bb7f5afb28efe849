"""Tables and lists of facts: catalogs, calibrations, validations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.text.quantities import format_number, format_value, is_empty
from perfatlas.report.text.terminal import print_line, print_plain
from perfatlas.vocabulary.metrics import find_metric

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from rich.console import Console

    Row = Mapping[str, Any]
    Column = str | Callable[[Row], str]

UNFOLDED_LENGTH: Final = 12  # length up to which text is never folded
FOLDED: Final = 16  # minimum width of folded text
FOLDED_TEXT: Final = 24  # width to which a text folds before an optional column is left out
GAP: Final = 2
BREAK: Final = re.compile(r"(?=\{)|(?<=,)")


def label_of(name: str, *, short: bool = False, item: str = "") -> str:
    """Return the label of a metric, or another name as words.

    Args:
        name: A key of `results`, or a field related to one.
        short: Whether to use the label for narrow terminals.
        item: What the items of a pass are, such as images.

    Example:
        >>> from perfatlas.report.text import label_of
        >>> label_of("throughput_per_s", item="image")
        'images/s'
        >>> label_of("bus_bandwidth_bytes_per_s"), label_of("tpot_s")
        ('bus bandwidth', 'time per output token (TPOT)')
    """
    metric = find_metric(name)
    if metric is not None:
        label = metric.short_label if short else metric.label
        return label.replace("item", item) if item else label
    return spelled_out(name)


def point_details(row: Mapping[str, Any], plan: str, names: Sequence[str]) -> str:
    """Return the plan of a point of a frontier and the metrics that it has, in a line.

    Example:
        >>> from perfatlas.report.text import point_details
        >>> point_details({"batch": 8, "ttft_s": 0.1}, "tp 2", ("batch", "ttft_s", "tpot_s"))
        'tp 2, batch 8, TTFT 100 ms'
    """
    present = [name for name in names if row.get(name) is not None]
    metrics = [f"{label_of(name, short=True)} {format_value(name, row[name])}" for name in present]
    return ", ".join([plan, *metrics])


def item_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the item of a pass that all rows have, such as image, or "".

    Example:
        >>> from perfatlas.report.text import item_of
        >>> item_of([{"item": "image"}, {"item": "image"}]), item_of([{"item": "image"}, {}])
        ('image', '')
    """
    items = {str(row.get("item", "")) for row in rows if not row.get("error")}
    return items.pop() if len(items) == 1 else ""


def spelled_out(name: str) -> str:
    """Return a name as words, without its unit.

    Args:
        name: A key of a catalog, validation or calibration.

    Example:
        >>> from perfatlas.report.text.rows import spelled_out
        >>> spelled_out("link_bytes_per_s"), spelled_out("hidden_size")
        ('link', 'hidden size')
    """
    for suffix in ("_bytes_per_s", "_flop_per_s", "_s", "_w", "_j", "_hz"):
        if name.endswith(suffix):
            return name.removesuffix(suffix).replace("_", " ")
    return name.replace("_", " ")


def print_labelled(console: Console, lines: Sequence[tuple[str, str]]) -> None:
    """Write lines with a label and a text that wraps beside it.

    Args:
        lines: (label, text).
    """
    from rich.table import Table

    if not lines:
        return
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for label, text in lines:
        table.add_row(f"  {label}", text)
    print_plain(console, table)


def print_more(console: Console, omitted: int) -> None:
    """Write how many rows a brief answer leaves out, if any."""
    if omitted > 0:
        print_line(console, f"{omitted:,} more, shown by --verbose", style="dim")


def print_aligned(
    console: Console, rows: Sequence[Sequence[str]], heads: Sequence[str] = ()
) -> None:
    """Write rows of a label and values, never folded; values are aligned to the right.

    Args:
        rows: Label and values of each row.
        heads: Titles of the values, if they have any.
    """
    from rich.text import Text

    names = max(len(row[0]) for row in rows)
    cells = max(len(cell) for row in (("", *heads), *rows) for cell in row[1:])
    text = Text()
    if heads:
        text.append(f"  {' ' * names}{''.join(f'   {head:>{cells}}' for head in heads)}\n", "dim")
    for label, *values in rows:
        text.append(f"  {label:<{names}}")
        text.append("".join(f"   {cell:>{cells}}" for cell in values) + "\n", "bold")
    text.rstrip()
    print_plain(console, text, wrap=False)


def print_rows(
    console: Console,
    rows: Sequence[Mapping[str, Any]],
    *,
    columns: Mapping[str, str] | None = None,
    title: str = "",
    texts: Collection[str] | None = None,
) -> None:
    """Write uniform rows as a table: a catalog, a validation, a calibration.

    Args:
        rows: Mappings; the keys of the first are the columns.
        columns: Keys to show and their titles; all by default.
        texts: Keys of texts, others are aligned to the right; by default what is not a number.
    """
    from rich.table import Table

    if not rows:
        return
    if title:
        print_line(console, title, style="bold")
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), show_edge=False)
    titles = columns or {name: spelled_out(name) for name in rows[0]}
    if texts is None:
        number = int, float, type(None)
        texts = [n for n in titles if not all(isinstance(row.get(n), number) for row in rows)]
    longest = {name: max(len(str(row.get(name, ""))) for row in rows) for name in titles}
    whole = [name for name in titles if name not in texts or longest[name] <= UNFOLDED_LENGTH]
    shown = _fitting(titles, rows, whole, console.width)
    for name in shown:
        table.add_column(
            titles[name],
            justify="left" if name in texts else "right",
            no_wrap=name in whole,
            overflow="fold",
            header_style="dim",
        )
    for row in rows:
        table.add_row(*(_row_cell(name, row.get(name)) for name in shown))
    print_plain(console, table)
    if len(shown) < len(titles):
        others = ", ".join(title for name, title in titles.items() if name not in shown)
        print_line(console, f"a wider terminal or --json shows {others}", style="dim")
    if title:
        console.print()


def cells_of(rows: Sequence[Row], columns: Mapping[str, Column]) -> list[dict[str, str]]:
    """Return rows of an answer as cells by title.

    Args:
        columns: By title, the key of a metric, or of a statistic of it such as "wait_s.mean", or
            the function that returns the cell of a row.

    Example:
        >>> from perfatlas.report.text import cells_of
        >>> cells_of([{"wait_s": {"mean": 7200.0}}], {"wait, mean": "wait_s.mean"})
        [{'wait, mean': '2 h'}]
    """
    return [
        {
            title: _metric_cell(column, row) if isinstance(column, str) else column(row)
            for title, column in columns.items()
        }
        for row in rows
    ]


def _metric_cell(key: str, row: Row) -> str:
    name, _, statistic = key.partition(".")
    return format_value(name, row[name][statistic] if statistic else row[name])


def print_cells(
    console: Console,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    text_columns: Collection[int] = (),
    optional: Sequence[str] = (),
) -> None:
    """Write cells as a table, with their long names broken.

    Args:
        text_columns: Indices of text columns; others are aligned to the right.
        optional: Titles of columns that are left out where they do not fit, the last one first.
    """
    from rich.table import Table

    columns = list(zip(head, *rows, strict=True))
    widths = [max(len(line) for cell in one for line in cell.split("\n")) for one in columns]
    widths = [min(w, FOLDED_TEXT) if at in text_columns else w for at, w in enumerate(widths)]
    shown = list(range(len(head)))
    for title in reversed(optional):
        if sum(widths[at] + GAP for at in shown) - GAP > console.width and title in head:
            shown.remove(head.index(title))
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
    for at in shown:
        if at in text_columns:
            table.add_column(head[at], overflow="fold", header_style="dim")
        else:
            table.add_column(head[at], justify="right", no_wrap=True, header_style="dim")
    for row in rows:
        table.add_row(*(_broken(row[at]) if "{" in row[at] else row[at] for at in shown))
    print_plain(console, table)


def _broken(label: str) -> str:
    """Return a name with overrides, broken before braces and after commas."""
    lines: list[str] = []
    for part in BREAK.split(label):
        name, equals, value = part.strip().partition("=")
        lines += (
            [part.strip()] if len(part) <= FOLDED + GAP or not equals else [name + equals, value]
        )
    return "\n  ".join(lines)


def _fitting(
    titles: Mapping[str, str], rows: Sequence[Row], whole: Collection[str], width: int
) -> list[str]:
    """Return the first columns that fit: names may fold, numbers may not, as a cut one is wrong."""
    shown: list[str] = []
    taken = 0
    for name, title in titles.items():
        longest = max(len(_row_cell(name, row.get(name))) for row in rows)
        widest = max(longest, len(title))
        taken += (widest if name in whole else min(widest, FOLDED)) + GAP
        if shown and taken - GAP > width:
            break
        shown.append(name)
    return shown


def _row_cell(name: str, value: object) -> str:
    if isinstance(value, int) and name.endswith("parameters"):
        return f"{format_number(value / 1e9)} B"
    return format_value(name, value)


def print_facts(console: Console, facts: Mapping[str, Any]) -> None:
    """Write the facts of one item, one per line.

    Args:
        facts: Values by name; mappings and lists of mappings take one line per item, empty values
            are skipped.
    """
    lines: list[tuple[str, str]] = []
    for name, value in facts.items():
        if isinstance(value, dict):
            lines += [
                (f"{name}.{key}", format_value(str(key), item))
                for key, item in value.items()
                if not is_empty(item)
            ]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            lines += [(spelled_out(name), format_value(name, item)) for item in value]
        elif not is_empty(value):
            lines.append((spelled_out(name), format_value(name, value)))
    print_labelled(console, lines)
