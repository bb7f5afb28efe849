"""Write oracle.json: parameters and matmul FLOPs of transformers models on fake tensors.

It needs torch and transformers and nothing of perfatlas; see COMMAND. Attention runs eager, which
the counter sees as full squares; grouped products are registered with the counter; the arithmetic
of recurrent scans (which differs between implementations) is measured and taken out, as are
convolutions.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import torch
import transformers
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode, register_flop_formula

HERE: Final = Path(__file__).resolve().parent
CATALOG: Final = HERE.parents[2] / "src/perfatlas/data/models"
COMMAND: Final = (
    "python3 -m venv oracle-venv && oracle-venv/bin/pip install torch==2.13.0 transformers==5.23.0"
    " numpy && oracle-venv/bin/python tests/models/oracle/make_oracle.py"
)
BATCH: Final = 2
PROMPT: Final = 512

# family -> (catalog id, fields changed for the oracle: windows inside the prompt).
CASES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "llama": ("meta-llama/Llama-3.1-70B", {}),
}
# Functions whose arithmetic is a recurrent scan, by module of transformers.models.
SCANS: Final[dict[str, tuple[str, ...]]] = {
    "qwen3_next": ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule"),
    "qwen3_5": ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule"),
    "qwen3_5_moe": ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule"),
    "nemotron_h": ("mamba2_chunk_scan", "mamba2_selective_state_update"),
    "jamba": ("mamba_selective_scan", "mamba_selective_state_update"),
}


@register_flop_formula(torch.ops.aten._grouped_mm)
def grouped_mm_flop(a: Any, b: Any, *_: object, **__: object) -> int:
    """Return the FLOP of a grouped product: every row meets the matrix of one expert."""
    return 2 * a[0] * a[1] * b[-1] if len(a) == 2 and len(b) == 3 else 0


class Count:
    """Matmul FLOPs of what runs inside, with scans apart."""

    def __init__(self) -> None:
        """Start at zero."""
        self.counter = FlopCounterMode(display=False)
        self.scan_flop = 0
        self.depth = 0

    def matmul_flop(self) -> int:
        """Return FLOPs of all products but convolutions."""
        by_operator = self.counter.get_flop_counts().get("Global", {})
        return sum(
            int(flop) for name, flop in by_operator.items() if "conv" not in str(name)
        )

    def apart(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its FLOPs added to `scan_flop`."""

        def counted(*args: Any, **kwargs: Any) -> Any:
            before = self.matmul_flop()
            result = function(*args, **kwargs)
            self.scan_flop += self.matmul_flop() - before
            return result

        return counted


@contextmanager
def counting(model_type: str) -> Iterator[Count]:
    """Count matmul FLOPs, the scans of the model type apart."""
    count = Count()
    family = model_type.removesuffix("_text")
    with ExitStack() as stack:
        if family in SCANS:
            module = sys.modules[f"transformers.models.{family}.modeling_{family}"]
            for name in SCANS[family]:
                original = getattr(module, name)
                stack.enter_context(patch.object(module, name, count.apart(original)))
        stack.enter_context(count.counter)
        yield count


def load_config(family: str) -> dict[str, Any]:
    """Return the config of a case as the model reader gets it."""
    name, changes = CASES[family]
    config: dict[str, Any] = json.loads((CATALOG / f"{name}.json").read_text("utf-8"))["config"]
    inner = config.get("text_config")
    if isinstance(inner, dict):
        config = {"tie_word_embeddings": config.get("tie_word_embeddings", True), **inner}
    return {**config, **changes}


def measure(family: str, config: dict[str, Any]) -> dict[str, Any]:
    """Return parameters and FLOPs of prefill and decode of one config."""
    values = {k: v for k, v in config.items() if k != "quantization_config"}
    model_type = config["model_type"]
    kind = transformers.CONFIG_MAPPING[model_type]
    with FakeTensorMode():
        model = transformers.AutoModelForCausalLM.from_config(
            kind.from_dict(values), attn_implementation="eager", dtype=torch.bfloat16
        ).eval()
        prompt = torch.zeros(BATCH, PROMPT, dtype=torch.long)
        with torch.no_grad(), counting(model_type) as prefill:
            cache = model(input_ids=prompt, use_cache=True).past_key_values
        with torch.no_grad(), counting(model_type) as decode:
            model(input_ids=prompt[:, :1], past_key_values=cache, use_cache=True)
    return {
        "family": family,
        "catalog": CASES[family][0],
        "config": config,
        "batch": BATCH,
        "prompt": PROMPT,
        "parameters": sum(math.prod(p.shape) for p in model.parameters()),
        "prefill_flop": prefill.matmul_flop() - prefill.scan_flop,
        "prefill_scan_flop": prefill.scan_flop,
        "decode_flop": decode.matmul_flop() - decode.scan_flop,
        "decode_scan_flop": decode.scan_flop,
    }


def main() -> None:
    """Measure the cases named on the command line, or all, and write oracle.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", default=list(CASES))
    parser.add_argument("--output", type=Path, default=HERE / "oracle.json")
    options = parser.parse_args()
    cases = [measure(family, load_config(family)) for family in options.families]
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    text = json.dumps({"command": COMMAND, "versions": versions, "cases": cases}, indent=1)
    options.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
