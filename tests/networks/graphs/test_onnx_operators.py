"""Every operator of an ONNX graph is priced, folded for a stated reason, or refused."""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper, save

from perfatlas.networks import import_graph
from perfatlas.networks.graphs import read_graph
from perfatlas.networks.onnx import loading, nodes_of_file
from perfatlas.quantities import InvalidSpecError, PerfatlasError, UnsupportedError
from perfatlas.scenario.fields import system_engine
from perfatlas.verbs.estimate import estimate

FLOAT = TensorProto.FLOAT
SIZE = 32
CONTRIBUTED = "com.microsoft"
DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"


def _value(name: str, *sizes: int, kind: int = FLOAT) -> Any:  # noqa: ANN401 - of ONNX
    return helper.make_tensor_value_info(name, kind, sizes or None)


def _weight(name: str, *sizes: int, kind: int = FLOAT) -> Any:  # noqa: ANN401
    stored = math.prod(sizes) // (2 if kind in (TensorProto.INT4, TensorProto.UINT4) else 1)
    size = 4 if kind == FLOAT else 8 if kind == TensorProto.INT64 else 1
    return helper.make_tensor(name, kind, sizes, bytes(size * stored), raw=True)


def _save(
    path: Path, nodes: list[Any], weights: list[Any], *domains: str, rows: int | str = 1
) -> Path:
    inputs = [helper.make_tensor_value_info("x", FLOAT, [rows, SIZE])]
    graph = helper.make_graph(nodes, "net", inputs, [_value(nodes[-1].output[0])], weights)
    sets = [helper.make_opsetid("", 21), *(helper.make_opsetid(name, 1) for name in domains)]
    save(helper.make_model(graph, opset_imports=sets), str(path))
    return path


def _branch(weight: str, width: int) -> Any:  # noqa: ANN401
    """Return a branch that reads `h` of the graph around it."""
    nodes = [helper.make_node("MatMul", ["h", weight], ["inner"])]
    return helper.make_graph(nodes, "b", [], [_value("inner")], [_weight(weight, SIZE, width)])


def _toml(path: Path) -> str:
    written = path.with_suffix(".toml")
    written.write_text(import_graph(path))
    return str(written)


def _flop(path: Path, **sizes: int) -> float:
    text = import_graph(path, sizes=sizes, allow_unknown=True)
    network = read_graph(tomllib.loads(text), "net")
    columns = network.columns(float(nodes_of_file(path, sizes=sizes).items))
    return sum(float(node.flop(columns)) for node in network.nodes)


def _counted_flop(path: Path) -> float | None:
    """Return the FLOP of products by the shapes that ONNX infers, None where one is unknown."""
    graph = onnx.shape_inference.infer_shapes(onnx.load(str(path)), data_prop=True).graph
    shapes = {each.name: list(each.dims) for each in graph.initializer}
    for each in (*graph.input, *graph.value_info, *graph.output):
        sizes = each.type.tensor_type.shape.dim
        if all(size.HasField("dim_value") for size in sizes):
            shapes[each.name] = [size.dim_value for size in sizes]
    flop = 0.0
    for one in graph.node:
        if one.op_type not in ("Conv", "ConvTranspose", "Gemm", "MatMul"):
            continue
        if one.output[0] not in shapes or one.input[0] not in shapes:
            return None
        first, second, out = (shapes[name] for name in (*one.input[:2], one.output[0]))
        if "Conv" in one.op_type:
            rows = first if one.op_type == "ConvTranspose" else out
            flop += 2.0 * math.prod(rows) * math.prod(second[1:])
        else:
            transposed = any(each.name == "transA" and each.i for each in one.attribute)
            flop += 2.0 * math.prod(out) * first[0 if transposed else -1]
    return flop


def test_graphs_of_the_onnx_package_have_the_flop_of_their_shapes() -> None:
    found: Counter[str] = Counter()
    for path in sorted(DATA.rglob("*.onnx")):
        try:
            flop = _flop(path)
        except PerfatlasError:
            found["refused"] += 1
            continue
        counted = _counted_flop(path)
        assert counted in (None, flop), path
        found["priced"] += 1
        found["with products"] += bool(counted)
    assert found["priced"] > 4 * found["refused"], found
    assert found["with products"] > 40, found


@pytest.mark.study
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of casts in the data of onnx
def test_every_operator_of_onnx_is_priced_or_refused(tmp_path: Path) -> None:
    from onnx.backend.test.case.node import collect_testcases

    found: Counter[bool] = Counter()
    for case in collect_testcases(None):
        if case.model is not None:
            save(case.model, str(tmp_path / "case.onnx"))
            try:
                found[bool(import_graph(tmp_path / "case.onnx"))] += 1
            except PerfatlasError:
                found[False] += 1
    assert found[True] > 800, found


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("condition", ["constant", "initializer", "shape"])
def test_the_branch_of_a_known_condition_runs_and_what_follows_it(
    tmp_path: Path, condition: str, *, taken: bool
) -> None:
    flag = helper.make_tensor("c", TensorProto.BOOL, [], [taken])
    sizes = [
        helper.make_tensor(n, TensorProto.INT64, [], [v]) for n, v in (("i", 1), ("k", SIZE + 1))
    ]
    before = {
        "constant": [helper.make_node("Constant", [], ["c"], value=flag)],
        "initializer": [],
        "shape": [
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("Gather", ["s", "i"], ["d"], axis=0),
            helper.make_node("Less" if taken else "Greater", ["d", "k"], ["c"]),
        ],
    }[condition]
    branches = {"then_branch": _branch("w", SIZE), "else_branch": _branch("v", 2 * SIZE)}
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["h"]),
        *before,
        helper.make_node("If", ["c"], ["m"], **branches),
        helper.make_node("If", ["c"], ["n"], **branches),  # equal names inside
        helper.make_node("Concat", ["m", "n"], ["p"], axis=1),
        helper.make_node("MatMul", ["p", "last"], ["y"]),
    ]
    width = SIZE if taken else 2 * SIZE
    weights = [_weight("first", SIZE, SIZE), _weight("last", 2 * width, SIZE), *sizes]
    file = _save(tmp_path / "if.onnx", nodes, weights + [flag] * (condition == "initializer"))
    elements = SIZE * SIZE + 2 * SIZE * width + 2 * width * SIZE
    assert _flop(file) == 2 * elements
    assert tomllib.loads(import_graph(file))["parameters"] == elements


@pytest.mark.parametrize(
    ("index", "given", "varies"), [(0, {}, True), (0, {"b": 4}, True), (1, {}, False)]
)
@pytest.mark.parametrize("through", ["input", "layer", "reshape", "arithmetic"])
def test_a_condition_on_the_batch_is_refused_and_one_on_fixed_sizes_is_not(
    tmp_path: Path, through: str, index: int, given: dict[str, int], *, varies: bool
) -> None:
    numbers = {"i": index, "k": SIZE - 1, "zero": 0, "one": 1, "all": SIZE}
    held = [helper.make_tensor(n, TensorProto.INT64, [1], [v]) for n, v in numbers.items()]
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["h"]),
        helper.make_node("Shape", ["h"], ["of"]),
        helper.make_node("Slice", ["of", "zero", "one"], ["rows"]),
        helper.make_node("Concat", ["rows", "all"], ["to"], axis=0),
        helper.make_node("Reshape", ["h", "to"], ["r"]),
        helper.make_node("Add", ["of", "zero"], ["sum"]),
        helper.make_node("Shape", [{"input": "x", "reshape": "r"}.get(through, "h")], ["read"]),
        helper.make_node("Gather", ["sum" if through == "arithmetic" else "read", "i"], ["d"]),
        helper.make_node("Greater", ["d", "k"], ["c"]),
        helper.make_node(
            "If", ["c"], ["y"], "n", then_branch=_branch("w", SIZE), else_branch=_branch("v", 7)
        ),
    ]
    weights = [_weight("first", SIZE, SIZE), *held]
    file = _save(tmp_path / "batch.onnx", nodes, weights, rows="b")
    if varies:
        with pytest.raises(UnsupportedError, match=r"condition.*'n'.*batch"):
            import_graph(file, sizes=given)
        return
    assert tomllib.loads(import_graph(file, sizes=given))["parameters"] == 2 * SIZE * SIZE


def test_all_nested_branches_of_known_conditions_are_taken(tmp_path: Path) -> None:
    inner = _branch("w", SIZE)
    for depth in range(20):
        branches = {"then_branch": inner, "else_branch": _branch("v", SIZE)}
        nested = [helper.make_node("If", ["c"], ["z"], **branches)]
        inner = helper.make_graph(nested, f"b{depth}", [], [_value("z")])
    nodes = [
        helper.make_node("Identity", ["x"], ["h"]),
        helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=_branch("v", SIZE)),
    ]
    flag = helper.make_tensor("c", TensorProto.BOOL, [], [True])
    file = _save(tmp_path / "nested.onnx", nodes, [flag])
    assert tomllib.loads(import_graph(file))["parameters"] == SIZE * SIZE


def test_weights_and_operators_of_the_branch_not_taken_are_not_counted(tmp_path: Path) -> None:
    branches = {
        f"{branch}_branch": helper.make_graph(
            [helper.make_node("MatMul", [read, weight], [out])], branch, [], [_value(out)]
        )
        for branch, read, weight, out in (("then", "x", "w", "p"), ("else", "h", "v", "q"))
    }
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["h"]),
        helper.make_node("If", ["c"], ["y"], **branches),
    ]
    flag = helper.make_tensor("c", TensorProto.BOOL, [], [True])
    weights = [_weight(name, SIZE, SIZE) for name in ("first", "w", "v")]
    file = _save(tmp_path / "taken.onnx", nodes, [*weights, flag])
    assert tomllib.loads(import_graph(file))["parameters"] == SIZE * SIZE
    assert _flop(file) == 2 * SIZE * SIZE


def test_control_flow_over_activations_is_never_a_constant(tmp_path: Path) -> None:
    branches = {"then_branch": _branch("w", SIZE), "else_branch": _branch("v", SIZE)}
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["h"]),
        helper.make_node("ReduceMax", ["h"], ["most"], keepdims=0),
        helper.make_node("Cast", ["most"], ["c"], to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["y"], **branches),
    ]
    file = _save(tmp_path / "flow.onnx", nodes, [_weight("first", SIZE, SIZE)])
    with pytest.raises(UnsupportedError, match="If '' is control flow"):
        import_graph(file)


def test_weights_that_constants_make_are_parameters(tmp_path: Path) -> None:
    sizes = helper.make_tensor("s", TensorProto.INT64, [2], [SIZE, SIZE])
    nodes = [
        helper.make_node("ConstantOfShape", ["s"], ["w"]),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    file = _save(tmp_path / "made.onnx", nodes, [sizes])
    assert tomllib.loads(import_graph(file))["parameters"] == SIZE * SIZE


@pytest.mark.parametrize(
    ("kind", "quantized", "expected", "bits"),
    [
        (TensorProto.INT8, False, "int8_wo", 8.0),
        (TensorProto.INT8, True, "int8", 8.0),
        (TensorProto.INT4, False, "int4_wo", 4.125),
        (TensorProto.FLOAT8E4M3FN, True, "fp8_static", 8.0),
        (FLOAT, False, None, 16.0),
    ],
)
def test_weights_have_the_width_that_they_are_stored_in(
    tmp_path: Path, *, kind: int, quantized: bool, expected: str | None, bits: float
) -> None:
    scale = helper.make_tensor("scale", FLOAT, [], [0.1])
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale"], ["a"]),
    ] * quantized
    if kind != FLOAT:
        nodes.append(helper.make_node("DequantizeLinear", ["w", "scale"], ["d"]))
    read = ["a" if quantized else "x", "w" if kind == FLOAT else "d"]
    nodes.append(helper.make_node("MatMul", read, ["y"]))
    file = _save(tmp_path / "stored.onnx", nodes, [_weight("w", SIZE, SIZE, kind=kind), scale])
    text = import_graph(file)
    assert tomllib.loads(text).get("format") == expected
    (tmp_path / "net.toml").write_text(text)
    answer = estimate(
        model=str(tmp_path / "net.toml"), system="h100_sxm", engine="ideal", tier="bound", batch=1
    )
    scales = 0 if kind in (FLOAT, TensorProto.INT4) else 1  # int4_wo contains its own
    expected_bytes = SIZE * SIZE * bits / 8.0 + 2.0 * scales
    assert answer.results["memory"]["weights_bytes"] == pytest.approx(expected_bytes)
    assert estimate(model=str(tmp_path / "net.toml"), system="h100_sxm", batch=8).results
    assert system_engine(str(tmp_path / "net.toml"), "h100_sxm") == (
        "tensorrt" if expected else "inductor"
    )


@pytest.mark.parametrize(
    ("equation", "first", "second", "expected"),
    [
        ("ij,jk->ik", (4, 32), (32, 8), "linear 4 8 32 1"),
        ("ij,kj->ik", (4, 32), (8, 32), "linear 4 8 32 1"),
        ("bthd,hde->bte", (2, 3, 4, 8), (4, 8, 16), "linear 6 16 32 1"),
        ("bhqd,bhkd->bhqk", (2, 4, 3, 8), (2, 4, 5, 8), "matmul 3 5 8 8"),
        ("...ij,jk->...ik", (2, 4, 32), (32, 8), "linear 8 8 32 1"),
        ("...ij,...jk->...ik", (2, 4, 32), (2, 32, 8), "matmul 4 8 32 2"),
        ("ij,kl->ik", (4, 32), (8, 16), "no product of two operands"),
        ("ii,ij->j", (4, 4), (4, 8), "no product of two operands"),
        ("bi,bi->b", (4, 32), (1, 32), "no product of two operands"),
        ("bi,bi->bi", (4, 32), (4, 32), "elementwise 1 1 1 1"),
        ("bi,i->bi", (4, 32), (32,), "elementwise 1 1 1 1"),
    ],
)
def test_einsum_of_two_operands_is_a_product(
    tmp_path: Path, equation: str, first: tuple[int, ...], second: tuple[int, ...], expected: str
) -> None:
    node = helper.make_node("Einsum", ["x", "w"], ["y"], equation=equation)
    linear = expected.startswith("linear")
    inputs = [_value("x", *first), *([] if linear else [_value("w", *second)])]
    held = [_weight("w", *second)] if linear else []
    graph = helper.make_graph([node], "net", inputs, [_value("y")], held)
    save(helper.make_model(graph), str(tmp_path / "e.onnx"))
    if expected.startswith("no"):
        with pytest.raises(UnsupportedError, match=expected):
            import_graph(tmp_path / "e.onnx")
        return
    (found,) = nodes_of_file(tmp_path / "e.onnx").nodes
    sizes = [found.sizes[name].text if name in found.sizes else "1" for name in ("m", "n", "k")]
    groups = found.sizes["groups"].text if "groups" in found.sizes else "1"
    assert " ".join((found.kind, *sizes, groups)) == expected


@pytest.mark.parametrize(("bits", "expected"), [(4, "int4_wo"), (8, "int8_wo"), (2, None)])
def test_weights_of_bits_in_bytes_are_counted_by_elements(
    tmp_path: Path, bits: int, expected: str | None
) -> None:
    names = {"K": SIZE, "N": 2 * SIZE, "bits": bits, "block_size": 32}
    nodes = [
        helper.make_node("MatMulNBits", ["x", "w", "s"], ["m"], domain=CONTRIBUTED, **names),
        helper.make_node("MatMul", ["m", "v"], ["y"]),  # as wide as it is stored
    ]
    held = [_weight("w", 2 * SIZE, 1, SIZE * bits // 8, kind=TensorProto.UINT8)]
    held += [_weight("s", 2 * SIZE), _weight("v", 2 * SIZE, 8)]
    file = _save(tmp_path / "n.onnx", nodes, held, CONTRIBUTED)
    if expected is None:
        with pytest.raises(UnsupportedError, match="MatMulNBits '' holds weights of 2 bits"):
            import_graph(file)
        return
    found = tomllib.loads(import_graph(file))
    own = 2 * SIZE * SIZE // 128 * (bits == 4)  # scales that the format contains
    assert found["parameters"] == 2 * SIZE * SIZE + 2 * SIZE + 2 * SIZE * 8 - own
    assert found["format"] == expected
    assert [row.get("format") for row in found["operators"]] == [None, "bf16"]
    assert _flop(file) == 2 * 2 * SIZE * SIZE + 2 * 2 * SIZE * 8
    weights = estimate(model=_toml(file), system="h100_sxm", batch=1).results["memory"]
    in_bytes = 2 * SIZE * SIZE * bits / 8 + 2.0 * (2 * SIZE + 2 * SIZE * 8)
    assert weights["weights_bytes"] == pytest.approx(in_bytes)


@pytest.mark.parametrize(
    ("name", "inputs", "attributes", "written"),
    [
        ("FusedMatMul", [(4, 3, 8), (4, 5, 8)], {"transB": 1}, (4, 3, 5)),
        ("FusedMatMul", [(4, 8, 3), (4, 8, 5)], {"transA": 1}, (4, 3, 5)),
        ("FusedGemm", [(8, 3), (8, 5)], {"transA": 1}, (3, 5)),
        ("MatMulBnb4", [(2, 3, 8), (20,), (2,)], {"K": 8, "N": 5}, (2, 3, 5)),
        ("FusedConv", [(2, 3, 8, 8), (4, 3, 3, 3)], {"strides": [2, 2]}, (2, 4, 3, 3)),
        ("SkipLayerNormalization", [(2, 3, 8), (2, 3, 8), (8,)], {}, (2, 3, 8)),
        ("EmbedLayerNormalization", [(2, 3), (2, 3), (9, 8)], {}, (2, 3, 8)),
        ("QuickGelu", [(2, 3, 8)], {}, (2, 3, 8)),
        (
            "QLinearConcat",
            [(1,), (1,), (2, 3, 8), (1,), (1,), (2, 4, 8), (1,), (1,)],
            {"axis": 1},
            (2, 7, 8),
        ),
    ],
)
def test_shapes_of_contributed_operators_are_known(
    tmp_path: Path,
    name: str,
    inputs: list[tuple[int, ...]],
    attributes: dict[str, Any],
    written: tuple[int, ...],
) -> None:
    names = [f"i{place}" for place in range(len(inputs))]
    nodes = [
        helper.make_node(name, names, ["z"], domain=CONTRIBUTED, **attributes),
        helper.make_node("Softmax", ["z"], ["y"]),
    ]
    values = [
        _value(
            each,
            *sizes,
            kind=TensorProto.INT64
            if name.startswith("Emb") and len(sizes) == 2 and sizes[1] == 3
            else FLOAT,
        )
        for each, sizes in zip(names, inputs, strict=True)
    ]
    graph = helper.make_graph(nodes, "net", values, [_value("y")])
    sets = [helper.make_opsetid("", 18), helper.make_opsetid(CONTRIBUTED, 1)]
    save(helper.make_model(graph, opset_imports=sets), str(tmp_path / "c.onnx"))
    last = nodes_of_file(tmp_path / "c.onnx").nodes[-1]
    assert last.kind == "softmax"
    assert (last.sizes["read"].text, last.sizes["row"].text) == (
        str(math.prod(written)),
        str(written[-1]),
    )


@pytest.mark.parametrize(
    ("name", "domain", "inputs", "attributes", "expected"),
    [
        # q, k, v, cached keys and values: 10 + 6 keys
        (
            "GroupQueryAttention",
            "com.microsoft",
            [(2, 6, 32), (2, 6, 16), (2, 6, 16), (2, 2, 10, 8), (2, 2, 10, 8)],
            {"num_heads": 4, "kv_num_heads": 2},
            (2, 6, 16, 4, 2, 8),
        ),
        (
            "GroupQueryAttention",
            "com.microsoft",
            [(2, 6, 64), (), (), (2, 2, 10, 8), (2, 2, 10, 8)],
            {"num_heads": 4, "kv_num_heads": 2},
            (2, 6, 16, 4, 2, 8),
        ),
        (
            "MultiHeadAttention",
            "com.microsoft",
            [(2, 6, 32), (2, 9, 32), (2, 9, 32)],
            {"num_heads": 4},
            (2, 6, 9, 4, 4, 8),
        ),
        (
            "Attention",
            "com.microsoft",
            [(2, 6, 32), (32, 96)],
            {"num_heads": 4},
            (2, 6, 6, 4, 4, 8),
        ),
        (
            "Attention",
            "",
            [(2, 4, 6, 8), (2, 2, 9, 8), (2, 2, 9, 8)],
            {"is_causal": 1},
            (2, 6, 9, 4, 2, 8),
        ),
    ],
)
def test_attention_that_is_one_operator(
    tmp_path: Path,
    name: str,
    domain: str,
    inputs: list[tuple[int, ...]],
    attributes: dict[str, Any],
    expected: tuple[int, ...],
) -> None:
    names = [f"i{place}" if sizes else "" for place, sizes in enumerate(inputs)]
    node = helper.make_node(name, names, ["y"], domain=domain, **attributes)
    projected = len(inputs) == 2
    values = [_value(n, *sizes) for n, sizes in zip(names, inputs, strict=True) if n]
    held = [_weight(names[1], *inputs[1])] if projected else []
    graph = helper.make_graph(
        [node], "net", values[:1] if projected else values, [_value("y")], held
    )
    sets = [helper.make_opsetid("", 23), helper.make_opsetid(CONTRIBUTED, 1)]
    save(helper.make_model(graph, opset_imports=sets), str(tmp_path / "a.onnx"))
    *before, attention = nodes_of_file(tmp_path / "a.onnx").nodes
    assert [each.kind for each in before] == ["linear"] * projected
    names = ["sequences", "q_len", "kv_len", "num_heads", "num_kv_heads", "head_dim"]
    assert tuple(int(attention.sizes[each].text) for each in names) == expected
    assert attention.causal == (name.startswith("Group") or "is_causal" in attributes)


def _looping(kind: str) -> Any:  # noqa: ANN401
    """Return a loop whose body multiplies a state by a weight, or by each row of a sequence."""
    inner = [helper.make_node("MatMul", ["state", "w"], ["next"])]
    inner += [helper.make_node("Identity", ["next"], ["row"])]
    if kind == "Scan":
        inner += [helper.make_node("Relu", ["each"], ["other"])]
        ends = [_value("next", 1, SIZE), _value("other", SIZE)]
        body = helper.make_graph(
            inner, "body", [_value("state", 1, SIZE), _value("each", SIZE)], ends
        )
        return helper.make_node("Scan", ["h", "rows"], ["z", "all"], body=body, num_scan_inputs=1)
    inner += [helper.make_node("Identity", ["go"], ["goes"])]
    starts = [_value("i", kind=TensorProto.INT64), _value("go", kind=TensorProto.BOOL)]
    ends = [_value("goes", kind=TensorProto.BOOL), _value("next", 1, SIZE), _value("row", 1, SIZE)]
    body = helper.make_graph(inner, "body", [*starts, _value("state", 1, SIZE)], ends)
    return helper.make_node("Loop", ["t", "", "h"], ["z", "all"], "steps", body=body)


@pytest.mark.parametrize(
    ("kind", "given", "times"),
    [("Loop", {}, 5), ("Loop", {"steps": 7}, 7), ("Scan", {}, 6), ("data", {"steps": 7}, 7)],
)
def test_the_body_of_a_loop_runs_as_often_as_is_known(
    tmp_path: Path, kind: str, given: dict[str, int], times: int
) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["h"]),
        *[helper.make_node("ReduceMax", ["h"], ["f"], keepdims=0)] * (kind == "data"),
        *[helper.make_node("Cast", ["f"], ["t"], to=TensorProto.INT64)] * (kind == "data"),
        _looping(kind),
        helper.make_node("Add", ["z", "all"], ["y"]),
    ]
    if kind == "Scan":
        nodes[-1] = helper.make_node("MatMul", ["all", "v"], ["y"])
    weights = [_weight(name, SIZE, SIZE) for name in ("first", "w", "v")] + [
        _weight("rows", 6, SIZE)
    ]
    count = helper.make_tensor("t", TensorProto.INT64, [], [5])
    file = _save(tmp_path / "l.onnx", nodes, weights + [count] * (kind != "data"))
    text = import_graph(file, sizes=given)
    assert _flop(file, **given) == 2 * SIZE * SIZE * (1 + times + (6 if kind == "Scan" else 0))
    scan = SIZE * SIZE + 6 * SIZE if kind == "Scan" else 0
    assert tomllib.loads(text)["parameters"] == 2 * SIZE * SIZE + scan
    assert ("steps is priced for 7 iterations" in text) == bool(given)
    if kind == "data":
        with pytest.raises(UnsupportedError, match=r"Loop 'steps'.*--sizes steps=1"):
            import_graph(file)


def test_iterations_that_depend_on_the_batch_are_stated_or_refused(tmp_path: Path) -> None:
    first = helper.make_tensor("zero", TensorProto.INT64, [], [0])
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["t"]),
        helper.make_node("Gather", ["x", "row"], ["h"]),
        _looping("Loop"),
    ]
    row = helper.make_tensor("row", TensorProto.INT64, [1], [0])
    file = _save(tmp_path / "b.onnx", nodes, [_weight("w", SIZE, SIZE), first, row], rows="b")
    with pytest.raises(UnsupportedError, match=r"number of iterations of Loop 'steps'.*batch"):
        import_graph(file)
    assert _flop(file, steps=4) == 2 * SIZE * SIZE * 4


def test_iterations_of_other_sizes_are_refused(tmp_path: Path) -> None:
    inner = [helper.make_node("Concat", ["state", "state"], ["next"], axis=0)]
    inner += [helper.make_node("Identity", ["go"], ["goes"])]
    starts = [_value("i", kind=TensorProto.INT64), _value("go", kind=TensorProto.BOOL)]
    ends = [_value("goes", kind=TensorProto.BOOL), _value("next")]
    body = helper.make_graph(inner, "body", [*starts, _value("state", 1, SIZE)], ends)
    loop = helper.make_node("Loop", ["t", "", "x"], ["y"], body=body)
    count = helper.make_tensor("t", TensorProto.INT64, [], [3])
    with pytest.raises(UnsupportedError, match="iterations of 'y' do not have equal sizes"):
        import_graph(_save(tmp_path / "grows.onnx", [loop], [count]))
    endless = helper.make_tensor("t", TensorProto.INT64, [], [2**62])
    with pytest.raises(UnsupportedError, match="'y' runs its body more than 1,000,000,000,000"):
        import_graph(_save(tmp_path / "endless.onnx", [loop], [endless]))


def test_a_loop_that_is_stated_but_carries_unknown_sizes_is_refused(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["n"], to=TensorProto.INT64),
        helper.make_node("Squeeze", ["n"], ["s"]),
        helper.make_node("Reshape", ["x", "s"], ["h"]),
        _looping("Loop"),
    ]
    count = helper.make_tensor("t", TensorProto.INT64, [], [5])
    file = _save(tmp_path / "u.onnx", nodes, [_weight("w", SIZE, SIZE), count])
    with pytest.raises(UnsupportedError, match=r"Loop 'steps'.* data; export the graph"):
        import_graph(file, sizes={"steps": 3})


def test_an_input_that_chooses_a_branch_has_a_value(tmp_path: Path) -> None:
    rate = helper.make_tensor_value_info("rate", TensorProto.INT64, [])
    nodes = [
        helper.make_node("Identity", ["x"], ["h"]),
        helper.make_node("Equal", ["rate", "k"], ["c"]),
        helper.make_node(
            "If", ["c"], ["y"], then_branch=_branch("w", SIZE), else_branch=_branch("v", 7)
        ),
    ]
    number = helper.make_tensor("k", TensorProto.INT64, [], [16000])
    graph = helper.make_graph(nodes, "net", [_value("x", 1, SIZE), rate], [_value("y")], [number])
    save(helper.make_model(graph), str(tmp_path / "rate.onnx"))
    with pytest.raises(UnsupportedError, match="--sizes rate=1"):
        import_graph(tmp_path / "rate.onnx")
    for value, width in ((16000, SIZE), (0, 7)):
        text = import_graph(tmp_path / "rate.onnx", sizes={"rate": value})
        assert tomllib.loads(text)["parameters"] == SIZE * width


def test_functions_of_the_file_are_inlined_unless_they_explode(tmp_path: Path) -> None:
    own, sets = "own", [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]

    def file(depth: int, inner: str = "") -> Path:
        calls = [(f"f{i}", f"f{i + 1}") for i in range(depth)] + [(f"f{depth}", inner)]
        functions = []
        for name, called in calls:
            steps = [
                helper.make_node(called or "Relu", [a], [b], domain=own if called else "")
                for a, b in (("a", "b"), ("b", "c"))
            ]
            functions.append(helper.make_function(own, name, ["a"], ["c"], steps, sets))
        node = helper.make_node("f0", ["x"], ["y"], domain=own)
        graph = helper.make_graph([node], "net", [_value("x", 1, SIZE)], [_value("y", 1, SIZE)])
        save(
            helper.make_model(graph, opset_imports=sets, functions=functions),
            str(tmp_path / "f.onnx"),
        )
        return tmp_path / "f.onnx"

    assert len(nodes_of_file(file(2)).nodes) == 8
    with pytest.raises(InvalidSpecError, match="operators once its functions are inlined"):
        import_graph(file(40))
    with pytest.raises(InvalidSpecError, match="function 'f0' calls itself"):
        import_graph(file(0, "f0"))


@pytest.mark.parametrize("held", ["Constant", "initializer", "sparse"])
def test_weights_are_counted_however_they_are_held(tmp_path: Path, held: str) -> None:
    names = ("w", "scale", "shift", "mean", "spread")
    tensors = [_weight(name, *((SIZE, SIZE) if name == "w" else (SIZE,))) for name in names]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"])]
    nodes += [helper.make_node("BatchNormalization", ["m", *names[1:]], ["y"])]
    if held == "Constant":
        nodes = [helper.make_node("Constant", [], [t.name], value=t) for t in tensors] + nodes
    if held == "sparse":
        place = helper.make_tensor("i", TensorProto.INT64, [1], [3])
        few = helper.make_sparse_tensor(_weight("w", 1), place, [SIZE, SIZE])
        nodes.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=few))
    others = {"Constant": [], "initializer": tensors, "sparse": tensors[1:]}[held]
    file = _save(tmp_path / "held.onnx", nodes, others)
    assert tomllib.loads(import_graph(file))["parameters"] == SIZE * SIZE + 4 * SIZE
    assert _flop(file) == 2 * SIZE * SIZE


def test_several_weights_that_are_one_are_counted_once(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Concat", ["u", "v"], ["w"], axis=1),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    file = _save(tmp_path / "both.onnx", nodes, [_weight(name, SIZE, SIZE) for name in "uv"])
    assert tomllib.loads(import_graph(file))["parameters"] == 2 * SIZE * SIZE
    assert _flop(file) == 2 * SIZE * 2 * SIZE


@pytest.mark.parametrize(("equation", "kind"), [("bij->bji", "copy"), ("...i->...", "reduce")])
def test_einsum_of_one_operand_moves_it(tmp_path: Path, equation: str, kind: str) -> None:
    node = helper.make_node("Einsum", ["x"], ["y"], equation=equation)
    graph = helper.make_graph([node], "net", [_value("x", 2, 4, 8)], [_value("y")])
    save(helper.make_model(graph), str(tmp_path / "e.onnx"))
    assert [each.kind for each in nodes_of_file(tmp_path / "e.onnx").nodes] == [kind]


def test_an_operator_that_reads_what_follows_it_is_refused(tmp_path: Path) -> None:
    nodes = [helper.make_node("Mul", ["x", "z"], ["y"]), helper.make_node("Relu", ["y"], ["z"])]
    with pytest.raises(InvalidSpecError, match="Mul '' reads 'z', which nothing before it writes"):
        import_graph(_save(tmp_path / "cycle.onnx", nodes, []))


def test_sizes_that_follow_from_each_other_without_end_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, last = [], "x"
    for step in range(10):
        one, two, three = f"s{step}", f"d{step}", f"r{step}"
        nodes += [
            helper.make_node("Shape", [last], [one]),
            helper.make_node("Div", [one, "k"], [two]),
        ]
        nodes += [helper.make_node("Reshape", [last, two], [three])]
        last = three
    nodes.append(helper.make_node("Relu", [last], ["y"]))
    ones = helper.make_tensor("k", TensorProto.INT64, [2], [1, 1])
    file = _save(tmp_path / "steps.onnx", nodes, [ones])
    assert len(nodes_of_file(file).nodes) == 1
    monkeypatch.setattr(loading, "MAX_PROCESSED", 5 * len(nodes))
    with pytest.raises(UnsupportedError, match="follow from each other in too many steps"):
        import_graph(file)


def test_an_index_of_many_values_is_a_reduction(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("ArgMax", ["x"], ["y"], axis=1, keepdims=0)],
        "net",
        [_value("x", 1, 1000)],
        [_value("y", kind=TensorProto.INT64)],
    )
    save(helper.make_model(graph), str(tmp_path / "most.onnx"))
    assert [each.kind for each in nodes_of_file(tmp_path / "most.onnx").nodes] == ["reduce"]
