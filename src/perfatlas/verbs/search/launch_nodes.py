"""Launch of a replica over several nodes: what its command has on each of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

NODE_DEVICES: Final = "node_devices"  # devices of a node, in a plan to be launched
SIZES: Final = ("tp", "pp", "cp", "attention_dp")


class NodeSpan(NamedTuple):
    """How a replica is spread over nodes.

    Args:
        nodes: Number of nodes.
        local: GPUs on each of them; with `by_ranks`, attention-DP ranks.
        by_ranks: Whether whole attention-DP ranks are on each node, which the engine numbers.
    """

    nodes: int
    local: int
    by_ranks: bool


def node_span(rules: Mapping[str, Any], plan: Mapping[str, Any]) -> NodeSpan | None:
    """Return how a replica is spread over nodes, None if it fits on one or cannot be launched.

    Every node has equally many of its GPUs. An engine that numbers attention-DP ranks needs whole
    ones on a node.

    Args:
        rules: Those of the launcher.
        plan: Sizes of a replica, with the devices of its nodes.

    Example:
        >>> from perfatlas.verbs.search.launch_nodes import node_span
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
    """Return whether a replica needs several nodes that its command does not name.

    Args:
        rules: Those of the launcher.
        plan: Sizes of a replica, with the devices of its nodes.
    """
    devices = int(plan.get(NODE_DEVICES, 0))
    return bool(devices and _gpus(plan) > devices and node_span(rules, plan) is None)


def commands_of_nodes(
    rules: Mapping[str, Any], commands: tuple[str, str], span: NodeSpan
) -> list[str]:
    """Return the commands of a replica over several nodes.

    Args:
        rules: Those of the launcher.
        commands: The command of a replica on its first node, and on others where they differ.
        span: Its nodes.

    Example:
        >>> from perfatlas.studies.deployments import launch_rules
        >>> from perfatlas.verbs.search.launch_nodes import NodeSpan, commands_of_nodes
        >>> span = NodeSpan(nodes=2, local=8, by_ranks=False)
        >>> command = "python -m sglang.launch_server"
        >>> commands_of_nodes(launch_rules()["sglang"], (command, command), span)[0]
        'python -m sglang.launch_server --nnodes 2 --node-rank $NODE_RANK --dist-init-addr\
 $HEAD_ADDRESS:20000  # on each of 2 nodes, NODE_RANK = 0 to 1'
    """
    known, (command, other) = rules["nodes"], commands
    numbers = {"<nodes>": span.nodes, "<local>": span.local, "<gpus>": span.nodes * span.local}

    def filled(name: str) -> str:
        text = str(known.get(name, ""))
        for place, number in numbers.items():
            text = text.replace(place, str(number))
        return text

    if "prefix" in known:
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
    return math.prod(int(plan.get(name) or 1) for name in SIZES)
