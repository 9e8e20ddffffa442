"""Programs that CrypTen's users rightly write: every one of them must run."""

import copy
import gc
import itertools
from typing import Any

import numpy as np
import torch

import crypten_ext
from crypten_ext import nn, optim
from crypten_ext.dealer import begin_step
from crypten_ext.nn.batches import poisson_batches
from crypten_ext.run.initialization import initialize
from extensions.privacy.randomness import InsecureSeededSource
from tests.helpers.programs import Corpus, alone
from tests.helpers.programs.script import (
    CLASSES,
    HIDDEN,
    RATE,
    WIDTH,
    Script,
    batches,
    dpsgd,
    encrypted,
    records,
)

import crypten

program = Corpus()


def converted(*layers: Any, shape: tuple[int, ...] = (1, WIDTH)) -> Any:
    """Returns PyTorch's layers as an encrypted model of CrypTen."""
    return crypten.nn.from_pytorch(torch.nn.Sequential(*layers), torch.zeros(shape)).encrypt()


def train(model: Any, loss: Any = None, **options: Any) -> optim.DPSGD:
    """Makes one step with a model."""
    optimizer = dpsgd(model, **options)
    for x, y in batches():
        optimizer.zero_grad()
        (loss or nn.BCEWithLogitsLoss())(model(x), y).backward()
        optimizer.step()
    return optimizer


# Models.

program.each(
    "model",
    alone,
    of_one_layer=lambda: train(nn.Linear(WIDTH, CLASSES).encrypt()),
    in_sequence=lambda: Script().step(),
    with_relu=lambda: Script.deep().step(),
    with_sigmoid=lambda: Script(
        nn.Linear(WIDTH, HIDDEN), nn.Sigmoid(), nn.Linear(HIDDEN, CLASSES)
    ).step(),
    without_bias=lambda: Script(nn.Linear(WIDTH, CLASSES, bias=False)).step(),
    with_a_flatten_in_front=lambda: Script(crypten.nn.Flatten(), nn.Linear(WIDTH, CLASSES)).step(),
    with_relu_in_front=lambda: Script(nn.ReLU(), nn.Linear(WIDTH, CLASSES)).step(),
    with_sigmoid_in_front=lambda: Script(nn.Sigmoid(), nn.Linear(WIDTH, CLASSES)).step(),
    with_a_lower_cap=lambda: Script(
        nn.Linear(WIDTH, HIDDEN), nn.ReLU(2.0), nn.Linear(HIDDEN, CLASSES)
    ).step(),
    converted=lambda: train(
        converted(torch.nn.Linear(WIDTH, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 4))
    ),
    converted_of_one_layer=lambda: train(
        crypten.nn.from_pytorch(torch.nn.Linear(WIDTH, CLASSES), torch.zeros(1, 4)).encrypt()
    ),
    converted_without_bias=lambda: train(converted(torch.nn.Linear(WIDTH, CLASSES, bias=False))),
    converted_with_sigmoid=lambda: train(
        converted(torch.nn.Linear(WIDTH, 4), torch.nn.Sigmoid(), torch.nn.Linear(4, CLASSES))
    ),
    converted_with_a_flatten=lambda: train(
        converted(torch.nn.Flatten(), torch.nn.Linear(WIDTH, CLASSES))
    ),
)


@program
def model_of_the_hosts_layers() -> None:
    host = crypten.nn
    Script(host.Linear(WIDTH, HIDDEN), host.ReLU(), host.Linear(HIDDEN, CLASSES)).step()


@program
def model_with_three_layers() -> None:
    layers = nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.Sigmoid()
    Script(*layers, nn.Linear(HIDDEN, CLASSES), max_weight_norm=20.0, lr=0.1).step()


@program
def model_with_a_flatten_between() -> None:
    layers = nn.Linear(WIDTH, HIDDEN), crypten.nn.Flatten(), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)
    Script(*layers).step()


@program
def model_with_two_activations_in_a_row() -> None:
    layers = nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Sigmoid(), nn.Linear(HIDDEN, CLASSES)
    Script(*layers).step()


@program
def model_with_two_linear_layers_in_a_row() -> None:
    layers = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, CLASSES)
    Script(*layers, max_weight_norm=20.0, lr=0.1).step()


@program
def model_of_models() -> None:
    inner = crypten.nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU())
    Script(inner, crypten.nn.Sequential(nn.Linear(HIDDEN, CLASSES))).step()


@program
def model_of_one_output() -> None:
    model = nn.Linear(WIDTH, 1).encrypt()
    optimizer = dpsgd(model)
    x, y = records()
    for xb, yb in poisson_batches(x, (y[:, None] > 1).astype(float), sample_rate=RATE, steps=1):
        nn.BCEWithLogitsLoss()(model(xb), yb).backward()
        optimizer.step()


@program
def model_converted_with_a_view_of_records() -> None:
    class Viewed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(WIDTH, CLASSES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x.view(-1, WIDTH))

    train(crypten.nn.from_pytorch(Viewed(), torch.zeros(1, WIDTH)).encrypt())


@program
def model_converted_from_a_class() -> None:
    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(WIDTH, HIDDEN)
            self.second = torch.nn.Linear(HIDDEN, CLASSES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(torch.relu(self.first(x)))

    train(crypten.nn.from_pytorch(Network(), torch.zeros(1, WIDTH)).encrypt())


@program
def model_called_layer_by_layer() -> None:
    script = Script.deep()
    script.step(hidden=lambda h: h)


@program
def model_wrapped_in_a_class() -> None:
    class Classifier:
        def __init__(self) -> None:
            self.body = crypten.nn.Sequential(nn.Linear(WIDTH, CLASSES)).encrypt()

        def __call__(self, x: Any) -> Any:
            return self.body(x)

    network = Classifier()
    optimizer = dpsgd(network.body)
    ((x, y),) = batches()
    nn.BCEWithLogitsLoss()(network(x), y).backward()
    optimizer.step()


@program
def model_with_an_activation_called_as_a_function() -> None:
    first, last = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, CLASSES)
    model = crypten.nn.Sequential(first, last).encrypt()
    optimizer = dpsgd(model)
    activation = nn.ReLU().encrypt()
    ((x, y),) = batches()
    nn.BCEWithLogitsLoss()(last(activation(first(x))), y).backward()
    optimizer.step()


@program
def model_with_public_weights_set() -> None:
    layer = nn.Linear(WIDTH, CLASSES)
    layer.set_parameter("weight", torch.zeros(CLASSES, WIDTH).requires_grad_())
    Script(layer).step()


@program
def model_of_which_parts_are_trained() -> None:
    for trained in ({0}, {3}, {1, 3}, {2}, {0, 3}):
        layers = nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)
        model = crypten.nn.Sequential(*layers).encrypt()
        parameters = list(model.parameters())
        for number, parameter in enumerate(parameters):
            parameter.requires_grad = number in trained
        before = [parameter.share.clone() for parameter in parameters]
        options = {"momentum": 0.5, "average": 1.0, "steps": 1} if 3 in trained else {}
        train(model, **options)
        pairs = zip(before, parameters, strict=True)
        assert {i for i, (was, p) in enumerate(pairs) if not was.equal(p.share)} == trained


@program
def model_with_weights_loaded() -> None:
    script, other = Script(), Script()
    script.model.load_state_dict(other.model.state_dict())
    script.step()


@program
def model_started_from_local_ones() -> None:
    script = Script()
    local = [(np.zeros((CLASSES, WIDTH)), np.zeros(CLASSES))]
    initialize(script.model, local, 6, strategy="local-average")
    script.step()


# Losses, optimizers and settings.

program.each(
    "loss",
    alone,
    of_softmax=lambda: train(nn.Linear(WIDTH, CLASSES).encrypt(), nn.CrossEntropyLoss()),
)


@program
def optimizer_that_is_plain_sgd() -> None:
    script = Script()
    script.optimizer = optim.SGD(script.model, lr=1.0)
    script.step()


program.each(
    "optimizer",
    alone,
    that_knows_the_number_of_steps=lambda: Script.deep(steps=4, lr=0.1).step(),
    with_another_divisor=lambda: Script(expected_batch_size=10.0).step(),
    without_noise=lambda: Script(noise_multiplier=0.0).step(),
    of_a_higher_degree=lambda: Script(degree=4).step(),
)


@program
def optimizer_with_a_decreasing_rate() -> None:
    script = Script()
    for i, (script.x, script.y) in enumerate(batches(steps=2)):
        script.optimizer.param_groups[0]["lr"] = 1.0 / (i + 1)
        script.step()


@program
def optimizer_saved_and_restored() -> None:
    script = Script()
    script.step()
    state = copy.deepcopy(script.optimizer.state_dict())
    script.optimizer = dpsgd(script.model)
    script.optimizer.load_state_dict(state)
    script.next().step()
    assert script.optimizer.ledger.phases[0].steps == 2


@program
def optimizer_with_gradients_reset_after_the_forward_pass() -> None:
    script = Script()
    loss = script.loss(script.model(script.x), script.y)
    script.optimizer.zero_grad()
    loss.backward()
    script.optimizer.step()


@program
def optimizer_with_gradients_reset_at_the_end() -> None:
    script = Script()
    for script.x, script.y in batches(steps=2):
        script.loss(script.model(script.x), script.y).backward()
        script.optimizer.step()
        script.optimizer.zero_grad()


@program
def optimizer_reset_by_the_model() -> None:
    script = Script()
    script.model.zero_grad()
    script.step()


@program
def plain_sgd_beside_private_training() -> None:
    private, plain = Script(), Script()
    plain.optimizer = optim.SGD(plain.model, lr=1.0)
    plain.x, plain.y = private.x, private.y
    private.step()
    plain.step()


@program
def two_private_models_on_batches_of_their_own() -> None:
    for script in (Script(), Script.deep()):
        script.step()


# Batches.


@program
def batches_in_a_loop() -> None:
    script = Script()
    for script.x, script.y in batches(steps=4):
        script.step()


@program
def batches_kept_in_a_list() -> None:
    script = Script()
    for script.x, script.y in reversed(list(batches(steps=3))):
        script.step()


@program
def batches_taken_one_by_one() -> None:
    script, drawn = Script(), batches(steps=3)
    script.x, script.y = next(drawn)
    script.step()
    script.x, script.y = next(drawn)
    script.step()


@program
def batches_sliced() -> None:
    script = Script()
    for script.x, script.y in itertools.islice(batches(steps=5), 1, 3):
        script.step()


@program
def batches_of_everything() -> None:
    script = Script(sample_rate=1.0)
    for script.x, script.y in batches(steps=2, sample_rate=1.0):
        script.step()


@program
def batches_from_a_seed() -> None:
    script = Script()
    ((script.x, script.y),) = batches(source=InsecureSeededSource(3))
    script.step()


@program
def batches_of_longer_rows() -> None:
    script, (x, y) = Script(), records()
    settings = {"sample_rate": RATE, "classes": CLASSES, "max_feature_norm": 8.0}
    ((script.x, script.y),) = poisson_batches(8 * x, y, steps=1, **settings)
    script.step()


@program
def batches_in_a_dictionary() -> None:
    script = Script()
    ((x, y),) = batches()
    batch = {"features": x, "targets": y}
    script.step(x=lambda _: batch["features"], y=lambda _: batch["targets"])


@program
def batches_through_a_function_of_ones_own() -> None:
    script = Script()

    def loader() -> Any:
        yield from batches(steps=2)

    for script.x, script.y in loader():
        script.step()


@program
def batches_after_a_collection_of_garbage() -> None:
    script = Script()
    gc.collect()
    logits = script.model(script.x)
    gc.collect()
    script.step(logits=lambda _: logits, x=lambda x: x)


@program
def batch_that_was_looked_at() -> None:
    script = Script()
    assert script.x.size(0) == len(script.y)
    assert (script.x.dim(), script.x.shape[1]) == (2, WIDTH)
    repr(script.x)
    script.x.get_plain_text()
    script.step()


@program
def batch_whose_statistics_are_computed_aside() -> None:
    script = Script()
    mean, largest = script.x.mean(0), (script.x * 2 + 1).sum()
    script.step()
    assert mean.size(0) == WIDTH
    assert largest.dim() == 0


program.each(
    "batch",
    alone,
    moved_to_the_device_where_it_is=lambda: Script().step(
        x=lambda x: x.to("cpu"), y=lambda y: y.cpu()
    ),
    said_to_need_no_gradient=lambda: Script().step(
        x=lambda x: x.detach_(), y=lambda y: y.detach_()
    ),
)


@program
def batch_whose_copy_was_changed() -> None:
    script = Script()
    other = script.x.clone()
    other.mul_(20)
    other.share.zero_()
    script.step()


@program
def batch_tried_without_gradient_before() -> None:
    script = Script()
    with crypten.no_grad():
        script.model(script.x)
    script.step()


@program
def batch_after_a_refused_attempt() -> None:
    script = Script()
    try:
        script.model(script.x * 2)
    except crypten_ext.nn.provenance.GradientError:
        script.step()


@program
def batch_after_a_refused_step() -> None:
    script = Script(sample_rate=0.4)
    try:
        script.step()
    except crypten_ext.nn.provenance.GradientError:
        script.optimizer = dpsgd(script.model)
    script.step()


@program
def step_begun_for_the_dealer_by_hand() -> None:
    begin_step()
    Script().step()


@program
def sample_vouched_for() -> None:
    script = Script()
    script.x, script.y = crypten_ext.vouch_for(*encrypted(), sample_rate=RATE, max_feature_norm=1.0)
    script.step()


@program
def everything_vouched_for_in_each_step() -> None:
    script, (x, y) = Script(sample_rate=1.0), encrypted()
    for _ in range(3):
        script.x, script.y = crypten_ext.vouch_for(x, y, sample_rate=1.0, max_feature_norm=1.0)
        script.step()


@program
def images_vouched_for() -> None:
    script = Script(crypten.nn.Flatten(), nn.Linear(WIDTH, CLASSES), sample_rate=1.0)
    x, y = encrypted()
    images = x.reshape(x.size(0), 1, 2, 2)
    script.x, script.y = crypten_ext.vouch_for(images, y, sample_rate=1.0, max_feature_norm=1.0)
    script.step()


@program
def features_computed_under_encryption_and_vouched_for() -> None:
    script, (x, y) = Script(), encrypted()
    features = crypten.nn.Linear(WIDTH, WIDTH).encrypt()(x).detach().clip_by_norm(1.0)
    script.x, script.y = crypten_ext.vouch_for(features, y, sample_rate=RATE, max_feature_norm=1.0)
    script.step()


@program
def rows_vouched_for_beside_a_batch() -> None:
    script = Script()
    x, y = crypten_ext.vouch_for(*encrypted(), sample_rate=RATE, max_feature_norm=1.0)
    script.step()
    script.step(x=lambda _: x, y=lambda _: y)


# Predictions.


@program
def prediction_of_what_the_script_encrypted() -> None:
    script, (x, _) = Script(), encrypted()
    with crypten.no_grad():
        script.model(x).get_plain_text()


@program
def prediction_in_evaluation_mode() -> None:
    script, (x, _) = Script.deep(), encrypted()
    script.step()
    script.model.eval()
    script.model(x * 2).get_plain_text()


@program
def prediction_between_steps() -> None:
    script = Script()
    script.step()
    script.model.eval()
    x, y = crypten_ext.share_records(*records(), classes=CLASSES)
    crypten_ext.count_correct(script.model(x), y)
    script.model.train()
    script.next().step()


@program
def prediction_on_the_batch_after_the_step() -> None:
    script = Script()
    script.step()
    with crypten.no_grad():
        crypten_ext.count_correct(script.model(script.x), script.y)


@program
def prediction_with_work_on_the_logits() -> None:
    script, (x, _) = Script(), encrypted()
    script.model.eval()
    (script.model(x - x.mean(0)).softmax(1) * 2).get_plain_text()


@program
def prediction_of_a_model_without_optimizer() -> None:
    x, _ = encrypted()
    crypten.nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU()).encrypt()(x * 3).get_plain_text()


@program
def training_of_a_model_of_the_host_alone() -> None:
    x, y = encrypted()
    model = crypten.nn.Sequential(crypten.nn.Linear(WIDTH, CLASSES)).encrypt()
    optimizer = crypten.optim.SGD(model.parameters(), lr=0.1)
    optimizer.zero_grad()
    crypten.nn.BCEWithLogitsLoss()(model(x - x.mean(0)), y).backward()
    optimizer.step()


@program
def training_of_our_layers_by_the_host() -> None:
    x, y = encrypted()
    model = crypten.nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))
    model.encrypt()
    optimizer = crypten.optim.SGD(model.parameters(), lr=0.1)
    optimizer.zero_grad()
    nn.BCEWithLogitsLoss()(model(x * 2), y).backward()
    optimizer.step()
