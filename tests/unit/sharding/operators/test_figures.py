"""FLOPs, collectives' sizes, units and what is kept, worked out by hand."""

from __future__ import annotations

import pytest

from planner.sharding.operators.rule import Collective, Extra, Roles, Split
from tests.unit.sharding.operators.operators import rule, rules

B, S, H, A, D, F = 8, 512, 1024, 16, 64, 4096


def test_linear_has_the_source_s_copies() -> None:
    own = rule("linear", [(B, S, H)], [(B, S, F)], [(H, F), (F,)])
    assert own.units == (B, H, F)
    # X lies on the column devices, W on the data devices, Y is summed over the row devices.
    assert own.inputs[0].split == Split(data=0, row=2)
    assert own.parameters[0].split == Split(row=0, column=1)
    assert own.outputs[0].split == Split(data=0, column=2)
    assert own.outputs[0].partial == Roles(row=True)
    assert own.counts_input_copies
    assert own.flops == 2 * B * S * H * F
    assert own.backward_flops == 2 * own.flops


def test_linear_units_are_heads_where_said() -> None:
    qkv = [(B, S, H)], [(B, S, 3 * H)], [(H, 3 * H)]
    assert rule("linear", *qkv, column_units=A).units == (B, H, A)
    assert rule("linear", *qkv, row_units=A).units == (B, A, 3 * H)


def test_linear_with_sequence_parallelism_sends_as_much_and_holds_no_copies() -> None:
    first, second = rules(
        "linear", [(B, S, H)], [(B, S, F)], [(H, F)], sequence_parallel=True, row_units=8
    )
    assert (first.suffix, second.suffix) == ("", "sp")
    # Row devices split 8 heads of X and the 512 tokens of Y, column devices F and the tokens of X.
    assert second.units == (B, 8, S)
    assert None not in second.inputs[0].split
    assert None not in second.outputs[0].split
    x, y = 2 * B * S * H, 2 * B * S * F
    by_phase = [(c.kind, c.phase, c.role, c.size_bytes) for c in second.collectives]
    assert sorted(by_phase) == sorted(
        [
            ("all_gather", "forward", "column", x),
            ("reduce_scatter", "forward", "row", y),
            ("all_gather", "backward", "row", y),
            ("all_gather", "backward", "column", x),
            ("reduce_scatter", "backward", "column", x),
        ]
    )


def test_two_dimensions_have_no_sequence() -> None:
    assert len(rules("linear", [(B, H)], [(B, F)], [(H, F)], sequence_parallel=True)) == 1
    assert len(rules("gelu", [(B, H)], [(B, H)], sequence_parallel=True)) == 1
    assert len(rules("gelu", [(B, S, H)], [(B, S, H)], sequence_parallel=True)) == 2


def test_attention_products() -> None:
    scores = rule("matmul", [(B, A, S, D), (B, 4, S, D)], [(B, A, S, S)], transpose_b=True)
    assert scores.units == (B, D, 4)
    assert scores.inputs[0].split == scores.inputs[1].split == Split(data=0, row=3, column=1)
    assert scores.outputs[0].split == Split(data=0, column=1)
    assert scores.flops == 2 * B * A * S * S * D
    assert not scores.counts_input_copies
    context = rule("matmul", [(B, A, S, S), (B, 4, S, D)], [(B, A, S, D)])
    assert context.units == (B, S, 4)
    assert context.inputs[0].split == Split(data=0, row=3, column=1)
    assert context.inputs[1].split == Split(data=0, row=2, column=1)


def test_a_product_of_two_matrices_is_a_linear_layer_without_weights() -> None:
    own = rule("matmul", [(B, H), (H, F)], [(B, F)])
    linear = rule("linear", [(B, H)], [(B, F)], [(H, F)])
    assert own.units == linear.units
    assert own.inputs[0].split == linear.inputs[0].split
    assert own.inputs[0].partial_gradient == linear.inputs[0].partial_gradient
    assert own.inputs[1].split == linear.parameters[0].split
    assert own.inputs[1].partial_gradient == linear.parameters[0].partial_gradient
    assert own.outputs == linear.outputs
    assert own.counts_input_copies
    assert (own.flops, own.backward_flops) == (linear.flops, linear.backward_flops)


def test_flash_attention_is_its_two_products_and_the_scores_again() -> None:
    shapes = [(B, A, S, D), (B, 4, S, D), (B, 4, S, D)], [(B, A, S, D)]
    own, causal = rule("attention", *shapes), rule("attention", *shapes, causal=True)
    assert own.flops == 4 * B * A * S * S * D
    assert own.backward_flops == 10 * B * A * S * S * D
    assert (2 * causal.flops, 2 * causal.backward_flops) == (own.flops, own.backward_flops)
    assert own.units == (B, None, 4)
    assert own.extras == (Extra(B * A * S, "fp32", Roles(data=True, column=True)),)
    assert all(tensor.saved for tensor in (*own.inputs, *own.outputs))


@pytest.mark.parametrize(("kind", "statistics"), [("layer_norm", 2), ("rms_norm", 1)])
def test_norms_add_up_and_keep_one_number_per_statistic_and_row(kind: str, statistics: int) -> None:
    own = rule(kind, [(B, S, H)], [(B, S, H)], [(H,)])
    rows = Roles(data=True)
    size = 4 * statistics * B * S
    assert own.units == (B, None, H)
    assert own.collectives == (
        Collective("all_reduce", "forward", "column", size, rows),
        Collective("all_reduce", "backward", "column", size, rows),
    )
    assert own.extras == (Extra(statistics * B * S, "fp32", rows),)
    assert own.divides_work == Roles(data=True, column=True)


def test_norm_gradients_are_summed_over_what_splits_the_rows() -> None:
    _, second = rules("layer_norm", [(B, S, H)], [(B, S, H)], [(H,), (H,)], sequence_parallel=True)
    assert second.units == (B, S, H)
    assert {own.partial_gradient for own in second.parameters} == {Roles(data=True, row=True)}


def test_elementwise_operators_keep_what_pytorch_keeps() -> None:
    def kept(kind: str, inputs: int, **dtypes: str) -> tuple[list[bool], bool]:
        own = rule(kind, [(B, S, H)] * inputs, [(B, S, H)], dtypes=dtypes)
        return [tensor.saved for tensor in own.inputs], own.outputs[0].saved

    assert kept("gelu", 1) == kept("silu", 1) == ([True], False)
    assert kept("relu", 1) == kept("tanh", 1) == kept("sigmoid", 1) == ([False], True)
    assert kept("dropout", 1) == kept("scale", 1) == kept("cast", 1) == ([False], False)
    assert kept("add", 3) == ([False] * 3, False)
    assert kept("mul", 2) == ([True, True], False)
    # Only the factor without a gradient is needed: for the gradient of the other one.
    assert kept("mul", 2, x1="bool") == ([False, True], False)
    mask = rule("dropout", [(B, S, H)], [(B, S, H)]).extras
    assert mask == (Extra(B * S * H, "bool", Roles(data=True, column=True)),)


def test_column_splits_heads_of_four_dimensions_unless_told_otherwise() -> None:
    shape = (B, A, S, D)
    assert rule("gelu", [shape], [shape]).outputs[0].split == Split(data=0, column=1)
    assert rule("gelu", [shape], [shape], column_dimension=3).units == (B, None, D)
    assert rule("softmax", [shape], [shape]).outputs[0].split == Split(data=0, column=1)
    assert rule("softmax", [shape], [shape], column_dimension=2).units == (B, None, S)
    assert rule("input", [], [shape], column_dimension=2).units == (B, None, S)


def test_scalars_and_vectors_can_be_split_as_far_as_they_go() -> None:
    assert rule("input", [], [()]).units == (None, None, None)
    assert rule("input", [], [(B,)]).units == (B, None, None)
    assert rule("gelu", [()], [()]).outputs[0].split == Split()
    assert rule("softmax", [(B,)], [(B,)]).units == (None, None, None)


def test_embedding() -> None:
    first, second = rules(
        "embedding",
        [(B, S)],
        [(B, S, H)],
        [(50304, H), (S, H)],
        dtypes={"x0": "int64"},
        sequence_parallel=True,
    )
    assert first.units == (B, 50304, H)
    assert first.outputs[0].partial == Roles(row=True)
    # 50,304 = 2^7 x 3 x 131 and 512 = 2^9 tokens have 2^7 parts in common.
    assert second.units == (B, 128, H)
    size = 2 * B * S * H
    split = Roles(data=True, column=True)
    assert second.collectives == (
        Collective("reduce_scatter", "forward", "row", size, split),
        Collective("all_gather", "backward", "row", size, split),
    )


def test_cross_entropy_keeps_the_softmax_in_the_loss_s_precision() -> None:
    own = rule(
        "cross_entropy",
        [(B, S, 50304), (B, S)],
        [()],
        dtypes={"x1": "int64", "y0": "fp32"},
    )
    assert own.units == (B, None, 50304)
    assert own.extras == (Extra(B * S * 50304, "fp32", Roles(data=True, column=True)),)
    three = Collective("all_reduce", "forward", "column", 4 * B * S, Roles(data=True))
    assert own.collectives == (three,) * 3
    assert own.outputs[0].partial == Roles(data=True)


def test_convolutions() -> None:
    image, features, weight = (B, 32, 14, 14), (B, 64, 12, 12), (64, 32, 3, 3)
    own = rule("conv2d", [image], [features], [weight, (64,)])
    assert own.units == (B, 32, 64)
    assert own.flops == 2 * B * 64 * 12 * 12 * 32 * 9
    assert own.parameters[0].split == Split(row=1, column=0)
    grouped = rule("conv2d", [image], [features], [(64, 4, 3, 3)], groups=8)
    assert grouped.units == (B, None, 8)
    assert grouped.flops * 8 == own.flops
    assert grouped.inputs[0].split == Split(data=0, column=1)
    assert grouped.inputs[0].partial_gradient == Roles()


def test_heads_and_back() -> None:
    qkv = [(B, S, (A + 2 * 4) * D)], [(B, A, S, D), (B, 4, S, D), (B, 4, S, D)]
    assert rule("split_heads", *qkv).units == (B, None, 4)
    assert rule("split_heads", [(B, S, A * D)], [(B, A, S, D)]).units == (B, None, A)
    back = [(B, A, S, D)], [(B, S, A * D)]
    assert rule("merge_heads", *back).units == (B, None, A)
    assert not rule("merge_heads", *back).outputs[0].is_view
    assert rule("merge_heads", *back, is_view=True).outputs[0].is_view


@pytest.mark.parametrize("apart", [False, True])
def test_experts(apart: bool) -> None:
    experts, chosen = 8, 2
    first = [(experts, H, F)] * 2 if apart else [(experts, H, 2 * F)]
    own, sequence = rules(
        "experts",
        [(B, S, H), (B, S, experts)],
        [(B, S, H)],
        [*first, (experts, F, H)],
        experts_per_token=chosen,
        gated=True,
        sequence_parallel=True,
    )
    copies = chosen * B * S
    assert own.flops == 2 * copies * 3 * H * F
    assert own.units == sequence.units == (B, experts, F)
    assert [(j.roles, j.units) for j in own.joint_units] == [(Roles(True, True, False), B)]
    assert [(j.roles, j.units) for j in sequence.joint_units] == [(Roles(False, True, True), S)]
    exchange = [c for c in own.collectives if c.kind == "all_to_all"]
    assert [c.phase for c in exchange] == ["forward"] * 2 + ["backward"] * 2
    assert {(c.role, c.size_bytes, c.splits) for c in exchange} == {
        ("row", 2 * copies * H, Roles(data=True))
    }
    assert sum(extra.elements for extra in own.extras) == copies * (2 * H + 3 * F)


def test_router_scores_all_experts_on_every_column_device() -> None:
    own = rule("router", [(B, S, H)], [(B, S, 2), (B, S, 2)], [(H, 8)], dtypes={"y1": "int64"})
    assert own.units == (B, H, None)
    assert own.flops == 2 * B * S * H * 8
    assert own.divides_work == Roles(data=True, row=True)
    assert own.collectives == (
        Collective("all_reduce", "forward", "row", 2 * B * S * 8, Roles(data=True)),
    )


def test_an_unknown_kind_is_split_along_the_batch_with_a_warning() -> None:
    own = rule("fft", [(B, S), (S,)], [(B, S)], [(S,)], anything="goes")
    assert own.units == (B, None, None)
    assert own.inputs[0].split == own.outputs[0].split == Split(data=0)
    assert own.inputs[1].split == own.parameters[0].split == Split()
    assert own.inputs[1].partial_gradient == Roles(data=True)
    assert len(own.warnings) == 1
    assert "'fft'" in own.warnings[0]


def test_an_unknown_kind_without_a_batch_is_repeated() -> None:
    own = rule("total", [(B, S)], [()])
    assert own.units == (None, None, None)
    assert own.inputs[0].split == own.outputs[0].split == Split()
    assert own.outputs[0].partial == Roles()
