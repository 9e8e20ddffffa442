"""Convolution and pooling are those of PyTorch, their gradients too, and their bounds hold."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from extensions.layers.activations import relu, tanh
from extensions.layers.builder import NetworkBuilder
from extensions.layers.chain import Network
from extensions.layers.passes import forward
from extensions.layers.spec import ModelSpec
from extensions.layers.stages.grid import Grid, Window, fold, folded
from extensions.layers.stages.stage import Bound
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import decode, encode
from tests.helpers.refused import refused
from tests.helpers.strategies import ROUNDINGS

F, ULP = 16, 2.0**-16
ROWS = 5

CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "plain": {"kernel": (3, 3)},
    "one point": {"kernel": (1, 1)},
    "wide": {"kernel": (2, 3), "padding": (1, 2)},
    "strided": {"kernel": (3, 3), "stride": (2, 1), "padding": (1, 1)},
    "dilated": {"kernel": (3, 2), "dilation": (2, 3)},
    "dilated with stride": {"kernel": (3, 3), "stride": (2, 2), "dilation": (2, 2)},
    "groups": {"kernel": (3, 3), "groups": 2},
    "by channel": {"kernel": (3, 3), "groups": 4, "padding": (1, 1), "channels": 8},
}


def grid(channels: int = 4, *, channels_last: bool = True) -> Grid:
    return Grid(channels=channels, height=7, width=8, channels_last=channels_last)


def rows_of(images: np.ndarray, where: Grid) -> np.ndarray:
    """Returns images (rows, channels, height, width) as rows."""
    rows = np.empty((len(images), where.size), dtype=images.dtype)
    rows[:, where.places.reshape(-1)] = images.reshape(len(images), -1)
    return rows


def images_of(rows: np.ndarray, where: Grid) -> np.ndarray:
    return rows[:, where.places]


def on_the_grid(*shape: int, seed: int = 0) -> np.ndarray:
    draws = np.random.default_rng(seed).normal(0, 1, shape)
    return np.rint(draws / ULP) * ULP


@pytest.mark.parametrize("channels_last", [True, False])
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("options", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_a_convolution_and_its_gradients_are_those_of_pytorch(options, rounding, channels_last):
    options = {"padding": (0, 0), "stride": (1, 1), "dilation": (1, 1), "groups": 1} | options
    kernel, groups = options.pop("kernel"), options["groups"]
    given = grid(channels_last=channels_last)
    channels = options.pop("channels", 6)
    (stage,) = NetworkBuilder(given).convolution(channels, kernel, **options).stages
    images = torch.tensor(on_the_grid(ROWS, 4, 7, 8), requires_grad=True)
    weight = torch.tensor(on_the_grid(channels, 4 // groups, *kernel, seed=1), requires_grad=True)
    bias = torch.tensor(on_the_grid(channels, seed=2))
    expected = functional.conv2d(images, weight, bias, **options)

    ring = ClearRing(F, rounding=rounding, seed=1)
    flat = weight.detach().numpy().reshape(groups, channels // groups, -1)
    parameters = [
        (encode(w, F), encode(b, F))
        for w, b in zip(flat, bias.numpy().reshape(groups, -1), strict=True)
    ]
    x = encode(rows_of(images.detach().numpy(), given), F)
    found, kept = stage.apply(ring, x, parameters)
    behind = stage.window.after(channels)
    assert np.abs(images_of(decode(found, F), behind) - expected.detach().numpy()).max() < ULP

    deltas = on_the_grid(*expected.shape, seed=3)
    own = encode(rows_of(deltas, behind), F)
    expected.backward(torch.tensor(deltas))
    product = stage.product(ring, own, parameters)
    back = images_of(decode(product, 2 * F), given)
    np.testing.assert_allclose(back, images.grad.numpy(), rtol=0, atol=1e-9)
    sums = []
    for gradient in stage.gradients(ring, own, kept):
        shares = gradient.deltas.reshape(-1, stage.out_features)
        sums.append(decode(shares.T @ gradient.inputs, 2 * F))
    total = np.concatenate(sums).reshape(weight.shape)
    np.testing.assert_allclose(total, weight.grad.numpy(), rtol=0, atol=1e-9)


POOLS: dict[str, dict[str, Any]] = {
    "halves": {"kernel": 2},
    "thirds": {"kernel": 3, "padding": 1},
    "overlapping": {"kernel": (2, 2), "stride": 1},
    "strides": {"kernel": (3, 2), "stride": (2, 3), "padding": (1, 0)},
}


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("options", POOLS.values(), ids=POOLS)
@pytest.mark.parametrize("kind", ["average", "largest"])
def test_pooling_and_its_gradients_are_those_of_pytorch(kind, options, rounding):
    given = grid(3)
    (stage,) = getattr(NetworkBuilder(given), kind)(**options).stages
    theirs = functional.avg_pool2d if kind == "average" else functional.max_pool2d
    images = torch.tensor(on_the_grid(ROWS, 3, 7, 8), requires_grad=True)
    arguments = {"kernel_size": options["kernel"]}
    arguments |= {name: value for name, value in options.items() if name != "kernel"}
    expected = theirs(images, **arguments)
    ring = ClearRing(F, rounding=rounding, seed=1)
    x = encode(rows_of(images.detach().numpy(), given), F)
    found, kept = stage.forward(ring, x)
    behind = stage.window.after(3)
    # 1 / points is rounded to 16 bits, unless it is a power of two; the largest value is exact.
    slack = 0.0 if kind == "largest" else 5 * 2.0**-17 * stage.window.points + ULP
    assert np.abs(images_of(decode(found, F), behind) - expected.detach().numpy()).max() <= slack
    deltas = on_the_grid(*expected.shape, seed=3)
    expected.backward(torch.tensor(deltas))
    back = stage.backward(ring, encode(rows_of(deltas, behind), F), kept)
    wrong = np.abs(images_of(decode(back, F), given) - images.grad.numpy())
    assert wrong.max() <= stage.window.overlap * slack


def test_a_signal_is_an_image_of_height_one():
    given = Grid(channels=3, height=1, width=9, channels_last=False)
    (stage,) = NetworkBuilder(given).convolution(2, (1, 4), stride=(1, 2), padding=(0, 1)).stages
    signals, weight = on_the_grid(ROWS, 3, 9), on_the_grid(2, 3, 4, seed=1)
    expected = functional.conv1d(
        torch.tensor(signals), torch.tensor(weight), stride=2, padding=1
    ).numpy()
    zero = np.zeros(2, dtype=np.int64)
    x = encode(signals.reshape(ROWS, -1), F)
    found, _ = stage.apply(ClearRing(F), x, [(encode(weight.reshape(2, -1), F), zero)])
    got = images_of(decode(found, F), stage.window.after(2))[:, :, 0]
    assert np.abs(got - expected).max() < ULP


@pytest.mark.parametrize("options", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_folding_is_the_adjoint_of_unfolding_and_overlap_its_norm(options):
    sizes = {k: value for k, value in options.items() if k not in ("groups", "channels")}
    if "padding" in sizes:
        sizes["padding"] = tuple((pad, pad) for pad in sizes["padding"])
    window, ring = Window(grid=grid(), **sizes), ClearRing(F)
    draws = np.random.default_rng(1)
    x = draws.integers(-9, 9, (ROWS, window.grid.size))
    y = draws.integers(-9, 9, (ROWS, *window.places.shape))
    unfolded = ring.gather(x, window.places)
    back = fold(ring, y, window.places, window.grid.size)
    np.testing.assert_array_equal((unfolded * y).sum((1, 2, 3)), (x * back).sum(1))
    counts = np.bincount(window.places[window.places >= 0], minlength=window.grid.size)
    assert window.overlap == counts.max() <= window.points
    single = np.eye(window.grid.size, dtype=np.int64)
    assert (ring.gather(single, window.places) ** 2).sum((1, 2, 3)).max() == window.overlap
    assert folded(window.places, window.grid.size).shape == (window.grid.size, window.overlap)


def test_overlap_is_not_what_kernel_and_stride_alone_would_say():
    large = Grid(channels=1, height=20, width=20)
    window = Window(grid=large, kernel=(3, 3), stride=(2, 2), dilation=(2, 2))
    assert window.overlap == 9 > (-(-3 // 2)) ** 2


def test_images_are_flattened_in_the_order_that_is_asked_for():
    images = on_the_grid(ROWS, 4, 7, 8)
    rows = encode(rows_of(images, grid()), F)
    sketch = NetworkBuilder(grid()).flatten(channels_last=False)
    (stage,) = sketch.stages
    assert sketch.grid is None
    found, kept = stage.forward(ClearRing(F), rows)
    np.testing.assert_array_equal(decode(found, F), images.reshape(ROWS, -1))
    np.testing.assert_array_equal(stage.backward(ClearRing(F), found, kept), rows)
    assert not NetworkBuilder(grid()).flatten(channels_last=True).stages


def networks() -> dict[str, Network]:
    small = NetworkBuilder(grid(2)).convolution(4, 3, padding=1).activation(tanh()).average(2)
    small.convolution(6, 2, groups=2).activation(relu()).largest(2, stride=1).flatten(
        channels_last=False
    )
    small.linear(5).activation(tanh()).linear(3)
    own = Network(stages=tuple(small.stages), loss="softmax", guarded=True)
    kinds = {name: ModelSpec(widths=(784, 10), kind=name).network for name in ("lenet", "cnn")}
    return {"small": own, **kinds}


@pytest.mark.parametrize("name", ["small", "lenet", "cnn"])
def test_no_stage_leaves_its_bound(name):
    network = networks()[name]
    draws = np.random.default_rng(2)
    norms = {"feature": 20.0, "weight": 12.0}
    shapes = network.shapes(
        max_feature_norm=norms["feature"], max_weight_norm=norms["weight"], max_grad_norm=1e9
    )
    parameters = []
    for outputs, inputs in network.parameter_shapes:
        weight = draws.standard_normal((outputs, inputs))
        weight *= norms["weight"] / np.linalg.norm(weight)
        bias = draws.standard_normal(outputs)
        parameters.append((encode(weight, F), encode(bias, F)))
    x = draws.standard_normal((ROWS, network.widths[0]))
    x *= norms["feature"] / np.linalg.norm(x, axis=1, keepdims=True)
    targets = np.eye(network.widths[-1])[np.arange(ROWS) % network.widths[-1]]
    trace = forward(ClearRing(F, rounding="extreme", seed=1), network, parameters, encode(x, F))
    gradients = trace.backward(encode(targets, F), None)
    for gradient, shape in zip(gradients, shapes, strict=True):
        assert shape.guard is None
        inputs = decode(gradient.inputs, F).reshape(ROWS, -1)
        deltas = decode(gradient.deltas, F).reshape(ROWS, -1)
        assert np.linalg.norm(inputs, axis=1).max() <= shape.input_norm
        assert np.linalg.norm(deltas, axis=1).max() <= shape.delta_norm
        assert inputs.shape[1] == shape.positions * shape.in_features
        assert deltas.shape[1] == shape.positions * shape.out_features


def test_guards_keep_what_reaches_a_layer_within_reach():
    network = networks()["lenet"]
    shapes = network.shapes(max_feature_norm=1.0, max_weight_norm=400.0, max_grad_norm=0.5)
    assert [shape.guard is not None for shape in shapes] == [False, True, True, True, True]
    for shape in shapes[:-1]:
        inputs = np.hypot(shape.input_norm, np.sqrt(shape.positions))
        assert shape.delta_norm * inputs <= 0.5 * 2.0**11 * (1 + 1e-9)


def test_tanh_is_twice_a_sigmoid_less_one():
    x = np.linspace(-6, 6, 4001)
    network = NetworkBuilder(1).activation(tanh()).stages[0]
    found, slopes = network.forward(ClearRing(F), encode(x[:, None], F))
    assert np.abs(decode(found, F)[:, 0] - np.tanh(x)).max() <= 0.0214 + 2 * ULP
    assert slopes.max() * 2.0**-14 <= 1.0
    assert network.bound(Bound(9.0, 9.0)).largest < 1.001


BAD = {
    "kernel": [{"kernel": 9}, {"kernel": 0}],
    "stride": [{"kernel": 2, "stride": 0}],
    "dilation": [{"kernel": 2, "dilation": 0}],
    "padding": [{"kernel": 2, "padding": -1}],
    "groups": [{"kernel": 2, "groups": 3}, {"kernel": 2, "groups": 0}],
    "channels": [{"channels": 0, "kernel": 2}],
}


@pytest.mark.parametrize(
    ("argument", "options"), [(name, each) for name, cases in BAD.items() for each in cases]
)
def test_what_does_not_fit_an_image_is_refused_by_name(argument, options):
    options = {"channels": 6} | options
    with refused(argument, "range"):
        NetworkBuilder(grid()).convolution(
            options.pop("channels"), options.pop("kernel"), **options
        )


def test_stages_that_do_not_fit_are_refused_by_name():
    with refused("stages", "shape", "rows of 12 values"):
        NetworkBuilder(12).convolution(2, 3)
    with refused("stages", "value", ["Convolution"]):
        Network(stages=tuple(NetworkBuilder(grid()).convolution(2, 3).stages))
    first, second = NetworkBuilder(4).linear(3).stages[0], NetworkBuilder(5).linear(2).stages[0]
    with refused("stages", "shape", "Linear of 3 values before Linear of 5"):
        Network(stages=(first, second))
    with refused("padding", "range", value=2):
        NetworkBuilder(grid()).largest(2, padding=2)


@pytest.mark.parametrize("features", [20, 64])
@pytest.mark.parametrize("kind", ["lenet", "cnn"])
def test_an_architecture_says_which_records_it_takes(kind, features):
    with refused("model", "value", value=kind):
        _ = ModelSpec(widths=(features, 10), kind=kind).network


def test_architectures_have_the_sizes_of_their_papers():
    sizes = {kind: ModelSpec(widths=(784, 10), kind=kind).parameters for kind in ("lenet", "cnn")}
    assert sizes == {"lenet": 61_706, "cnn": 26_010}
    assert ModelSpec(widths=(3072, 10), kind="lenet").network.widths[1] == 28 * 28 * 6
