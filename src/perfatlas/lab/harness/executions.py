"""Executions of operators on fresh random data, through PyTorch, NumPy, SciPy and Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import load_arrow
from perfatlas.quantities import InvalidSpecError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray
    from scipy.sparse import csr_array
    from torch import Tensor

    from perfatlas.lab.harness.cases import Case

OWN: Final = "perfatlas"  # the implementation of lab.kernels
ON_CPUS: Final = ("numpy", "scipy", "pyarrow", "torch_sorted")
INPUT: Final = "normal, uniform keys, seed 0"
_TORCH: Final = {"fp64": "float64", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_NUMPY: Final = {"fp64": np.float64, "fp32": np.float32}


class Builder:
    """Builder of executions, each on random data of its own.

    Args:
        device: Device of PyTorch.
    """

    def __init__(self, device: str = "cpu") -> None:
        """Seed the random numbers of both libraries."""
        import torch

        self.torch: Any = torch
        self.device = device
        self.rng = np.random.default_rng(0)
        torch.manual_seed(0)

    def build(self, case: Case, arm: str) -> Callable[[], object]:
        """Return an execution of a case on fresh data."""
        if self.device != "cpu" and arm in ON_CPUS:
            raise UnsupportedError(f"{arm} runs on CPUs")
        if self.device == "cpu" and arm == OWN:
            raise UnsupportedError("kernels of perfatlas run on GPUs, and this machine has none")
        maker = _BUILDERS.get((case.operator, arm))
        if maker is None:
            raise InvalidSpecError(f"{case.operator} has no implementation {arm!r} in the harness")
        call: Callable[[], object] = maker(self, case.shape, case.format)
        return call

    def tensor(self, number_format: str, *sizes: int) -> Tensor:
        """Return a random tensor."""
        if number_format not in _TORCH:
            raise InvalidSpecError(
                f"PyTorch has no kernels in {number_format} on this device; the harness has"
                f" {', '.join(_TORCH)}"
            )
        kind = getattr(self.torch, _TORCH[number_format])
        return self.torch.randn(*sizes, device=self.device).to(kind)

    def array(self, number_format: str, *sizes: int) -> NDArray[Any]:
        """Return a random array."""
        if number_format not in _NUMPY:
            raise InvalidSpecError(f"NumPy has no {number_format}; it has {', '.join(_NUMPY)}")
        return self.rng.standard_normal(sizes).astype(_NUMPY[number_format])


def _gemm_torch(make: Builder, shape: Mapping[str, int], fmt: str) -> Callable[[], object]:
    rows, weights = (
        make.tensor(fmt, shape["m"], shape["k"]),
        make.tensor(fmt, shape["n"], shape["k"]),
    )
    linear = make.torch.nn.functional.linear
    return lambda: linear(rows, weights)


def _gemm_numpy(make: Builder, shape: Mapping[str, int], fmt: str) -> Callable[[], object]:
    rows, weights = make.array(fmt, shape["m"], shape["k"]), make.array(fmt, shape["n"], shape["k"])
    return lambda: rows @ weights.T


def _attention(
    backend: str,
) -> Callable[[Builder, Mapping[str, int], str], Callable[[], object]]:
    """Return the builder of an attention by one backend of PyTorch, "" for its own choice."""

    def build(make: Builder, shape: Mapping[str, int], fmt: str) -> Callable[[], object]:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        batch, heads, width = shape["batch"], shape["num_heads"], shape["head_dim"]
        q_len, kv_len = shape.get("q_len", 1), shape["kv_len"]
        query = make.tensor(fmt, batch, heads, q_len, width)
        keys, values = (
            make.tensor(fmt, batch, shape["num_kv_heads"], kv_len, width) for _ in range(2)
        )
        attend = make.torch.nn.functional.scaled_dot_product_attention
        options = {"is_causal": q_len > 1, "enable_gqa": heads != shape["num_kv_heads"]}
        if not backend:
            return lambda: attend(query, keys, values, **options)

        def call() -> object:
            with sdpa_kernel(getattr(SDPBackend, backend)):
                return attend(query, keys, values, **options)

        return call

    return build


def gpu_target(properties: Any, *, hip: bool) -> str:  # noqa: ANN401 - a structure of torch
    """Return the compiler's name of a GPU, such as sm_90 or gfx942.

    Args:
        properties: As `torch.cuda.get_device_properties` returns them.
        hip: Whether this is PyTorch for AMD; that for NVIDIA has the name of the card as
            `gcnArchName`.
    """
    if hip:
        return str(properties.gcnArchName).partition(":")[0]
    return f"sm_{properties.major}{properties.minor}"


def _own(
    more: Mapping[str, Any], *kernels: str
) -> Callable[[Builder, Mapping[str, int], str], Callable[[], object]]:
    """Return the builder of kernels of the registry, on the tiles of this GPU."""

    def build(make: Builder, shape: Mapping[str, int], fmt: str) -> Callable[[], object]:
        from perfatlas.lab.kernels.runs import prepared

        properties = make.torch.cuda.get_device_properties(make.device)
        target = gpu_target(properties, hip=bool(make.torch.version.hip))
        asked = ({**more, **shape}, more.get("format", fmt), target)
        launches = [prepared(kernel, *asked) for kernel in kernels]
        return lambda: [launch() for launch in launches]

    return build


def _norm_with_residual(make: Builder, shape: Mapping[str, int], fmt: str) -> Callable[[], object]:
    x, residual = (make.tensor(fmt, shape["tokens"], shape["width"]) for _ in range(2))
    weight, functions = make.tensor(fmt, shape["width"]), make.torch.nn.functional
    return lambda: functions.rms_norm(residual.add_(x), (shape["width"],), weight)


def _moe(make: Builder, shape: Mapping[str, int], fmt: str) -> Callable[[], object]:
    """Return experts with a gate, each on the rows that a uniform router sends to it."""
    torch, experts, hidden = make.torch, shape["experts"], shape["hidden"]
    width, tokens = shape["intermediate"], shape["tokens"]
    rows = make.tensor(fmt, tokens, hidden)
    up = [make.tensor(fmt, 2 * width, hidden) for _ in range(experts)]
    down = [make.tensor(fmt, hidden, width) for _ in range(experts)]
    chosen = torch.rand(tokens, experts, device=make.device).topk(shape["top_k"]).indices
    sent = [(chosen == expert).any(1).nonzero().flatten() for expert in range(experts)]
    linear, silu = torch.nn.functional.linear, torch.nn.functional.silu

    def call() -> object:
        total = torch.zeros_like(rows)
        for expert, where in enumerate(sent):
            if len(where):
                gate, value = linear(rows[where], up[expert]).chunk(2, -1)
                total.index_add_(0, where, linear(silu(gate) * value, down[expert]))
        return total

    return call


def _stream(kernel: str) -> Callable[[Builder, Mapping[str, int], str], Callable[[], object]]:
    def build(make: Builder, shape: Mapping[str, int], fmt: str) -> Callable[[], object]:
        torch = make.torch
        x, y = (make.tensor(fmt, shape["tokens"], shape["width"]) for _ in range(2))
        functions = torch.nn.functional
        if kernel == "copy":
            return lambda: y.copy_(x)
        if kernel == "add":
            out = torch.empty_like(x)
            return lambda: torch.add(x, y, out=out)
        if kernel == "norm":
            weight = make.tensor(fmt, shape["width"])
            return lambda: functions.rms_norm(x, (shape["width"],), weight)
        if kernel == "softmax":
            return lambda: functions.softmax(x, -1)
        return lambda: functions.silu(x).mul_(y)

    return build


def _copy_numpy(make: Builder, shape: Mapping[str, int], fmt: str) -> Callable[[], object]:
    column, two = (make.array(fmt, shape["tokens"], shape["width"]) for _ in range(2))
    return lambda: np.copyto(two, column)


def _scan(make: Builder, shape: Mapping[str, int], fmt: str) -> Callable[[], object]:
    values = make.tensor(fmt, shape["rows"])
    out = make.torch.empty_like(values)
    return lambda: make.torch.cumsum(values, 0, out=out)


def _scan_numpy(make: Builder, shape: Mapping[str, int], fmt: str) -> Callable[[], object]:
    values = make.array(fmt, shape["rows"])
    out = np.empty_like(values)
    return lambda: np.cumsum(values, out=out)


def _sort(make: Builder, shape: Mapping[str, int], fmt: str) -> Callable[[], object]:
    values = make.tensor(fmt, shape["rows"])
    return lambda: make.torch.sort(values)


def _sort_numpy(make: Builder, shape: Mapping[str, int], fmt: str) -> Callable[[], object]:
    values = make.array(fmt, shape["rows"])
    return lambda: np.sort(values)


def _keys(make: Builder, rows: int, distinct: int) -> NDArray[np.int64]:
    return make.rng.integers(0, distinct, rows)


def _join_arrow(make: Builder, shape: Mapping[str, int], fmt: str) -> Callable[[], object]:
    pa = load_arrow()
    rows, build_rows = shape["rows"], shape["build_rows"]
    probe = pa.table({"key": _keys(make, rows, build_rows), "left": make.array(fmt, rows)})
    build = pa.table(
        {"key": make.rng.permutation(build_rows), "right": make.array(fmt, build_rows)}
    )
    return lambda: probe.join(build, "key", join_type="inner", use_threads=False)


def _join_sorted(make: Builder, shape: Mapping[str, int], fmt: str) -> Callable[[], object]:
    torch, rows, build_rows = make.torch, shape["rows"], shape["build_rows"]
    probe = torch.from_numpy(_keys(make, rows, build_rows))
    build = torch.from_numpy(make.rng.permutation(build_rows))
    left, right = make.tensor(fmt, rows), make.tensor(fmt, build_rows)

    def call() -> object:
        ordered, where = torch.sort(build)
        position = where[torch.searchsorted(ordered, probe)]
        return probe, left, right[position]

    return call


def _group_arrow(make: Builder, shape: Mapping[str, int], fmt: str) -> Callable[[], object]:
    pa = load_arrow()
    rows = shape["rows"]
    table = pa.table({"key": _keys(make, rows, shape["groups"]), "value": make.array(fmt, rows)})
    return lambda: table.group_by("key", use_threads=False).aggregate([("value", "sum")])


def _group_numpy(make: Builder, shape: Mapping[str, int], fmt: str) -> Callable[[], object]:
    keys, values = _keys(make, shape["rows"], shape["groups"]), make.array(fmt, shape["rows"])
    return lambda: np.bincount(keys, values, shape["groups"])


def _group_torch(make: Builder, shape: Mapping[str, int], fmt: str) -> Callable[[], object]:
    torch = make.torch
    keys = torch.from_numpy(_keys(make, shape["rows"], shape["groups"]))
    values = make.tensor(fmt, shape["rows"])
    return lambda: torch.zeros(shape["groups"], dtype=values.dtype).index_add_(0, keys, values)


def _sparse(make: Builder, shape: Mapping[str, int], fmt: str) -> tuple[csr_array, NDArray[Any]]:
    from scipy.sparse import csr_array

    rows, per_row = shape["rows"], shape["per_row"]
    columns = make.rng.integers(0, rows, rows * per_row).astype(np.int32)
    starts = np.arange(0, rows * per_row + 1, per_row, dtype=np.int32)
    matrix = csr_array((make.array(fmt, rows * per_row), columns, starts), shape=(rows, rows))
    return matrix, make.array(fmt, rows)


def _spmv_scipy(make: Builder, shape: Mapping[str, int], fmt: str) -> Callable[[], object]:
    matrix, vector = _sparse(make, shape, fmt)
    return lambda: matrix @ vector


def _spmv_torch(make: Builder, shape: Mapping[str, int], fmt: str) -> Callable[[], object]:
    import warnings

    matrix, vector = _sparse(make, shape, fmt)
    torch = make.torch
    arrays = (matrix.indptr, matrix.indices, matrix.data, vector)
    parts = [torch.from_numpy(array) for array in arrays]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sparse tensors are called a beta feature
        sparse = torch.sparse_csr_tensor(*parts[:3], size=matrix.shape)
    return lambda: sparse @ parts[3]


def _stencil(values: Tensor | NDArray[Any], out: Tensor | NDArray[Any]) -> Callable[[], object]:
    """Return a five-point average of a square grid."""

    def call() -> object:
        inner = out[1:-1, 1:-1]
        inner[:] = values[1:-1, 1:-1]
        inner += values[:-2, 1:-1]
        inner += values[2:, 1:-1]
        inner += values[1:-1, :-2]
        inner += values[1:-1, 2:]
        inner *= 0.2
        return out

    return call


def _stencil_torch(make: Builder, shape: Mapping[str, int], fmt: str) -> Callable[[], object]:
    return _stencil(*(make.tensor(fmt, shape["rows"], shape["rows"]) for _ in range(2)))


def _stencil_numpy(make: Builder, shape: Mapping[str, int], fmt: str) -> Callable[[], object]:
    return _stencil(*(make.array(fmt, shape["rows"], shape["rows"]) for _ in range(2)))


_BUILDERS: Final[dict[tuple[str, str], Any]] = {
    ("gemm", "torch"): _gemm_torch,
    ("gemm", "numpy"): _gemm_numpy,
    **{
        (operator, arm): _attention(backend)
        for operator in ("prefill_attention", "decode_attention")
        for arm, backend in (("sdpa", ""), ("sdpa_math", "MATH"), ("sdpa_cudnn", "CUDNN_ATTENTION"))
    },
    ("gemm", OWN): _own({}, "gemm"),
    ("prefill_attention", OWN): _own({"causal": True}, "attention"),
    ("decode_attention", OWN): _own({"page": 64}, "decode"),
    ("residual_norm", OWN): _own({}, "rms_norm"),
    ("quantize_block", OWN): _own({"group": 128, "format": "fp8"}, "quantize_groups"),
    ("attention_backward", OWN): _own(
        {"causal": True}, "attention_delta", "attention_dkdv", "attention_dq"
    ),
    ("mla_decode", OWN): _own({"page": 64}, "decode_mla"),
    ("grouped_gemm", OWN): _own({"block": 128, "format": "fp8"}, "grouped_gemm_fp8_block"),
    ("residual_norm", "torch"): _norm_with_residual,
    ("moe", "torch"): _moe,
    **{(k, "torch"): _stream(k) for k in ("copy", "add", "norm", "softmax", "silu_mul")},
    ("copy", "numpy"): _copy_numpy,
    ("scan", "torch"): _scan,
    ("scan", "numpy"): _scan_numpy,
    ("sort", "torch"): _sort,
    ("sort", "numpy"): _sort_numpy,
    ("hash_join", "pyarrow"): _join_arrow,
    ("hash_join", "torch_sorted"): _join_sorted,
    ("group_by", "pyarrow"): _group_arrow,
    ("group_by", "numpy"): _group_numpy,
    ("group_by", "torch"): _group_torch,
    ("spmv", "scipy"): _spmv_scipy,
    ("spmv", "torch"): _spmv_torch,
    ("stencil", "numpy"): _stencil_numpy,
    ("stencil", "torch"): _stencil_torch,
}
