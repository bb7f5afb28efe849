"""Cache below the GPU, as flags of `perfatlas simulate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from cyclopts import Group, Parameter

from perfatlas.cli.flags.scenario import default

_TIERS: Final = Group("Cache below the GPU", sort_key=4)


@Parameter(name="*", group=_TIERS)
@dataclass(frozen=True, kw_only=True)
class CacheTierFlags:
    """Where a replica keeps prompts that leave the GPU.

    Args:
        host_cache_bytes: Host memory of a replica for its KV cache, such as 200GB.
        host_bandwidth: Between a GPU and host memory, such as 50GB/s.
        ssd_cache_bytes: SSD of a replica below it, such as 4TB.
        ssd_bandwidth: Bytes/s that the SSDs of a replica read, such as 7GB/s.
    """

    host_cache_bytes: str | None = None
    host_bandwidth: Annotated[str | None, default("host link of the GPU")] = None
    ssd_cache_bytes: str | None = None
    ssd_bandwidth: str | None = None
