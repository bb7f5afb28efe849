"""Networks of the same layers under several names leave a fit together."""

from __future__ import annotations

from hypothesis import given, strategies

from validation.runs.twins import layers_of, twin_groups

ROWS = strategies.lists(
    strategies.tuples(strategies.sampled_from("abcde"), strategies.integers(0, 6))
)


def test_releases_of_one_network_are_twins() -> None:
    names = [
        "meta-llama/Meta-Llama-3-8B",
        "meta-llama/Llama-3.1-8B",
        "mistralai/Mistral-7B-v0.1",  # 4,096 wide, 32 layers, 14,336; another vocabulary, a window
        "meta-llama/Llama-2-7b-hf",  # 11,008, and a key-value head of each query head
    ]
    groups = twin_groups(names, [layers_of(name) for name in names])
    assert groups == [names[0], names[0], names[0], names[3]]


@given(ROWS)
def test_no_dimensions_are_in_two_groups(rows: list[tuple[str, int]]) -> None:
    groups = twin_groups([name for name, _ in rows], [own for _, own in rows])
    for place in (0, 1):  # nor is a name
        found: dict[object, set[str]] = {}
        for row, group in zip(rows, groups, strict=True):
            found.setdefault(row[place], set()).add(group)
        assert all(len(some) == 1 for some in found.values())
