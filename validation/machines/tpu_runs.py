"""Published training runs on TPUs, with the recipes of their sources."""

from __future__ import annotations

import json
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from validation.runs.shared_data import read_table, shared_folder
from validation.runs.twins import layers_of, twin_groups
from validation.scoring import read_data

FILE: Final = "machines/training_measured.csv"
RECIPES: Final = "tpu_runs.toml"
NAMES: Final = {
    "TPU v4": "tpu_v4",
    "TPU v5e": "tpu_v5e",
    "TPU v5p": "tpu_v5p",
    "TPU v6e": "tpu_v6e",
    "TPU v7 (Ironwood)": "tpu_v7",
}
FORMATS: Final = {"bf16": "bf16", "fp8_full": "fp8"}


class Run(NamedTuple):
    """A published training run."""

    machine: str  # Generation
    model: str  # Model, as recipes name it
    network: str  # Model with the same layers, which several may share
    format: str  # Number format of products
    chips: int  # Chips
    slices: int  # Slices
    tokens_per_s: float  # Measured tokens/s of a chip
    fields: dict[str, Any]  # Its fields of `train`


@cache
def _model(name: str) -> str:
    """Return the id of a model, or the path of its configuration."""
    stated = read_data(RECIPES)["models"][name]
    if "id" in stated:
        return str(stated["id"])
    config = sizes(stated)
    folder = Path(tempfile.gettempdir()) / "perfatlas-maxtext"
    folder.mkdir(exist_ok=True)
    path = folder / f"{name.replace(' ', '_')}.json"
    path.write_text(json.dumps(config))
    return str(path)


def sizes(stated: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a model of MaxText.

    Source: get_individual_scales of AI-Hypercomputer/maxtext@e591f30c src/maxtext/configs/types.py.
    """
    stated = dict(stated)
    if scale := stated.pop("scale", 0):
        third, rest = divmod(int(scale).bit_length() - 1, 3)
        stated = {
            "hidden": 2048 << third + (rest > 1),
            "heads": 16 << third + (rest > 0),
            "ffn": 7168 << third + (rest > 0),
            "layers": 16 << third,
            "head_dim": 128,
        }
    return {
        "model_type": "llama",
        "hidden_size": stated["hidden"],
        "num_attention_heads": stated["heads"],
        "num_key_value_heads": stated["heads"],
        "head_dim": stated["head_dim"],
        "intermediate_size": stated["ffn"],
        "num_hidden_layers": stated["layers"],
        "vocab_size": 32000,
        "tie_word_embeddings": False,
        "max_position_embeddings": 2048,
        "hidden_act": "silu",
    }


def flop_per_token(config: dict[str, Any], sequence: int) -> float:
    """Return the model FLOP of a token as MaxText counted them in 2024: attention without mask."""
    hidden, width = config["hidden_size"], config["num_attention_heads"] * config["head_dim"]
    layer = 4 * hidden * width + 3 * hidden * config["intermediate_size"]
    weights = config["num_hidden_layers"] * layer + hidden * config["vocab_size"]
    return float(6.0 * weights + 12.0 * config["num_hidden_layers"] * width * sequence)


@cache
def published_runs() -> tuple[Run, ...]:
    """Return the runs whose recipes are known, each once."""
    found: dict[tuple[Any, ...], Run] = {}
    for row in read_table(shared_folder() / FILE):
        model = row["model"].replace("Llama3.1", "Llama-3.1").replace("llama3.1", "Llama-3.1")
        model = model.replace("70b", "70B").replace("405b", "405B")
        own = read_data(RECIPES)["recipe"].get(row["machine"], {}).get(model)
        tflops = row["metric"] == "model_tflops_per_chip" and model.startswith("MaxText")
        if own is None or not (tflops or row["metric"] == "tokens_per_s_per_chip"):
            continue
        if row["precision"] not in FORMATS or "tiering" in row["source"]:  # repeats of recipes
            continue
        chips, value = int(row["chips"]), float(row["value"])
        slices, chips_of_slice = _slices(row, chips)
        if tflops:
            value *= 1e12 / flop_per_token(
                sizes(read_data(RECIPES)["models"][model]), own["sequence"]
            )
        batch = own["batch"] if isinstance(own["batch"], int) else own["batch"][str(chips)]
        replicas = own.get("replicas", 1) * (1 if own.get("dcn") else slices)
        name = NAMES[row["machine"]]
        fields = {
            "model": _model(model),
            "system": f"{name}{{device.scale_up.domain_size={chips_of_slice}}}",
            "engine": "maxtext",
            "gpus": chips,
            "tp": own.get("tp", 1),
            "global_batch": batch * chips,
            "micro_batch": batch * own.get("tp", 1),
            "sequence_length": own["sequence"],
            "recompute": own["recompute"],
            "sharding_replicas": replicas,
            "format": FORMATS[row["precision"]],
        }
        named = {"offload": "activation_offload", "modules": "recompute_modules"}
        fields |= {field: own[name] for name, field in named.items() if name in own}
        key = (row["machine"], model, row["precision"], chips, slices)
        found[key] = Run(
            row["machine"], model, model, row["precision"], chips, slices, value, fields
        )
    names = [run.model for run in found.values()]
    networks = twin_groups(names, [layers_of(run.fields["model"]) for run in found.values()])
    return tuple(
        run._replace(network=name) for run, name in zip(found.values(), networks, strict=True)
    )


def _slices(row: dict[str, str], chips: int) -> tuple[int, int]:
    """Return the slices of a run, and the chips of one."""
    stated = re.match(r"(\d+)x[ -]v", row["system"])
    pod = {"TPU v6e": 256}.get(row["machine"], chips)
    slices = int(stated[1]) if stated else max(chips // pod, 1)
    return slices, chips // slices
