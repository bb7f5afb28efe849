"""Rows of the catalog of networks, and modules of public libraries as their parts.

Modules are built on the meta device: no weights are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BATCH: Final = "batch"
Tensor: TypeAlias = Any
Module: TypeAlias = Any
Built: TypeAlias = "tuple[Module, tuple[Tensor, ...] | dict[str, Any]]"


@dataclass(frozen=True, kw_only=True)
class Part:
    """A module of a network."""

    build: Callable[[], Built]  # Returns the module, on the meta device, and its example inputs
    # Name of each symbolic size of the inputs, by input and dimension
    sizes: Mapping[str, Mapping[int, str]]
    runs: str = "1"  # How often it runs in a pass: an expression
    # Items that it runs at once: an expression over `batch`; "1" of an export of one item
    batch: str = BATCH
    # How many modules of its sizes are stored, of which one runs; 0 if another part's runs again
    stored: int = 1


@dataclass(frozen=True, kw_only=True)
class Row:
    """A network of the catalog."""

    item: str
    source: str  # Where its architecture is published
    parts: tuple[Part, ...]
    sizes: Mapping[str, int]  # Its sizes with their defaults
    decoder: Part | None = None  # The pass that generates one token, of an encoder-decoder
    # Values that sizes may have: `least`, `most`, `multiple_of` and `plus`, by name
    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # What was left out


def values(*shape: int) -> Tensor:
    """Return a tensor of activations."""
    import torch

    return torch.empty(*shape)


def tokens(*shape: int) -> Tensor:
    """Return a tensor of token ids."""
    import torch

    return torch.ones(*shape, dtype=torch.long)


def half(module: Module) -> Module:
    """Return a module in 16 bits, as it runs: what it computes in 32 bits then shows."""
    import torch

    return module.eval().to(torch.bfloat16)


def half_inputs(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return inputs whose floating-point tensors are of 16 bits."""
    import torch

    def of(value: Tensor) -> Tensor:
        if isinstance(value, dict):
            return {name: of(one) for name, one in value.items()}
        if isinstance(value, tuple):
            return tuple(of(one) for one in value)
        wide = value is not None and value.is_floating_point()
        return value.to(torch.bfloat16) if wide else value

    return {name: of(value) for name, value in inputs.items()}


def torchvision(name: str) -> Callable[[], Built]:
    """Return what builds a classifier of torchvision, with an image of 224 x 224."""

    def build() -> Built:
        import torch
        import torchvision.models

        with torch.device("cpu"):  # widths of some are computed with tensors
            classifier = getattr(torchvision.models, name)()
        return classifier.eval().to("meta"), (values(2, 3, 224, 224),)

    return build


def hugging_face(
    kind: str,
    config: str,
    inputs: Callable[[], dict[str, Any]],
    **given: object,
) -> Callable[[], Built]:
    """Return what builds a model of transformers, with PyTorch's attention where it has it."""

    def build() -> Built:
        import transformers

        settings = getattr(transformers, config)(**{"attn_implementation": "sdpa"} | given)
        return half(getattr(transformers, kind)(settings)), half_inputs(inputs())

    return build


def diffuser(
    kind: str,
    inputs: Callable[[], dict[str, Any]],
    **given: object,
) -> Callable[[], Built]:
    """Return what builds a model of diffusers."""

    def build() -> Built:
        import diffusers

        return half(getattr(diffusers, kind)(**given)), half_inputs(inputs())

    return build


def module(forward: Callable[..., Any], *parts: Module) -> Module:
    """Return a module that calls a function with its parts and its inputs."""
    import torch

    def call(self: Module, x: Tensor) -> Tensor:
        return forward(*self.children(), x)

    wrapped = type("Wrapped", (torch.nn.ModuleList,), {"forward": call})
    return wrapped(parts).eval()
