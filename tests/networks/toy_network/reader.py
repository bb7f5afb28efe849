"""A reader of convolutional networks from TOML files of operators.

A token is an image: a request is one image with one output, a sequence of training one image.

Shape legend: C candidates.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from perfatlas.formats import get_format
from perfatlas.networks import (
    DividedSize,
    LiveElements,
    ModelFormats,
    Network,
    ParameterCounts,
    Reader,
    Segment,
    StepTokens,
)
from perfatlas.operators import FloatArray, Gemm, Operator, Phase, Streaming
from perfatlas.quantities import InvalidSpecError

ELEMENT_BYTES: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class Step:
    """An operator of a layer: a convolution if it has a kernel, else one that moves elements.

    Args:
        name: Its name, unique in the layer.
        before: Elements of an image that it reads.
        after: Elements that it writes.
        channels: Input and output channels.
        kernel: Width of the kernel, 0 without one.
        reads: Tensors of `before` elements that it reads.
    """

    name: str
    before: int
    after: int
    channels: tuple[int, int]
    kernel: int = 0
    reads: int = 1

    @property
    def parameters(self) -> int:
        """Parameters of a convolution without bias; its norm folds into it."""
        return self.channels[0] * self.channels[1] * self.kernel**2


@dataclass(frozen=True, kw_only=True)
class ConvLayers(Segment):
    """Identical layers of steps. They are not divided: neither their channels nor their images."""

    steps: tuple[Step, ...]

    @property
    def divided_sizes(self) -> tuple[DividedSize, ...]:
        label = "part of an image and its channels"
        return (
            DividedSize(label=label, size=1, by="tp", noun=label),
            DividedSize(label=label, size=1, by="cp", noun=label),
        )


@dataclass(frozen=True, kw_only=True)
class ConvNetwork(Network):
    """A convolutional network: one pass over a batch of images."""

    layers: tuple[ConvLayers, ...]

    @property
    def phases(self) -> tuple[Phase, ...]:
        """One pass."""
        return (Phase.PREFILL,)

    @property
    def channels(self) -> int:
        """Channels that the head averages and multiplies."""
        return self.layers[-1].steps[-1].channels[1]

    def step_operators(
        self, formats: ModelFormats, phase: Phase, tokens: StepTokens
    ) -> tuple[Operator, ...]:
        counts = (1, *(group.count for group in self.layers), 1)
        return tuple(
            operator
            for segment, count in enumerate(counts)
            for operator in self._operators(segment, count, formats, phase, tokens)
        )

    def segment_operators(
        self, segment: int, formats: ModelFormats, phase: Phase, tokens: StepTokens
    ) -> tuple[Operator, ...]:
        return self._operators(segment, 1, formats, phase, tokens)

    def _operators(
        self, segment: int, count: int, formats: ModelFormats, phase: Phase, tokens: StepTokens
    ) -> tuple[Operator, ...]:
        emission = _Emission(phase, tokens.all, count, formats)
        last = self.layers[-1].steps[-1].after
        if segment == 0:
            return (emission.moved("input", 0, self.layers[0].steps[0].before),)
        if segment == len(self.layers) + 1:
            head = Step(
                name="lm_head", before=0, after=0, channels=(self.channels, self.vocab_size)
            )
            return (
                emission.moved("pool", last, self.channels),
                emission.product(head.name, 1, head.channels, ELEMENT_BYTES),
            )
        return tuple(emission.operator(step) for step in self.layers[segment - 1].steps)

    def parameters(self) -> ParameterCounts:
        products = sum(
            group.count * step.parameters for group in self.layers for step in group.steps
        )
        head = self.channels * self.vocab_size
        return ParameterCounts(
            total=products + head,
            active=products + head,
            embedding=0,
            lm_head=head,
            dense_linear=products,
            mixer_linear=0,
            expert=0,
            other=0,
            mtp=0,
        )

    def live_elements(self) -> tuple[LiveElements, ...]:
        steps = (step for group in self.layers for step in group.steps)
        return tuple(LiveElements(repeated=step.reads * step.before + step.after) for step in steps)


@dataclass(frozen=True)
class _Emission:
    """Builder of operators over images (C,), each run `count` times."""

    phase: Phase
    images: FloatArray
    count: int
    formats: ModelFormats

    def _column(self, value: float) -> FloatArray:
        return np.full_like(self.images, float(value))

    def operator(self, step: Step) -> Operator:
        """Return a step; a convolution is an implicit GEMM, which reads each input once."""
        if not step.kernel:
            return self.moved(step.name, step.reads * step.before, step.after)
        inner, outer = step.channels
        pixels = step.after // outer
        width = inner * step.kernel**2
        each = ELEMENT_BYTES * step.before / (pixels * width)
        return self.product(step.name, pixels, (width, outer), each)

    def product(
        self, name: str, pixels: int, sizes: tuple[int, int], input_bytes: float
    ) -> Operator:
        """Return C[images x pixels, n] = A[images x pixels, k] W[k, n]."""
        number_format = get_format(self.formats.head)
        return Gemm(
            name=name,
            phase=self.phase,
            count=self._column(self.count),
            m=self.images * pixels,
            k=self._column(sizes[0]),
            n=self._column(sizes[1]),
            format=number_format.name,
            weight_bytes_per_element=number_format.weight_bytes,
            input_bytes_per_element=input_bytes,
        )

    def moved(self, name: str, read: int, written: int) -> Operator:
        """Return an operator limited by bandwidth, from elements per image."""
        return Streaming(
            name=name,
            phase=self.phase,
            count=self._column(self.count),
            stream="activation" if name.startswith("activation") else name.rstrip("_0123456789"),
            tokens=self.images,
            read_bytes=self.images * read * ELEMENT_BYTES,
            write_bytes=self.images * written * ELEMENT_BYTES,
            cold_read_bytes=self._column(0.0),
        )


def read_network(path: Path) -> ConvNetwork:
    """Return the network of a file.

    Raises:
        InvalidSpecError: A key is missing or has another type, or the layers do not fit.
    """
    try:
        return _network(path, tomllib.loads(path.read_text("utf-8")))
    except (KeyError, TypeError) as problem:
        raise InvalidSpecError(f"{path}: missing or of another type: {problem}") from problem


def _network(path: Path, table: dict[str, Any]) -> ConvNetwork:
    """Return the network of a table."""
    shape = (int(table["image"]["channels"]), int(table["image"]["size"]))
    groups, widest = [], 0
    for number, group in enumerate(table["layers"], 1):
        begins, steps = shape, []
        for position, entry in enumerate(group["operators"], 1):
            step, shape = _step(entry, shape, position)
            steps.append(step)
        if group["count"] > 1 and shape != begins:
            raise InvalidSpecError(
                f"{path}: layers {number} run {group['count']} times and turn {begins} into {shape}"
            )
        widest = max(widest, steps[-1].after)
        groups.append(ConvLayers(count=group["count"], steps=tuple(steps)))
    return ConvNetwork(
        model_type=table["name"],
        hidden_size=widest,
        vocab_size=table["classes"],
        layers=tuple(groups),
    )


def _step(
    entry: dict[str, Any], shape: tuple[int, int], position: int
) -> tuple[Step, tuple[int, int]]:
    """Return an operator, and the channels and the size of the images after it."""
    channels, size = shape
    before = channels * size**2
    if "conv" not in entry:
        name = f"{next(iter(entry))}_{position}"
        reads = 2 if "add" in entry else 1
        same = (channels, channels)
        return Step(name=name, before=before, after=before, channels=same, reads=reads), shape
    after = (int(entry["conv"]), size // int(entry.get("stride", 1)))
    step = Step(
        name=f"conv_{position}",
        before=before,
        after=after[0] * after[1] ** 2,
        channels=(channels, after[0]),
        kernel=int(entry["kernel"]),
    )
    return step, after


READER: Final = Reader(name="toy_network", suffixes=(".toynet",), read=read_network)
