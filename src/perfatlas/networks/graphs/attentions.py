"""Attention that a graph writes as two products around a softmax, with what stands between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

MAX_SCALING_OPERATORS: Final = 8  # operators between a product and its softmax


class _Step(Protocol):
    """An operator: its type, and the names of the tensors that it reads and writes."""

    @property
    def op_type(self) -> str: ...
    @property
    def input(self) -> Sequence[str]: ...
    @property
    def output(self) -> Sequence[str]: ...


_AnyStep = TypeVar("_AnyStep", bound=_Step)


@dataclass(frozen=True, kw_only=True)
class Chains(Generic[_AnyStep]):
    """Where products of activations stand around a softmax."""

    writers: Mapping[str, _AnyStep]  # What writes a tensor
    users: Mapping[str, Sequence[_AnyStep]]  # What reads a tensor
    weights: Collection[str]  # Tensors that no input of the network changes
    products: Collection[str]  # Types of products
    scaled: Collection[str]  # Types that may stand between scores and their softmax

    def attention_around(self, softmax: _AnyStep) -> tuple[_AnyStep, _AnyStep, set[str]] | None:
        """Return the products before and after a softmax, and the tensors between; else None."""
        inside = {softmax.output[0]}
        scores = self._scores(softmax.input[0], inside)
        last = self._after_softmax(softmax.output[0], inside)
        if last is None or scores is None or last.op_type != scores.op_type:
            return None
        return scores, last, inside | {scores.output[0]}

    def only_reader(self, name: str) -> bool:
        """Return whether one operator alone reads a tensor."""
        return len(self.users.get(name, ())) == 1

    def _after_softmax(self, name: str, inside: set[str]) -> _AnyStep | None:
        """Return what reads weights of an attention, rows without a key set to zero; else None."""
        reads = self.users.get(name, ())
        if sorted(reader.op_type for reader in reads) == ["IsNaN", "Where"]:
            inside |= {reader.output[0] for reader in reads}
            where = next(reader for reader in reads if reader.op_type == "Where")
            reads = self.users.get(where.output[0], ())
        return reads[0] if len(reads) == 1 else None

    def _scores(self, name: str, inside: set[str]) -> _AnyStep | None:
        """Return the product behind scores through scaling and masks, None without one."""
        for _ in range(MAX_SCALING_OPERATORS):
            writer = self.writers.get(name)
            if writer is None or not self.only_reader(name):
                return None
            if writer.op_type in self.products:
                return writer
            if writer.op_type not in self.scaled:
                return None
            inside.add(name)
            read = [tensor for tensor in writer.input if tensor not in self.weights]
            name = next((tensor for tensor in read if self._leads_to_product(tensor)), "")
        return None

    def _leads_to_product(self, name: str) -> bool:
        """Return whether a tensor is a product of activations, through scaling."""
        for _ in range(len(self.scaled) + 1):
            writer = self.writers.get(name)
            if writer is None:
                return False
            if writer.op_type in self.products:
                return True
            if writer.op_type not in self.scaled:
                return False
            inputs = [name for name in writer.input if name not in self.weights]
            if not inputs:
                return False
            name = inputs[0]
        return False
