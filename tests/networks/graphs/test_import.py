"""Importers of graphs: small programs of PyTorch and ONNX by hand, and hostile files."""

from __future__ import annotations

import json
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper, save

from perfatlas.networks import import_graph
from perfatlas.networks.graphs import read_graph
from perfatlas.networks.torch_export.program import expression_of
from perfatlas.quantities import InvalidSpecError, PerfatlasError, UnsupportedError, UsageError
from perfatlas.verbs.model.importing import importing

FLOAT = TensorProto.FLOAT


def _tensor(*sizes: int | str) -> dict[str, Any]:
    each = [
        {"as_int": one} if isinstance(one, int) else {"as_expr": {"expr_str": one, "hint": None}}
        for one in sizes
    ]
    return {"sizes": each, "strides": [], "dtype": 7}


def _call(target: str, output: str, **inputs: str | dict[str, int]) -> dict[str, Any]:
    given = [
        {"name": name, "arg": {"as_tensor": {"name": one}} if isinstance(one, str) else one}
        for name, one in inputs.items()
    ]
    return {
        "target": f"torch.ops.aten.{target}.default",
        "inputs": given,
        "outputs": [{"as_tensor": {"name": output}}],
    }


def _archive(
    path: Path,
    calls: list[dict[str, Any]],
    values: dict[str, Any],
    ranges: dict[str, dict[str, int]] | None = None,
    user: str = "x",
) -> Path:
    weights = [{"parameter": {"arg": {"name": n}}} for n in values if n.startswith("p_")]
    inputs = [{"user_input": {"arg": {"as_tensor": {"name": user}}}}]
    graph = {"nodes": calls, "tensor_values": values}
    module = {"graph": graph, "signature": {"input_specs": [*weights, *inputs]}}
    program = {"graph_module": module, "range_constraints": ranges or {}}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/models/model.json", json.dumps(program))
    return path


CALLS = [
    _call("conv2d", "c", input="x", weight="p_w", groups={"as_int": 1}),
    _call("relu", "r", self="c"),
    _call("transpose", "t", self="r"),
    _call("linear", "y", input="t", weight="p_l"),
]


def _values(batch: int | str) -> dict[str, Any]:
    return {
        "p_w": _tensor(16, 4, 3, 3),
        "p_l": _tensor(10, 16),
        "x": _tensor(batch, 4, 8, 8),
        "c": _tensor(batch, 16, 8, 8),
        "r": _tensor(batch, 16, 8, 8),
        "t": _tensor(batch, 8, 8, 16),
        "y": _tensor(batch, 8, 8, 10),
    }


WANTED = [
    {"kind": "conv", "m": "64 * batch", "n": 16, "k": 36, "read": "256 * batch"},
    {"kind": "activation", "read": "1024 * batch", "after": "conv", "by_output": True},
    {"kind": "linear", "m": "64 * batch", "n": 10, "k": 16},
]


@pytest.mark.parametrize("batch", [2, "s0", "Symbol('s0', integer=True)"])
def test_a_program_of_pytorch(tmp_path: Path, batch: int | str) -> None:
    file = _archive(tmp_path / "net.pt2", CALLS, _values(batch))
    found = tomllib.loads(import_graph(file))
    assert found["parameters"] == 16 * 36 + 160
    assert found["operators"] == WANTED


def test_a_batch_of_weights_is_a_product_of_each(tmp_path: Path) -> None:
    values = {"p_e": _tensor(6, 16, 10), "x": _tensor(6, 32, 16), "y": _tensor(6, 32, 10)}
    calls = [_call("bmm", "y", self="x", mat2="p_e")]
    found = tomllib.loads(import_graph(_archive(tmp_path / "net.pt2", calls, values), batch=1))
    wanted = {"kind": "matmul", "m": 32, "n": 10, "k": 16, "groups": "6 * batch"}
    assert found["operators"] == [wanted]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        (["access_subclass_inner_tensor w p_w", "to v w", "mm y x v"], "int8_wo"),  # torchao
        (["quantize_affine q x", "_int_mm y q p_w"], "int8"),
        (["dequantize_per_tensor d q", "dequantize_per_channel v p_w", "mm y d v"], "int8"),
    ],
)
def test_weights_in_8_bits_state_the_format(
    tmp_path: Path, calls: list[str], expected: str
) -> None:
    names = {"mm": ("self", "mat2"), "_int_mm": ("self", "mat2")}
    values = {name: _tensor(2, 16) for name in "xqdy"} | {n: _tensor(16, 16) for n in ("w", "v")}
    values["p_w"] = _tensor(16, 16) | {"dtype": 2}
    values["q"] |= {"dtype": 2}
    values["w"] |= {"dtype": 2}
    steps = []
    for target, out, *read in map(str.split, calls):
        given = dict(zip(names.get(target, ("input",)), read, strict=True))
        space = "aten" if target in (*names, "to") else "torchao"
        call = _call(target, out, **given)
        steps.append(call | {"target": f"torch.ops.{space}.{target}.default"})
    values["x"] |= {"dtype": 7}
    user = "q" if calls[0].endswith(" q") else "x"
    file = _archive(tmp_path / "net.pt2", steps, values, user=user)
    found = tomllib.loads(import_graph(file))
    assert (found["parameters"], found["format"]) == (256, expected)


@pytest.mark.parametrize("tables", [("p_a", "p_b"), ("p_a", "p_a")])
def test_tables_of_several_lookups_state_no_rows(tmp_path: Path, tables: tuple[str, str]) -> None:
    values = {name: _tensor(100, 16) for name in dict.fromkeys(tables)} | {
        "x": _tensor("s0", 3),
        "y": _tensor("s0", 16),
        "z": _tensor("s0", 16),
    }
    calls = [
        _call("embedding_bag", output, weight=table, indices="x")
        for table, output in zip(tables, "yz", strict=True)
    ]
    found = tomllib.loads(import_graph(_archive(tmp_path / "net.pt2", calls, values)))
    assert read_graph(found, "bags").tables == (2 if len(set(tables)) == 2 else 0)


def test_constructors_of_sizes_become_expressions() -> None:
    half = "FloorDiv(Add(Symbol('s1'), Integer(-1)), Integer(2))"
    text = f"Mul(Integer(64), Pow(Add({half}, Integer(1)), Integer(2)))"
    found = expression_of(text, {"s1": "side"})
    assert eval(found, {"side": 224}) == 64 * 112**2  # noqa: S307 - a text of this test
    with pytest.raises(InvalidSpecError, match="not arithmetic"):
        expression_of("System('rm')", {})


def test_ranges_of_symbols_are_limits_of_sizes(tmp_path: Path) -> None:
    side = "Mul(Integer(32), Symbol('s1', positive=True, integer=True))"
    values = {"x": _tensor("Symbol('s0')", 4, side), "y": _tensor("Symbol('s0')", 4, side)}
    values["x"]["sizes"][2]["as_expr"]["hint"] = {"as_int": 224}
    ranges = {"s0": {"min_val": 2}, "s1": {"min_val": 2, "max_val": 16}}
    file = _archive(tmp_path / "n.pt2", [_call("relu", "y", self="x")], values, ranges)
    found = tomllib.loads(import_graph(file))
    assert found["sizes"] == {"x_2": 224}
    assert found["limits"] == {"x_2": {"most": 512, "multiple_of": 32}}
    network = read_graph(found, "net")
    with pytest.raises(InvalidSpecError, match=r"x_2 = 100: .*32.*512"):
        network.changed({"x_2": "100"})


def _onnx(
    path: Path, nodes: list[Any], inputs: list[Any], weights: dict[str, tuple[int, ...]]
) -> Path:
    held = [
        helper.make_tensor(name, FLOAT, sizes, [0.5] * _product(sizes))
        for name, sizes in weights.items()
    ]
    outputs = [helper.make_tensor_value_info(nodes[-1].output[0], FLOAT, None)]
    graph = helper.make_graph(nodes, "net", inputs, outputs, held)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), str(path))
    return path


def _product(sizes: tuple[int, ...]) -> int:
    found = 1
    for size in sizes:
        found *= size
    return found


@pytest.mark.parametrize("batch", [2, "N"])
def test_a_graph_of_onnx_equals_the_program(tmp_path: Path, batch: int | str) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Transpose", ["r"], ["t"], perm=[0, 2, 3, 1]),
        helper.make_node("MatMul", ["t", "l"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["y"]),  # the bias of the product
    ]
    inputs = [helper.make_tensor_value_info("x", FLOAT, [batch, 4, 8, 8])]
    weights = {"w": (16, 4, 3, 3), "l": (16, 10), "b": (10,)}
    found = tomllib.loads(import_graph(_onnx(tmp_path / "net.onnx", nodes, inputs, weights)))
    assert found["parameters"] == 16 * 36 + 160 + 10
    assert found["operators"] == WANTED


@pytest.mark.parametrize("name", ["net.pt2", "net.onnx"])
def test_a_batch_divides_a_fixed_first_size(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    if file.suffix == ".pt2":
        _archive(file, CALLS[:1], _values(2))
    else:
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1])]
        inputs = [helper.make_tensor_value_info("x", FLOAT, [2, 4, 8, 8])]
        _onnx(file, nodes, inputs, {"w": (16, 4, 3, 3)})
    found = tomllib.loads(import_graph(file, batch=2))
    assert found["operators"] == WANTED[:1]
    halves = tomllib.loads(import_graph(file, batch=1))
    assert halves["operators"][0]["m"] == "128 * batch"
    with pytest.raises(InvalidSpecError, match=r"batch = 4: .* 2.*divisor"):
        import_graph(file, batch=4)


@pytest.mark.parametrize("value", ["²", "9" * 5000, "0", "-1", "1e3", 10**7 + 1, ""])
def test_sizes_are_integers_in_range(tmp_path: Path, value: int | str) -> None:
    inputs = [helper.make_tensor_value_info("x", FLOAT, [1, "H"])]
    file = _onnx(tmp_path / "net.onnx", [helper.make_node("Relu", ["x"], ["y"])], inputs, {})
    with pytest.raises(InvalidSpecError, match=r"x_1 = .*10,000,000"):
        import_graph(file, sizes={"x_1": value})
    with pytest.raises(InvalidSpecError, match=r"batch = .*integer"):
        import_graph(file, batch=10**5000, sizes={"x_1": "3"})
    for wrong in ("foo", "x_0"):
        with pytest.raises(InvalidSpecError, match=rf"'{wrong}'.* x_1, H$"):
            import_graph(file, sizes={wrong: 3})


def test_a_free_size_without_a_name_is_asked_for(tmp_path: Path) -> None:
    inputs = [helper.make_tensor_value_info("x", FLOAT, [None, None])]
    file = _onnx(tmp_path / "net.onnx", [helper.make_node("Relu", ["x"], ["y"])], inputs, {})
    with pytest.raises(InvalidSpecError, match="free sizes: x_1;"):
        import_graph(file)


def test_a_tensor_without_a_shape_is_no_scalar(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "places"], ["r"]),  # its rank depends on data
        helper.make_node("MatMul", ["r", "l"], ["y"], name="last"),
    ]
    inputs = [
        helper.make_tensor_value_info("x", FLOAT, [1, 16]),
        helper.make_tensor_value_info("places", TensorProto.INT64, None),
    ]
    with pytest.raises(UnsupportedError, match=r"'r'.*MatMul 'last'"):
        import_graph(_onnx(tmp_path / "net.onnx", nodes, inputs, {"l": (16, 10)}))


def test_an_operator_with_shapes_of_another_is_named(tmp_path: Path) -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], name="first", group=0)]
    inputs = [helper.make_tensor_value_info(n, FLOAT, [1, 4, 8, 8]) for n in ("x", "w")]
    with pytest.raises(PerfatlasError, match="Conv 'first'"):
        import_graph(_onnx(tmp_path / "net.onnx", nodes, inputs, {}))


def test_products_around_a_softmax_are_an_attention(tmp_path: Path) -> None:
    shapes = {name: [1, 12, 64, 32] for name in ("q", "v")} | {"k": [1, 12, 32, 64]}
    inputs = [helper.make_tensor_value_info(n, FLOAT, sizes) for n, sizes in shapes.items()]
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["s"]),
        helper.make_node("Mul", ["s", "scale"], ["z"]),
        helper.make_node("Softmax", ["z"], ["p"]),
        helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]
    file = _onnx(tmp_path / "net.onnx", nodes, inputs, {"scale": (1,)})
    (found,) = tomllib.loads(import_graph(file))["operators"]
    sizes = {"kind": "attention", "q_len": 64, "kv_len": 64, "num_heads": 12, "head_dim": 32}
    assert found == sizes
    # rows without a key become zero, as PyTorch writes them
    masked = [*nodes[:3], *_chain("n = IsNaN p", "w = Where n scale p", "y = MatMul w v")]
    file = _onnx(tmp_path / "masked.onnx", masked, inputs, {"scale": (1,)})
    assert tomllib.loads(import_graph(file))["operators"] == [sizes]


def _chain(*steps: str) -> list[Any]:
    """Return operators such as "y = Mul x half"."""
    found = []
    for step in steps:
        written, _, call = step.partition(" = ")
        kind, *read = call.split()
        found.append(helper.make_node(kind, read, [written]))
    return found


@pytest.mark.parametrize(
    ("kind", "steps"),
    [
        ("activation", ("a = Div x c", "b = Erf a", "d = Add b c", "e = Mul x d", "y = Mul e c")),
        ("activation", ("a = Sigmoid x", "y = Mul a x")),
        ("activation", ("a = Add x c", "b = Clip a", "d = Mul x b", "y = Div d c")),
        (
            "norm",
            (
                *("m = ReduceMean x", "s = Sub x m", "p = Pow s c", "v = ReduceMean p"),
                *("e = Add v c", "r = Sqrt e", "d = Div s r", "g = Mul d w", "y = Add g w"),
            ),
        ),
    ],
)
def test_operators_that_exporters_take_apart_are_one(
    tmp_path: Path, kind: str, steps: tuple[str, ...]
) -> None:
    inputs = [helper.make_tensor_value_info("i", FLOAT, [4, 16])]
    nodes = _chain("x = MatMul i l", *steps)
    weights = {"l": (16, 8), "c": (1,), "w": (8,)}
    first, found = tomllib.loads(import_graph(_onnx(tmp_path / "n.onnx", nodes, inputs, weights)))[
        "operators"
    ]
    assert first["kind"] == "linear"
    row = {"row": 8} if kind == "norm" else {}
    assert found == {"kind": kind, "read": "8 * batch", "after": "linear", **row}


def test_rows_and_repeated_operands_are_read(tmp_path: Path) -> None:
    """A row of an instance norm is a channel of 6 x 6; biases and scales of channels repeat."""
    inputs = [helper.make_tensor_value_info("x", FLOAT, [4, 8, 6, 6])]
    weights = {"k": (8, 8, 1, 1), "b": (8,), "w": (8,), "s": (8, 1, 1)}
    nodes = [
        helper.make_node("Conv", ["x", "k", "b"], ["a"]),
        helper.make_node("InstanceNormalization", ["a", "w", "b"], ["g"]),
        helper.make_node("Mul", ["g", "s"], ["m"]),
        helper.make_node("Softmax", ["m"], ["y"], axis=-1),
    ]
    found = tomllib.loads(import_graph(_onnx(tmp_path / "n.onnx", nodes, inputs, weights)))
    kinds = [(one["kind"], one.get("row")) for one in found["operators"]]
    assert kinds == [
        *(("conv", None), ("strided", None), ("group_norm", 36)),
        *(("strided", None), ("softmax", 6)),
    ]


def test_what_others_read_too_stays_apart(tmp_path: Path) -> None:
    inputs = [helper.make_tensor_value_info(name, FLOAT, [4, 16]) for name in "xz"]
    nodes = _chain("a = Sigmoid x", "b = Mul a x", "y = Add a b")  # the gate is read again
    gate = _chain("a = Sigmoid x", "y = Mul a z")  # and here it is no SiLU
    for number, steps in enumerate((nodes, gate)):
        file = _onnx(tmp_path / f"{number}.onnx", steps, inputs, {})
        kinds = [one["kind"] for one in tomllib.loads(import_graph(file))["operators"]]
        assert kinds[:2] == ["activation", "elementwise"]


@pytest.mark.parametrize(("weight", "told"), [("onnx::Conv_5", ""), ("w", "FuseBatchNormIntoConv")])
def test_a_folded_batch_norm_comes_back(tmp_path: Path, weight: str, told: str) -> None:
    conv = helper.make_node("Conv", ["x", weight], ["c"], pads=[1, 1, 1, 1])
    conv.metadata_props.add(key="rule", value=told)
    inputs = [helper.make_tensor_value_info("x", FLOAT, [2, 4, 8, 8])]
    nodes = [conv, helper.make_node("Relu", ["c"], ["y"])]
    file = _onnx(tmp_path / "n.onnx", nodes, inputs, {weight: (16, 4, 3, 3)})
    found = tomllib.loads(import_graph(file))["operators"]
    norm = {"kind": "norm", "read": "1024 * batch", "after": "conv"}
    relu = {"kind": "activation", "read": "1024 * batch", "after": "norm", "by_output": True}
    assert found == [WANTED[0], norm, relu]


def test_sizes_are_folded_where_inference_does_not(tmp_path: Path) -> None:
    sizes = helper.make_tensor("s", TensorProto.INT64, [2], [-1, 8])
    ones = helper.make_tensor("o", TensorProto.INT64, [2], [4, 8])
    nodes = [
        helper.make_node("Constant", [], ["s"], value=sizes),
        helper.make_node("Constant", [], ["o"], value=ones),
        *_chain("q = Equal s s", "t = Where q o s", "e = Expand x t", "y = Relu e"),
    ]
    inputs = [helper.make_tensor_value_info("x", FLOAT, [1, 8])]
    found = tomllib.loads(import_graph(_onnx(tmp_path / "n.onnx", nodes, inputs, {})))["operators"]
    assert [one["kind"] for one in found] == ["copy", "activation"]
    assert found[1]["read"] == "32 * batch"


def test_unknown_operators_are_named_or_priced_as_elementwise(tmp_path: Path) -> None:
    calls = [_call("warp_drive", "c", self="x")]
    file = _archive(tmp_path / "net.pt2", calls, _values(1))
    with pytest.raises(UnsupportedError, match="not known: warp_drive"):
        import_graph(file)
    found = tomllib.loads(import_graph(file, allow_unknown=True))
    assert found["operators"][0]["kind"] == "elementwise"
    assert any("warp_drive" in note for note in found["notes"])


def test_an_output_that_is_no_toml_is_refused_before_it_is_written(tmp_path: Path) -> None:
    file = _archive(tmp_path / "net.pt2", CALLS, _values(1))
    with pytest.raises(UsageError, match=r"q\.json: .*\.toml"):
        importing(file, output=tmp_path / "q.json")
    assert not (tmp_path / "q.json").exists()
    assert importing(file, output=tmp_path / "q.toml") == 0


def test_control_flow_and_free_sizes_are_refused_by_name(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [helper.make_node("Constant", [], ["one"], value_float=1.0)],
        "branch",
        [],
        [helper.make_tensor_value_info("one", FLOAT, [])],
    )
    choice = helper.make_node(
        "If", ["x"], ["y"], name="choice", then_branch=branch, else_branch=branch
    )
    flag = helper.make_tensor_value_info("x", TensorProto.BOOL, [1])
    with pytest.raises(UnsupportedError, match="If 'choice' is control flow"):
        import_graph(_onnx(tmp_path / "if.onnx", [choice], [flag], {}))
    node = helper.make_node("Relu", ["x"], ["y"])
    free = helper.make_tensor_value_info("x", FLOAT, ["N", 3, "H", "W"])
    file = _onnx(tmp_path / "free.onnx", [node], [free], {})
    with pytest.raises(InvalidSpecError, match="free sizes: x_2, x_3"):
        import_graph(file)
    found = tomllib.loads(import_graph(file, sizes={"x_2": 4, "W": 5}))
    assert found["operators"] == [{"kind": "activation", "read": "60 * batch", "by_output": True}]


@pytest.mark.parametrize("name", ["net.pt2", "net.onnx", "net.txt"])
@pytest.mark.parametrize(
    "content", [b"", b"\x00" * 100, b"PK\x03\x04", b"{" * 5000, b"\x08\x07\x12\x04"]
)
def test_hostile_files_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PerfatlasError):
        import_graph(tmp_path / name)


def _json_of(nodes: object, values: object, specs: object) -> dict[str, Any]:
    graph = {"nodes": nodes, "tensor_values": values}
    return {"graph_module": {"graph": graph, "signature": {"input_specs": specs}}}


TYPES = "has values of other types"


@pytest.mark.parametrize(
    ("program", "wrong"),
    [
        ([], "is not an object"),
        ({}, "it has no key 'graph_module' of graph_module.graph"),
        ({"graph_module": None}, "it has no key 'graph' of graph_module.graph"),
        ({"graph_module": {"graph": 3}}, "graph_module.graph is no object"),
        (_json_of(3, {}, []), "nodes is no array"),
        (_json_of([], 3, []), "tensor_values is no object"),
        (_json_of([{}], {}, []), r"graph.nodes\[0\] lacks 'inputs'"),
        (_json_of([{"inputs": 3}], {}, []), rf"graph.nodes\[0\] {TYPES}"),
        (_json_of([{"inputs": [{"arg": {}}]}], {}, []), rf"graph.nodes\[0\] {TYPES}"),
        (_json_of([], {}, []), "no operators that run a kernel"),
        (_json_of([], {}, 3), f"graph_module.signature {TYPES}"),
        (_json_of([], {}, [{"parameter": {"arg": {"name": "w"}}}]), "signature lacks 'w'"),
    ],
)
def test_programs_that_are_none_are_refused(tmp_path: Path, program: object, wrong: str) -> None:
    with zipfile.ZipFile(tmp_path / "net.pt2", "w") as archive:
        archive.writestr("net/models/model.json", json.dumps(program))
    with pytest.raises(InvalidSpecError, match=wrong):
        import_graph(tmp_path / "net.pt2")


@pytest.mark.parametrize("place", [8, 10, 40])  # method of compression, and data
def test_a_damaged_archive_is_refused(tmp_path: Path, place: int) -> None:
    with zipfile.ZipFile(tmp_path / "net.pt2", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/models/model.json", "[" * 9000)
    content = bytearray((tmp_path / "net.pt2").read_bytes())
    start = 0 if place == 40 else content.rindex(b"PK\x01\x02")
    content[start + place] ^= 0xFF
    (tmp_path / "net.pt2").write_bytes(content)
    with pytest.raises(InvalidSpecError, match="cannot be read as an archive"):
        import_graph(tmp_path / "net.pt2")


def test_a_program_of_too_many_values_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "net.pt2", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/models/model.json", b"[" + b"{}," * 3_000_000 + b"0]")
    with pytest.raises(InvalidSpecError, match="has 6,000,001 values, more than 6,000,000"):
        import_graph(tmp_path / "net.pt2")


def test_external_data_is_never_opened(tmp_path: Path) -> None:
    outside = helper.make_tensor("w", FLOAT, (4, 2048), [0.0] * 8192)
    outside.ClearField("float_data")
    outside.data_location = TensorProto.EXTERNAL
    entry = outside.external_data.add()
    entry.key, entry.value = "location", "../../etc/passwd"
    inputs = [helper.make_tensor_value_info("x", FLOAT, [2, 4])]
    outputs = [helper.make_tensor_value_info("y", FLOAT, None)]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "net", inputs, outputs, [outside]
    )
    save(helper.make_model(graph), str(tmp_path / "net.onnx"))
    found = tomllib.loads(import_graph(tmp_path / "net.onnx"))
    assert found["operators"] == [{"kind": "linear", "m": "batch", "n": 2048, "k": 4}]


@pytest.mark.parametrize(("place", "parameters"), [("w0", 160), ("w1", 320)])
def test_tied_weights_are_counted_once(tmp_path: Path, place: str, parameters: int) -> None:
    values = {name: _tensor(10, 16) for name in ("p_e", "p_h", "p_u")}
    values |= {"x": _tensor("s0", 3), "h": _tensor("s0", 3, 16), "y": _tensor("s0", 3, 10)}
    calls = [
        _call("embedding", "h", weight="p_e", indices="x"),
        _call("linear", "y", input="h", weight="p_e"),
    ]
    file = _archive(tmp_path / "net.pt2", calls, values)
    stored = {"p_e": "w0", "p_h": "w0", "p_u": place}
    rows = {name: {"path_name": one, "tensor_meta": {}} for name, one in stored.items()}
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("net/data/weights/model_weights_config.json", json.dumps({"config": rows}))
    found = tomllib.loads(import_graph(file))
    assert found["parameters"] == parameters
    unread = [note for note in found.get("notes", ()) if "no operator reads 160" in note]
    assert bool(unread) == (place == "w1")


@pytest.mark.parametrize("rows", [[], {"config": 3}, {"config": {"p_e": 1}}, {"config": {"a": {}}}])
def test_damaged_places_of_weights_are_refused(tmp_path: Path, rows: object) -> None:
    file = _archive(tmp_path / "net.pt2", CALLS, _values(1))
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("net/data/weights/model_weights_config.json", json.dumps(rows))
    with pytest.raises(InvalidSpecError, match="model_weights_config"):
        import_graph(file)
