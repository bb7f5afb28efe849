"""User-facing errors: what was asked, what is wrong, what to do; each carries its exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class PerfatlasError(Exception):
    """Base of every error a user can cause; its text is written for the user."""

    exit_code: ClassVar[int] = 1
    error_code: ClassVar[str] = "defect"


class UsageError(PerfatlasError):
    """The command line itself is wrong."""

    exit_code = 2
    error_code = "usage"


class InvalidSpecError(PerfatlasError):
    """A scenario, config.json or hardware spec is missing a field or contradicts itself."""

    exit_code = 3
    error_code = "invalid"


class InfeasibleError(PerfatlasError):
    """The question is well posed and the answer is no: it does not fit, no plan meets the goal.

    Args:
        message: By how much, in one sentence.
        advice: Changes that would make it feasible, one sentence each.
        memory: The memory results of the answer, empty where memory is not the reason.
    """

    exit_code = 4
    error_code = "infeasible"

    def __init__(
        self,
        message: str,
        *,
        advice: Sequence[str] = (),
        memory: Mapping[str, object] | None = None,
    ) -> None:
        """Keep the parts beside the whole message."""
        super().__init__(" ".join((message, *advice)))
        self.advice = tuple(advice)
        self.memory = dict(memory or {})


class UnsupportedError(PerfatlasError):
    """perfatlas has no model or no data for this combination."""

    exit_code = 5
    error_code = "unsupported"


class MissingDependencyError(PerfatlasError):
    """An optional package is needed; the message carries the pip line."""

    exit_code = 6
    error_code = "missing_dependency"


class ValidationGateError(PerfatlasError):
    """A validation figure is outside its budget."""

    exit_code = 7
    error_code = "gate_failed"


LONGEST_VALUE: Final = 60  # characters of a user's value that a message repeats


def counted(number: int, thing: str) -> str:
    """Return a number of things, in the singular where there is one.

    Args:
        number: How many.
        thing: One of them; its plural ends in s.

    Example:
        >>> from perfatlas.quantities import counted
        >>> counted(1, "node"), counted(2048, "node")
        ('1 node', '2,048 nodes')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def shown(value: object) -> str:
    """Return a short text of anything a user wrote, for an error message.

    Never slow and never failing, however large or deep the value is.

    Args:
        value: Anything; long ones are cut or described.

    Example:
        >>> from perfatlas.quantities import shown
        >>> shown(10**5000)
        'an integer of 16610 bits'
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if value.bit_length() > 2 * LONGEST_VALUE:
            return f"an integer of {value.bit_length()} bits"
        return repr(value)
    if isinstance(value, str):
        clipped = repr(value[: LONGEST_VALUE + 1])
        return clipped if len(value) <= LONGEST_VALUE else f"{clipped[:LONGEST_VALUE]}...'"
    if value is None or isinstance(value, (bool, float)):
        return repr(value)
    size = f" of {len(value)} items" if isinstance(value, (dict, list, tuple)) else ""
    return f"a {type(value).__name__}{size}"
