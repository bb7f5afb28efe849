"""Write what the config classes of transformers supply, and the parameters of their models.

The defaults go to src/perfatlas/data/config_defaults.json and config_parts_defaults.json, which
the readers of config.json use;
the parameters of each model with these defaults, on the meta device, to classes.json here. It
needs torch and transformers; see COMMAND.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any, Final

import torch
import transformers
from transformers.models.auto import modeling_auto as auto

from perfatlas.files import shipped_table
from perfatlas.networks.hf_config.keys import CLASS_KEYS, FEATURES, KEYS
from perfatlas.networks.hf_config.parts import part_rows
from perfatlas.networks.hf_config.scope import NAME, columns_of

HERE: Final = Path(__file__).resolve().parent
DEFAULTS: Final = HERE.parents[2] / "src/perfatlas/data/config_defaults.json"
PARTS: Final = DEFAULTS.with_name("config_parts_defaults.json")
COMMAND: Final = (
    "python3 -m venv classes-venv && classes-venv/bin/pip install torch==2.13.0"
    " transformers==5.24.0 pillow -e . && classes-venv/bin/python"
    " tests/networks/oracle/make_classes.py"
)
LONGEST_S: Final = 60  # to build a model
DECODERS: Final = sorted(auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
ENCODERS: Final = sorted(auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES)
VISION: Final = sorted(auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)
TRANSLATORS: Final = sorted(auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES)
# Class that builds the models of a kind; a class of several kinds is built as the first
KINDS: Final = (
    (ENCODERS, transformers.AutoModelForMaskedLM),
    (DECODERS, transformers.AutoModelForCausalLM),
    (VISION, transformers.AutoModelForImageTextToText),
    (sorted(auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES), transformers.AutoModelForSpeechSeq2Seq),
    (sorted(auto.MODEL_FOR_CTC_MAPPING_NAMES), transformers.AutoModelForCTC),
    (TRANSLATORS, transformers.AutoModelForSeq2SeqLM),
)
# Keys of a serialized config that say nothing of the network
_ASIDE: Final = ("transformers_version", "dtype", "architectures")
# Keys whose default "False" says more than their absence
STATED: Final = frozenset(
    (
        *("use_sliding_window", "mamba_conv_bias", "use_conv_bias"),
        *(key for name in FEATURES for key in (name, *KEYS.get(name, ()))),
    )
)


def config_classes() -> Iterator[type]:
    """Return the config classes of decoders, encoders and the text parts of vision models."""
    for model_type in dict.fromkeys((*DECODERS, *ENCODERS, *VISION)):
        kind = transformers.CONFIG_MAPPING[model_type]
        parts = dict(getattr(kind, "sub_configs", {}))
        if not {"text_config", "llm_config"} & {*parts}:
            yield kind
        for name in ("text_config", "llm_config"):
            if dataclasses.is_dataclass(parts.get(name)):
                yield parts[name]


def defaults_of(kind: type) -> dict[str, object]:
    """Return the defaults of a class that the reader knows; null for what it derives."""
    row: dict[str, object] = {}
    for one in dataclasses.fields(kind):
        value = None if isinstance(one.default, list | tuple) else one.default
        known = value is None or value == "auto" or isinstance(value, bool | int)
        if one.name in CLASS_KEYS and known and (value is not False or one.name in STATED):
            row[one.name] = value
    if not row.get("tie_word_embeddings"):
        row.pop("tie_word_embeddings", None)
    return row


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in a block that takes longer."""

    def stop(_: int, __: FrameType | None) -> None:
        raise TimeoutError(f"not built in {seconds} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def measured(model_type: str, builder: type[transformers.AutoModel]) -> dict[str, object]:
    """Return the parameters of a model with the defaults of its class, and its lists of layers."""
    try:
        with limited(LONGEST_S), torch.device("meta"):
            config = transformers.CONFIG_MAPPING[model_type]()
            stated = config.to_diff_dict()
            model = builder.from_config(config)
    except Exception as problem:  # noqa: BLE001 - a class that cannot be built is a result
        return {"error": f"{type(problem).__name__}: {problem}"[:120]}
    lists = {
        name: value
        for name, value in config.to_dict().items()
        if name in ("layer_types", "mlp_layer_types") and isinstance(value, list)
    }
    total = sum(math.prod(one.shape) for one in model.parameters())
    row = {"parameters": total, **({"layers": lists} if lists else {})}
    if model_type in part_rows() or getattr(config, "sub_configs", {}):
        stated = {name: value for name, value in stated.items() if name not in _ASIDE}
        row["config"] = stated | {"model_type": model_type, "architectures": [type(model).__name__]}
    return row


def part_defaults() -> dict[str, dict[str, object]]:
    """Return the defaults of the keys that rows of parts read, of every class that is a row.

    What a class derives from other keys is left out.
    """
    kinds = {name: transformers.CONFIG_MAPPING[name] for name in transformers.CONFIG_MAPPING}
    for kind in [*kinds.values()]:
        for part in getattr(kind, "sub_configs", {}).values():
            if name := getattr(part, "model_type", ""):
                kinds.setdefault(name, part)
    read = {name for row in part_rows().values() for name in NAME.findall(str(row))}
    read |= {name.partition(".")[2] for name in read} | {
        f"{base}.{end}"
        for part in chain.from_iterable(shipped_table("data/config_parts.toml")["shared"].values())
        for base in map(part.get, ("dims", "kernels", "strides"))
        for end in ("count", "last", *(f"at{i}" for i in range(16)))
    }
    found = {}
    for model_type in sorted({*part_rows()} & {*kinds}):
        stated: dict[str, object] = {}
        for one in dataclasses.fields(kinds[model_type]):
            made = one.default_factory
            value = one.default if made is dataclasses.MISSING else made()
            stated[one.name] = list(value) if isinstance(value, tuple) else value
        columns = columns_of(stated)
        found[model_type] = {
            name: value for name, value in columns if name in read and name != "model_type"
        }
    return found


def written(rows: dict[str, Any]) -> str:
    """Return rows as JSON, one a line."""
    lines = (f" {json.dumps(name)}: {json.dumps(rows[name], default=str)}" for name in sorted(rows))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    """Write the files."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    rows: dict[str, dict[str, object]] = {name: {} for name in transformers.CONFIG_MAPPING}
    rows |= {kind.model_type: defaults_of(kind) for kind in config_classes()}  # type: ignore[attr-defined]
    DEFAULTS.write_text(written(rows), encoding="utf-8")
    PARTS.write_text(written(part_defaults()), encoding="utf-8")
    found: dict[str, dict[str, object]] = {}
    for names, builder in KINDS:
        for name in names:
            if name not in found:
                found[name] = measured(name, builder)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    made = {"_made": {"command": COMMAND, "versions": versions}}
    (HERE / "classes.json").write_text(written({**made, **found}), encoding="utf-8")


if __name__ == "__main__":
    main()
