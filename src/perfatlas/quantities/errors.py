"""User-facing errors; each message states the problem and the remedy, each class its exit code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self


class PerfatlasError(Exception):
    """Base class of all errors that a user can cause; the message is written for the user."""

    exit_code: ClassVar[int] = 1
    error_code: ClassVar[str] = "defect"

    def of(self, subject: str) -> Self:
        """Return the error, its message preceded by what it is about.

        Args:
            subject: Such as "decode worker".
        """
        return type(self)(f"{subject}: {self}")


class UsageError(PerfatlasError):
    """The command line is invalid."""

    exit_code = 2
    error_code = "usage"


class InvalidSpecError(PerfatlasError):
    """A scenario, config.json or hardware spec is missing a field or contradicts itself."""

    exit_code = 3
    error_code = "invalid"


class InfeasibleError(PerfatlasError):
    """The question is valid and the answer is no: out of memory, or no plan meets the target.

    Args:
        message: What is exceeded and by how much, in one sentence.
        advice: Changes that would make it feasible, one sentence each.
        memory: The memory results of the answer; empty if memory is not the cause.
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
        """Store the parts as well as the full message."""
        super().__init__(" ".join((message, *advice)))
        self.message = message
        self.advice = tuple(advice)
        self.memory = dict(memory or {})
        self.answer: Mapping[str, object] = {}  # what --json prints beside the error

    def of(self, subject: str) -> Self:
        """Return the error, its message preceded by what it is about.

        Args:
            subject: Such as "decode worker".
        """
        return type(self)(f"{subject}: {self.message}", advice=self.advice, memory=self.memory)


class UnsupportedError(PerfatlasError):
    """perfatlas has no model or data for this combination."""

    exit_code = 5
    error_code = "unsupported"


class MissingDependencyError(PerfatlasError):
    """An optional package is missing; the message contains the pip command."""

    exit_code = 6
    error_code = "missing_dependency"


class ValidationGateError(PerfatlasError):
    """A validation result is outside its error budget."""

    exit_code = 7
    error_code = "gate_failed"


_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
MAX_VALUE_LENGTH: Final = 60  # characters of a user's value that a message quotes


def counted(number: int, thing: str) -> str:
    """Return a count with its noun, in the singular for 1.

    Args:
        thing: Singular noun; its plural ends in s.

    Example:
        >>> from perfatlas.quantities import counted
        >>> counted(1, "node"), counted(2048, "node")
        ('1 node', '2,048 nodes')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def printable(text: str) -> str:
    r"""Return a text with its control characters escaped, so that none reaches the terminal.

    Line ends and tabs are kept. Characters that reverse the direction of text are escaped as well.

    Args:
        text: Text that may contain names, cells or paths of the user.

    Example:
        >>> from perfatlas.quantities import printable
        >>> printable("file " + chr(27) + "[31m.csv")
        'file \\x1b[31m.csv'
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def repr_for_error(value: object) -> str:
    """Return a short representation of any user value for an error message.

    Fast and safe for values of any size and depth.

    Args:
        value: Any value; long ones are truncated or described.

    Example:
        >>> from perfatlas.quantities import repr_for_error
        >>> repr_for_error(10**5000)
        'an integer of 16610 bits'
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if value.bit_length() > 2 * MAX_VALUE_LENGTH:
            return f"an integer of {value.bit_length()} bits"
        return repr(value)
    if isinstance(value, str):
        clipped = repr(value[: MAX_VALUE_LENGTH + 1])
        return clipped if len(value) <= MAX_VALUE_LENGTH else f"{clipped[:MAX_VALUE_LENGTH]}...'"
    if value is None or isinstance(value, (bool, float)):
        return repr(value)
    size = f" of {len(value)} items" if isinstance(value, (dict, list, tuple)) else ""
    return f"a {type(value).__name__}{size}"
