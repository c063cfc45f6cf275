"""torch.nn modules against what their layers are, and through the planner's solver."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from client.torch_extract.errors import DataDependent, ExportFailed  # noqa: E402
from client.torch_extract.extraction import extract  # noqa: E402
from tests.unit.client.torch_extract.models import (  # noqa: E402
    Branch,
    Crossing,
    FixedHeads,
    Gated,
    Inside,
    Number,
    Selection,
    Tied,
    extracted,
    kinds,
    operators,
)
from tests.unit.sharding.posted import document  # noqa: E402

pytestmark = pytest.mark.torch


def encoder(layers: int, **options: object) -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, **options)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def test_encoder_layer_is_attention_and_feed_forward() -> None:
    found = extracted(
        lambda: (nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), (torch.zeros(2, 8, 64),))
    )
    assert kinds(found) == [
        "linear", "split_heads", "attention", "merge_heads", "linear", "dropout", "add",
        "layer_norm", "linear", "relu", "dropout", "linear", "dropout", "add", "layer_norm",
    ]  # fmt: skip
    by_name = operators(found)
    assert by_name["self_attn"]["parameters"] == [
        {"name": "in_proj_weight", "shape": [64, 192]},
        {"name": "in_proj_bias", "shape": [192]},
    ]
    # Its weights are multiplied by itself: no nn.Linear is called that could be split.
    of_class = {"module_class": "MultiheadAttention"}
    assert by_name["self_attn"]["attributes"] == {"column_units": 4, **of_class}
    assert by_name["self_attn.out_proj"]["attributes"] == {"row_units": 4, **of_class}
    assert "attributes" not in by_name["linear1"]
    assert by_name["linear2"]["inputs"] == ["dropout"]
    totals = found.report["totals"]
    assert totals["parameter_bytes"] == 4 * (
        64 * 192 + 192 + 64 * 64 + 64 + 2 * 64 * 128 + 192 + 256
    )
    assert totals["forward_flops"] == 2 * 16 * (4 * 64 * 64 + 2 * 64 * 128) + 4 * 2 * 64 * 8 * 8


def test_sequence_first_is_turned_round_and_said() -> None:
    found = extracted(lambda: (nn.TransformerEncoderLayer(64, 4, 128), (torch.zeros(8, 2, 64),)))
    assert kinds(found)[:2] == ["transpose", "linear"]
    assert operators(found)["self_attn.attention"]["outputs"][0]["shape"] == [2, 4, 8, 16]
    assert any("batch_first=True" in note for note in found.report["notes"])


def test_identical_layers_are_one_and_are_solved_and_verified() -> None:
    found = extracted(lambda: (encoder(3, norm_first=True), (torch.zeros(4, 8, 64),)))
    assert found.graph["repeat"] == {"count": 3, "input": "src", "output": "layers.*.add_2"}
    assert found.report["layers"] == {"module": "layers.*", "count": 3}
    apart = extracted(lambda: (encoder(3, norm_first=True), (torch.zeros(4, 8, 64),)), fold=False)
    assert "repeat" not in apart.graph
    assert len(apart.graph["operators"]) == 3 * len(found.graph["operators"])
    for sums in ("parameter_bytes", "forward_flops", "saved_bytes", "operators"):
        assert apart.report["totals"][sums] == found.report["totals"][sums]
    plans = [document(each.request(devices=4)) for each in (found, apart)]
    assert [plan["certificate"]["verified"] for plan in plans] == [True, True]
    objectives = [plan["certificate"]["objective"] for plan in plans]
    assert objectives[0] == pytest.approx(objectives[1])


def test_layers_that_differ_stay_apart() -> None:
    def make() -> tuple[nn.Module, tuple[torch.Tensor]]:
        layers = [Gated(8, 16), Gated(8, 16), Gated(8, 32)]
        return nn.Sequential(*layers), (torch.zeros(2, 4, 8),)

    found = extracted(make)
    assert found.graph["repeat"]["count"] == 2
    layers = [own["module"][0] for own in found.report["operators"]]
    assert layers == ["*"] * 5 + ["2"] * 5


def test_written_out_norm_and_gate_are_recognised() -> None:
    found = extracted(lambda: (Gated(), (torch.zeros(2, 4, 8),)))
    assert kinds(found) == ["rms_norm", "linear", "glu", "linear", "add"]
    assert operators(found)["rms_norm"]["parameters"] == [{"name": "scale", "shape": [8]}]
    # Halves of one projection, which a device's columns do not make up by themselves.
    assert operators(found)["glu"]["attributes"] == {"packing": "blocks"}


def test_tied_weight_is_held_once_and_a_loop_is_said_to_be_one() -> None:
    found = extracted(lambda: (Tied(), (torch.zeros(2, 4, dtype=torch.int64),)))
    by_name = operators(found)
    assert by_name["head"]["parameters"] == [
        {"name": "weight", "shape": [8, 10], "tied_to": "embed"}
    ]
    assert [own["parameters"][0].get("tied_to") for own in list(by_name.values())[1:4]] == [
        None, "layer", "layer",
    ]  # fmt: skip
    assert found.report["totals"]["parameters"] == 10 * 8 + 8 * 8 + 8
    (note,) = found.report["notes"]
    assert "layer runs 3 times on the same weights" in note
    assert document(found.request(devices=2))["certificate"]["verified"]


def test_cross_attention_has_projections_of_its_own() -> None:
    found = extracted(lambda: (Crossing(), (torch.zeros(2, 8, 64), torch.zeros(2, 6, 64))))
    assert kinds(found).count("linear") == 4
    assert found.report["totals"]["parameters"] == 4 * (64 * 64 + 64)
    assert document(found.request(devices=2))["certificate"]["verified"]


def test_convolution_and_flatten() -> None:
    def make() -> tuple[nn.Module, tuple[torch.Tensor]]:
        layers = (nn.Conv1d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 4), nn.Sigmoid())
        return nn.Sequential(*layers), (torch.zeros(2, 3, 8),)

    found = extracted(make)
    assert kinds(found) == ["conv", "relu", "reshape", "linear", "sigmoid"]
    reshape = next(own for own in found.report["operators"] if own["kind"] == "reshape")
    assert reshape["is_view"]
    assert document(found.request(devices=2))["certificate"]["verified"]


def test_real_modules_and_named_inputs_give_the_same_graph() -> None:
    fake = extracted(lambda: (Gated(), {"x": torch.zeros(2, 4, 8)}))
    assert extract(Gated(), {"x": torch.zeros(2, 4, 8)}).graph == fake.graph


def test_branch_on_data_is_refused_with_its_line(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DataDependent) as caught:
        extracted(lambda: (Inside(Branch()), (torch.zeros(2, 8),)))
    error = caught.value
    assert error.module == "inner"
    assert error.operation == "`if y.sum() > 0:`"
    assert "models.py:" in error.source
    assert "torch.where" in error.remedy
    assert capfd.readouterr().err == ""


def test_size_that_depends_on_data_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DataDependent) as caught:
        extracted(lambda: (Inside(Selection()), (torch.zeros(2, 8),)))
    assert caught.value.module == "inner"
    assert "[u0, 8]" in str(caught.value)
    assert "models.py:" in caught.value.source
    assert capfd.readouterr().err == ""


def test_what_does_not_run_is_refused_with_pytorchs_reason() -> None:
    with pytest.raises(ExportFailed, match=r"inner.*cannot be exported") as caught:
        extracted(lambda: (Inside(nn.Linear(4, 4)), (torch.zeros(2, 8),)))
    assert caught.value.path == "inner"


def test_a_number_taken_from_values_is_noted() -> None:
    (note,) = extracted(lambda: (Inside(Number()), (torch.zeros(2, 8),))).report["notes"]
    assert note.startswith("inner: takes a number from a tensor's values at ")
    assert "models.py:" in note
    assert not extracted(lambda: (Gated(), (torch.zeros(2, 4, 8),))).report["notes"]


@pytest.mark.parametrize(("heads", "fixed"), [(4, True), (-1, False)])
def test_numbers_of_heads_in_the_program_are_found(heads: int, fixed: bool) -> None:
    found = operators(extracted(lambda: (FixedHeads(heads), (torch.zeros(2, 6, 8),))))
    assert found["reshape"]["attributes"].get("fixed_sizes", False) is fixed
    assert found["layer"].get("attributes", {}) == {"column_units": 4}
