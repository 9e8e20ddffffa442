"""Programs of CrypTen's users whose epsilon would be false: every one of them must be refused.

In a correct program row j of what the model gets, and of what the loss gets, is record j's alone.
"""

import copy
import io
import operator
from collections.abc import Callable
from typing import Any

import torch

import crypten_ext
from crypten_ext import nn, optim
from crypten_ext.nn.provenance import provenance_of
from crypten_ext.ring.crypten_ring import as_tensor, ring_of
from tests.helpers.party_tasks.protocols import session
from tests.helpers.programs import Corpus, alone, as_it_is
from tests.helpers.programs.script import (
    CLASSES,
    HIDDEN,
    RATE,
    RECORDS,
    WIDTH,
    Script,
    batches,
    dpsgd,
    encrypted,
    records,
)

import crypten
from crypten.mpc import MPCTensor

program = Corpus()


SUBJECTS: dict[str, Callable[[Any], None]] = {
    "features": lambda change: Script().step(x=change),
    "targets": lambda change: Script().step(y=change),
    "logits": lambda change: Script().step(logits=change),
    "hidden_values": lambda change: Script.deep().step(hidden=change),
}
"""One step with a change of what the model gets, of what the loss gets, or between two layers."""


def rows_of(tensor: Any) -> int:
    return int(tensor.size(0))


def zeros_of(tensor: Any, *width: int) -> torch.Tensor:
    return torch.zeros(rows_of(tensor), *width, dtype=torch.int64)


def in_place(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns what changes a tensor, and returns it."""

    def changed(tensor: Any) -> Any:
        change(tensor)
        return tensor

    return changed


def with_parts(copied: Callable[[Any], Any] = as_it_is, **parts: Callable[[Any], Any]) -> Any:
    """Returns what gives a tensor, or a copy of it, parts that are made of the tensor's."""

    def changed(tensor: Any) -> Any:
        other = copied(tensor)
        for name, part in parts.items():
            setattr(other, name, part(tensor))
        return other

    return changed


# A program is what is changed, and how. As all tensors are of one width, each change fits each.

ANYWHERE: dict[str, Callable[[Any], Any]] = {
    "scaled": lambda t: t * 20,
    "centred": lambda t: t - t.mean(0),
    "with_everybodys_sum": lambda t: t + t.sum(0),
    "flipped": lambda t: t.flip(0),
    "compared_with_those_of_others": lambda t: t - t.flip(0),
    "of_another_order": lambda t: t[torch.arange(rows_of(t)).flip(0)],
    "rolled": lambda t: t.roll(1, 0),
    "viewed": lambda t: t.view(-1, WIDTH),
    "transposed_twice": lambda t: t.t().t(),
    "of_another_sign": lambda t: -t,
    "squared": lambda t: t.square(),
    "through_the_hosts_sigmoid": lambda t: t.sigmoid(),
    "normalised_over_the_batch": lambda t: crypten.nn.BatchNorm1d(WIDTH).encrypt()(t),
    "that_attend_to_others": lambda t: t.matmul(t.t()).matmul(t),
    "cloned": lambda t: t.clone(),
    "detached": lambda t: t.detach(),
    "wrapped_anew": lambda t: as_tensor(ring_of(t), t.share),
    "overwritten": in_place(lambda t: t.copy_((t * 2).detach())),
    "with_another_share": with_parts(share=lambda t: t.share + t.share.sum(0)),
    "changed_through_data": in_place(lambda t: t.share.data.add_(t.share.data.sum(0))),
}
for subject, run in SUBJECTS.items():
    program.each(subject, run, **ANYWHERE)
for subject in ("features", "targets"):
    program.each(subject, SUBJECTS[subject], multiplied_in_place=lambda t: t.mul_(20))

# Features are changed by an operation of CrypTen.

program.each(
    "features",
    SUBJECTS["features"],
    centred_and_scaled=lambda x: (x - x.mean(0)) * 20,
    standardised=lambda x: (x - x.mean(0)) * x.var(0).inverse_sqrt(),
    that_are_means=lambda x: x.mean(0, keepdim=True).expand(rows_of(x), WIDTH),
    summed_up_to_each_row=lambda x: x.cumsum(0),
    mixed_by_a_public_matrix=lambda x: crypten.cryptensor(
        torch.ones(rows_of(x), rows_of(x))
    ).matmul(x),
    projected=lambda x: x.matmul(torch.eye(WIDTH)),
    that_are_similarities=lambda x: x.matmul(x.t())[:, :WIDTH],
    of_one_record_in_all_rows=lambda x: x[0].expand(rows_of(x), WIDTH),
    selected_twice=lambda x: x.index_select(0, zeros_of(x)),
    stacked_and_averaged=lambda x: crypten.stack([x, x.flip(0)]).mean(0),
    split_and_put_together=lambda x: crypten.cat(list(x.split(2))[::-1]),
    with_rows_merged=lambda x: x.reshape(WIDTH, -1).t(),
    with_an_axis_more_and_less=lambda x: x.unsqueeze(0).squeeze(0),
    normalised_under_encryption=lambda x: x.clip_by_norm(1.0),
    weighted_over_records=lambda x: x.softmax(0),
    through_the_hosts_relu=lambda x: x.relu(),
    through_the_hosts_dropout=lambda x: x.dropout(0.5),
    through_the_hosts_linear=lambda x: crypten.nn.Linear(WIDTH, WIDTH).encrypt()(x),
    through_a_flatten_of_ones_own=lambda x: crypten.nn.Flatten().encrypt()(x),
    padded_and_cut=lambda x: x.pad((0, 0, 1, 0))[:-1],
    compared=lambda x: x > x.mean(0),
    chosen_by_condition=lambda x: x.where(torch.ones(rows_of(x), WIDTH), 0.0),
    scattered=lambda x: x.scatter(0, torch.zeros(1, WIDTH, dtype=torch.int64), x[:1]),
    gathered=lambda x: x.gather(0, zeros_of(x, WIDTH)),
    with_one_row_added_to_another=lambda x: x.index_add(0, torch.tensor([0]), x[1:2]),
    folded_over_rows=lambda x: (
        x.reshape(1, 1, -1, WIDTH)
        .conv2d(torch.ones(1, 1, 3, 1), padding=(1, 0))
        .reshape(rows_of(x), WIDTH)
    ),
    pooled_over_rows=lambda x: (
        x.reshape(1, 1, -1, WIDTH)
        .avg_pool2d((3, 1), stride=1, padding=(1, 0))
        .reshape(rows_of(x), WIDTH)
    ),
    with_noise=lambda x: x + crypten_ext.gaussian_noise((rows_of(x), WIDTH), 0.1),
    with_a_products_column=lambda x: crypten.cat([x[:, :-1], x[:, :1] * x[:, 1:2]], dim=1),
)

# Features are copied or changed in place.


def with_one_row_assigned(x: Any) -> Any:
    x[0] = x[1]
    return x


def encoded_anew(x: Any) -> Any:
    x._tensor.encode_(crypten.encoder.FixedPointEncoder(precision_bits=22))
    x.encoder = crypten.encoder.FixedPointEncoder(precision_bits=20)
    return x


def resized(x: Any) -> Any:
    x.share.t_()
    x.share.resize_(rows_of(x.share.t()), WIDTH)
    return x


def saved_and_loaded(x: Any) -> Any:
    file = io.BytesIO()
    torch.save(x.share, file)
    file.seek(0)
    return MPCTensor.from_shares(torch.load(file), precision=20)


def all_but_the_share(x: Any) -> Any:
    other = MPCTensor([])
    vars(other).update(vars(x))
    other._tensor = x._tensor.mul(2)
    return other


program.each(
    "features",
    SUBJECTS["features"],
    copied_and_changed=with_parts(copy.deepcopy, share=lambda x: x.share * 20),
    copied_deeply=copy.deepcopy,
    copied_shallowly_and_changed=with_parts(copy.copy, _tensor=lambda x: x._tensor.mul(2)),
    added_to_in_place=lambda x: operator.iadd(x, x.sum(0)),
    with_one_row_assigned=with_one_row_assigned,
    with_another_tensor_inside=with_parts(_tensor=lambda x: x._tensor.add(x._tensor.sum(0))),
    with_the_share_changed_in_place=in_place(lambda x: x.share.add_(x.share.sum(0))),
    changed_through_a_view=in_place(lambda x: x.share[0].view(-1)[1:].zero_()),
    with_their_data_replaced=in_place(
        lambda x: setattr(x.share, "data", x.share.flip(0)),
    ),
    changed_through_numpy=in_place(
        lambda x: operator.iadd(x.share.numpy(), x.share.numpy().sum(axis=0))
    ),
    with_another_storage=in_place(lambda x: x.share.set_(x.share.flip(0).contiguous())),
    resized=resized,
    encoded_anew=encoded_anew,
    as_bits_and_back=lambda x: x.to(crypten.mpc.binary).to(crypten.mpc.arithmetic, precision=20),
    opened_and_encrypted_again=lambda x: crypten.cryptensor(x.get_plain_text()),
    saved_and_loaded=saved_and_loaded,
    averaged_by_the_parties_themselves=with_parts(
        share=lambda x: (x.share + x.share.roll(1, 0)).contiguous()
    ),
    with_everything_of_a_batch_but_its_share=all_but_the_share,
    of_another_batch=lambda _: next(batches())[0],
    interpolated_between_batches=lambda x: x * 0.5 + next(batches())[0] * 0.5,
    that_another_model_made=lambda x: Script(nn.Linear(WIDTH, WIDTH)).model(x),
    that_an_unadopted_model_made=lambda x: crypten.nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.ReLU()
    ).encrypt()(x),
)


@program
def features_read_with_another_precision() -> None:
    def change(x: Any) -> Any:
        x.encoder._scale = x.encoder._scale // 16
        return x

    script = Script()
    for parameter in script.model.parameters():
        change(parameter)
    script.step(x=change, y=change)


@program
def features_of_some_rows() -> None:
    script = Script()
    half = rows_of(script.x) // 2
    script.step(x=lambda x: x[:half], y=lambda y: y[:half])


def in_both(change: Callable[[Any], Any]) -> None:
    """One step with the same change of features and targets."""
    Script().step(x=change, y=change)


program.each(
    "features",
    in_both,
    doubled_in_number=lambda t: crypten.cat([t, t]),
    repeated=lambda t: t.repeat(3, 1),
)

# Features come from somewhere else.


def of_records(made: Callable[[], tuple[Any, Any]]) -> None:
    """One step on other features and targets than the batch's."""
    x, y = made()
    Script().step(x=lambda _: x, y=lambda _: y)


def forged() -> tuple[Any, Any]:
    x, y = encrypted()
    ((other, _),) = batches()
    known = provenance_of(other)
    for tensor in (x, y):
        tensor.public_batch = known.batch.public
        tensor.shared_batch = known.batch.shared
        tensor.provenance = known
    return x, y


program.each(
    "features",
    of_records,
    that_the_script_encrypted=encrypted,
    with_a_forged_note=forged,
    shared_for_evaluation=lambda: crypten_ext.share_records(*records(), classes=CLASSES),
    of_two_batches=lambda: tuple(
        crypten.cat(list(parts)) for parts in zip(*batches(steps=2), strict=True)
    ),
)


def in_script(step: Callable[[Script], Any]) -> None:
    """What a script with a linear model does."""
    step(Script())


program.each(
    "features",
    in_script,
    that_are_targets=lambda script: script.step(x=lambda _: script.y),
    that_the_model_made_before=lambda script: script.step(x=script.model),
)


@program
def features_computed_without_gradient() -> None:
    script = Script.deep()
    with crypten.no_grad():
        hidden = next(iter(script.model.children()))(script.x)
    script.step(hidden=lambda _: hidden)


# Targets are not those of the batch.

program.each(
    "targets",
    SUBJECTS["targets"],
    smoothed_by_the_batch=lambda y: y * 0.9 + y.mean(0) * 0.1,
    turned_round=lambda y: 1 - y,
    with_a_row_changed_through_data=in_place(lambda y: y.share.data[0].add_(y.share.data.sum(0))),
    of_another_batch=lambda _: next(batches())[1],
    that_the_script_encrypted=lambda y: crypten.cryptensor(torch.ones(rows_of(y), CLASSES)),
)
program.each(
    "targets",
    in_script,
    that_are_features=lambda script: script.step(y=lambda _: script.x),
    that_are_predictions=lambda script: script.step(y=lambda _: script.model(script.x)),
)


@program
def targets_that_a_teacher_gave() -> None:
    script = Script()
    teacher = nn.Linear(WIDTH, CLASSES).encrypt()
    script.step(y=lambda _: teacher(script.x).sigmoid())


@program
def targets_that_somebody_vouched_for_alone() -> None:
    script = Script()
    _, y = crypten_ext.vouch_for(
        script.x.clone(), script.y.clone(), sample_rate=RATE, max_feature_norm=1.0
    )
    script.step(y=lambda _: y)


# Logits are not the model's output, or something stands between two layers.


def of_groups(h: Any) -> Any:
    groups = rows_of(h) // 2
    means = h[: 2 * groups].reshape(groups, 2, HIDDEN).mean(1)
    return crypten.cat([means, means, h[2 * groups :]])


program.each(
    "logits",
    in_script,
    that_are_a_batch=lambda script: script.step(logits=lambda _: script.x),
    with_a_skip=lambda script: script.step(logits=lambda z: z + script.x),
)
program.each(
    "hidden_values",
    SUBJECTS["hidden_values"],
    through_dropout=lambda h: crypten.nn.Dropout(0.5).encrypt()(h),
    of_groups=of_groups,
    changed_in_place=in_place(lambda h: h.share.mul_(2)),
    merged_over_rows=lambda h: crypten.nn.Flatten(axis=0).encrypt()(h),
    through_the_hosts_tanh=lambda h: h.tanh(),
)


@program
def logits_of_another_model() -> None:
    script = Script()
    other = nn.Linear(WIDTH, CLASSES).encrypt()
    script.step(logits=lambda _: other(script.x))


@program
def logits_of_two_models_averaged() -> None:
    script = Script()
    other = Script().model
    script.step(logits=lambda z: (z + other(script.x)) * 0.5)


@program
def logits_of_two_models_with_two_optimizers() -> None:
    script, other = Script(nn.Linear(WIDTH, HIDDEN)), Script(nn.Linear(HIDDEN, CLASSES))
    other.learn(other.model(script.model(script.x)), script.y)


@program
def logits_of_two_batches_put_together() -> None:
    script = Script()
    first, second = batches(steps=2)
    logits = crypten.cat([script.model(first[0]), script.model(second[0])])
    script.learn(logits, crypten.cat([first[1], second[1]]))


@program
def logits_that_are_hidden_values() -> None:
    script = Script.deep()
    script.learn(next(iter(script.model.children()))(script.x))


@program
def logits_of_a_batch_through_an_activation_alone() -> None:
    script = Script()
    script.step(logits=lambda _: nn.ReLU().encrypt()(script.x))


@program
def hidden_values_with_a_skip() -> None:
    script = Script.deep()
    script.step(hidden=lambda h: h + script.x)


@program
def hidden_values_of_another_batch() -> None:
    script = Script.deep()
    first, second = batches(steps=2)
    below = next(iter(script.model.children()))
    other = below(second[0])
    script.x, script.y = first
    script.step(hidden=lambda _: other)


@program
def hidden_values_after_a_caught_error() -> None:
    script = Script.deep()
    below, activation, above = script.model.children()
    h = activation(below(script.x))
    try:
        above(h + h.sum(0))
    except crypten_ext.nn.provenance.GradientError:
        h.share += h.share.sum(0)
    script.learn(above(h))


# The model has parts of its own.


class Scaled(crypten.nn.Module):
    """Multiplies what it gets."""

    def forward(self, x: Any) -> Any:
        return x * 20


class MixingReLU(nn.ReLU):
    """Mixes records after the activation."""

    def forward(self, x: Any) -> Any:
        result = super().forward(x)
        return result + result.sum(0)


class MixingLinear(nn.Linear):
    """Mixes records before the product."""

    def forward(self, x: Any) -> Any:
        return super().forward(x + x.sum(0))


class MixingSequential(crypten.nn.Sequential):
    """Mixes records on the way in."""

    def forward(self, x: Any) -> Any:
        return super().forward(x - x.mean(0))


@program
def model_with_a_layer_put_in_afterwards() -> None:
    script = Script()
    inner = next(iter(script.model.children()))
    script.model = crypten.nn.Sequential(Scaled().encrypt(), inner)
    script.model.encrypted = True
    script.step()


@program
def model_with_an_inner_model_that_scales() -> None:
    inner = nn.Linear(WIDTH, CLASSES).encrypt()
    optimizer = dpsgd(inner)
    ((x, y),) = batches()
    nn.BCEWithLogitsLoss()(inner(Scaled().encrypt()(x)), y).backward()
    optimizer.step()


@program
def model_with_a_layer_twice() -> None:
    layer = nn.Linear(WIDTH, WIDTH)
    Script(layer, nn.ReLU(), layer).step()


@program
def model_with_tied_weights() -> None:
    first, second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
    script = Script(first, nn.ReLU(), second)
    second.set_parameter("weight", first.weight)
    script.step()


@program
def model_with_a_bias_in_common() -> None:
    script = Script.deep(momentum=0.5)
    below, _, above = script.model.children()
    above.bias = below.bias
    script.step()


def whose_layer(change: Callable[[Any], Any]) -> None:
    """One step after a change of the model's only layer."""
    script = Script()
    change(next(iter(script.model.children())))
    script.step()


def with_layers(*layers: Any, **options: Any) -> Callable[[], None]:
    """Returns one step of a model with these layers."""
    return lambda: Script(*(layer() for layer in layers), **options).step()


def last() -> Any:
    return nn.Linear(WIDTH, CLASSES)


program.each(
    "model",
    alone,
    with_a_module_of_ones_own=with_layers(Scaled, last),
    with_an_activation_of_ones_own=with_layers(lambda: nn.Linear(WIDTH, HIDDEN), MixingReLU, last),
    with_a_linear_layer_of_ones_own=with_layers(lambda: MixingLinear(WIDTH, CLASSES)),
    with_a_forward_of_ones_own=lambda: dpsgd(MixingSequential(last()).encrypt()),
)
program.each(
    "model",
    whose_layer,
    whose_layers_forward_was_replaced=lambda layer: setattr(
        layer, "forward", lambda x: x.matmul(layer.weight.t()) + layer.bias
    ),
    with_a_layer_of_the_host_again=lambda layer: setattr(layer, "__class__", crypten.nn.Linear),
    without_its_tape=lambda layer: setattr(layer, "tape", None),
)


@program
def model_whose_forward_was_replaced() -> None:
    script = Script()
    layer = next(iter(script.model.children()))
    script.model.forward = lambda x: layer(x - x.mean(0))
    script.step()


def frozen(*numbers: int) -> Script:
    """Returns a script with a hidden layer, of which these parameters are not trained."""
    script = Script.deep()
    parameters = list(script.model.parameters())
    for number in numbers:
        parameters[number].requires_grad = False
    return script


program.each(
    "frozen",
    alone,
    whole=lambda: frozen(0, 1, 2, 3).step(),
    below_hidden_values_that_are_centred=lambda: frozen(0, 1).step(hidden=lambda h: h - h.mean(0)),
    above_with_logits_doubled=lambda: frozen(2, 3).step(logits=lambda z: z * 2),
)


@program
def model_that_is_frozen_behind_its_forward_pass() -> None:
    script = Script.deep()
    script.loss(script.model(script.x), script.y).backward()
    next(iter(script.model.parameters())).requires_grad = False
    script.optimizer.step()


@program
def model_that_is_trained_whole_after_the_first_step() -> None:
    script = frozen(0, 1)
    script.step()
    script.model.train()
    script.next().step()


@program
def model_of_which_a_layer_is_passed_by() -> None:
    script = Script(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))
    *_, last = script.model.children()
    script.learn(last(script.x))


@program
def model_with_a_weight_from_elsewhere() -> None:
    script = Script()
    layer = next(iter(script.model.children()))
    own, layer.weight = layer.weight, script.x[:CLASSES].clone()
    layer.weight.requires_grad = True
    logits = script.model(script.x)
    layer.weight = own
    script.learn(logits)


@program
def model_converted_with_a_mean_over_rows() -> None:
    class Centred(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(WIDTH, CLASSES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x - x.mean(0, keepdim=True))

    dpsgd(crypten.nn.from_pytorch(Centred(), torch.zeros(2, WIDTH)).encrypt())


@program
def model_converted_with_a_view_of_halves_of_records() -> None:
    class Halves(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(WIDTH // 2, CLASSES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x.view(-1, WIDTH // 2))

    model = crypten.nn.from_pytorch(Halves(), torch.zeros(1, WIDTH)).encrypt()
    optimizer = dpsgd(model)
    ((x, y),) = batches()
    nn.BCEWithLogitsLoss()(model(x), y).backward()
    optimizer.step()


@program
def model_run_without_gradient() -> None:
    script = Script()
    with crypten.no_grad():
        logits = script.model(script.x)
    script.step(logits=lambda _: logits)


@program
def model_in_evaluation_mode() -> None:
    script = Script()
    script.model.eval()
    script.step()


@program
def model_with_linear_layers_in_a_row_of_low_precision() -> None:
    with session(12):
        Script(nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, CLASSES)).step()


@program
def model_that_starts_too_large() -> None:
    first, last = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, CLASSES)
    last.set_parameter("weight", torch.full((CLASSES, HIDDEN), 26.0).requires_grad_())
    Script(first, nn.ReLU(), last)


@program
def model_that_gets_larger_weights_on_the_way() -> None:
    script = Script.deep()
    script.step()
    for parameter in script.model.parameters():
        parameter.share *= 10**4
    script.next().step()


# A batch is used more than once, or as another sample than it is.

FRONTS: dict[str, Callable[[], list[Any]]] = {
    "": list,
    "_behind_an_activation": lambda: [nn.ReLU()],
    "_behind_a_flatten": lambda: [crypten.nn.Flatten()],
}
for name, front in FRONTS.items():

    def again(times: int, front: Any = front) -> None:
        script = Script(*front(), last())
        for _ in range(times):
            script.step()

    def at_rate(rate: float, front: Any = front) -> None:
        Script(*front(), last(), sample_rate=rate).step()

    program.each("batch_used", again, **{f"twice{name}": 2})
    program.each("batch_of", at_rate, **{f"a_higher_rate{name}": 0.01, f"a_lower_rate{name}": 0.9})


def vouched(x: Any = None, rate: float = RATE, norm: float = 1.0, cut: int = RECORDS) -> Any:
    """Returns records that somebody vouched for, those of the script unless others are given."""
    own, y = encrypted()
    x = own if x is None else x
    return crypten_ext.vouch_for(x, y[:cut], sample_rate=rate, max_feature_norm=norm)


program.each(
    "sample_vouched_for",
    of_records,
    with_another_rate=lambda: vouched(rate=RATE / 2),
    with_no_rate=lambda: vouched(rate=0.0),
    without_a_bound=lambda: vouched(norm=float("inf")),
    without_rows_that_match=lambda: vouched(cut=-1),
)


@program
def batch_vouched_for() -> None:
    ((x, y),) = batches()
    crypten_ext.vouch_for(x, y, sample_rate=0.01, max_feature_norm=1.0)


@program
def batches_used_in_turn() -> None:
    script = Script()
    drawn = list(batches(steps=2))
    for i in range(5):
        script.x, script.y = drawn[i % 2]
        script.step()


@program
def batch_used_again_much_later() -> None:
    script = Script()
    first = script.x, script.y
    script.step()
    script.next().step()
    script.next().step()
    script.x, script.y = first
    script.step()


@program
def batch_used_by_a_second_model() -> None:
    first, second = Script(), Script()
    first.step()
    second.x, second.y = first.x, first.y
    second.step()


@program
def batch_used_again_by_a_new_optimizer() -> None:
    script = Script()
    script.step()
    script.optimizer = dpsgd(script.model)
    script.step()


@program
def batch_of_plain_sgd_used_again() -> None:
    script = Script()
    script.optimizer = optim.SGD(script.model, lr=1.0)
    script.step()
    script.step()


@program
def batch_of_another_rate() -> None:
    script = Script()
    ((script.x, script.y),) = batches(sample_rate=0.9)
    script.step()


@program
def sample_vouched_for_twice() -> None:
    x, y = encrypted()
    for _ in range(2):
        crypten_ext.vouch_for(x, y, sample_rate=RATE, max_feature_norm=1.0)


@program
def sample_vouched_for_and_used_twice() -> None:
    script = Script(sample_rate=1.0)
    x, y = encrypted()
    script.x, script.y = crypten_ext.vouch_for(x, y, sample_rate=1.0, max_feature_norm=1.0)
    script.step()
    script.step()


@program
def sample_vouched_for_and_changed() -> None:
    script = Script()
    x, y = encrypted()
    script.x, script.y = crypten_ext.vouch_for(x, y, sample_rate=RATE, max_feature_norm=1.0)
    x.share.mul_(30)
    script.step()


# Gradients do not come from one loss on one batch.


def of_own(backward: Callable[[Script, Any], Any]) -> None:
    """A step after a backward pass of the script's own, of its logits."""
    script = Script()
    backward(script, script.model(script.x))
    script.optimizer.step()


program.each(
    "gradient",
    of_own,
    of_the_hosts_loss=lambda s, z: crypten.nn.BCEWithLogitsLoss()(z, s.y).backward(),
    of_ones_own=lambda s, z: z.backward(s.y),
    of_a_sum=lambda _, z: z.sum().backward(),
    used_for_two_steps=lambda s, z: s.learn(z),
)


@program
def gradient_of_the_hosts_loss_and_then_ours() -> None:
    script = Script()
    logits = script.model(script.x)
    try:
        (logits * logits.sum(0)).backward(logits)
    except crypten_ext.nn.provenance.GradientError:
        logits.share += logits.share.sum(0)
    script.step(logits=lambda _: logits)


@program
def gradient_of_two_losses() -> None:
    script = Script()
    logits = script.model(script.x)
    script.loss(logits, script.y).backward()
    nn.CrossEntropyLoss()(logits, script.y).backward()
    script.optimizer.step()


@program
def gradient_of_two_batches() -> None:
    script = Script()
    for x, y in batches(steps=2):
        script.loss(script.model(x), y).backward()
    script.optimizer.step()


@program
def gradient_taken_back_twice() -> None:
    script = Script()
    loss = script.loss(script.model(script.x), script.y)
    loss.backward()
    loss.backward()


@program
def gradient_of_features_changed_after_the_forward_pass() -> None:
    script = Script()
    logits = script.model(script.x)
    script.x.share.mul_(20)
    script.step(x=lambda _: script.next().x, logits=lambda _: logits)


@program
def gradient_of_features_changed_before_the_step() -> None:
    script = Script()
    script.loss(script.model(script.x), script.y).backward()
    script.x.share.data.add_(script.x.share.data.sum(0))
    script.optimizer.step()


@program
def gradient_of_hidden_values_changed_before_the_step() -> None:
    script = Script.deep()
    below, activation, above = script.model.children()
    hidden = activation(below(script.x))
    script.loss(above(hidden), script.y).backward()
    hidden.share = hidden.share + hidden.share.sum(0)
    script.optimizer.step()


@program
def gradient_of_weights_changed_before_the_step() -> None:
    script = Script.deep()
    kept = [parameter.share for parameter in script.model.parameters()]
    for parameter in script.model.parameters():
        parameter.share = parameter.share * 100
    loss = script.loss(script.model(script.x), script.y)
    for parameter, share in zip(script.model.parameters(), kept, strict=True):
        parameter.share = share
    loss.backward()
    script.optimizer.step()


@program
def gradient_of_a_mean() -> None:
    script = Script()
    script.loss = nn.BCEWithLogitsLoss(reduction="mean")
    script.step()
