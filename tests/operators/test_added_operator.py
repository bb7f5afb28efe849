"""An operator that only a test defines passes through every package that works on operators.

A convolution of 64 to 128 channels with 3 x 3 taps, as a product of pixels and taps: a multiply-add
per pixel, output channel, input channel and tap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Self

import pytest

from perfatlas import operators
from perfatlas.energy import board_energy, with_energy
from perfatlas.hardware import resolve_system
from perfatlas.machines import price_operators
from perfatlas.networks import Architecture, ModelFormats, StepTokens
from perfatlas.parallelism import memory_footprint, shard_operators, stage_weights_bytes, weights
from perfatlas.training.profiles import resolve_training_engine
from perfatlas.training.recipe import Recipe
from perfatlas.training.step import kernels
from perfatlas.training.work import (
    Part,
    RecomputedModules,
    Row,
    Work as TrainingWork,
    rank_parameters,
    saved_bytes,
)
from perfatlas.training.work.operators import accumulation_of, passes_of
from tests.laws.support import on
from tests.parallelism.examples import BF16, SMALL_DENSE, column, plan_of
from tests.parallelism.test_memory import question as memory_question
from tests.training.asked import layouts, question

TAPS: Final = 9.0
ELEMENTS: Final = 128.0 * 64.0 * TAPS
FLOP: Final = 2.0 * 4096.0 * ELEMENTS
H100: Final = resolve_system("h100_sxm").device


@dataclass(frozen=True, kw_only=True)
class Convolution2D(operators.Operator):
    """A convolution over images with a stride of 1, in bf16.

    Args:
        pixels: Pixels of all images (C,).
        inputs: Input channels (C,).
        outputs: Output channels (C,).
    """

    kind: ClassVar[str] = "convolution_2d"
    work_class: ClassVar[operators.WorkClass] = "products"
    row_columns: ClassVar[tuple[str, ...]] = ("pixels",)

    pixels: operators.FloatArray
    inputs: operators.FloatArray
    outputs: operators.FloatArray

    def work(self) -> operators.Work:
        return operators.Work(
            flop=2.0 * self.pixels * self.outputs * self.inputs * TAPS,
            cold_bytes=self.outputs * self.inputs * TAPS * 2.0,
            activation_bytes=self.pixels * (self.inputs + self.outputs) * 2.0,
        )

    def divided(self, ranks: operators.Ranks) -> Self:
        local = super().divided(ranks)
        return operators.with_fields(local, outputs=self.outputs / ranks.tp)

    def weights(self) -> tuple[operators.WeightMatrix, ...]:
        return (operators.WeightMatrix(self.outputs, self.inputs * TAPS, None, 2.0),)

    def backward(self, *, frozen: bool = False) -> operators.Backward:
        swapped = operators.with_fields(self, inputs=self.outputs, outputs=self.inputs)
        return operators.Backward((swapped,), () if frozen else (self,))

    def saved(self, saving: operators.Saving) -> operators.FloatArray:
        kept = self.pixels * self.inputs * 2.0 / saving.token_ranks
        return 0.0 * kept if saving.frozen else kept


def convolution(phase: operators.Phase = operators.Phase.FORWARD) -> Convolution2D:
    return Convolution2D(
        name="convolution",
        phase=phase,
        count=column(3),
        shard="column",
        pixels=column(4096),
        inputs=column(64),
        outputs=column(128),
    )


def rows(*, frozen: bool = False) -> tuple[Row, ...]:
    return tuple(passes_of(convolution(), 1, 2, frozen=frozen))


def test_its_output_channels_and_pixels_are_divided() -> None:
    plan = plan_of(tp=4, cp=2, pp=2)
    first, transfer = shard_operators((convolution(operators.Phase.PREFILL),), plan, SMALL_DENSE)
    assert isinstance(first, Convolution2D)
    assert (first.outputs[0], first.inputs[0], first.pixels[0]) == (32.0, 64.0, 2048.0)
    assert first.work().flop[0] == FLOP / 8.0
    # the hidden states of 2048 pixels travel to the next stage
    assert transfer.communicates
    assert transfer.name == "pipeline_send_recv"


def test_its_weights_are_part_of_the_memory_of_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(tp=4)
    asked = memory_question(SMALL_DENSE, plan=plan)
    without = stage_weights_bytes(SMALL_DENSE, BF16, plan)
    footprint = memory_footprint(asked)

    without_it = Architecture.step_operators

    def emitted(
        model: Architecture, formats: ModelFormats, phase: operators.Phase, tokens: StepTokens
    ) -> tuple[operators.Operator, ...]:
        return (*without_it(model, formats, phase, tokens), convolution(phase))

    # parameters outside of operators are those of the model, in which the convolution is not
    small = weights._small_parameters(SMALL_DENSE, BF16)
    monkeypatch.setattr(weights, "_small_parameters", lambda *_: small)
    monkeypatch.setattr(Architecture, "step_operators", emitted)
    # three executions with weights of their own, of which a rank holds a quarter, in 16 bits
    held = 3.0 * ELEMENTS / 4.0 * 2.0
    found = stage_weights_bytes(SMALL_DENSE, BF16, plan)
    assert found[0] - without[0] == held
    assert memory_footprint(asked).weights_bytes[0] - footprint.weights_bytes[0] == held


def test_it_is_priced_at_the_roofline() -> None:
    one = convolution()
    prices = price_operators([one], on(H100, 1), family="", tier="bound")
    # 604 MFLOP at the dense peak against 147 kB of weights from memory
    peak = on(H100, 1).peak_flop_per_s("bf16")[0]
    assert prices.bound_s_CO[0, 0] == FLOP / peak
    assert prices.time_s_CO[0, 0] == prices.bound_s_CO[0, 0]
    assert prices.memory_bytes_CO[0, 0] == 2.0 * ELEMENTS


def test_its_energy_is_that_of_a_product() -> None:
    one, devices = convolution(), on(H100, 1)
    prices = price_operators([one], devices, family="", tier="bound")
    found, board = with_energy([one], prices, devices), board_energy(H100)
    # products issue no instructions beside those that the energy of a FLOP contains
    chip_bytes = 2.0 * ELEMENTS + 4096.0 * (64.0 + 128.0) * 2.0
    chip_j = FLOP * board.flop_j["bf16"] + chip_bytes * board.sram_j_per_byte
    assert found.chip_energy_j_CO[0, 0] == pytest.approx(chip_j, rel=1e-12)
    memory_j = 2.0 * ELEMENTS * board.memory_j_per_byte
    assert found.memory_energy_j_CO[0, 0] == pytest.approx(memory_j, rel=1e-12)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_training_step_runs_it_forward_and_for_both_gradients(*, frozen: bool) -> None:
    found = rows(frozen=frozen)
    parts = [Part.FORWARD, Part.INPUT_GRADIENT, Part.WEIGHT_GRADIENT]
    assert [row.part for row in found] == parts[: 2 if frozen else 3]
    gradient = found[1].operator
    assert isinstance(gradient, Convolution2D)
    assert (gradient.inputs[0], gradient.outputs[0]) == (128.0, 64.0)
    # each product of gradients has as many multiply-adds as the forward pass
    flop = [float((row.operator.count * row.operator.work().flop)[0]) for row in found]
    assert flop == [3.0 * FLOP] * len(found)
    assert {row.operator.work_class for row in found} == {operators.WORK_CLASSES[0]}


def test_a_training_step_prices_its_passes() -> None:
    asked = question(layouts(), tier="bound")
    prices = kernels.price_rows(asked, rows())
    peak = asked.devices().peak_flop_per_s("bf16")[0]
    assert prices.time_s_CO[0].tolist() == [FLOP / peak] * 3
    assert prices.flop_CO[0].tolist() == [FLOP] * 3


def test_a_training_step_keeps_its_inputs_and_updates_its_weights() -> None:
    sizes = layouts(tp=4)  # sequence parallelism divides what is kept
    local = tuple(
        row._replace(operator=operators.with_fields(row.operator, outputs=column(32)))
        for row in rows()
    )
    engine = resolve_training_engine("ideal")
    kept = saved_bytes(SMALL_DENSE, local, sizes, engine, RecomputedModules())
    assert kept[0, 0, 1] == 3.0 * 4096.0 * 64.0 * 2.0 / 4.0
    found = rank_parameters(SMALL_DENSE, local, sizes)
    none = rank_parameters(SMALL_DENSE, (), sizes)
    # three executions of a quarter; what is left of the model's parameters is spread over layers
    counted = found.dense_CG[0, 1] - none.dense_CG[0, 1]
    assert counted == pytest.approx(3.0 * ELEMENTS / 4.0 - 3.0 * ELEMENTS)
    assert found.trained_expert_CG[0, 1] == 0.0


def test_the_gradient_of_its_weights_is_accumulated() -> None:
    recipe = Recipe(fused_weight_gradient=False)
    work = TrainingWork(SMALL_DENSE, BF16, "balanced", recipe=recipe)
    (added,) = accumulation_of(convolution(), 1, work)
    assert isinstance(added.operator, operators.Streaming)
    # reads a 16-bit gradient and the fp32 sum, writes the sum; a row of 64 x 9 per output channel
    assert added.operator.read_bytes[0] == ELEMENTS * 6.0
    assert added.operator.write_bytes[0] == ELEMENTS * 4.0
    assert added.operator.tokens[0] == 128.0
