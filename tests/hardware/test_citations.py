"""Every reference names a document, or states that a value is assumed and why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.hardware import cited_sources, describe, resolve_system, system_names
from perfatlas.hardware.description import MAX_LINES

# a page, a file, a paper, a pull request, a quotation to search for, or a titled document
DOCUMENT = re.compile(
    r"\w\.(com|org|net|gov|ai|ch|se|jp|io|pt)\b|\.(cc|yaml|json)\b|arXiv \d|pull request \d"
    r"|\"[^\"]+\"|datasheet|data sheet|whitepaper|Guide|RA-\d"
)
DIARY = re.compile(
    r"re-read|general knowledge|from memory|compact-model|earlier fit", re.IGNORECASE
)


@pytest.mark.parametrize("name", system_names())
def test_every_reference_names_a_document_or_an_assumption(name: str) -> None:
    for row in describe(resolve_system(name)):
        dated = row.kind == "announced" and re.search(r"\b20\d\d\b", row.ref)
        named = DOCUMENT.search(row.ref) or row.ref.startswith("assumed: ")
        assert dated or named, (row.field, row.ref)
        assert not row.ref.startswith("assumed: ") or row.kind != "datasheet", row
        assert not DIARY.search(row.ref + row.note), row


@pytest.mark.parametrize("name", system_names())
def test_the_lines_are_few_and_distinct(name: str) -> None:
    lines = cited_sources(resolve_system(name))
    assert 0 < len(lines) <= MAX_LINES
    assert len({line.split(": ", 1)[1] for line in lines}) == len(lines)
    labels = [label for line in lines for label in line.split(": ", 1)[0].split(", ")]
    assert {"memory", "memory bandwidth", "peaks", "NICs"} <= set(labels)


def test_h200_cites_its_datasheet_first_and_assumptions_last() -> None:
    lines = cited_sources(resolve_system("h200_sxm"))
    assert lines[0].startswith("memory bandwidth, peaks, SMs, peak clock, scale-up: NVIDIA H200")
    assert any(line.startswith("NICs: docs.nvidia.com/dgx-basepod/") for line in lines)
    assumed = [": assumed: " in line for line in lines]
    assert assumed == sorted(assumed)
    assert not any(re.search(r": h200_sxm$", line) for line in lines)


def test_an_unstated_relative_is_not_a_row() -> None:
    fields = {row.field for row in describe(resolve_system("h200_sxm"))}
    assert "device.calibration_relative" not in fields
    relative = {row.field: row.value for row in describe(resolve_system("gh200"))}
    assert relative["device.calibration_relative"] == "h200_sxm"


def test_a_domain_of_one_cites_no_link() -> None:
    assert not any("scale-up" in line for line in cited_sources(resolve_system("gh200")))


@settings(max_examples=20, deadline=None)
@given(st.floats(min_value=0.5, max_value=20.0))
def test_user_overrides_come_first(rate: float) -> None:
    system = resolve_system(f"mi300x{{device.memory.bandwidth={rate!r} TB/s}}")
    assert cited_sources(system)[0] == "memory bandwidth: user override"


def test_a_user_file_is_cited_as_an_assumption(tmp_path: Path) -> None:
    path = tmp_path / "chip.toml"
    path.write_text('base = "h200_sxm"\n[device.memory]\nbandwidth = "6 TB/s"\n', "utf-8")
    lines = cited_sources(resolve_system(str(path)))
    assert f"memory bandwidth: assumed: user file {path}" in lines
