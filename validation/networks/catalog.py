"""The networks of the catalog: public architectures without weights, exported by PyTorch.

`python -m validation.networks.catalog [NAME ...]` writes `src/perfatlas/data/networks`. It needs
torch, torchvision, transformers and diffusers; what it wrote needs none of them.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import write_atomic
from perfatlas.networks.graphs import Imported, Node, graph_text
from perfatlas.networks.torch_export import nodes_of_program
from perfatlas.quantities import Expression

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FOLDER: Final = Path(__file__).parents[2] / "src/perfatlas/data/networks"
BATCH: Final = "batch"


@dataclass(frozen=True, kw_only=True)
class Part:
    """A module of a network.

    Args:
        build: Returns the module, on the meta device, and its example inputs.
        sizes: Name of each symbolic size of the inputs, by input and dimension.
        runs: How often it runs in a pass: an expression.
        batch: Items that it runs at once: an expression over `batch`.
    """

    build: Callable[[], tuple[Any, tuple[Any, ...] | dict[str, Any]]]
    sizes: Mapping[str, Mapping[int, str]]
    runs: str = "1"
    batch: str = BATCH


@dataclass(frozen=True, kw_only=True)
class Row:
    """A network of the catalog.

    Args:
        source: Where its architecture is published.
        sizes: Its sizes with their defaults.
    """

    item: str
    source: str
    parts: tuple[Part, ...]
    sizes: Mapping[str, int]


def _image(size: int = 224, channels: int = 3, batch: int = 2) -> Any:  # noqa: ANN401
    import torch

    return torch.empty(batch, channels, size, size)


def _tokens(*shape: int) -> Any:  # noqa: ANN401
    import torch

    return torch.ones(*shape, dtype=torch.long)


def _vision(name: str, size: int = 224) -> Callable[[], Any]:
    def build() -> Any:  # noqa: ANN401
        import torchvision.models

        return getattr(torchvision.models, name)().eval(), (_image(size),)

    return build


def _hugging_face(kind: str, config: str, inputs: Callable[[], Any], **given: Any) -> Any:  # noqa: ANN401
    def build() -> Any:  # noqa: ANN401
        import transformers

        settings = getattr(transformers, config)(**given, attn_implementation="sdpa")
        return getattr(transformers, kind)(settings).eval(), inputs()

    return build


def _diffuser(kind: str, inputs: Callable[[], Any], **given: Any) -> Callable[[], Any]:  # noqa: ANN401
    def build() -> Any:  # noqa: ANN401
        import diffusers

        return getattr(diffusers, kind)(**given).eval(), inputs()

    return build


def _audio(*shape: int) -> Any:  # noqa: ANN401
    import torch

    return torch.empty(*shape)


def _whisper_encoder() -> Any:  # noqa: ANN401
    import transformers
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = transformers.WhisperConfig(
        d_model=1280,
        encoder_layers=32,
        encoder_attention_heads=20,
        encoder_ffn_dim=5120,
        num_mel_bins=128,
        vocab_size=51866,
        attn_implementation="sdpa",
    )
    return WhisperEncoder(config).eval(), {"input_features": _audio(2, 128, 3000)}


SQUARE: Final = {0: BATCH, 2: "image_size", 3: "image_size"}


def _torchvision(name: str, title: str, *, square: bool) -> Row:
    sizes = {"x": SQUARE if square else {0: BATCH}}
    return Row(
        item="image",
        source=f"{title}; torchvision.models.{name}",
        parts=(Part(build=_vision(name), sizes=sizes),),
        sizes={"image_size": 224} if square else {},
    )


ROWS: Final[Mapping[str, Row]] = {
    "resnet-50": _torchvision("resnet50", "ResNet v1.5 (arXiv 1512.03385)", square=True),
    "efficientnet-b0": _torchvision(
        "efficientnet_b0", "EfficientNet (arXiv 1905.11946)", square=True
    ),
    "convnext-base": _torchvision("convnext_base", "ConvNeXt (arXiv 2201.03545)", square=True),
    "vit-large-16": _torchvision("vit_l_16", "ViT (arXiv 2010.11929)", square=False),
    "swin-base": _torchvision("swin_b", "Swin (arXiv 2103.14030)", square=False),
    "bert-large": Row(
        item="sequence",
        source="BERT (arXiv 1810.04805), span head; google-bert/bert-large-uncased config.json",
        parts=(
            Part(
                build=_hugging_face(
                    "BertForQuestionAnswering",
                    "BertConfig",
                    lambda: {"input_ids": _tokens(2, 128), "attention_mask": _tokens(2, 128)},
                    hidden_size=1024,
                    num_hidden_layers=24,
                    num_attention_heads=16,
                    intermediate_size=4096,
                ),
                sizes={
                    name: {0: BATCH, 1: "sequence_length"}
                    for name in ("input_ids", "attention_mask")
                },
            ),
        ),
        sizes={"sequence_length": 384},
    ),
    "clip-vit-large-14": Row(
        item="image",
        source="CLIP (arXiv 2103.00020), image tower; openai/clip-vit-large-patch14 config.json",
        parts=(
            Part(
                build=_hugging_face(
                    "CLIPVisionModelWithProjection",
                    "CLIPVisionConfig",
                    lambda: {"pixel_values": _image()},
                    hidden_size=1024,
                    intermediate_size=4096,
                    num_hidden_layers=24,
                    num_attention_heads=16,
                    patch_size=14,
                    projection_dim=768,
                ),
                sizes={"pixel_values": {0: BATCH}},
            ),
        ),
        sizes={},
    ),
    "wav2vec2-large": Row(
        item="clip of 16 kHz",
        source="wav2vec 2.0 (arXiv 2006.11477); facebook/wav2vec2-large-960h config.json",
        parts=(
            Part(
                build=_hugging_face(
                    "Wav2Vec2ForCTC",
                    "Wav2Vec2Config",
                    lambda: {"input_values": _audio(2, 160_000)},
                    hidden_size=1024,
                    num_hidden_layers=24,
                    num_attention_heads=16,
                    intermediate_size=4096,
                    feat_extract_norm="layer",
                    do_stable_layer_norm=True,
                ),
                sizes={"input_values": {0: BATCH}},
            ),
        ),
        sizes={},
    ),
    "whisper-large-v3-encoder": Row(
        item="clip of 30 s",
        source="Whisper (arXiv 2212.04356), encoder; openai/whisper-large-v3 config.json",
        parts=(
            Part(
                build=_whisper_encoder,
                sizes={"input_features": {0: BATCH}},
            ),
        ),
        sizes={},
    ),
}


def imported(part: Part) -> Imported:
    """Return the operators of a module, whose sizes are expressions over sizes of the network."""
    import torch
    from torch._export.serde.serialize import ExportedProgramSerializer, _dataclass_to_dict

    with torch.device("meta"):
        module, inputs = part.build()
    given = {"args": (), "kwargs": inputs} if isinstance(inputs, dict) else {"args": inputs}
    shapes = {
        name: dict.fromkeys(places, torch.export.Dim.AUTO) for name, places in part.sizes.items()
    }
    program = torch.export.export(module, **given, dynamic_shapes=shapes, strict=False)
    names: dict[str, str] = {}
    for call in program.graph.nodes:
        if call.op == "placeholder" and call.name in part.sizes:
            for place, text in part.sizes[call.name].items():
                size = call.meta["val"].shape[place]
                if isinstance(size, int):
                    raise SystemExit(f"{call.name}[{place}] is fixed at {size}")
                names |= _solved(size.node.expr, text)
    written = ExportedProgramSerializer().serialize(program).exported_program
    found = nodes_of_program(json.loads(json.dumps(_dataclass_to_dict(written))), names)
    return replace(found, nodes=tuple(_run(one, part) for one in found.nodes))


def _solved(expression: Any, text: str) -> dict[str, str]:  # noqa: ANN401
    """Return what the symbol of a size is: of 32 s = image_size, s is image_size // 32."""
    (symbol,) = expression.free_symbols
    multiple = int(expression.coeff(symbol)) if expression != symbol else 1
    return {str(symbol): f"({text} // {multiple})" if multiple > 1 else text}


def _run(one: Node, part: Part) -> Node:
    """Return an operator as often as its module runs, over the items that it runs at once."""
    if part.batch != BATCH:
        sizes = {
            name: Expression(size.text.replace(BATCH, f"({part.batch})"))
            for name, size in one.sizes.items()
        }
        one = replace(one, sizes=sizes)
    return replace(one, count=Expression(part.runs)) if part.runs != "1" else one


def write(name: str) -> None:
    """Write the file of a network."""
    row = ROWS[name]
    parts = [imported(part) for part in row.parts]
    unknown = {name: n for part in parts for name, n in part.unknown.items()}
    if unknown:
        raise SystemExit(f"{name} has operators that are not known: {unknown}")
    versions = ", ".join(f"{one} {metadata.version(one)}" for one in ("torch", "torchvision"))
    head = {
        "name": name,
        "item": row.item,
        "source": f"{row.source}; exported by {versions}",
        "parameters": sum(one.parameters for one in parts),
        "sizes": dict(row.sizes),
    }
    nodes = [one for part in parts for one in part.nodes]
    write_atomic(FOLDER / f"{name}.toml", graph_text(head, nodes).encode())


if __name__ == "__main__":
    for wanted in sys.argv[1:] or ROWS:
        write(wanted)
