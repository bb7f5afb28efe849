"""Published training runs as questions, and the reasons why some are refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas import networks, quantities
from perfatlas.hardware import resolve_system
from perfatlas.training import Recipe
from perfatlas.training.layouts import RECOMPUTE_LEVELS, Layouts, layout_rules
from perfatlas.training.profiles import resolve_training_engine, training_engine_ids
from perfatlas.training.step import TrainingQuestion
from validation.scoring import data_rows, read_data

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.training.profiles import TrainingEngine

Run = dict[str, str]
SHARDING: Final = {
    "FSDP FULL_SHARD": 3,
    "FSDP2": 3,
    "FSDP(shard=64)": 3,
    "FSDP(shard=8)": 3,
    "FSDP SHARD_GRAD_OP": 2,
}
RECOMPUTED: Final = {
    "": "none",
    "none": "none",
    "full": "full",
    "selective(attn)": "selective",
    "selective(op)": "selective",
}
NEEDED: Final = ("tp", "pp", "dp", "cp", "micro_batch", "global_batch", "seq_len")


@dataclass(frozen=True, kw_only=True)
class PublishedRun:
    """A published run."""

    run: Run  # The row of the table
    question: TrainingQuestion | None  # The step, None where it is refused
    refused: str  # Why it is refused, "" where it is not


def rules() -> Mapping[str, Any]:
    """Return what is fitted and scored, from `validation/data/training.toml`."""
    return read_data("training.toml")


def published_runs() -> list[PublishedRun]:
    """Return all published runs, with questions or with reasons."""
    found = []
    for run in data_rows(rules()["runs"]):
        reason = _missing(run)
        question = None if reason else _question(run)
        if question is not None:
            broken = layout_rules(question.network, question.schedule)
            reason = str(quantities.broken_rules(broken, question.layouts).get(0, ""))
        found.append(PublishedRun(run=run, question=None if reason else question, refused=reason))
    return found


def _missing(run: Run) -> str:
    """Return why a run cannot be asked, "" where it can."""
    absent = [name for name in NEEDED if not run[name]]
    unasked = rules()["unasked"].get(run["model"], "")
    known = run["model"] in rules()["models"] or run["layers"]
    reasons = {
        unasked: bool(unasked),
        f"the page does not state {', '.join(absent)}": bool(absent),
        "the page states no step time and no tokens/s": not run["step_time_s_derived"],
        "there is no profile of the engine": run["source"] not in rules()["engines"],
        "the architecture of the model is not available": not known,
        "the run drops tokens": "token drop" in run["notes"],
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _question(run: Run) -> TrainingQuestion:
    engine = _engine(run)
    lora = rules()["lora"] if run["task"] == "lora" else None
    name = _format(run)
    recipe = _first_that_holds("recipe", run, name)
    modules = _first_that_holds("recomputed", run, name).get("modules", ())
    pp = int(run["pp"])
    vpp = _chunks(run) if pp > 1 else 1
    tp = int(run["tp"])
    if engine.name == "torchtitan" and pp > 1:  # pipeline_llama.py @9dec370: as many as stages
        run = {**run, "micro_batch": str(max(int(run["micro_batch"]) // pp, 1))}
    sizes = {
        **{field: run[field] for field in ("tp", "pp", "cp", "dp", "micro_batch", "global_batch")},
        "ep": run["ep"] or 1,
        "expert_tp": 1,
        "vpp": vpp,
        "sequence_length": run["seq_len"],
    }
    return TrainingQuestion(
        network=_network(run),
        engine=engine,
        formats=networks.ModelFormats(
            gemm=name, moe=name, kv="bf16", attention=_attention(run, recipe)
        ),
        tier="auto",
        systems=(resolve_system(rules()["systems"][run["gpu"]]),),
        index_C=np.zeros(1, np.int64),
        layouts=Layouts(
            **{field: np.array([float(value)]) for field, value in sizes.items()},
            zero=np.array([SHARDING.get(run["zero_fsdp"], 1)]),
            sequence_parallel=np.array([tp > 1 and run["sequence_parallel"] != "False"]),
            recompute=np.array([_recompute_level(run, modules)]),
        ),
        schedule="interleaved" if vpp > 1 else "1f1b",
        gradient_format=lora["gradient_format"] if lora else engine.gradient_format,
        distribution="balanced",
        expert_overlap=recipe.get("expert_overlap", False),
        dispatcher=recipe.get("dispatcher", "deepep"),
        cuda_graphs=recipe.get("cuda_graphs", "none"),
        fused_experts=recipe.get("fused_experts", False),
        recipe=Recipe(
            lora_rank=lora["rank"] if lora else 0,
            lora_targets=lora["targets"] if lora else "all",
            recompute_modules=tuple(modules),
            mtp_depth=rules()["mtp"].get(run["model"], 0),
            stage_layers=_stages(run, pp * vpp),
            fp8_parameter_gather=_noted(run, "reference", "fp8_gather") and name != "bf16",
        ),
    )


def _chunks(run: Run) -> int:
    """Return the chunks of layers per stage of a run with a pipeline."""
    if _noted(run, "notes", "interleaved") and not run["vpp"]:
        return int(rules()["torchtitan"]["interleaved_chunks"])
    return int(run["vpp"] or 1)


def _noted(run: Run, column: str, reading: str) -> bool:
    """Return whether a run of torchtitan has one of the words of a reading."""
    words: list[str] = rules()["torchtitan"][reading]
    own = rules()["engines"][run["source"]] == "torchtitan"
    return own and any(word in run[column] for word in words)


def _engine(run: Run) -> TrainingEngine:
    """Return the release that a run states, else the newest one that is fitted."""
    name = rules()["engines"][run["source"]]
    if name == "torchtitan":
        releases = rules()["torchtitan"]["releases"]
        version = next(own for word, own in releases.items() if word in run["reference"])
        engine = resolve_training_engine(f"{name}@{version}")
        asynchronous = _noted(run, "notes", "asynchronous")
        return replace(engine, tiled_tensor_overlap=asynchronous)
    if f"{name}@{run['stack']}" in training_engine_ids():
        return resolve_training_engine(f"{name}@{run['stack']}")
    if run["source"] in rules()["release_of_source"]:
        return resolve_training_engine(f"{name}@{rules()['release_of_source'][run['source']]}")
    last = f"{name}@{rules()['split']['time']['last_fitted']}"
    return resolve_training_engine(last if last in training_engine_ids() else name)


def _stages(run: Run, stages: int) -> tuple[int, ...]:
    """Return the layers of each pipeline stage of a recipe, empty for an even division."""
    named = rules()["stages"]
    if stages == 1 or run["model"] not in named["models"]:
        return ()
    return tuple(named["layers"][str(stages)])


def _recompute_level(run: Run, modules: Sequence[str]) -> int:
    """Return what a run recomputes: as its page states, else the modules of its recipe."""
    level = RECOMPUTED[run["recompute"]]
    return RECOMPUTE_LEVELS.index("selective" if modules and level == "none" else level)


def _first_that_holds(table: str, run: Run, name: str) -> Mapping[str, Any]:
    """Return the first entry of a table that holds for a run, empty where none does."""
    for recipe in rules()[table]:
        holds = (
            run["model"] in recipe["models"]
            and run["gpu"] in recipe["gpus"]
            and name in recipe.get("formats", (name,))
            and recipe.get("first", "") <= run["stack"] <= recipe.get("last", run["stack"])
        )
        if holds:
            found: Mapping[str, Any] = recipe
            return found
    return {}


def _attention(run: Run, recipe: Mapping[str, Any]) -> str:
    """Return the format of attention."""
    without = f"{run['model']} {run['gpu']}" in recipe.get("without_fp8_attention", ())
    return "fp8_static" if recipe.get("fp8_attention", False) and not without else "bf16"


def _format(run: Run) -> str:
    """Return the format of linear layers; Hopper has no MX formats and scales blocks instead."""
    name: str = rules()["formats"][run["precision"]]
    finer = "parentheses" in run["notes"] and name == "fp8_dynamic"
    name = "mxfp8" if finer else name
    hopper = run["gpu"] in rules()["split"]["generation"]["hopper"]
    return "fp8_block" if hopper and name == "mxfp8" else name


def _network(run: Run) -> networks.Network:
    """Return the model of the catalog, or a GPT of the dimensions that the table states."""
    if run["model"] in rules()["models"]:
        return networks.resolve_model(rules()["models"][run["model"]]).network
    heads, hidden = int(run["heads"]), int(run["hidden"])
    attention = networks.GqaAttention(
        num_heads=heads,
        num_kv_heads=int(run["kv_heads"] or heads),
        head_dim=hidden // heads,
        value_head_dim=hidden // heads,
    )
    ffn = networks.DenseFfn(intermediate_size=int(run["ffn"]), gated=False)
    return networks.Architecture(
        model_type="gpt",
        hidden_size=hidden,
        vocab_size=int(run["vocab"]),
        tie_word_embeddings=True,
        layers=(networks.LayerGroup(count=int(run["layers"]), mixer=attention, ffn=ffn),),
    )
