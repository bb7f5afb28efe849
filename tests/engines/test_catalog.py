from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perfatlas.engines import all_reduce_groups, engine_ids, engine_names, resolve_engine
from perfatlas.engines.catalog import _version_key
from perfatlas.formats import get_format


def test_all_engines_have_a_profile() -> None:
    assert {"ideal", "sglang", "trtllm", "vllm"} <= set(engine_names())
    assert engine_names() == tuple(sorted(engine_names()))


@pytest.mark.parametrize("profile_id", engine_ids())
def test_every_profile_loads_and_names_its_sources(profile_id: str) -> None:
    profile = resolve_engine(profile_id)
    assert profile.id == f"{profile.name}@{profile.version}" == profile_id
    assert all(profile.all_reduce.sources)
    assert all(fusion.source for fusion in profile.fusions)
    assert profile.host.source
    assert profile.memory.source
    assert profile.scheduler.source
    for alias in profile.format_aliases.values():
        assert get_format(alias.value).name == alias.value
        assert alias.source


def test_engines_without_own_kernels_use_all_group_sizes() -> None:
    assert all_reduce_groups(resolve_engine("ideal")) == {
        "sglang": (2, 4, 6, 8),
        "trtllm": (2, 4, 8, 16, 32, 64),
        "vllm": (2, 4, 6, 8),
    }
    own = resolve_engine("vllm")
    library = replace(own, all_reduce=replace(own.all_reduce, implementation="library"))
    assert all_reduce_groups(library) == {}


@pytest.mark.parametrize("profile_id", engine_ids())
def test_captured_graph_sizes_rise(profile_id: str) -> None:
    sizes = resolve_engine(profile_id).scheduler.graph_sizes
    assert list(sizes) == sorted(set(sizes))


def test_the_newest_profile_answers_for_the_name() -> None:
    for name in engine_names():
        ids = [known for known in engine_ids() if known.startswith(f"{name}@")]
        newest = max(ids, key=lambda known: [int(x) for x in known.partition("@")[2].split(".")])
        assert resolve_engine(name).id == newest
    assert _version_key("vllm@0.24") > _version_key("vllm@0.9")  # numbers, not text


def test_the_ideal_engine_has_no_overhead() -> None:
    ideal = resolve_engine("ideal")
    assert ideal.host.step_s == ideal.host.per_layer_prefill_s == 0.0
    assert ideal.memory.context_bytes == 0.0


@pytest.mark.parametrize("text", ["SGLang", "sglang@0.5", "SGLANG@0.5.14"])
def test_an_engine_is_found_in_any_case_and_by_the_beginning_of_a_version(text: str) -> None:
    assert resolve_engine(text).id == "sglang@0.5.14"


BASED = """
base = "vllm@0.24"
name = "own"
version = "1"
date = "2026-11"

[host]
step = "63 us"
"""


def test_a_file_with_a_base_states_only_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(f'{BASED}ref = "measured"\n')
    own, base = resolve_engine(str(path)), resolve_engine("vllm@0.24")
    assert (own.name, own.host.step_s, own.host.source) == ("own", 63e-6, "measured")
    assert own.host.per_sequence_s == base.host.per_sequence_s
    assert (own.scheduler, own.memory, own.fusions) == (base.scheduler, base.memory, base.fusions)


@pytest.mark.parametrize("name", ["vllm@0.11", "vllm", "sglang"])
def test_custom_all_reduces_between_pcie_cards_have_two_ranks(name: str) -> None:
    engine = resolve_engine(name)
    assert all_reduce_groups(engine, pcie=True) == {engine.kernel_family: (2,)}
    assert len(all_reduce_groups(engine)[engine.kernel_family]) == 4


@pytest.mark.parametrize("name", ["trtllm@0.17", "trtllm@1.0", "trtllm"])
def test_tensorrt_llm_reduces_over_pcie_with_the_library(name: str) -> None:
    assert all_reduce_groups(resolve_engine(name), pcie=True) == {"trtllm": ()}
