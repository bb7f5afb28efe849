"""The reader of StableHLO: small modules by hand, hostile texts, and networks of JAX."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from perfatlas import quantities
from perfatlas.networks import import_graph
from perfatlas.networks.graphs import read_graph

HEAD = "func.func public @main"


def _read(
    tmp_path: Path,
    text: str,
    *,
    batch: int | None = None,
    sizes: dict[str, int | str] | None = None,
    allow_unknown: bool = False,
) -> dict[str, Any]:
    file = tmp_path / "net.mlir"
    file.write_text(text)
    given = import_graph(file, batch=batch, sizes=sizes, allow_unknown=allow_unknown)
    return tomllib.loads(given)


def _operators(tmp_path: Path, text: str, *, allow_unknown: bool = False) -> list[dict[str, Any]]:
    pytest.importorskip("jaxlib")
    found: list[dict[str, Any]] = _read(tmp_path, text, allow_unknown=allow_unknown)["operators"]
    return found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("module " + "{" * 200 + "}" * 200, "nested deeper than 128 brackets"),
        ("module attributes {a = affine_map<(d)->(" + "-" * 999 + "d)>} {}", "nested deeper"),
        ("#a1 = [#a0, #a0]", "alias '#a1 =' that is not"),
        ("#loc1 = [#loc0]\nmodule {}", "alias '#loc1 =' that is not"),
        ("ML\xefR".encode("latin-1"), "bytecode of MLIR"),
        (b"\xff\xfe\x00", "not text of StableHLO"),
    ],
)
def test_what_mlir_cannot_parse_is_refused_before(
    tmp_path: Path, text: str | bytes, told: str
) -> None:
    file = tmp_path / "net.mlir"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(quantities.InvalidSpecError, match=told):
        import_graph(file)


def test_without_jaxlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jaxlib.mlir", None)
    with pytest.raises(quantities.MissingDependencyError, match=r"\.\[stablehlo\]"):
        _read(tmp_path, "module {}")


LAYERS = """
    %c = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
      window = {stride = [1, 1], pad = [[1, 1], [1, 1]]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<2x8x8x4xf32>, tensor<3x3x4x16xf32>) -> tensor<2x8x8x16xf32>
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %zs = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<2x8x8x16xf32>
    %r = stablehlo.maximum %c, %zs : tensor<2x8x8x16xf32>
    %d = stablehlo.dot_general %r, %l, contracting_dims = [3] x [0]
      : (tensor<2x8x8x16xf32>, tensor<16x10xf32>) -> tensor<2x8x8x10xf32>
    %v = stablehlo.broadcast_in_dim %b, dims = [3] : (tensor<10xf32>) -> tensor<2x8x8x10xf32>
    %y = stablehlo.add %d, %v : tensor<2x8x8x10xf32>
    return %y : tensor<2x8x8x10xf32>
"""
NETWORK = (
    f"{HEAD}(%w: tensor<3x3x4x16xf32>, %l: tensor<16x10xf32>, %b: tensor<10xf32>,"
    f" %x: tensor<2x8x8x4xf32>) -> tensor<2x8x8x10xf32> {{{LAYERS}}}"
)


def test_a_module_equals_the_program_of_pytorch(tmp_path: Path) -> None:
    """64 positions of 36 inputs per filter, an activation, and a product whose bias is its own."""
    pytest.importorskip("jaxlib")
    found = _read(tmp_path, NETWORK, batch=2)
    assert found["parameters"] == 16 * 36 + 160 + 10
    assert found["operators"] == [
        {"kind": "conv", "m": "64 * batch", "n": 16, "k": 36, "read": "256 * batch"},
        {"kind": "activation", "read": "1024 * batch", "after": "conv", "by_output": True},
        {"kind": "linear", "m": "64 * batch", "n": 10, "k": 16},
    ]
    run = _read(tmp_path, NETWORK)
    assert run["operators"][2] == {"kind": "linear", "count": "batch", "m": 128, "n": 10, "k": 16}
    assert run["notes"] == ["an item is a run of the program, whose sizes are fixed"]


def _loop(condition: str, step: str = "add %i, %one") -> str:
    return f"""{HEAD}(%w: tensor<8x8xf32>, %x: tensor<4x8xf32>) -> tensor<4x8xf32> {{
      %zero = stablehlo.constant dense<2> : tensor<i32>
      %end:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<4x8xf32>
      cond {{
        %last = stablehlo.constant dense<7> : tensor<i32>
        %go = stablehlo.compare {condition} : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      }} do {{
        %one = stablehlo.constant dense<2> : tensor<i32>
        %z = stablehlo.dot_general %y, %w, contracting_dims = [1] x [0]
          : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
        %j = stablehlo.{step} : tensor<i32>
        stablehlo.return %j, %z : tensor<i32>, tensor<4x8xf32>
      }}
      return %end#1 : tensor<4x8xf32>
    }}"""


@pytest.mark.parametrize(("condition", "trips"), [("LT, %i, %last", 3), ("LE, %i, %last", 3)])
def test_a_loop_runs_its_body(tmp_path: Path, condition: str, trips: int) -> None:
    """It counts 2, 4, 6 below 7."""
    (found,) = _operators(tmp_path, _loop(condition))
    assert found == {"kind": "linear", "count": f"{trips} * batch", "m": 4, "n": 8, "k": 8}


@pytest.mark.parametrize(
    "text", [_loop("NE, %i, %last"), _loop("LT, %last, %i"), _loop("LT, %i, %last", "add %i, %i")]
)
def test_a_loop_that_ends_by_data_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(quantities.UnsupportedError, match="ends by data"):
        _operators(tmp_path, text)


def test_the_larger_branch_is_taken_and_noted(tmp_path: Path) -> None:
    pytest.importorskip("jaxlib")
    text = f"""{HEAD}(%w: tensor<8x8xf32>, %x: tensor<4x8xf32>, %k: tensor<i32>)
      -> tensor<4x8xf32> {{
      %y = "stablehlo.case"(%k) ({{
        %n = stablehlo.negate %x : tensor<4x8xf32>
        stablehlo.return %n : tensor<4x8xf32>
      }}, {{
        %z = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
          : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
        stablehlo.return %z : tensor<4x8xf32>
      }}) : (tensor<i32>) -> tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }}"""
    found = _read(tmp_path, text)
    assert found["operators"][0]["kind"] == "linear"
    assert (
        found["notes"][0]
        == "of the branches of stablehlo.case (1 times), the one with most work runs"
    )


@pytest.mark.parametrize(
    ("weight", "data", "expected"),
    [
        ("i8", "bf16", "int8_wo"),
        ("i8", "i8", "int8"),
        ("ui4", "bf16", "int4_wo"),
        ("f8E4M3FN", "f8E4M3FN", "fp8_static"),
        ("f32", "f32", None),
    ],
)
def test_weights_have_the_width_that_they_are_stored_in(
    tmp_path: Path, weight: str, data: str, expected: str | None
) -> None:
    pytest.importorskip("jaxlib")
    out = "i32" if data == "i8" else "f32"
    text = f"""{HEAD}(%x: tensor<2x64x{data}>, %w: tensor<64x8x{weight}>) -> tensor<2x8x{out}> {{
      %v = stablehlo.convert %w : (tensor<64x8x{weight}>) -> tensor<64x8x{data}>
      %y = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0]
        : (tensor<2x64x{data}>, tensor<64x8x{data}>) -> tensor<2x8x{out}>
      return %y : tensor<2x8x{out}>
    }}"""
    found = _read(tmp_path, text)
    assert found["parameters"] == 64 * 8
    assert found.get("format") == expected


def test_unknown_calls_are_named_or_priced_as_elementwise(tmp_path: Path) -> None:
    text = f"""{HEAD}(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {{
      %y = stablehlo.custom_call @warp(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }}"""
    with pytest.raises(quantities.UnsupportedError, match="custom_call warp"):
        _operators(tmp_path, text)
    (found,) = _operators(tmp_path, text, allow_unknown=True)
    assert found == {"kind": "elementwise", "count": "batch", "read": 32}


def _twice(depth: int) -> str:
    calls = "".join(
        f"func.func private @f{n}() {{ call @f{n + 1}() : () -> () call @f{n + 1}() : () -> ()"
        " return }\n"
        for n in range(depth)
    )
    last = f"func.func private @f{depth}() {{ return }}\n"
    return f"{HEAD}() {{ call @f0() : () -> () return }}\n{calls}{last}"


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "module {}", "not mlir", NETWORK[:-200], NETWORK.replace("16x10", "17x10")),
        *(
            NETWORK.replace("stablehlo.add", "tosa.add"),
            NETWORK.replace("stablehlo.add", "stablehlo.warp"),
        ),
        *(
            f"{HEAD}(%x: tensor<*xf32>) {{ return }}",
            f"{HEAD}() {{ call @main() : () -> () return }}",
        ),
        *(_twice(60), f"{HEAD}(%x: tensor<{10**30}xf32>) {{ return }}"),
        f"{HEAD}(%x: tensor<?x?xf32>) {{ return }}",
    ],
)
def test_hostile_modules_are_refused(tmp_path: Path, text: str) -> None:
    pytest.importorskip("jaxlib")
    with pytest.raises(quantities.PerfatlasError):
        _read(tmp_path, text)


def _flop(found: dict[str, Any], batch: int = 1) -> float:
    network = read_graph(found, "net")
    return sum(float(one.flop({"batch": float(batch), **network.sizes})) for one in network.nodes)


@pytest.mark.slow
def test_resnet_has_the_flop_of_pytorch(tmp_path: Path) -> None:
    """8,178,368,512 per image, as PyTorch counts; XLA leaves padding taps out."""
    jax = pytest.importorskip("jax")
    from tests.networks.graphs.jax_networks import (
        exported,
        lowered_of,
        resnet,
        resnet_parameters,
        tensor,
    )

    (batch,) = jax.export.symbolic_shape("b")
    given = resnet_parameters()
    found = _read(tmp_path, exported(resnet, given, tensor(batch, 224, 224, 3)))
    assert _flop(found) == 8_178_368_512
    kinds = {one["kind"] for one in found["operators"]}
    assert kinds == {"conv", "norm", "activation", "pool", "add", "reduce", "linear"}
    statistics = 2 * 26_560  # mean and variance of each channel
    assert found["parameters"] == 25_557_032 + statistics
    lowered = lowered_of(resnet, given, tensor(2, 224, 224, 3))
    static = _read(tmp_path, lowered.as_text(), batch=2)
    assert static["operators"] == found["operators"]
    assert static["parameters"] == found["parameters"]
    counted = lowered.compile().cost_analysis()["flops"]
    assert counted == pytest.approx(_flop(found, 2), rel=0.03)


def test_an_encoder_has_attention_norms_and_activations(tmp_path: Path) -> None:
    """FLOP of a layer: 8 s w^2 of projections, 4 s w i of the inner layer, 4 s^2 w of attention."""
    jax = pytest.importorskip("jax")
    from tests.networks.graphs.jax_networks import encoder, encoder_parameters, exported, tensor

    given = encoder_parameters(layers=2, width=64, heads=4, words=100, longest=32, inner=256)
    batch, length = jax.export.symbolic_shape("b, s", constraints=["s <= 32"])
    text = exported(encoder, given, tensor(batch, length, dtype=jax.numpy.int32))
    with pytest.raises(quantities.InvalidSpecError, match=r"free sizes: s;.*--sizes s=128"):
        _read(tmp_path, text)
    found = _read(tmp_path, text, sizes={"s": 20})
    assert _flop(found) == 2 * (8 * 20 * 64**2 + 4 * 20 * 64 * 256 + 4 * 20**2 * 64)
    attention = {
        "kind": "attention",
        "count": 2,
        "q_len": 20,
        "kv_len": 20,
        "num_heads": 4,
        "head_dim": 16,
    }
    assert attention in found["operators"]
    norm = {"kind": "norm", "count": 4, "read": "1280 * batch", "row": 64, "after": "add"}
    assert norm in found["operators"]
    activation = {"kind": "activation", "count": 2, "read": "5120 * batch", "after": "linear"}
    assert activation in found["operators"]
    layer = 4 * (64**2 + 64) + 2 * 64 * 256 + 256 + 64 + 4 * 64
    assert found["parameters"] == 132 * 64 + 2 * 64 + 2 * layer


def test_a_scan_over_layers_runs_each(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    from tests.networks.graphs.jax_networks import lowered_of, stacked, tensor

    found = _read(tmp_path, lowered_of(stacked, tensor(7, 8, 8), tensor(4, 8)).as_text())
    assert found["operators"][0]["count"] == "7 * batch"
    assert found["parameters"] == 7 * 64


def test_sizes_are_polynomials_of_the_items(tmp_path: Path) -> None:
    """Scores of all pairs of items, as a contrastive loss has them."""
    jax = pytest.importorskip("jax")
    from tests.networks.graphs.jax_networks import exported, pairs, tensor

    (batch,) = jax.export.symbolic_shape("b")
    found = _read(tmp_path, exported(pairs, tensor(8, 16), tensor(batch, 8)))["operators"]
    assert found == [
        {"kind": "linear", "m": "batch", "n": 16, "k": 8},
        {"kind": "matmul", "m": "batch", "n": "batch", "k": 16},
        {"kind": "softmax", "read": "batch ** 2", "row": "batch", "after": "matmul"},
    ]


COMPOSITES = """func.func public @main(%x: tensor<BxEIGHTxf32>) -> tensor<Bx2xf32> {
  %e = stablehlo.composite "chlo.erf" %x {decomposition = @erf, version = 1 : i32}
    : (tensor<BxEIGHTxf32>) -> tensor<BxEIGHTxf32>
  %t:2 = stablehlo.composite "chlo.top_k" %e
    {composite_attributes = {k = 2 : i64}, decomposition = @top, version = 1 : i32}
    : (tensor<BxEIGHTxf32>) -> (tensor<Bx2xf32>, tensor<Bx2xi32>)
  return %t#0 : tensor<Bx2xf32>
}
func.func private @erf(%x: tensor<BxEIGHTxf32>) -> tensor<BxEIGHTxf32> {
  %n = stablehlo.negate %x : tensor<BxEIGHTxf32>
  return %n : tensor<BxEIGHTxf32>
}
func.func private @top(%x: tensor<BxEIGHTxf32>) -> (tensor<Bx2xf32>, tensor<Bx2xi32>) {
  %i = stablehlo.convert %x : (tensor<BxEIGHTxf32>) -> tensor<BxEIGHTxi32>
  %v = stablehlo.SLICE : (tensor<BxEIGHTxf32>) -> tensor<Bx2xf32>
  %j = stablehlo.convert %v : (tensor<Bx2xf32>) -> tensor<Bx2xi32>
  return %v, %j : tensor<Bx2xf32>, tensor<Bx2xi32>
}"""


def test_composites_keep_their_kind_with_a_symbol(tmp_path: Path) -> None:
    """Of 8 values per item, the largest 2 and their indices are written, not what computes them."""
    pytest.importorskip("jaxlib")
    text = COMPOSITES.replace("EIGHT", "8")
    static = text.replace("SLICE", "slice %x [0:4, 0:2]").replace("Bx", "4x")
    lengths = "stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x8xf32>) -> tensor<i32>"
    free = text.replace("Bx", "?x").replace(
        "  %v = stablehlo.SLICE : (tensor<?x8xf32>) -> tensor<?x2xf32>",
        f"""  %b = {lengths}
  %r = stablehlo.reshape %b : (tensor<i32>) -> tensor<1xi32>
  %two = stablehlo.constant dense<2> : tensor<1xi32>
  %one = stablehlo.constant dense<1> : tensor<2xi32>
  %zero = stablehlo.constant dense<0> : tensor<2xi32>
  %end = stablehlo.concatenate %r, %two, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %v = stablehlo.real_dynamic_slice %x, %zero, %end, %one : (tensor<?x8xf32>, tensor<2xi32>,
    tensor<2xi32>, tensor<2xi32>) -> tensor<?x2xf32>""",
    )
    operators = [
        {"kind": "activation", "read": "8 * batch"},
        {"kind": "reduce", "read": "8 * batch", "write": "4 * batch", "after": "activation"},
    ]
    assert _read(tmp_path, static, batch=4)["operators"] == operators
    assert _read(tmp_path, free)["operators"] == operators
