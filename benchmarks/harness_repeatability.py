"""Measure kernels against themselves: how much the harness of `perfatlas bench` differs.

`python benchmarks/harness_repeatability.py` prints, for 20 cases, the difference of the medians of
two arms that are the same, and the 90% interval of their ratio.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.lab.harness import Arm, CpuClock, measure, one_thread, ratio_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PRODUCTS = (
    *((1, 1024, 1024), (1, 4096, 512), (8, 3072, 768), (16, 2048, 512), (32, 1024, 256)),
    *((64, 512, 512), (64, 64, 4096), (96, 96, 96), (128, 768, 768), (200, 300, 400)),
    *((256, 256, 1024), (512, 512, 128)),
)
BF16_PRODUCTS = ((64, 512, 512), (128, 768, 768))
ATTENTION = ((4, 128), (8, 64), (2, 256))  # heads of 64, tokens
COPIES = (2**14, 2**18, 2**21)  # elements


def cases() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield name and execution of 20 cases."""
    import torch

    torch.manual_seed(0)
    kinds = chain(
        ((shape, torch.float32) for shape in PRODUCTS),
        ((shape, torch.bfloat16) for shape in BF16_PRODUCTS),
    )
    functions = torch.nn.functional
    for (m, n, k), kind in kinds:
        rows, weights = torch.randn(m, k).to(kind), torch.randn(n, k).to(kind)
        name = f"gemm {m}x{n}x{k} {str(kind).removeprefix('torch.')}"
        yield name, partial(functions.linear, rows, weights)
    for heads, tokens in ATTENTION:
        three = torch.randn(3, 1, heads, tokens, 64)
        yield (
            f"attention {heads}x{tokens}x64 float32",
            partial(functions.scaled_dot_product_attention, *three, is_causal=True),
        )
    for size in COPIES:
        one, two = torch.randn(2, size)
        yield f"copy {size} float32", partial(two.copy_, one)


def main() -> None:
    """Print a line for each case, and the totals."""
    apart, widths, inside = [], [], 0
    with one_thread():
        for name, call in cases():
            arms = [Arm(name=arm, calls=[call]) for arm in ("first", "second")]
            first, second = measure(arms, CpuClock())
            clean = [
                (sample.time_s, two.time_s)
                for sample, two in zip(first.samples, second.samples, strict=False)  # turns of both
                if not (sample.preempted or two.preempted)
            ]
            ratio = ratio_interval(*zip(*clean, strict=True))
            difference = second.interval.median / first.interval.median - 1.0
            inside += ratio.low <= 1.0 <= ratio.high
            apart.append(abs(difference))
            widths.append(ratio.half_width)
            sys.stdout.write(
                f"{name:32} {first.interval.median * 1e6:9.1f} µs  {difference:+7.2%}"
                f"  [{ratio.low:.4f}, {ratio.high:.4f}]\n"
            )
    sys.stdout.write(
        f"{len(apart)} cases: median difference {np.median(apart):.2%}, {inside} inside their 90%"
        f" interval, median half-width {np.median(widths):.2%}\n"
    )


if __name__ == "__main__":
    main()
