"""Vision encoders of multi-modal models: images to patches, tokens, operators and parameters.

Engines run the encoder before the prefill of the tokens of its images, in 16 bits whatever the
format of the language model, and divide it over tensor-parallel ranks like a language model (vLLM
`mm_encoder_tp_mode = "weights"`, the default of vLLM and SGLang).

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.networks.contract import ENCODER, DividedSize
from perfatlas.networks.elementwise import activation_bytes
from perfatlas.networks.emission import Emission, ModelFormats, StepTokens
from perfatlas.operators import ACTIVATION_BYTES, Attention, Phase, with_fields
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, Operator, Shard

ATTENTION: Final = f"{ENCODER}attention"  # once per layer
# Source: smart_resize of transformers (models/qwen2_vl/image_processing_qwen2_vl.py)
LONGEST_RATIO: Final = 200.0


@dataclass(frozen=True, kw_only=True)
class Resizing:
    """How the image processor of a model chooses the size of an image: sides in whole tokens.

    Source: transformers, `smart_resize` of models/qwen2_vl/image_processing_qwen2_vl.py,
        `navit_resize` of models/kimi_k25/image_processing_kimi_k25.py.
    """

    side: int  # Pixels of a token, in height and width
    least: int = 0  # Minimum pixels of an image
    most: int = 0  # Maximum pixels of an image
    fixed: int = 0  # Side of all images [pixels], 0 where it depends on the image
    pads: bool = False  # Whether sides are padded to whole tokens, else rounded to the nearest

    def tokens(self, height: int, width: int) -> int:
        """Return the tokens of an image.

        Args:
            height: Its height [pixels].
            width: Its width [pixels].

        Raises:
            InvalidSpecError: The processor refuses so narrow an image.

        Example:
            >>> from perfatlas.networks.vision_encoder import Resizing
            >>> Resizing(side=32, least=65_536, most=16_777_216).tokens(1080, 1920)  # 34 x 60
            2040
        """
        if self.fixed:
            return (self.fixed // self.side) ** 2
        if self.pads:
            shrink = min(1.0, math.sqrt(self.most / (height * width)))
            return math.prod(
                math.ceil(max(int(pixels * shrink), 1) / self.side) for pixels in (height, width)
            )
        if max(height, width) > LONGEST_RATIO * min(height, width):
            raise InvalidSpecError(
                f"image_height = {height} and image_width = {width}: the image processor refuses"
                f" sides that differ by more than a factor of {LONGEST_RATIO:g}"
            )
        sides = [round(pixels / self.side) for pixels in (height, width)]
        pixels = math.prod(sides) * self.side**2
        if pixels > self.most:
            scale = math.sqrt(self.most / (height * width)) / self.side
            sides = [max(math.floor(pixels * scale), 1) for pixels in (height, width)]
        elif pixels < self.least:
            scale = math.sqrt(self.least / (height * width)) / self.side
            sides = [math.ceil(pixels * scale) for pixels in (height, width)]
        return math.prod(sides)


@dataclass(frozen=True, kw_only=True)
class Projector:
    """A norm and products from the merged patches of a token to the hidden size of a model."""

    widths: tuple[int, ...]  # Input of the first product and outputs of all, ranks divide pairs
    norm_parameters: int  # Weights and biases of the norm
    bias: bool = True  # Whether products have biases
    number: int = 1  # Projectors of this kind: of the last and of earlier layers (DeepStack)

    @property
    def parameters(self) -> int:
        """Parameters of all of its kind."""
        pairs = zip(self.widths, self.widths[1:], strict=False)
        products = sum((inner + int(self.bias)) * outer for inner, outer in pairs)
        return self.number * (products + self.norm_parameters)


@dataclass(frozen=True, kw_only=True)
class VisionEncoder:
    """A vision transformer over the patches of an image, with biases, and its projectors."""

    layers: int
    hidden_size: int
    num_heads: int
    intermediate_size: int
    patch_elements: int  # Pixels of a patch times channels and frames
    patches_per_token: int  # Patches that a projector merges
    position_rows: int  # Rows of the table of positions, interpolated to the image
    resizing: Resizing
    projectors: tuple[Projector, ...]
    rotary: bool = True  # Whether queries and keys are also rotated by their positions
    final_norm: bool = False  # Whether a norm follows the layers

    @property
    def divided_sizes(self) -> tuple[DividedSize, ...]:
        """Sizes that tensor parallelism divides."""
        return (
            DividedSize(label="num_heads of the vision encoder", size=self.num_heads, by="tp"),
            DividedSize(
                label="intermediate_size of the vision encoder",
                size=self.intermediate_size,
                by="tp",
            ),
        )

    @property
    def parameters(self) -> int:
        """Parameters of the encoder and its projectors."""
        hidden, norm = self.hidden_size, 2 * self.hidden_size
        feed_forward = 2 * hidden * self.intermediate_size + self.intermediate_size + hidden
        layer = 4 * hidden * (hidden + 1) + feed_forward + 2 * norm
        outer = (self.patch_elements + 1 + self.position_rows) * hidden
        outer += norm if self.final_norm else 0
        return self.layers * layer + outer + sum(one.parameters for one in self.projectors)


def encoder_operators(
    encoder: VisionEncoder, tokens_per_image: int, formats: ModelFormats, images_C: FloatArray
) -> tuple[Operator, ...]:
    """Return the operators that encode the images of a step, unsharded, in execution order.

    Of less than one image, the encoder runs in so many of such steps.

    Args:
        tokens_per_image: Tokens of one image.
        formats: The formats of the deployment; the encoder runs in that of the head.
        images_C: Images of the step on one attention-DP rank (C,).

    Limits: Tables of positions are read from the L2 cache. Two markers around the tokens of an
        image, and the preprocessing of its pixels on the host, are left out.
    """
    patches_C = np.full_like(images_C, float(tokens_per_image * encoder.patches_per_token))
    whole_C = np.maximum(images_C, 1.0)
    tokens = StepTokens(batch=whole_C, q_len=patches_C, kv_len=patches_C)
    outer = _emission(encoder, formats, tokens, 1)
    width_bytes = encoder.hidden_size * ACTIVATION_BYTES
    operators: list[Operator] = [
        *outer.gemm(
            f"{ENCODER}patch_embedding",
            encoder.hidden_size,
            encoder.patch_elements,
            "replicated",
            format_name=formats.head,
        ),
        outer.streaming(f"{ENCODER}positions", "add", (2.0 * width_bytes, width_bytes)),
        *_layer(encoder, _emission(encoder, formats, tokens, encoder.layers)),
    ]
    if encoder.final_norm:
        operators.append(outer.norm(f"{ENCODER}final_norm"))
    for projector in encoder.projectors:
        each = _emission(encoder, formats, tokens, projector.number)
        operators += _projection(encoder, projector, each, whole_C * float(tokens_per_image))
    share_C = np.minimum(images_C, 1.0)
    return tuple(with_fields(operator, count=operator.count * share_C) for operator in operators)


def _emission(
    encoder: VisionEncoder, formats: ModelFormats, tokens: StepTokens, layers: int
) -> Emission:
    return Emission(
        phase=Phase.PREFILL,
        tokens=tokens,
        formats=formats,
        hidden=encoder.hidden_size,
        layers=layers,
        projection_format=formats.head,
    )


def _layer(encoder: VisionEncoder, emission: Emission) -> tuple[Operator, ...]:
    """Return attention within each image, and a feed-forward network, each behind a norm."""
    column, hidden, width = emission.column, encoder.hidden_size, encoder.intermediate_size
    head = column(hidden / encoder.num_heads)
    rotated, moved = 2.0 * hidden * ACTIVATION_BYTES, activation_bytes(width, gated=False)

    def product(name: str, n: float, k: float, shard: Shard) -> tuple[Operator, ...]:
        return emission.gemm(ENCODER + name, n, k, shard, format_name=emission.projection_format)

    rope = emission.streaming(f"{ENCODER}rope", "rope", (rotated, rotated), shard="width")
    return (
        emission.norm(f"{ENCODER}input_norm"),
        *product("qkv_projection", 3.0 * hidden, hidden, "column"),
        *((rope,) if encoder.rotary else ()),
        Attention(
            name=ATTENTION,
            phase=emission.phase,
            count=emission.count,
            shard="heads",
            batch=emission.tokens.batch,
            q_len=emission.tokens.q_len,
            kv_len=emission.tokens.kv_len,
            num_heads=column(encoder.num_heads),
            num_kv_heads=column(encoder.num_heads),
            head_dim=head,
            value_head_dim=head,
            window=column(0.0),
            causal=False,
            cache_append=False,
        ),
        *product("output_projection", hidden, hidden, "row"),
        emission.norm(f"{ENCODER}ffn_norm"),
        *product("up_projection", width, hidden, "column"),
        emission.streaming(
            f"{ENCODER}activation", "activation", (moved.read, moved.write), shard="width"
        ),
        *product("down_projection", hidden, width, "row"),
    )


def _projection(
    encoder: VisionEncoder, projector: Projector, emission: Emission, rows_C: FloatArray
) -> tuple[Operator, ...]:
    """Return the norm that merges patches, and the products of one kind of projector.

    Args:
        rows_C: Tokens of the images (C,).
    """
    first, *outputs = projector.widths
    read = encoder.patches_per_token * encoder.hidden_size * ACTIVATION_BYTES
    name = f"{ENCODER}projector"
    merge = emission.streaming(
        f"{name}_merge", "norm", (float(read), first * ACTIVATION_BYTES), rows=rows_C
    )
    if len(outputs) == 1:
        shards: tuple[Shard, ...] = ("replicated",)
    else:
        shards = ("column", "row")
    operators: list[Operator] = [merge]
    for place, (k, n, shard) in enumerate(zip(projector.widths, outputs, shards, strict=False)):
        operators += emission.gemm(
            f"{name}_{place + 1}", n, k, shard, format_name=emission.projection_format, rows=rows_C
        )
        if place + 1 < len(outputs):
            moved = activation_bytes(n, gated=False)
            operators.append(
                emission.streaming(
                    f"{name}_activation",
                    "activation",
                    (moved.read, moved.write),
                    shard="width",
                    rows=rows_C,
                )
            )
    return tuple(operators)
