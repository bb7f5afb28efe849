"""Time to tokenize a prompt, for `src/perfatlas/data/tokenizers.toml`.

    python -m venv rates && rates/bin/pip install transformers==5.23.0
    rates/bin/python benchmarks/tokenizer_rate.py llama3=FOLDER/tokenizer.json ...

Each tokenizer encodes prompts one at a time on one core, as an engine's front end does: text of
random tokens, as sent by benchmark clients, and English prose with some code (parts of Python's
help topics, with recurring words as in real prompts). The result is the median CPU time per token.
"""

from __future__ import annotations

import os
import pydoc_data.topics
import statistics
import sys
import time
from typing import Any

import numpy as np

PROMPTS = 25
LENGTHS = (1024, 4096, 8192)
WARM = 60  # warm-up prompts, as tokenizers cache words


def us_per_token(tokenizer: Any, prompts: list[list[int]]) -> float:  # noqa: ANN401 - untyped
    """Return the median CPU time per token over prompts, each encoded once [us]."""
    found = []
    for ids in prompts:
        text = tokenizer.decode(ids)
        start = time.process_time()
        tokens = len(tokenizer(text)["input_ids"])
        found.append(1e6 * (time.process_time() - start) / tokens)
    return statistics.median(found)


def drawn(
    tokenizer: Any,  # noqa: ANN401 - untyped
    length: int,
    prose: list[int],
) -> dict[str, list[list[int]]]:
    """Return prompts of a length by kind of text."""
    draw = np.random.default_rng(length)
    starts = draw.integers(0, max(len(prose) - length, 1), PROMPTS)
    return {
        "random": draw.integers(0, tokenizer.vocab_size, (PROMPTS, length)).tolist(),
        "natural": [prose[start : start + length] for start in starts],
    }


def main(named_files: list[str]) -> None:
    """Measure every NAME=FILE and print a line for each."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import tokenizers
    import transformers

    print(f"transformers {transformers.__version__}, tokenizers {tokenizers.__version__}")
    topics = pydoc_data.topics.topics
    for named in named_files:
        name, _, file = named.partition("=")
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=file)
        for ids in drawn(tokenizer, 2048, [0])["random"] * (WARM // PROMPTS + 1):
            tokenizer(tokenizer.decode(ids))
        prose = tokenizer("\n".join(topics[key] for key in sorted(topics)))["input_ids"]
        found: dict[str, list[float]] = {"natural": [], "random": []}
        for length in LENGTHS:
            for kind, prompts in drawn(tokenizer, length, prose).items():
                found[kind].append(us_per_token(tokenizer, prompts))
        shown = "; ".join(
            f"{kind} {statistics.median(each):.2f} us ("
            + ", ".join(f"{us:.2f}" for us in each)
            + ")"
            for kind, each in found.items()
        )
        print(f"{name}: {tokenizer.vocab_size:,} tokens: {shown}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
