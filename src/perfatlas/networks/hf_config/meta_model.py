"""The model that transformers builds from a config.json, on PyTorch's meta device.

No weights are read, no code of a checkpoint runs and nothing is downloaded: what is built is the
class of the installed transformers that `architectures` names.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.networks.dimensions import MAX_LAYERS, MAX_TOKENS
from perfatlas.networks.hf_config.fields import Fields
from perfatlas.networks.hf_config.keys import FORMATS, META_MODEL
from perfatlas.networks.hf_config.reader import DECODERS, read_json, with_formats
from perfatlas.quantities import (
    InvalidSpecError,
    MissingDependencyError,
    PerfatlasError,
    UnsupportedError,
    repr_for_error,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perfatlas.networks.graphs.imports import Imported

MAX_MODULES: Final = 60_000
NEEDED: Final = (
    "models of transformers need PyTorch and transformers: pip install '.[hf]' in the clone"
)
# Sizes of the inputs of an export, where neither the config nor `sizes` states them
ITEMS: Final = 2
LENGTH: Final = {"input_ids": 128, "decoder_input_ids": 32, "input_values": 16_000}
FRAMES: Final = 256
IMAGE: Final = 224
_FREE: Final = {"pixel_values": (), "input_features": (1,)}
# Keys of configs that hold the elements of a frame of speech
_FRAME: Final = ("num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim")
_NUMBER: Final = re.compile(r"\.\d+(?=\.|$)")


def build(fields: Fields) -> Any:  # noqa: ANN401 - `transformers.PreTrainedModel`
    """Return the model of a config.json, with parameters that have sizes and no values.

    Raises:
        MissingDependencyError: PyTorch or transformers is not installed.
        UnsupportedError: The installed transformers has no such class.
        InvalidSpecError: The class builds no model of this config.
    """
    try:
        import huggingface_hub
        import torch
        import transformers
    except ImportError as problem:
        raise MissingDependencyError(f"{NEEDED} ({problem})") from problem
    name = next(iter(fields.texts("architectures")), "")
    if not name:
        raise fields.invalid("architectures", "the class of transformers to build is required")
    model_type = fields.text("model_type", default="")
    kind: Any = getattr(transformers, name, None) if name.isidentifier() else None
    whole = transformers.PreTrainedModel
    carried = isinstance(kind, type) and issubclass(kind, whole) and kind is not whole
    if model_type not in transformers.CONFIG_MAPPING or not carried:
        remote = fields.child("auto_map")
        code = ", ".join(map(str, remote.values.values()))[:200] if remote else ""
        raise UnsupportedError(
            f"{fields.origin}: transformers {transformers.__version__} has no class"
            f" {repr_for_error(name)} of model_type {repr_for_error(model_type)}"
            + (f"; {code} is code of the checkpoint, which is never run" if code else "")
        )
    modules = Counter[str]()

    def count(*_: object) -> None:
        modules[name] += 1
        if modules[name] > MAX_MODULES:
            raise InvalidSpecError(f"{name} has more than {MAX_MODULES:,} modules")

    values = _built(fields.values, fields)
    hub, online = huggingface_hub.constants, huggingface_hub.constants.HF_HUB_OFFLINE
    transformers.logging.set_verbosity_error()
    hook = torch.nn.modules.module.register_module_module_registration_hook(count)
    try:
        hub.HF_HUB_OFFLINE = True
        config = transformers.CONFIG_MAPPING[model_type].from_dict(values)
        config.use_cache = config.get_text_config().use_cache = False
        with torch.device("meta"):
            model = kind(config)
        return model.to(config.dtype or model.dtype).eval()
    except Exception as problem:
        raise InvalidSpecError(
            f"{fields.origin}: {name} of transformers {transformers.__version__} builds no model"
            f" of it: {_brief(problem)}"
        ) from problem
    finally:
        hook.remove()
        hub.HF_HUB_OFFLINE = online


def _built(values: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    """Return what a class reads of a config: no formats, and no kernels that a hub would load."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if key in FORMATS or "implementation" in key:
            continue
        sizes = value if isinstance(value, list) else [value]
        most = MAX_LAYERS if "layers" in key or "depth" in key else MAX_TOKENS
        if any(isinstance(size, int) and abs(size) > most for size in sizes):
            raise InvalidSpecError(f"{fields.origin}: {key} exceeds the limit of {most:,}")
        found[key] = _built(value, fields) if isinstance(value, dict) else value
    return found


def settled(path: Path) -> dict[str, object]:
    """Return the config with every value that its class supplies, and what the model holds.

    The key `meta_model` has its class, its parameters, and those of each kind of module.
    """
    fields = Fields(values=with_formats(path), origin=str(path))
    model = build(fields)
    import transformers

    modules: Counter[str] = Counter()
    for name, parameter in model.named_parameters():  # tied ones once
        modules[_NUMBER.sub(".*", name)] += parameter.numel()
    held = {
        "source": f"{type(model).__name__} of transformers {transformers.__version__}",
        "parameters": sum(modules.values()),
        "modules": dict(modules.most_common()),
    }
    kept = {key: fields.values[key] for key in ("architectures", *FORMATS) if key in fields.values}
    return {**model.config.to_dict(), **kept, META_MODEL: held}


def forward_pass(path: Path, sizes: Mapping[str, int]) -> Imported:
    """Return the operators of a forward pass of a config.json, without a cache.

    Args:
        sizes: Sizes of the inputs by name and dimension, such as pixel_values_2.

    Raises:
        UnsupportedError: The class has inputs that are not made here, or cannot be exported.
    """
    fields = Fields(values=read_json(path), origin=str(path))
    model = build(fields)
    import torch
    import transformers

    from perfatlas.networks.torch_export import STORED, nodes_of_program, read_archive

    shown = f"{type(model).__name__} of transformers {transformers.__version__}"

    first: dict[int, str] = {}
    named = model.named_parameters(remove_duplicate=False)
    stored = {name: {"path_name": first.setdefault(id(one), name)} for name, one in named}
    problems = []
    for stated in _inputs(model, fields):
        names = [f"{name}_{i}" for name, shape in stated.items() for i in range(len(shape))]
        if wrong := sorted({*sizes} - {*names}):
            raise InvalidSpecError(f"{wrong[0]} is no size of an input; {', '.join(names)} are")
        inputs, free = {}, {}
        for name, shape in stated.items():
            asked = [sizes.get(f"{name}_{i}", size) for i, size in enumerate(shape)]
            if min(asked) < 1:
                raise InvalidSpecError(f"{path}: {name} has the shape {asked}; set its sizes")
            kind = torch.long if "ids" in name else model.dtype
            inputs[name] = torch.zeros(asked, device="meta", dtype=kind)
            lengths = [i for i in range(len(shape)) if i == 0 or name in LENGTH or i in _FREE[name]]
            free[name] = {i: torch.export.Dim.AUTO for i in lengths if f"{name}_{i}" not in sizes}
        try:
            with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
                program = torch.export.export(model, (), inputs, dynamic_shapes=free, strict=False)
                torch.export.save(program, archive := Path(folder) / "program.pt2")
                imported = nodes_of_program({**read_archive(archive), STORED: {"config": stored}})
        except PerfatlasError:
            raise
        except Exception as problem:  # noqa: BLE001 - whatever the forward pass of another package raises
            problems.append(_brief(problem))
            continue
        nodes = imported.nodes
        if type(model).__name__.endswith(DECODERS):
            nodes = [replace(node, causal=node.kind == "attention") for node in nodes]
        said = [
            f"a forward pass of {shown}, without a cache; products are in bf16 unless format is set"
        ]
        if stored_as := fields.has(*FORMATS):
            said.append(f"the number formats of {stored_as} are not read; set format")
        if any(node.sizes.get("groups") for node in nodes if node.kind == "linear"):
            said.append("grouped products read all experts, however few tokens are routed to them")
        return replace(imported, nodes=nodes, notes=(*said, *imported.notes))
    raise UnsupportedError(f"{path}: torch.export of {shown} fails: {' / '.join(problems)}")


def _inputs(model: Any, fields: Fields) -> Iterator[dict[str, list[int]]]:  # noqa: ANN401
    """Yield the shapes of the inputs of a forward pass, in the orders that classes take."""
    config, name = model.config, model.main_input_name
    vision = getattr(config, "vision_config", None) or config
    images = [ITEMS, getattr(vision, "num_channels", None) or 3, *_image(vision)]
    if name in LENGTH:
        text = config.get_text_config()
        longest = getattr(text, "max_position_embeddings", None) or LENGTH[name]
        shapes = [[ITEMS, LENGTH[name] if name == "input_values" else min(LENGTH[name], longest)]]
        if name == "input_values" and (width := getattr(config, "num_mel_bins", None)):
            shapes = [[ITEMS, getattr(config, "max_length", FRAMES), width]]
    elif name == "pixel_values":
        shapes = [images]
    elif name == "input_features":
        width = next((v for key in _FRAME if (v := getattr(config, key, None))), 80)
        frames = 2 * getattr(config, "max_source_positions", FRAMES)
        shapes = [[ITEMS, FRAMES, width], [ITEMS, width, frames]]
    else:
        raise UnsupportedError(
            f"{fields.origin}: {type(model).__name__} takes {repr_for_error(name)}; inputs that are"
            f" made here are {', '.join((*LENGTH, *_FREE))}"
        )
    target = "decoder_input_ids"
    more = {target: [ITEMS, LENGTH[target]]} if config.is_encoder_decoder else {}
    yield from ({name: shape, **more} for shape in shapes)
    if name == "input_ids" and vision is not config:  # towers of images and of texts
        yield {name: shapes[0], "pixel_values": images}


def _image(vision: Any) -> tuple[int, int]:  # noqa: ANN401
    """Return the height and the width of an image of an encoder [pixels]."""
    size = getattr(vision, "image_size", None) or IMAGE
    height, width = size if isinstance(size, list | tuple) else (size, size)
    return height, width


def _brief(problem: Exception) -> str:
    return " ".join(str(problem).split())[:200] or type(problem).__name__
