"""What engines run of a plan, and the commands that launch it, by their documentation."""

from __future__ import annotations

import math
import shlex
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.files import shipped_table
from perfatlas.quantities import InvalidSpecError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.networks import Network


ROLES: Final = ("prefill", "decode")  # of the workers of two pools
# limits that the search does not vary
OPTIONS: Final = (
    *("block_size", "gpu_memory_utilization", "kv_blocks", "stream_interval"),
    "server_processes",
)
STORED_KV: Final = "bf16"  # what engines cache without an argument
DRAFTER: Final = "has_drafter"  # whether the checkpoint has layers for multi-token prediction
OFFLOADED: Final = "offloaded_bytes"  # weights of a rank that are in its second memory
GIB: Final = 2**30
MOST_LAYERS: Final = 32  # of a group, some of which are in a second memory
# settings by their value without effect
SETTINGS: Final[Mapping[str, Any]] = {
    "expert_exchange": None,
    "batch_overlap": "none",
    "redundant_experts": 0,
    "weight_offload": 0.0,
    "kv_offload": 0.0,
    "offload_prefetch": False,
    "speculative_depth": 0,
    "prefix_caching": True,
}
# sizes that not all commands have, by their value without effect
UNNAMED: Final = dict.fromkeys(("cp", "ring_degree", "guidance_degree", "dcp"), 1)


def launcher_of(emit: str, engine: str, *, pools: bool) -> str:
    """Return the key of the rules by which an engine is launched.

    Args:
        engine: Name of the searched engine, without a version.
        pools: Whether prefill and decode pools are searched.

    Raises:
        InvalidSpecError: It launches another engine.
        UnsupportedError: Its launch of pools is not known.

    Example:
        >>> from perfatlas.studies.deployments.launch import launcher_of
        >>> launcher_of("dynamo", "vllm", pools=True), launcher_of("dynamo", "trtllm", pools=True)
        ('dynamo', 'dynamo_trtllm')
    """
    launchers = {
        key: launch_rule for key, launch_rule in launch_rules().items() if "engine" in launch_rule
    }
    named = {
        key: launcher for key, launcher in launchers.items() if launcher.get("emit", key) == emit
    }
    matches = [key for key, row in named.items() if row["engine"] == engine]
    if not matches:
        names = " or ".join(row["engine"] for row in named.values())
        raise InvalidSpecError(
            f"emit = {emit} launches {names}, but plans are searched for {engine};"
            f" set engine = {names}"
        )
    if pools and "pool" not in named[matches[0]]:
        others = [
            launcher.get("emit", key)
            for key, launcher in launchers.items()
            if "pool" in launcher and launcher["engine"] == engine
        ]
        raise UnsupportedError(
            f"emit = {emit} does not cover prefill and decode pools; use emit ="
            f" {' or '.join(others)}, which launches {engine} workers of both"
        )
    return matches[0]


def launch_commands(
    launcher: str, model: str, plan: Mapping[str, Any], longest: int, stored: str = "bf16"
) -> list[str]:
    """Return the commands that launch a plan, for each kind of replica or worker.

    A replica of several nodes has a command for all of them, or one for the first and one for the
    others.

    Args:
        launcher: Key of the rules.
        plan: A row of the answer, with the `OPTIONS` and `SETTINGS` that are set, and the devices
            of a node (`NODE_DEVICES`, of pools with their names) where replicas may need several.
        longest: Tokens of the longest request, prompt and output.
        stored: Format of the dense layers of the checkpoint.

    Raises:
        UnsupportedError: The engine refuses the plan when it starts.

    Example:
        >>> from perfatlas.studies.deployments.launch import launch_commands
        >>> plan = {"tp": 4, "pp": 1, "attention_dp": 1, "dp": 2, "max_num_batched_tokens": 8192}
        >>> launch_commands("vllm", "meta-llama/Llama-3.1-8B", plan, 4500)[0]
        'vllm serve meta-llama/Llama-3.1-8B --max-model-len 4500 --tensor-parallel-size 4\
 --max-num-batched-tokens 8192  # 2 replicas'
    """
    rules = launch_rules()[launcher]
    if "prefill_workers" not in plan:
        count = plan["dp"]
        several = f"{count} replicas" if count > 1 else ""
        worker = {**plan, "stored": stored}
        return [_noted(line, several) for line in _lines(rules, model, worker, longest)]
    shared = {"kv_format": plan["kv_format"], "stored": stored}
    shared |= {"gemm_format": plan.get("gemm_format")}
    shared |= {name: plan[name] for name in (*OPTIONS, *SETTINGS, DRAFTER) if name in plan}
    commands = []
    for role in ROLES:
        worker = {**_of_role(plan, role), "role": role}
        count = worker["workers"]
        several = f"{count} workers" if count > 1 else ""
        commands += [
            _noted(line, several) for line in _lines(rules, model, {**worker, **shared}, longest)
        ]
    return commands


def _of_role(plan: Mapping[str, Any], role: str) -> dict[str, Any]:
    """Return the sizes and limits of the workers of a pool, without its name."""
    return {
        name.removeprefix(f"{role}_"): value
        for name, value in plan.items()
        if name.startswith(role)
    }


def _noted(line: str, note: str) -> str:
    """Return a command with a comment at its end."""
    if not note:
        return line
    return f"{line}; {note}" if "  # " in line else f"{line}  # {note}"


def _lines(
    rules: Mapping[str, Any], model: str, plan: Mapping[str, Any], longest: int
) -> list[str]:
    """Return the commands of a replica or of a worker, on all its nodes."""
    for name, why in rules.get("refused", {}).items():
        if plan.get(name):
            raise UnsupportedError(
                f"{name} = {plan[name]:g} cannot be launched: {why}; set {name} = 0, or leave emit"
                " out"
            )
    share = plan.get("weight_offload") or 0.0
    launched = _offloaded_share(share)
    if plan.get("offload_prefetch") and share not in (0.0, 1.0) and launched in (0, 1):
        raise UnsupportedError(
            f"weight_offload = {share:g} with offload_prefetch cannot be launched: of at most"
            f" {MOST_LAYERS} layers {'none' if launched == 0 else 'all'} would be offloaded; set"
            f" weight_offload between {1 / MOST_LAYERS:g} and {1 - 1 / MOST_LAYERS:g}, or leave"
            " emit out"
        )
    overlap = plan.get("batch_overlap", "none")
    if overlap in rules.get("needs_exchange", ()):
        exchanges = rules["exchange"]
        if not _settings(rules, plan).get("expert_exchange"):
            names = [name for name in exchanges if name.startswith("deepep")]
            raise UnsupportedError(
                f"{rules['engine']} does not start with batch_overlap = {overlap} without one"
                f" DeepEP kernel for all steps; set expert_exchange = {' or '.join(names)}, or"
                " leave emit out"
            )
    if "role" in plan and plan.get("pp", 1) > 1 and "stages" in rules:
        raise UnsupportedError(
            f"{plan['role']} workers have {plan['pp']} pipeline stages, and {rules['stages']}; set"
            " pp = 1, or leave emit out"
        )
    command = _command(rules, model, plan, longest)
    span = node_span(rules, plan)
    if span is None:
        return [command]
    first = rules["nodes"].get("first", ())
    other = _command(rules, model, {n: v for n, v in plan.items() if n not in first}, longest)
    return commands_of_nodes(rules, (command, other), span)


def _command(rules: Mapping[str, Any], model: str, plan: Mapping[str, Any], longest: int) -> str:
    sizes = dict(plan)
    if rules["ranks"]:
        sizes[rules["ranks"]] = plan["tp"] * plan.get("attention_dp", 1)
    for name in sizes.keys() & set(rules.get("shared", ())):
        sizes[name] = plan[name] * plan.get("attention_dp", 1)
    words = [*rules["command"].split(), *([rules["model"]] if rules["model"] else []), model]
    words += [rules["context"], str(longest)]
    for name, flag in rules["arguments"].items():
        limit = name.startswith("max_")
        if name in sizes and (limit or sizes[name] != 1):
            words += [flag, str(sizes[name])]
    for name, flag in rules["options"].items():
        if name in sizes:
            words += [flag, str(sizes[name])]
    if plan.get("ep", 1) > 1 and "expert_parallel" in rules:
        words.append(rules["expert_parallel"])
    stored = rules.get("kv_formats", {}).get(plan.get("kv_format"))
    if stored:
        words += [rules["kv_format"], stored]
    named = [word for setting in _settings(rules, plan).values() for word in setting or ()]
    named += _pool(rules, plan)
    text = shlex.join([*words, *_quantization(rules, plan), *named])
    if plan.get("attention_dp", 1) > 1 and "attention_data_parallel" in rules:
        extra = rules["attention_data_parallel"]
        text += f" {extra}" if extra.startswith("--") else f"  # with {extra}"
    share = plan.get("weight_offload") or 0.0
    launched = float(_offloaded_share(share))
    if plan.get("offload_prefetch") and not math.isclose(launched, share, rel_tol=1e-3):
        text = _noted(text, f"offloads {launched:.4g} of the layers, not {share:g}")
    return text


def _settings(rules: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, list[str] | None]:
    """Return the arguments of each setting of a plan that has an effect, None where none is known.

    Args:
        plan: The plan of a replica, or of a worker with its `role`.
    """
    exchanges, settings = rules.get("exchange", {}), rules.get("settings", {})
    options: dict[str, list[str] | None] = {}
    for name, none in SETTINGS.items():
        value = plan.get(name, none)
        if value in (none, None):
            continue
        if name == "expert_exchange":
            by_role = {"prefill": "deepep_normal", "decode": "deepep_low_latency"}
            role_exchange = by_role.get(plan.get("role", "")) if value == "deepep" else None
            options[name] = exchanges.get(value) or exchanges.get(role_exchange)
        elif name == "batch_overlap":
            options[name] = settings.get(value)
        elif name == "weight_offload" and plan.get("offload_prefetch"):
            continue  # with the arguments of that
        elif name == "prefix_caching":
            options[name] = settings.get("no_prefix_caching")
        elif name == "speculative_depth" and not plan.get(DRAFTER):
            options[name] = None
        else:
            gib = str(math.ceil(plan.get(OFFLOADED, 0.0) / GIB))
            share = _offloaded_share(plan.get("weight_offload") or 0.0)
            numbers = {"<n>": str(value), "<n+1>": str(int(value) + 1), "<gib>": gib}
            numbers |= {"<group>": str(share.denominator), "<of group>": str(share.numerator)}
            words = settings.get(name)
            options[name] = words and [_filled(word, numbers) for word in words]
    return options


def _offloaded_share(weight_offload: float) -> Fraction:
    """Return the share of layers in a second memory that is launched: some of each group."""
    return Fraction(weight_offload).limit_denominator(MOST_LAYERS)


def _filled(word: str, numbers: Mapping[str, str]) -> str:
    for placeholder, number in numbers.items():
        word = word.replace(placeholder, number)
    return word


def _quantization(rules: Mapping[str, Any], plan: Mapping[str, Any]) -> list[str]:
    """Return the arguments that quantize the weights of the checkpoint, if the engine can."""
    wanted, online = plan.get("gemm_format"), rules.get("online", {})
    if wanted in (None, plan["stored"]) or plan["stored"] != "bf16" or wanted not in online:
        return []
    return [rules["quantization"], online[wanted]]


def _pool(rules: Mapping[str, Any], plan: Mapping[str, Any]) -> list[str]:
    """Return the arguments of a worker of a pool: its role, and what hands over the KV cache."""
    if "role" not in plan:
        return []
    return [rules["pool"], plan["role"], *rules.get("kv_transfer", ())]


def left_out_note(launcher: str, plan: Mapping[str, Any]) -> str:
    """Return which settings of a plan the launch commands leave out, "" for none.

    Args:
        launcher: Key of the rules.
        plan: A row of the answer, with the `OPTIONS` that are set.

    Example:
        >>> from perfatlas.studies.deployments.launch import left_out_note
        >>> left_out_note("sglang", {"tp": 2, "kv_blocks": 4096, "speculative_depth": 3})
        'the launch command leaves out kv_blocks and speculative_depth: add what sglang needs'
        >>> left_out_note("vllm", {"tp": 2, "kv_blocks": 4096})
        ''
    """
    rules = launch_rules()[launcher]
    names = [name for name in OPTIONS if name in plan and name not in rules["options"]]
    pools = "prefill_workers" in plan
    settings = _settings(rules, {**plan, **({"role": "decode"} if pools else {})})
    names += [name for name, words in settings.items() if words is None]
    kv_formats = (None, STORED_KV, *rules.get("kv_formats", {}))
    names += [] if plan.get("kv_format") in kv_formats else ["kv_format"]
    for name, none in UNNAMED.items():
        role_values = (plan.get(key, none) for key in (name, *(f"{role}_{name}" for role in ROLES)))
        unnamed = name not in rules["arguments"] and any(value != none for value in role_values)
        names += [name] if unnamed else []
    parts = [plan, *(_of_role(plan, role) for role in ROLES if pools)]
    names += ["nodes"] if any(left_out_nodes(rules, part) for part in parts) else []
    if not names:
        return ""
    return f"the launch command leaves out {' and '.join(names)}: add what {rules['engine']} needs"


def needed_checkpoint(launcher: str, plan: Mapping[str, Any], stored: str) -> str:
    """Return what the launched checkpoint must be, "" where that of the model will do.

    Args:
        launcher: Key of the rules.
        stored: Format of the dense layers of the checkpoint.

    Example:
        >>> from perfatlas.studies.deployments.launch import needed_checkpoint
        >>> needed_checkpoint("vllm", {"gemm_format": "nvfp4"}, "bf16")
        'the launch commands need a checkpoint in nvfp4: vllm does not quantize bf16 weights to it'
        >>> needed_checkpoint("vllm", {"gemm_format": "fp8_dynamic"}, "bf16")
        ''
    """
    wanted, rules = plan.get("gemm_format", stored), launch_rules()[launcher]
    if wanted == stored or (stored == "bf16" and wanted in rules.get("online", {})):
        return ""
    return (
        f"the launch commands need a checkpoint in {wanted}: {rules['engine']} does not quantize"
        f" {stored} weights to it"
    )


NODE_DEVICES: Final = "node_devices"  # devices of a node, in a plan to be launched
NODE_SIZES: Final = ("tp", "pp", "cp", "attention_dp")


class NodeSpan(NamedTuple):
    """How a replica is spread over nodes."""

    nodes: int
    local: int  # GPUs on each of them; with `by_ranks`, attention-DP ranks
    by_ranks: bool  # Whether whole attention-DP ranks are on each node, which the engine numbers


def node_span(rules: Mapping[str, Any], plan: Mapping[str, Any]) -> NodeSpan | None:
    """Return how a replica is spread over nodes, None if it fits on one or cannot be launched.

    Every node has equally many of its GPUs. An engine that numbers attention-DP ranks needs whole
    ones on a node.

    Example:
        >>> from perfatlas.studies.deployments.launch import node_span
        >>> node_span({"nodes": {}}, {"tp": 8, "pp": 2, "node_devices": 8})
        NodeSpan(nodes=2, local=8, by_ranks=False)
    """
    gpus, devices = _gpus(plan), int(plan.get(NODE_DEVICES, 0))
    nodes = -(-gpus // devices) if devices else 1
    if nodes == 1 or "nodes" not in rules or gpus % nodes:
        return None
    ranks = int(plan.get("attention_dp", 1))
    if ranks == 1 or "ranks" not in rules["nodes"]:
        return NodeSpan(nodes, gpus // nodes, by_ranks=False)
    return None if ranks % nodes else NodeSpan(nodes, ranks // nodes, by_ranks=True)


def left_out_nodes(rules: Mapping[str, Any], plan: Mapping[str, Any]) -> bool:
    """Return whether a replica needs several nodes that its command does not name."""
    devices = int(plan.get(NODE_DEVICES, 0))
    return bool(devices and _gpus(plan) > devices and node_span(rules, plan) is None)


def commands_of_nodes(
    rules: Mapping[str, Any], commands: tuple[str, str], span: NodeSpan
) -> list[str]:
    """Return the commands of a replica over several nodes.

    Example:
        >>> from perfatlas.studies.deployments import launch_rules
        >>> from perfatlas.studies.deployments.launch import NodeSpan, commands_of_nodes
        >>> span = NodeSpan(nodes=2, local=8, by_ranks=False)
        >>> command = "python -m sglang.launch_server"
        >>> commands_of_nodes(launch_rules()["sglang"], (command, command), span)[0]
        'python -m sglang.launch_server --nnodes 2 --node-rank $NODE_RANK --dist-init-addr\
 $HEAD_ADDRESS:20000  # on each of 2 nodes, NODE_RANK = 0 to 1'
    """
    flags, (command, other) = rules["nodes"], commands
    numbers = {"<nodes>": span.nodes, "<local>": span.local, "<gpus>": span.nodes * span.local}

    def filled(name: str) -> str:
        text = str(flags.get(name, ""))
        for placeholder, number in numbers.items():
            text = text.replace(placeholder, str(number))
        return text

    if "prefix" in flags:
        return [f"{filled('prefix')} {command}"]
    each = filled("ranks" if span.by_ranks else "each")
    others = filled("other_ranks" if span.by_ranks else "others")
    last = span.nodes - 1
    if not others:
        return [f"{command} {each}  # on each of {span.nodes} nodes, NODE_RANK = 0 to {last}"]
    numbered = "1" if last == 1 else f"1 to {last}"
    return [
        f"{command} {each}  # on the first of {span.nodes} nodes, NODE_RANK = 0",
        f"{other} {each} {others}  # on each other node, NODE_RANK = {numbered}",
    ]


def _gpus(plan: Mapping[str, Any]) -> int:
    return math.prod(int(plan.get(name) or 1) for name in NODE_SIZES)


LAUNCHES: Final = "data/launch_arguments.toml"


def launch_rules() -> dict[str, dict[str, Any]]:
    """Return the names of launch arguments by launcher, from shipped data."""
    return shipped_table(LAUNCHES)


def whole_fields(engine: str) -> tuple[str, ...]:
    """Return the fields that an engine sets to 1 or to all ranks of a replica only.

    Example:
        >>> from perfatlas.studies.deployments.launch import whole_fields
        >>> whole_fields("vllm"), whole_fields("sglang")
        (('ep',), ())
    """
    return tuple(launch_rules().get(engine, {}).get("whole", ()))


def divides_prompts(engine: str, network: Network) -> bool:
    """Return whether an engine runs a model with context parallelism in prefill.

    Example:
        >>> from perfatlas.networks import resolve_model
        >>> from perfatlas.studies.deployments.launch import divides_prompts
        >>> llama = resolve_model("meta-llama/Llama-3.1-8B").network
        >>> divides_prompts("ideal", llama), divides_prompts("vllm", llama)
        (True, False)
    """
    models = launch_rules()["context_parallel"].get(engine, "")
    if models == "sparse":
        return any(group.selects_keys for group in network.layers)
    return bool(models)
