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
from typing import Any, Final, ParamSpec, TypeVar
from unittest.mock import patch

import torch
import transformers
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode, register_flop_formula

P = ParamSpec("P")
R = TypeVar("R")
HERE: Final = Path(__file__).resolve().parent
CATALOG: Final = HERE.parents[2] / "src/perfatlas/data/models"
COMMAND: Final = (
    "python3 -m venv oracle-venv && oracle-venv/bin/pip install torch==2.13.0 transformers==5.23.0"
    " numpy && oracle-venv/bin/python tests/networks/oracle/make_oracle.py"
)
BATCH: Final = 2
PROMPT: Final = 512

# A sliding window inside the prompt, so that decode sees it.
WINDOW: Final = {"sliding_window": 256}
# family -> catalog id, or "" for the defaults of the transformers config class; fields changed.
CASES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "llama": ("meta-llama/Llama-3.1-70B", {}),
    "mistral": ("", WINDOW),
    "mixtral": ("mistralai/Mixtral-8x7B-v0.1", {}),
    "qwen2": ("", {}),
    "qwen2_moe": ("", {}),
    "qwen3": ("Qwen/Qwen3-32B", {}),
    "qwen3_moe": ("Qwen/Qwen3-235B-A22B", {}),
    "qwen3_next": ("", {}),
    "qwen3_5": ("Qwen/Qwen3.5-27B", {}),
    "qwen3_5_moe": ("Qwen/Qwen3.5-397B-A17B", {}),
    "gemma2": ("", WINDOW),
    "gemma3_text": ("", WINDOW),
    "phi3": ("", {}),
    "gpt_oss": ("openai/gpt-oss-120b", {}),
    "deepseek_v2": (
        "",
        {
            "hidden_size": 2048,
            "num_hidden_layers": 27,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "intermediate_size": 10944,
            "moe_intermediate_size": 1408,
            "first_k_dense_replace": 1,
            "num_experts_per_tok": 6,
            "n_group": 1,
            "topk_group": 1,
            "q_lora_rank": None,
        },
    ),
    "deepseek_v3": ("deepseek-ai/DeepSeek-V3", {}),
    "deepseek_v32": ("deepseek-ai/DeepSeek-V3.2", {}),
    "kimi_k2": ("moonshotai/Kimi-K2-Instruct", {}),
    "glm4_moe": ("", {"head_dim": 128}),
    "glm_moe_dsa": ("zai-org/GLM-5", {}),
    "minimax_m2": ("MiniMaxAI/MiniMax-M2.5", {}),
    "llama4": ("meta-llama/Llama-4-Scout-17B-16E-Instruct", {}),
    "nemotron_h": ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", {}),
    "jamba": ("", {}),
    "glm_moe_dsa_shared": ("zai-org/GLM-5.2", {}),
    "nemotron_h_latent": ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8", {}),
    "gemma4_text": ("google/gemma-4-26B-A4B", {}),
    "gemma4_dense": ("nvidia/Gemma-4-31B-IT-NVFP4", {}),
    "mimo": ("XiaomiMiMo/MiMo-7B-Base", {}),
    "mimo_v2_flash": ("XiaomiMiMo/MiMo-V2-Flash", {}),
    "minimax_m3": ("MiniMaxAI/MiniMax-M3", {}),
    "deepseek_v4": ("deepseek-ai/DeepSeek-V4-Flash", {}),
    "gptj": ("", {}),
    "gpt_neox": ("", {}),
    "falcon": ("", {}),
    "opt": ("", {}),
    "bloom": ("", {}),
    "phi": ("", {}),
    "starcoder2": ("", WINDOW),
    "mpt": ("", {}),
}
# Published with remote code that is the DeepSeek-V3 implementation.
IMPLEMENTED_BY: Final = {
    "kimi_k2": "deepseek_v3",
    "mimo": "qwen2",
    "minimax_m3": "minimax_m3_vl_text",
}
# Functions whose arithmetic is a recurrent scan, by module of transformers.models.
SCANS: Final[dict[str, tuple[str, ...]]] = {
    "qwen3_next": ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule"),
    "qwen3_5": ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule"),
    "qwen3_5_moe": ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule"),
    "nemotron_h": ("mamba2_chunk_scan", "mamba2_selective_state_update"),
    "jamba": ("mamba_selective_scan", "mamba_selective_state_update"),
}


def grouped_mm_flop(a: list[int], b: list[int], *_: object, **__: object) -> int:
    """Return the FLOP of a grouped product: every row meets the matrix of one expert."""
    return 2 * a[0] * a[1] * b[-1] if len(a) == 2 and len(b) == 3 else 0


register_flop_formula(torch.ops.aten._grouped_mm)(grouped_mm_flop)


class Count:
    """Matmul FLOPs of what runs inside, with scans apart."""

    def __init__(self) -> None:
        """Start at zero."""
        self.counter = FlopCounterMode(display=False)
        self.scan_flop = 0

    def matmul_flop(self) -> int:
        """Return FLOPs of all products but convolutions."""
        by_operator = self.counter.get_flop_counts().get("Global", {})
        return sum(int(flop) for name, flop in by_operator.items() if "conv" not in str(name))

    def apart(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return the function with its FLOPs added to `scan_flop`."""

        def counted(*args: P.args, **kwargs: P.kwargs) -> R:
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
    if not name:
        return {**_defaults(family), **changes}
    config: dict[str, Any] = json.loads((CATALOG / f"{name}.json").read_text("utf-8"))["config"]
    inner = config.get("text_config")
    if isinstance(inner, dict):
        config = {"tie_word_embeddings": config.get("tie_word_embeddings", False), **inner}
    return {**config, **changes}


def _defaults(family: str) -> dict[str, Any]:
    """Return the defaults of the fields that a config class adds to the common ones."""
    every = set(transformers.PreTrainedConfig().to_dict()) - {"model_type", "tie_word_embeddings"}
    values = transformers.CONFIG_MAPPING[family]().to_dict()
    return {key: value for key, value in values.items() if key not in every}


def measure(family: str, config: dict[str, Any]) -> dict[str, Any]:
    """Return parameters and FLOPs of prefill and decode of one config."""
    values = {k: v for k, v in config.items() if k != "quantization_config"}
    model_type = config["model_type"]
    model_type = IMPLEMENTED_BY.get(model_type, model_type)
    kind = transformers.CONFIG_MAPPING[model_type]
    values["model_type"] = model_type
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
        "catalog": CASES[family][0] or f"defaults of transformers for {family}",
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
