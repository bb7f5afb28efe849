"""What is missing from a profile, and what its figures cannot show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfatlas.profiles.events import Profile

GRAPH_SHARE: Final = 0.5  # of kernels behind graph launches, from which operators say little
CLOCK_TOLERANCE_S: Final = 1e-6  # resolution of older traces


def integrity_notes(profiles: Sequence[Profile]) -> list[str]:
    """Return sentences on records that are missing and on figures that say little."""
    several = len(profiles) > 1
    notes = [
        f"{profile.path}: {note}" if several else note
        for profile in profiles
        for note in (*profile.integrity, *_notes(profile))
    ]
    return notes + list(_missing_ranks(profiles))


def _notes(profile: Profile) -> Iterator[str]:
    activities, launches = profile.activities, profile.launches
    is_kernel_N = activities.are_kernels()
    kernels = int(is_kernel_N.sum())
    if not profile.has_timeline or not kernels:
        return
    orphans = int((is_kernel_N & (activities.launch_N < 0)).sum())
    if orphans:
        yield (
            f"{orphans:,} of {counted(kernels, 'kernel')} ({100 * orphans / kernels:.0f}%) have no"
            " launch record: usual where recording began or ended while kernels were queued; they"
            " count in all times, and have no operator and no cause of idle time"
        )
    launch_N = activities.launch_N[is_kernel_N]
    launched_N = launch_N[launch_N >= 0]
    in_graph = int(launches.is_graph_L[launched_N].sum()) if len(launched_N) else 0
    unnamed = int((is_kernel_N & (activities.call_N < 0) & (activities.launch_N >= 0)).sum())
    if min(in_graph, unnamed) > GRAPH_SHARE * kernels:
        yield (
            f"{in_graph:,} of {counted(kernels, 'kernel')} ran in"
            f" {counted(len(np.unique(launched_N[launches.is_graph_L[launched_N]])), 'graph')}:"
            " most have no operators and no shapes (see --capture), and idle time inside a graph"
            " has no cause on the host"
        )
    with_children = np.zeros(len(launches.start_s_L), np.bool_)
    with_children[activities.launch_N[activities.launch_N >= 0]] = True
    if childless := int((launches.is_graph_L & ~with_children).sum()):
        yield (
            f"graph launches without recorded kernels: {childless:,}; their time on the GPU is"
            " missing and looks idle"
        )
    launched = activities.launch_N >= 0
    if launched.any():
        lead_s = launches.start_s_L[activities.launch_N[launched]] - activities.start_s_N[launched]
        early = lead_s > CLOCK_TOLERANCE_S
        if early.any():
            yield (
                "kernels and copies that began before the call that launched them:"
                f" {early.sum():,}, by up to {1e6 * float(lead_s.max()):,.0f} µs:"
                " the clocks of host and GPU differ, and causes of idle time are as wrong"
            )


def _missing_ranks(profiles: Sequence[Profile]) -> Iterator[str]:
    size = max((profile.world_size for profile in profiles), default=0)
    ranks = {profile.rank for profile in profiles if profile.rank >= 0}
    if size > len(ranks):
        yield (
            f"{len(ranks):,} of {counted(size, 'rank')} of the job: waiting for the latest rank"
            " cannot be told from transfer"
        )
    identities = [profile.path if profile.rank < 0 else profile.rank for profile in profiles]
    if len(set(identities)) < len(identities):
        yield "two files are the same, or name the same rank: they count as two GPUs"
