"""Write what the config classes of transformers supply, and the parameters of their models.

The defaults go to src/perfatlas/data/config_defaults.json, which the reader of config.json uses;
the parameters of each model with these defaults, on the meta device, to classes.json here. It
needs torch and transformers; see COMMAND.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import torch
import transformers
from transformers.models.auto import modeling_auto as auto

from perfatlas.networks.hf_config.keys import CLASS_KEYS, FEATURES, KEYS

HERE: Final = Path(__file__).resolve().parent
DEFAULTS: Final = HERE.parents[2] / "src/perfatlas/data/config_defaults.json"
COMMAND: Final = (
    "python3 -m venv classes-venv && classes-venv/bin/pip install torch==2.13.0"
    " transformers==5.24.0 pillow -e . && classes-venv/bin/python"
    " tests/networks/oracle/make_classes.py"
)
LONGEST_S: Final = 60  # to build a model
DECODERS: Final = sorted(auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
ENCODERS: Final = sorted(auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES)
VISION: Final = sorted(auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)
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
        if "text_config" not in parts and model_type not in VISION:
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
            model = builder.from_config(config)
    except Exception as problem:  # noqa: BLE001 - a class that cannot be built is a result
        return {"error": f"{type(problem).__name__}: {problem}"[:120]}
    lists = {
        name: value
        for name, value in config.to_dict().items()
        if name in ("layer_types", "mlp_layer_types") and isinstance(value, list)
    }
    total = sum(math.prod(one.shape) for one in model.parameters())
    return {"parameters": total, **({"layers": lists} if lists else {})}


def written(rows: dict[str, Any]) -> str:
    """Return rows as JSON, one a line."""
    lines = (f" {json.dumps(name)}: {json.dumps(rows[name])}" for name in sorted(rows))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    """Write both files."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    rows: dict[str, dict[str, object]] = {name: {} for name in transformers.CONFIG_MAPPING}
    rows |= {kind.model_type: defaults_of(kind) for kind in config_classes()}  # type: ignore[attr-defined]
    DEFAULTS.write_text(written(rows), encoding="utf-8")
    kinds: tuple[tuple[Iterable[str], Any], ...] = (
        (DECODERS, transformers.AutoModelForCausalLM),
        (ENCODERS, transformers.AutoModelForMaskedLM),
    )
    found = {name: measured(name, builder) for names, builder in kinds for name in names}
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    made = {"_made": {"command": COMMAND, "versions": versions}}
    (HERE / "classes.json").write_text(written({**made, **found}), encoding="utf-8")


if __name__ == "__main__":
    main()
