"""Branches that a unit never takes are taken out of its parts before their types are inferred.

What they alone call is then not compiled.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

from numba.core import ir
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import build_definitions, compute_cfg_from_blocks
from numba.core.postproc import PostProcessor

from perfatlas.compiled.column_types import Columns, Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMPARED: Final = (
    *(operator.eq, operator.ne, operator.lt),
    *(operator.le, operator.gt, operator.ge),
)


@register_pass(mutates_CFG=True, analysis_only=False)
class Settling(FunctionPass):  # type: ignore[misc] # untyped
    """Takes out the branches that follow from settled fields."""

    _name = "perfatlas_settling"

    def __init__(self) -> None:
        """Nothing is kept from part to part."""
        super().__init__()

    def run_pass(self, state: Any) -> bool:  # noqa: ANN401 - untyped
        """Take them out of one part."""
        if not any(isinstance(kind, Columns | Rows) for kind in state.args):
            return False
        blocks = state.func_ir.blocks
        known = _Known(state.args, blocks)
        changed = False
        for block in blocks.values():
            last = block.body[-1]
            if isinstance(last, ir.Branch) and last.cond.name in known.values:
                label = last.truebr if known.values[last.cond.name] else last.falsebr
                block.body[-1] = ir.Jump(label, last.loc)
                changed = True
        if changed:
            for label in compute_cfg_from_blocks(blocks).dead_nodes():
                del blocks[label]
            state.func_ir._definitions = build_definitions(blocks)  # noqa: SLF001 - as its own passes do
            PostProcessor(state.func_ir).run()
        return changed


class _Known:
    """What variables that are assigned once hold: columns, and numbers that are settled.

    Args:
        arguments: Types of the arguments.
        blocks: Of the part.

    Attributes:
        values: Numbers, by name of their variable.
    """

    def __init__(self, arguments: tuple[Any, ...], blocks: dict[int, Any]) -> None:
        """Follow assignments in the order of the source, in which they are before their use."""
        self.values: dict[str, Any] = {}
        self._types: dict[str, Any] = {}
        self._arguments = arguments
        assigned: dict[str, list[Any]] = {}
        for one in _assignments(blocks):
            assigned.setdefault(one.target.name, []).append(one.value)
        for name, values in assigned.items():
            if len(values) == 1:
                self._follow(name, values[0])

    def _follow(self, name: str, value: Any) -> None:  # noqa: ANN401 - untyped
        """Note what a variable holds."""
        if isinstance(value, ir.Arg):
            self._types[name] = self._arguments[value.index]
        elif isinstance(value, ir.Const | ir.Global | ir.FreeVar):
            self.values[name] = value.value
        elif isinstance(value, ir.Var):
            for held in (self._types, self.values):
                if value.name in held:
                    held[name] = held[value.name]
        elif isinstance(value, ir.Expr):
            self._evaluate(name, value)

    def _evaluate(self, name: str, value: Any) -> None:  # noqa: ANN401 - untyped
        """Note what an expression comes to, where that is known."""
        kind = self._types.get(value.value.name) if value.op in _READS else None
        if value.op in ("getitem", "static_getitem") and isinstance(kind, Rows):
            self._types[name] = kind.item
        elif value.op == "getattr" and isinstance(kind, Columns) and value.attr in kind.settled:
            self.values[name] = kind.settled[value.attr]
        elif value.op == "binop" and value.fn in _COMPARED:
            sides = [self.values.get(side.name) for side in (value.lhs, value.rhs)]
            if all(isinstance(side, int | float) for side in sides):
                self.values[name] = value.fn(*sides)
        elif value.op == "call" and self.values.get(value.func.name) is bool:
            (argument,) = value.args
            if isinstance(self.values.get(argument.name), int | float):
                self.values[name] = bool(self.values[argument.name])


_READS: Final = ("getitem", "static_getitem", "getattr")


def _assignments(blocks: dict[int, Any]) -> Iterator[Any]:
    """Yield the assignments of a part in the order of its source."""
    for label in sorted(blocks):
        for one in blocks[label].body:
            if isinstance(one, ir.Assign):
                yield one
