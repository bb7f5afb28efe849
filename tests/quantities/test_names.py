from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError, UnsupportedError, did_you_mean, resolve_name

SYSTEMS = ("a100_sxm", "h100_pcie", "h100_sxm", "h20", "h200_sxm", "mi300x", "rtx_4090")
MODELS = ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen3-32B", "a/Twin-8B", "b/Twin-8B", "nvidia/Kimi-NVFP4")


def resolve(given: str, names: tuple[str, ...], *, shorten: bool = True) -> str:
    return resolve_name(given, names, what="thing", lists="see the list", shorten=shorten)


def refusal(given: str, names: tuple[str, ...], *, shorten: bool = True) -> str:
    with pytest.raises(InvalidSpecError) as error:
        resolve(given, names, shorten=shorten)
    return str(error.value)


@pytest.mark.parametrize(
    ("value", "choices", "nearest"),
    [
        ("H200", ("h200_sxm", "l4"), "h200_sxm"),
        ("h2000", SYSTEMS, "h200_sxm"),  # h200 alone is nearer than h20
        ("rtx4090", SYSTEMS, "rtx_4090"),
        ("vlm", ("sglang", "vllm", "vllm@0.24"), "vllm"),
        ("Qwen3-33B", MODELS, "Qwen/Qwen3-32B"),
        ("tpp", ("tp", "pp", "tp_size"), "tp"),
        ("nodse", ("node_mtbf_s", "nodes"), "nodes"),  # the same letters
        ("zzz", SYSTEMS, None),
        ("resnet50", MODELS, None),
        ("gpt2", ("openai/gpt-oss-20b", *MODELS), None),
        ("", SYSTEMS, None),
        ("x" * 100_000, SYSTEMS, None),
    ],
)
def test_the_nearest_name_is_suggested_only_when_near(
    value: str, choices: tuple[str, ...], nearest: str | None
) -> None:
    said = f"; did you mean {nearest!r}?" if nearest else ""
    assert did_you_mean(value, choices) == said


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("h100_sxm", "h100_sxm"),
        ("H100-SXM", "h100_sxm"),
        (" h100 sxm ", "h100_sxm"),
        ("H200", "h200_sxm"),  # and not h20, of which it is no first part
        ("H20", "h20"),
        ("RTX", "rtx_4090"),
        ("rtx4090", "rtx_4090"),
        ("h100-sxm", "h100_sxm"),
        ("h100sxm", "h100_sxm"),
    ],
)
def test_names_resolve_by_case_separators_and_prefix(given: str, name: str) -> None:
    assert resolve(given, SYSTEMS) == name


def test_an_unambiguous_organization_may_be_omitted() -> None:
    assert resolve("QWEN3-32b", MODELS) == "Qwen/Qwen3-32B"
    assert (
        refusal("Twin-8B", MODELS)
        == "ambiguous thing 'Twin-8B': a/Twin-8B, b/Twin-8B; see the list"
    )


def test_punctuation_counts_between_digits_only() -> None:
    assert resolve("llama31-8b", ("llama-31-8b", "llama-3.1-8b")) == "llama-31-8b"
    assert resolve("llama3.1_8B", ("llama-31-8b", "llama-3.1-8b")) == "llama-3.1-8b"
    assert refusal("llama318b", ("llama-3.1-8b",)).startswith("unknown thing 'llama318b'")


def test_spellings_of_one_name_are_not_ambiguous() -> None:
    spellings = {"a/Twin-8B": "b/Twin-8B", "b/Twin-8B": "b/Twin-8B", "b/Twin-9B": "b/Twin-9B"}
    found = resolve_name("twin8b", spellings, what="thing", lists="")
    assert spellings[found] == "b/Twin-8B"
    with pytest.raises(InvalidSpecError, match="ambiguous thing 'Twin': b/Twin-8B, b/Twin-9B;"):
        resolve_name("Twin", spellings, what="thing", lists="")


def test_only_some_names_may_be_shortened() -> None:
    names = ["dlrm-dcnv2", "bert-large"]
    assert resolve_name("dlrm", names, what="thing", lists="", shorten=["dlrm-dcnv2"]) == names[0]
    with pytest.raises(InvalidSpecError, match="did you mean 'bert-large'"):
        resolve_name("bert", names, what="thing", lists="", shorten=["dlrm-dcnv2"])


def test_no_letters_in_common_get_no_suggestion() -> None:
    assert refusal("zzz", SYSTEMS) == "unknown thing 'zzz'; see the list"
    assert refusal("", SYSTEMS) == "unknown thing ''; see the list"
    with pytest.raises(UnsupportedError, match="unknown thing"):
        resolve_name("zzz", SYSTEMS, what="thing", lists="", error=UnsupportedError)


@given(st.lists(st.text("ab_-@./", max_size=6), max_size=6), st.text("abAB_-@./ ", max_size=6))
def test_resolution_returns_known_names_and_is_idempotent(names: list[str], given: str) -> None:
    known = tuple(names)
    with contextlib.suppress(InvalidSpecError):
        assert resolve(given, known) in known
    assert all(resolve(name, known) == name for name in known)
