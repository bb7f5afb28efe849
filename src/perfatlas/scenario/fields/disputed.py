"""Systems of which sources dispute figures: answers at both ends widen the intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.hardware import resolve_system, unit_of, with_values
from perfatlas.quantities import InvalidSpecError, PerfatlasError, format_quantity
from perfatlas.vocabulary.metrics import HIGH_ENDING, LOW_ENDING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from perfatlas.answer import Answer
    from perfatlas.hardware import System

    Fields = Mapping[str, Any]
    Table = Mapping[str, Sequence[Any]]

SYSTEMS: Final = ("system", "prefill_system", "decode_system", "feed_forward_system")
ENDS: Final = {LOW_ENDING: min, HIGH_ENDING: max}
NOTES: Final = "warnings"  # column of a table
CONTAINED: Final = "intervals contain both ends, all at once"
LEFT_OUT: Final = "intervals here leave that out"


def disputed_ends(text: object) -> tuple[str, ...]:
    """Return a system with all disputed figures at their least, and at their most; () without any.

    Example:
        >>> from perfatlas.scenario.fields.disputed import disputed_ends
        >>> disputed_ends("trainium3")[0], disputed_ends("h200_sxm")
        ('trainium3{device.scale_up.bandwidth=1000000000000.0}', ())
    """
    try:
        system = resolve_system(str(text))
    except PerfatlasError:  # the answer itself refuses it
        return ()
    if not system.ranges:
        return ()
    return tuple(_at_ends(system, end).name for end in range(len(ENDS)))


def _at_ends(system: System, end: int) -> System:
    """Return a system at the least or most of its disputed figures that its other ones allow."""
    kept: dict[str, float] = {}
    for path, values in system.ranges.items():
        try:
            with_values(system, {**kept, path: values[end]})
        except InvalidSpecError:  # such as fp8 below a bf16 peak that the user set
            continue
        kept[path] = values[end]
    return with_values(system, kept)


def disputed_note(text: str, effect: str = CONTAINED) -> str:
    """Return the remark on the disputed figures of a system."""
    system = resolve_system(text)
    figures = ", ".join(
        f"{path.removeprefix('device.')} {_amount(path, least)} to {_amount(path, most)}"
        for path, (least, most) in system.ranges.items()
    )
    return (
        f"sources of {system.name} disagree, and {effect}: {figures};"
        f" `perfatlas catalog systems show {system.name}` names them, and a value of your own,"
        " --system NAME{FIELD=VALUE}, replaces its range"
    )


def left_out_notes(texts: Iterable[str]) -> tuple[str, ...]:
    """Return remarks on systems whose disputed figures intervals do not contain."""
    named = (text for text in texts if disputed_ends(text))
    return tuple(disputed_note(text, LEFT_OUT) for text in named)


def _amount(path: str, value: float) -> str:
    return format_quantity(value, unit_of(path)) if unit_of(path) else f"{value:g}"


def within_disputed_ends(answer_of: Callable[[Fields], Answer], fields: Fields) -> Answer:
    """Return an answer whose intervals contain those at both ends of disputed figures."""
    answer = answer_of(fields)
    given = {name: fields[name] for name in SYSTEMS if fields.get(name)}
    ends = {name: pair for name, text in given.items() if (pair := disputed_ends(text))}
    if not ends:
        return answer
    others: list[Fields] = []
    notes = [disputed_note(str(fields[name])) for name in ends]
    for named in zip(*ends.values(), strict=True):
        try:
            others.append(answer_of({**fields, **dict(zip(ends, named, strict=True))}).results)
        except PerfatlasError as error:  # the interval has no end there
            others.append({})
            notes.append(f"at one end of what sources dispute there is no answer: {error}")
    results = widened(answer.results, others)
    return replace(answer, results=results, warnings=(*answer.warnings, *notes))


def rows_within_disputed_ends(
    answers_of: Callable[[Table], Mapping[str, Sequence[Any]]], table: Table
) -> dict[str, Sequence[Any]]:
    """Return the answers of a table whose intervals contain those at both ends of disputed figures.

    Args:
        answers_of: Returns the answers of rows, with `warnings`, by column.
    """
    columns = dict(answers_of(table))
    named = [name for name in SYSTEMS if name in table]
    texts = {str(text) for name in named for text in table[name] if text}
    ends = {text: pair for text in texts if (pair := disputed_ends(text))}
    if not ends:
        return columns
    systems = {name: [text and str(text) for text in table[name]] for name in named}
    rows = [
        row
        for row, answered in enumerate(zip(*systems.values(), strict=True))
        if not ends.keys().isdisjoint(answered)
    ]
    part = {name: [cells[row] for row in rows] for name, cells in table.items()}
    others = []
    for end in range(len(ENDS)):
        named_ends = {
            name: [ends.get(cells[row], (cells[row],) * len(ENDS))[end] for row in rows]
            for name, cells in systems.items()
        }
        others.append(answers_of(part | named_ends))
    wide = {name: list(cells) for name, cells in columns.items() if name.endswith((*ENDS, NOTES))}
    for place, row in enumerate(rows):
        one = {name: cells[row] for name, cells in wide.items()}
        found = widened(one, [{n: cells[place] for n, cells in other.items()} for other in others])
        if one.get(NOTES) is not None:
            notes = [disputed_note(cells[row]) for cells in systems.values() if cells[row] in ends]
            found[NOTES] = "; ".join(filter(None, (one[NOTES], *notes)))
        for name, column in wide.items():
            column[row] = found[name]
    return columns | wide


def widened(results: Fields, others: Sequence[Fields]) -> dict[str, Any]:
    """Return results whose intervals contain those of others; an end that one lacks is unknown."""
    wide = dict(results)
    for name, value in results.items():
        for ending, furthest in ENDS.items():
            if name.endswith(ending) and isinstance(value, float):
                ends = [value, *(other.get(name) for other in others)]
                known = [end for end in ends if end is not None]
                wide[name] = furthest(known) if len(known) == len(ends) else None
    return wide
