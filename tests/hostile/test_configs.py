"""Mutated config.json files through `estimate`: an answer or a named error."""

from __future__ import annotations

import copy
import itertools
import json
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.answer import Answer
from perfatlas.networks.catalog import catalog_config
from perfatlas.verbs.estimate import estimate
from tests.hostile.support import (
    EXAMPLES,
    NUMBERS,
    PATIENT,
    TEXTS,
    numbers_are_sane,
    real,
    survive,
    write,
)

pytestmark = PATIENT

SAMPLES: Final = (
    "meta-llama/Llama-3.1-8B",
    "mistralai/Mistral-7B-v0.1",
    "mistralai/Mixtral-8x7B-v0.1",
    "Qwen/Qwen3-32B-FP8",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "Qwen/Qwen3.5-397B-A17B",
    "google/gemma-2-9b",
    "google/gemma-3-12b-it",
    "microsoft/phi-4",
    "openai/gpt-oss-20b",
    "deepseek-ai/DeepSeek-V2-Lite",
    "deepseek-ai/DeepSeek-V3.2",
    "moonshotai/Kimi-K2-Instruct",
    "zai-org/GLM-4.5-Air",
    "MiniMaxAI/MiniMax-M2",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4",
    "nvidia/Qwen3.6-35B-A3B-NVFP4",
    "ai21labs/Jamba-v0.1",
)
# what JSON can say; a lone surrogate and NaN survive a round trip of Python's reader
JSON: Final = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        NUMBERS,
        TEXTS,
        st.sampled_from(["full_attention", "sliding_attention", "fp8", "NVFP4", "re:.*(a|b)+"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=6,
)
# sizes that some models have, so that many mutants are answered and not refused
LIKELY: Final = st.sampled_from([0, 1, 2, 3, 4, 8, 16, 64, 127, 128, 256, 4096, 10**6, 10**7, -1])
SERIAL: Final = itertools.count()
SYSTEMS: Final = ("b300_sxm", "h200_sxm", "mi300x")


def paths(value: dict[str, Any]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for key, item in value.items():
        found.append((key,))
        if isinstance(item, dict):
            found.extend((key, *rest) for rest in paths(item))
    return found


def mutate(config: dict[str, Any], data: st.DataObject) -> None:
    """Delete, replace, copy, rename or nest one value."""
    path = data.draw(st.sampled_from(sorted(paths(config)) or [("model_type",)]))
    parent = config
    for key in path[:-1]:
        parent = parent[key]
    name, kind = path[-1], data.draw(st.integers(0, 5))
    if kind == 0:
        parent.pop(name, None)
    elif kind == 1:
        parent[data.draw(TEXTS)] = parent.get(name)
    elif kind == 2:
        parent[name] = parent[data.draw(st.sampled_from(sorted(parent) or [name]))] if parent else 0
    elif isinstance(parent.get(name), int) and kind >= 3:
        parent[name] = data.draw(LIKELY)
    elif kind == 3:
        parent[name] = [copy.deepcopy(parent.get(name))] * data.draw(st.integers(0, 3))
    else:
        parent[name] = real(data.draw(JSON))


def ask(path: Path, system: str, tp: int) -> None:
    answer = survive(
        lambda: estimate(model=str(path), system=system, tp=tp, tier="bound", batch=4, isl=64)
    )
    if isinstance(answer, Answer):
        numbers_are_sane(answer.results)
        json.dumps(answer.to_dict(), allow_nan=False)


@given(data=st.data())
@settings(max_examples=EXAMPLES["configs"])
def test_mutated_values(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    config = copy.deepcopy(catalog_config(data.draw(st.sampled_from(SAMPLES))))
    for _ in range(data.draw(st.integers(1, 3))):
        mutate(config, data)
    folder = tmp_path_factory.getbasetemp() / "configs"
    path = write(folder, f"{next(SERIAL)}.json", json.dumps(config).encode("utf-8"))
    ask(path, data.draw(st.sampled_from(SYSTEMS)), data.draw(st.sampled_from([1, 4])))


@given(data=st.data())
@settings(max_examples=EXAMPLES["config_files"])
def test_damaged_files(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    text = json.dumps(catalog_config(data.draw(st.sampled_from(SAMPLES)))).encode()
    cut, other = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    content = data.draw(
        st.sampled_from(
            [
                text[:cut],
                text[:cut] + text[other:],
                text[:other] + text[cut:],
                text + text,
                text[:cut] + b"\x00\xff\xfe" + text[cut:],
                b"[" * 100_000,
                b'{"a":' * 50_000,
                b"[" + text + b"]",
                b"",
                b"\xef\xbb\xbf" + text,
                text.decode().encode("utf-16"),
                b'{"model_type": "llama", "num_hidden_layers": ' + b"9" * 5000 + b"}",
                b"null",
                b'"llama"',
                b"1e999",
                bytes(range(256)) * 100,
            ]
        )
    )
    path = write(tmp_path_factory.getbasetemp() / "configs", f"{next(SERIAL)}.json", content)
    ask(path, "h200_sxm", 1)


def test_places_that_are_no_config(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "config.json").mkdir()
    (tmp_path / "large.json").write_bytes(b" " * 16_000_001)
    places = [
        "/dev/null",
        "/dev/zero",
        "/proc/self/mem",
        "/",
        str(tmp_path),
        str(tmp_path / "loop"),
        str(tmp_path / "large.json"),
        str(tmp_path / "missing.json"),
        f"{tmp_path}/\x00",
        "a/" * 2000,
        "x" * 4097,
        "~nobody/config.json",
    ]
    for place in places:
        assert survive(partial(estimate, model=place, system="h200_sxm")) is None
