"""Expressions over columns: constraints and derived columns of studies.

The text is parsed with the standard library's `ast`, and only arithmetic, comparisons, `and`, `or`,
`not`, `in`, conditional expressions and a list of functions are accepted. Nothing is executed as
Python code.

Shape legend: N rows.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities.errors import InvalidSpecError, repr_for_error
from perfatlas.quantities.names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_OfColumns = Callable[[Mapping[str, Any]], Any]
MAX_TEXT_LENGTH: Final = 1000  # characters
MAX_PARTS: Final = 200  # names, numbers and operators of one expression
_BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: np.divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: np.power,
}
_COMPARED: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ORDERED: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
FUNCTIONS: Final[dict[str, tuple[int, Callable[..., Any]]]] = {  # least number of arguments
    "abs": (1, np.abs),
    "ceil": (1, np.ceil),
    "exp": (1, np.exp),
    "floor": (1, np.floor),
    "log": (1, np.log),
    "log2": (1, np.log2),
    "log10": (1, np.log10),
    "max": (2, lambda *parts: reduce(np.maximum, parts)),
    "min": (2, lambda *parts: reduce(np.minimum, parts)),
    "round": (1, np.round),
    "sqrt": (1, np.sqrt),
}
_MANY: Final = ("max", "min")


@dataclass(frozen=True)
class Expression:
    """A checked expression.

    Example:
        >>> import numpy as np
        >>> from perfatlas.quantities import Expression
        >>> Expression("tp * pp <= 8").of({"tp": np.array([4.0, 8.0]), "pp": np.array([2.0, 2.0])})
        array([ True, False])
    """

    text: str  # As it was written

    def __post_init__(self) -> None:
        """Refuse a text that is not an expression of this language."""
        _ = self.names

    def __reduce__(self) -> tuple[type[Expression], tuple[str]]:
        """Return what pickles it: its text."""
        return Expression, (self.text,)

    @cached_property
    def _tree(self) -> ast.expr:
        if len(self.text) > MAX_TEXT_LENGTH:
            raise InvalidSpecError(
                f"expression {repr_for_error(self.text)} is longer than {MAX_TEXT_LENGTH} letters"
            )
        try:
            tree = ast.parse(self.text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
            reason = getattr(problem, "msg", str(problem))
            raise InvalidSpecError(
                f"expression {repr_for_error(self.text)} cannot be read: {reason}; write one such"
                " as 'tp * pp <= 8'"
            ) from problem
        if sum(1 for _ in ast.walk(tree)) > MAX_PARTS:
            raise InvalidSpecError(
                f"expression {repr_for_error(self.text)} has more than {MAX_PARTS} parts"
            )
        return tree

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names it reads, dotted ones included, in order of appearance."""
        return tuple(dict.fromkeys(self._names(self._tree)))

    def _names(self, node: ast.AST) -> Iterator[str]:
        if isinstance(node, (ast.Name, ast.Attribute)):
            yield self._dotted(node)
            return
        self._check(node)
        children: list[ast.AST] = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Call):
            children = list(node.args)
        for child in children:
            if isinstance(child, ast.expr):
                yield from self._names(child)

    def _dotted(self, node: ast.AST) -> str:
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.Attribute):
            return f"{self._dotted(node.value)}.{node.attr}"
        raise self._refused(node)

    def _check(self, node: ast.AST) -> None:
        """Refuse a part that is not of this language."""
        good = isinstance(node, (ast.BoolOp, ast.IfExp, ast.Compare, ast.List, ast.Tuple))
        if isinstance(node, ast.Constant):
            good = isinstance(node.value, (int, float, str))
        elif isinstance(node, ast.BinOp):
            good = type(node.op) in _BINARY
        elif isinstance(node, ast.UnaryOp):
            good = type(node.op) in _UNARY
        elif isinstance(node, ast.Call):
            self._check_call(node)
            good = True
        elif isinstance(node, ast.Compare):
            good = all(self._is_comparison(*pair) for pair in _pairs(node))
        if not good:
            raise self._refused(node)

    def _is_comparison(self, kind: ast.cmpop, right: ast.expr) -> bool:
        if isinstance(kind, (ast.In, ast.NotIn)):
            return isinstance(right, (ast.List, ast.Tuple))
        return type(kind) in _COMPARED and not isinstance(right, (ast.List, ast.Tuple))

    def _check_call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        if name not in FUNCTIONS:
            raise InvalidSpecError(
                f"expression {repr_for_error(self.text)}: unknown function"
                f" {repr_for_error(name)}{did_you_mean(name, FUNCTIONS)}; the functions are"
                f" {', '.join(FUNCTIONS)}"
            )
        least = FUNCTIONS[name][0]
        most = len(node.args) if name in _MANY else least
        if node.keywords or not least <= len(node.args) <= most:
            raise InvalidSpecError(
                f"expression {repr_for_error(self.text)}: {name} takes"
                f" {f'{least} or more' if name in _MANY else least} arguments without names"
            )

    def _refused(self, node: ast.AST) -> InvalidSpecError:
        part = ast.unparse(node) if isinstance(node, ast.expr) else type(node).__name__
        return InvalidSpecError(
            f"expression {repr_for_error(self.text)}: {repr_for_error(part)} is not supported; use"
            " names, numbers, texts, + - * / // % **, comparisons, and, or, not, in [...],"
            f" x if c else y, and {', '.join(FUNCTIONS)}"
        )

    def of(self, columns: Mapping[str, Any]) -> Any:  # noqa: ANN401 - numbers, flags or texts
        """Return the value of every row (N,), or one value if it reads no column.

        Args:
            columns: Arrays (N,) by name, numbers as floats with NaN for missing ones.

        Raises:
            InvalidSpecError: Texts and numbers are mixed.
        """
        try:
            with np.errstate(all="ignore"):
                return self._function(columns)
        except OverflowError as problem:
            raise InvalidSpecError(
                f"expression {repr_for_error(self.text)} has a number beyond 1.8e308"
            ) from problem
        except (TypeError, ValueError, ZeroDivisionError) as problem:
            raise InvalidSpecError(
                f"expression {repr_for_error(self.text)} cannot be evaluated: it mixes texts and"
                " numbers, or a text has no such operation"
            ) from problem

    @cached_property
    def _function(self) -> _OfColumns:
        return self._compiled(self._tree)

    def _compiled(self, node: ast.AST) -> _OfColumns:
        """Return the function from columns to the value of a part."""
        match node:
            case ast.Name() | ast.Attribute():
                return operator.itemgetter(self._dotted(node))
            case ast.Constant(value=int() | float() | str() as constant):
                fixed = constant if isinstance(constant, str) else float(constant)
                return lambda _: fixed
            case ast.BinOp(left=left, op=kind, right=right):
                return _applied(_BINARY[type(kind)], map(self._compiled, (left, right)))
            case ast.UnaryOp(op=ast.Not(), operand=inside):
                denied = _applied(_not, (self._compiled(inside),))
                return _applied(operator.and_, (denied, partial(self._known, inside)))
            case ast.UnaryOp(op=kind, operand=inside):
                return _applied(_UNARY[type(kind)], (self._compiled(inside),))
            case ast.BoolOp(op=kind, values=parts):
                join = np.logical_and if isinstance(kind, ast.And) else np.logical_or
                return _applied(
                    lambda *some: reduce(join, map(_flags, some)), map(self._compiled, parts)
                )
            case ast.IfExp(test=test, body=body, orelse=other):
                return _applied(
                    lambda chosen, *two: np.where(_flags(chosen), *two),
                    map(self._compiled, (test, body, other)),
                )
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return _applied(FUNCTIONS[name][1], map(self._compiled, arguments))
            case ast.Compare():
                return partial(self._compared, node)
            case _:
                raise self._refused(node)

    def _compared(self, node: ast.Compare, columns: Mapping[str, Any]) -> Any:  # noqa: ANN401
        left, comparisons = self._compiled(node.left)(columns), []
        for kind, other in _pairs(node):
            if isinstance(other, (ast.List, ast.Tuple)):
                among = [left == self._compiled(part)(columns) for part in other.elts]
                inside = reduce(np.logical_or, among, np.False_)
                if isinstance(kind, ast.NotIn):
                    inside = np.logical_not(inside) & self._known(node.left, columns)
                comparisons.append(inside)
                continue
            right = self._compiled(other)(columns)
            if type(kind) in _ORDERED and _is_text(left) != _is_text(right):
                raise TypeError(kind)
            comparisons.append(_COMPARED[type(kind)](left, right))
            left = right
        if any(isinstance(kind, ast.NotEq) for kind in node.ops):
            comparisons.append(self._known(node, columns))
        return reduce(np.logical_and, comparisons)

    def _known(self, node: ast.AST, columns: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """Return whether no name of a part is missing: what is missing differs from nothing."""
        cells = [columns[name] for name in self._names(node)]
        return reduce(np.logical_and, (~_is_missing(cell) for cell in cells), np.True_)


def _applied(function: Callable[..., Any], parts: Iterable[_OfColumns]) -> _OfColumns:
    """Return the function of columns that applies another one to parts of an expression."""
    first, *others = parts
    if not others:
        return lambda columns: function(first(columns))
    if len(others) == 1:
        (second,) = others
        return lambda columns: function(first(columns), second(columns))
    return lambda columns: function(first(columns), *[part(columns) for part in others])


def _not(value: Any) -> Any:  # noqa: ANN401 - an array or one value
    return np.logical_not(_flags(value))


_UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.Not: _not,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


def _is_missing(value: Any) -> Any:  # noqa: ANN401 - an array or one value
    cells = np.asarray(value)
    if cells.dtype.kind == "f":
        return np.isnan(cells)
    return np.array([cell is None for cell in cells.flat], np.bool_).reshape(cells.shape)


def _pairs(node: ast.Compare) -> Iterator[tuple[ast.cmpop, ast.expr]]:
    return zip(node.ops, node.comparators, strict=True)


def _is_text(value: Any) -> bool:  # noqa: ANN401 - an array or one value
    return isinstance(value, str) or getattr(value, "dtype", np.bool_) == np.object_


def _flags(value: Any) -> Any:  # noqa: ANN401 - an array or one value
    """Return truth values; a missing number is false."""
    if _is_text(value):
        raise TypeError(value)
    numbers = np.asarray(value)
    return numbers if numbers.dtype == np.bool_ else (numbers != 0) & ~np.isnan(numbers)
