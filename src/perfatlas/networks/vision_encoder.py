"""Vision encoders of multi-modal models: images to patches, tokens, operators and parameters.

Engines run the encoder before the prefill of the tokens of its images, in 16 bits whatever the
format of the language model, and divide it over tensor-parallel ranks like a language model (vLLM
`mm_encoder_tp_mode = "weights"`, the default of vLLM and SGLang).

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.networks.contract import ENCODER
from perfatlas.networks.elementwise import activation_bytes
from perfatlas.networks.emission import Emission, ModelFormats, StepTokens
from perfatlas.networks.mixers import ROPE
from perfatlas.operators import ACTIVATION_BYTES, Phase, with_fields
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from perfatlas.networks.contract import DividedSize, Network
    from perfatlas.networks.graphs.network import GraphNetwork
    from perfatlas.operators import FloatArray, Operator

# Source: smart_resize of transformers (models/qwen2_vl/image_processing_qwen2_vl.py)
MAX_ASPECT_RATIO: Final = 200.0


@dataclass(frozen=True, kw_only=True)
class Resizing:
    """How the image processor of a model chooses the size of an image: sides in whole tokens.

    Source: transformers, `smart_resize` of models/qwen2_vl/image_processing_qwen2_vl.py,
        `navit_resize` of models/kimi_k25/image_processing_kimi_k25.py.
    """

    side: int  # Pixels of a token, in height and width
    patch: int = 1  # Pixels of a patch, in height and width
    min_pixels: int = 0  # Minimum pixels of an image
    max_pixels: int = 0  # Maximum pixels of an image; where sides are padded, of its whole patches
    max_side: int = 0  # Maximum of a side that is padded [pixels]
    fixed_side: int = 0  # Side of all images [pixels], 0 where it depends on the image
    ends_rows: bool = False  # Whether a token ends each row of a padded image (Pixtral)
    pads_sides: bool = False  # Whether sides are padded to whole tokens, else rounded to nearest

    def tokens(self, height: int, width: int) -> int:
        """Return the tokens of an image.

        Args:
            height: Its height [pixels].
            width: Its width [pixels].

        Example:
            >>> from perfatlas.networks.vision_encoder import Resizing
            >>> limits = {"min_pixels": 65_536, "max_pixels": 16_777_216}
            >>> Resizing(side=32, **limits).tokens(1080, 1920)  # 34 x 60
            2040
        """
        if self.fixed_side:
            return (self.fixed_side // self.side) ** 2
        if self.pads_sides:
            return self._padded_tokens(height, width)
        if max(height, width) > MAX_ASPECT_RATIO * min(height, width):
            raise InvalidSpecError(
                f"image_height = {height} and image_width = {width}: the image processor refuses"
                f" sides that differ by more than a factor of {MAX_ASPECT_RATIO:g}"
            )
        sides = [round(pixels / self.side) for pixels in (height, width)]
        pixels = math.prod(sides) * self.side**2
        if pixels > self.max_pixels:
            scale = math.sqrt(self.max_pixels / (height * width)) / self.side
            sides = [max(math.floor(pixels * scale), 1) for pixels in (height, width)]
        elif pixels < self.min_pixels:
            scale = math.sqrt(self.min_pixels / (height * width)) / self.side
            sides = [math.ceil(pixels * scale) for pixels in (height, width)]
        return math.prod(sides)

    def _padded_tokens(self, height: int, width: int) -> int:
        """Return the tokens of an image that is reduced to both limits, then padded."""
        sides = height, width
        patches = math.prod(max(side // self.patch, 1) for side in sides)
        scale = min(
            1.0,
            math.sqrt(self.max_pixels / (patches * self.patch**2)),
            self.max_side / max(sides),
        )
        rows, columns = (math.ceil(max(int(side * scale), 1) / self.side) for side in sides)
        return rows * (columns + self.ends_rows)


@dataclass(frozen=True, kw_only=True)
class Projector:
    """A norm and products from the merged patches of a token to the hidden size of a model."""

    widths: tuple[int, ...]  # Input of the first product and outputs of all, ranks divide pairs
    norm_parameters: int = 0  # Weights and biases of a norm of its own
    bias: bool = True  # Whether products have biases
    copies: int = 1  # Projectors of this kind: of the last and of earlier layers (DeepStack)

    @property
    def parameters(self) -> int:
        """Parameters of all of its kind."""
        pairs = zip(self.widths, self.widths[1:], strict=False)
        products = sum((inner + int(self.bias)) * outer for inner, outer in pairs)
        return self.copies * (products + self.norm_parameters)


@dataclass(frozen=True, kw_only=True)
class VisionEncoder:
    """A vision transformer over the patches of an image, and projectors to the language model."""

    transformer: Network  # Layers, learned positions and final norm, without vocabulary
    patch_elements: int  # Pixels of a patch times channels and frames
    patches_per_token: int  # Patches that a projector merges
    resizing: Resizing
    projectors: tuple[Projector, ...]
    rotary: bool = True  # Whether queries and keys are also rotated by their positions
    tiles: str = ""  # How images are divided into tiles that are not modeled, a clause

    @property
    def divided_sizes(self) -> tuple[DividedSize, ...]:
        """Sizes that tensor parallelism divides."""
        sizes = self.transformer.divided_sizes
        return tuple(replace(size, label=f"{size.label} of the vision encoder") for size in sizes)

    @property
    def parameters(self) -> int:
        """Parameters of the encoder and its projectors."""
        patches = (self.patch_elements + 1) * self.transformer.hidden_size
        layers = self.transformer.parameters().total
        return patches + layers + sum(projector.parameters for projector in self.projectors)

    def operators(
        self, tokens_per_image: int, formats: ModelFormats, images_C: FloatArray
    ) -> tuple[Operator, ...]:
        """Return the operators that encode images, unsharded, in execution order.

        Limits: Tables of positions are read from the L2 cache. Two markers around the tokens of an
            image, and the preprocessing of its pixels on the host, are left out.
        """
        half, hidden = formats.head, self.transformer.hidden_size
        patches_C = np.full_like(images_C, float(tokens_per_image * self.patches_per_token))
        whole_C = np.maximum(images_C, 1.0)
        emission = Emission(
            phase=Phase.PREFILL,
            tokens=StepTokens(batch=whole_C, q_len=patches_C, kv_len=patches_C),
            formats=ModelFormats(gemm=half, moe=half, kv=half, attention=half, head=half),
            hidden=hidden,
            layers=1,
            projection_format=half,
        )
        layers = self.transformer.step_operators(emission.formats, emission.phase, emission.tokens)
        width_bytes = hidden * ACTIVATION_BYTES
        operators: list[Operator] = [
            *emission.gemm("patch_embedding", hidden, self.patch_elements, "replicated"),
            emission.streaming("positions", "add", (2.0 * width_bytes, width_bytes)),
            *(layer for layer in layers if self.rotary or layer.name != ROPE),
            emission.norm("final_norm"),
        ]
        for projector in self.projectors:
            copies = replace(emission, layers=projector.copies, constants={})
            operators += _projection(self, projector, copies, whole_C * float(tokens_per_image))
        share_C = np.minimum(images_C, 1.0)
        return tuple(
            with_fields(operator, name=ENCODER + operator.name, count=operator.count * share_C)
            for operator in operators
        )


@dataclass(frozen=True, kw_only=True)
class GraphEncoder:
    """A vision encoder that is a graph over the patches of an image, which every rank holds."""

    graph: GraphNetwork  # Its only size is `patches`
    parameters: int  # Of its projectors, and of encoders of audio, too
    patches_per_token: int  # Patches that a projector merges
    resizing: Resizing
    tiles: str = ""  # As of a `VisionEncoder`
    divided_sizes: tuple[DividedSize, ...] = ()

    def operators(
        self, tokens_per_image: int, formats: ModelFormats, images_C: FloatArray
    ) -> tuple[Operator, ...]:
        """Return the operators that encode images, as those of a `VisionEncoder`."""
        half, whole_C = formats.head, np.maximum(images_C, 1.0)
        sizes = {"patches": tokens_per_image * self.patches_per_token}
        operators = replace(self.graph, sizes=sizes).step_operators(
            ModelFormats(gemm=half, moe=half, kv=half, attention=half, head=half),
            Phase.PREFILL,
            StepTokens(batch=whole_C, q_len=np.ones_like(whole_C), kv_len=np.ones_like(whole_C)),
        )
        share_C = np.minimum(images_C, 1.0)
        return tuple(
            with_fields(operator, name=ENCODER + operator.name, count=operator.count * share_C)
            for operator in operators
        )


def _projection(
    encoder: VisionEncoder, projector: Projector, emission: Emission, rows_C: FloatArray
) -> tuple[Operator, ...]:
    """Return the norm that merges patches, and the products of one kind of projector."""
    first, *outputs = projector.widths
    read = encoder.patches_per_token * emission.hidden * ACTIVATION_BYTES
    merge = emission.streaming(
        "projector_merge", "norm", (float(read), first * ACTIVATION_BYTES), rows=rows_C
    )
    if len(outputs) == 1:
        return (merge, *emission.gemm("projector", outputs[0], first, "replicated", rows=rows_C))
    inner, last = outputs
    moved = activation_bytes(inner, gated=False)[:2]
    return (
        merge,
        *emission.gemm("projector_up", inner, first, "column", rows=rows_C),
        emission.streaming("projector_activation", "activation", moved, shard="width", rows=rows_C),
        *emission.gemm("projector_down", last, inner, "row", rows=rows_C),
    )
