"""How a checkpoint stores the weights of its modules."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Storage:
    """Bits of a weight: its code, and what its group shares (scale and zero point)."""

    bits: float  # Bits of a code, as packed
    group_bits: float = 0.0  # Bits of scale and zero point of a group
    group: int = 0  # Weights of a group; 0 for a row, all inputs of one output

    def bytes_per_element(self, inputs: float) -> float:
        """Return the bytes of a weight of a matrix with rows of `inputs`.

        Limits: Scales of whole tensors (4 bytes each) and orders of activations (`g_idx` of GPTQ,
            4 bytes per input, below 0.1%) are not counted.

        Example:
            >>> from perfatlas.formats import Storage
            >>> Storage(bits=4, group_bits=16 + 4, group=128).bytes_per_element(4096)
            0.51953125
        """
        return (self.bits + self.group_bits / (self.group or inputs)) / 8


@dataclass(frozen=True, kw_only=True)
class StoredModule:
    """The linear layers that one operator runs, over all layers of a network."""

    operator: str  # Name of the operator
    mixer: str = ""  # Class of the mixer that it belongs to, "" for a feed-forward or the head
    format: str | None  # Format of its product: that of most of its weights; None for 16 bits
    parts: tuple[tuple[float, Storage], ...]  # Share of its weights, and how they are stored

    def bytes_per_element(self, inputs: float) -> float:
        """Return the mean bytes of a weight of a matrix with rows of `inputs`."""
        return sum(share * storage.bytes_per_element(inputs) for share, storage in self.parts)
