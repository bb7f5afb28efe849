from __future__ import annotations

import re
from dataclasses import replace

from perfatlas.networks import ModelFormats
from perfatlas.parallelism import memory_footprint, shortfall_advice
from tests.parallelism.examples import DEEPSEEK_V3, LLAMA_70B, column, plan_of
from tests.parallelism.test_memory import FP8, question

DEVICES = {"b200_sxm": 180e9, "b300_sxm": 288e9, "l4": 24e9}


def test_advice_states_shortfall_and_remedies() -> None:
    asked = question(formats=FP8, plan=plan_of())
    memory = memory_footprint(asked)
    assert memory.fits.tolist() == [False]
    first, *changes = shortfall_advice(asked, devices=DEVICES)
    excess = (memory.total_bytes - memory.capacity_bytes)[0] / 1e9
    assert first.startswith(f"the load does not fit by {excess:.4g} GB per GPU")
    assert "126.9 GB usable per GPU (0.9 of 141 GB)" in first
    text = "\n".join(changes)
    for change in ("tp = 2 fits", "pp = 2 fits", "kv_format = fp8_static fits", "b200_sxm"):
        assert change in text
    assert "l4" not in text
    assert re.search(r"batch = \d+ per replica fits", text)
    assert re.search(r"for sequences of [\d,]+ tokens\.", text)


def test_devices_are_named_in_the_order_they_are_preferred() -> None:
    asked = question(formats=FP8, plan=plan_of())
    devices = {"kin": 300e9, "small": 24e9, "larger_kin": 400e9, "other": 200e9, "last": 250e9}
    (sentence,) = (
        s for s in shortfall_advice(asked, devices=devices) if "device with at least" in s
    )
    assert sentence.endswith(
        "of memory would be enough, such as kin (300 GB) or larger_kin (400 GB) or other (200 GB)."
    )


def test_the_memory_named_is_the_least_that_fits() -> None:
    asked = question(formats=FP8, plan=plan_of())
    found = re.search(r"at least ([\d.]+) GB", "\n".join(shortfall_advice(asked)))
    assert found is not None
    named = float(found.group(1)) * 1e9
    for share, fits in ((1.001, True), (0.999, False)):
        variant = replace(asked, memory_bytes=column(named * share))
        assert memory_footprint(variant).fits.tolist() == [fits]


def test_every_named_change_fits() -> None:
    asked = question(formats=FP8, plan=plan_of())
    text = "\n".join(shortfall_advice(asked))
    found = re.search(r"batch = (\d+) per replica", text)
    assert found is not None
    fewer = replace(asked, load=replace(asked.load, sequences=column(float(found.group(1)))))
    wider = replace(asked, plan=plan_of(tp=2))
    smaller = replace(asked, formats=replace(FP8, kv="fp8_static"))
    for variant in (fewer, wider, smaller):
        assert memory_footprint(variant).fits.tolist() == [True]


def test_weights_beyond_one_gpu_name_the_expert_split() -> None:
    formats = ModelFormats(gemm="fp8_block", moe="fp8_block", kv="bf16", attention="bf16")
    asked = question(DEEPSEEK_V3, formats, plan_of(tp=4, ep=4))
    text = "\n".join(shortfall_advice(asked))
    assert "tp = 8 with ep = 8 fits" in text
    assert "batch =" not in text


def test_latent_cache_is_spread_by_attention_dp() -> None:
    formats = ModelFormats(gemm="fp8_block", moe="fp8_block", kv="bf16", attention="bf16")
    asked = question(DEEPSEEK_V3, formats, plan_of(tp=8, ep=8), sequences=1600)
    text = "\n".join(shortfall_advice(asked))
    assert "attention_dp = 4 with ep = 32 fits" in text
    assert "tp = " not in text.replace("moe_tp = ", "")  # every tp rank keeps the whole latent row


def test_too_few_kv_blocks_are_not_a_memory_shortfall() -> None:
    asked = question(kv_blocks=1000)
    first, *changes = shortfall_advice(asked, devices=DEVICES)
    assert "64 sequences of 2560 tokens" in first
    assert "holds 6, in whole blocks" in first
    assert any("batch = 6 per replica" in change for change in changes)
    assert not any("GPU with at least" in change for change in changes)


def test_changes_are_combined_when_one_is_not_enough() -> None:
    # 2.6 million tokens: 21.5 GB per rank in bf16 even over 64 stages of two layers at most
    asked = question(LLAMA_70B, plan=plan_of(), sequences=20, tokens=131072, memory=24e9)
    _, *changes = shortfall_advice(asked, devices=DEVICES)
    assert len(changes) == 1
    assert changes[0].startswith("with format = fp8_dynamic and kv_format = fp8_static, pp = 64")


def test_advice_states_when_nothing_helps() -> None:
    asked = question(LLAMA_70B, plan=plan_of(), sequences=1e5, tokens=131072, memory=24e9)
    _, *changes = shortfall_advice(asked, devices=DEVICES)
    assert changes == [
        (
            "no single change makes it fit: use a smaller batch or shorter sequences, or combine"
            " changes."
        )
    ]


def test_advice_is_about_the_first_candidate() -> None:
    one = question(formats=FP8, plan=plan_of())
    two = question(formats=FP8, plan=plan_of(), sequences=1000)
    both = replace(
        one,
        plan=replace(
            one.plan, **{name: values.repeat(2) for name, values in vars(one.plan).items()}
        ),
        load=replace(
            one.load,
            **{
                name: column(values[0], getattr(two.load, name)[0])
                for name, values in vars(one.load).items()
            },
        ),
        memory_bytes=one.memory_bytes.repeat(2),
    )
    assert shortfall_advice(both) == shortfall_advice(one)
