from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING

import pytest

from perfatlas.engines import all_reduce_groups, engine_ids, engine_names, resolve_engine
from perfatlas.engines.catalog import _version_key
from perfatlas.engines.profile_file import profile_of
from perfatlas.formats import get_format
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from pathlib import Path


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
        "trtllm": (2, 4, 8, 16),
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


def test_a_profile_without_a_key_names_it() -> None:
    with pytest.raises(InvalidSpecError, match=r"vllm@9: name is missing; also version is mis"):
        profile_of("vllm@9", {"date": "2026-01"})


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('step = "126 us"', 'step = "126 W"', "host: step = '126 W': 'W' is not a valid unit"),
        ('step = "126 us"', "step = 1", "host: step = 1: write it with a unit, as '126 us'"),
        ("overlapped = true", "overlap = true", "host: unknown key 'overlap'; did you mean"),
        ('rule = "total"', 'rule = "all"', "memory: rule = 'all' is not one of total, free"),
        ("block_size = 16", "block_size = 1.5", "block_size = 1.5: expected a whole number"),
        ("gpu_memory_utilization = 0.92", "gpu_memory_utilization = 92", "outside 0 to 1"),
        ("group_sizes = {", "group_size = {", "unknown key 'group_size'; did you mean"),
        ("hopper = { 2 = 64", 'hopper = { 2 = "64 MiB"', "hopper.2 = '64 MiB': expected a number"),
    ],
)
def test_invalid_profile_values_are_refused_with_their_location(
    old: str, new: str, said: str
) -> None:
    file = resources.files("perfatlas").joinpath("data/engines/vllm@0.24.toml")
    text = file.read_text("utf-8")
    assert old in text
    with pytest.raises(InvalidSpecError, match="engine profile vllm@9: ") as error:
        profile_of("vllm@9", tomllib.loads(text.replace(old, new)))
    assert said in str(error.value)


def test_the_ideal_engine_has_no_overhead() -> None:
    ideal = resolve_engine("ideal")
    assert ideal.host.step_s == ideal.host.per_layer_prefill_s == 0.0
    assert ideal.memory.context_bytes == 0.0


@pytest.mark.parametrize("text", ["SGLang", "sglang@0.5", "SGLANG@0.5.14"])
def test_an_engine_is_found_in_any_case_and_by_the_beginning_of_a_version(text: str) -> None:
    assert resolve_engine(text).id == "sglang@0.5.14"


def test_unknown_engine_names_the_nearest() -> None:
    with pytest.raises(InvalidSpecError, match="did you mean 'vllm'"):
        resolve_engine("vlm")


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


def test_values_that_differ_from_a_base_need_a_source(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(BASED)
    with pytest.raises(InvalidSpecError, match="host changes values of its base and has no ref"):
        resolve_engine(str(path))


@pytest.mark.parametrize("base", ['"vlm"', "3", '"other.toml"'])
def test_a_base_is_an_engine_of_the_catalog(tmp_path: Path, base: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(f"base = {base}\n")
    with pytest.raises(InvalidSpecError, match="perfatlas catalog engines"):
        resolve_engine(str(path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f'max_num_seqs = 64\n{BASED}ref = "x"\n',
            "max_num_seqs belongs to [[scheduler.by_memory]]",
        ),
        (f'block_size = 16\n{BASED}ref = "x"\n', "block_size belongs to [scheduler]"),
        (f'{BASED}ref = "x"\n[scheduler]\nmax_num_seqs = 64\nref = "x"\n', "or [[recipe]]"),
        (f'step = "1 us"\n{BASED}ref = "x"\n', "step belongs to [host]"),
    ],
)
def test_a_key_outside_its_table_is_sent_there(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(InvalidSpecError, match=re.escape(said)):
        resolve_engine(str(path))
