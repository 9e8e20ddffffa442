"""Programs of CrypTen's users whose epsilon would be false: every one of them must be refused.

In a correct program row j of what the model gets, and of what the loss gets, is record j's alone.
"""

import copy
import io
from collections.abc import Callable
from typing import Any

import torch

import crypten_ext
from crypten_ext import nn, optim
from crypten_ext.nn.provenance import provenance_of
from crypten_ext.ring.crypten_ring import as_tensor, ring_of
from tests.helpers.party_tasks.protocols import session
from tests.helpers.programs import Corpus
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
from crypten.mpc import MPCTensor

program = Corpus()


def on_features(change: Callable[[Any], Any]) -> None:
    """One step, with something done to the batch's features before the model."""
    Script().step(x=change)


def on_targets(change: Callable[[Any], Any]) -> None:
    """Likewise to its targets."""
    Script().step(y=change)


def on_logits(change: Callable[[Any], Any]) -> None:
    """Likewise to the model's output, before the loss."""
    Script().step(logits=change)


def on_hidden(change: Callable[[Any], Any]) -> None:
    """Likewise to what the first layer returned."""
    Script.deep().step(hidden=change)


def rows_of(tensor: Any) -> int:
    return int(tensor.size(0))


def random_order(tensor: Any) -> torch.Tensor:
    return torch.arange(rows_of(tensor)).flip(0)


# Features are changed by an operation of CrypTen.


@program
def features_scaled() -> None:
    on_features(lambda x: x * 20)


@program
def features_centred_and_scaled() -> None:
    on_features(lambda x: (x - x.mean(0)) * 20)


@program
def features_with_everybodys_sum() -> None:
    on_features(lambda x: x + x.sum(0))


@program
def features_standardised() -> None:
    on_features(lambda x: (x - x.mean(0)) * x.var(0).inverse_sqrt())


@program
def features_of_another_order() -> None:
    on_features(lambda x: x[random_order(x)])


@program
def features_flipped() -> None:
    on_features(lambda x: x.flip(0))


@program
def features_rolled() -> None:
    on_features(lambda x: x.roll(1, 0))


@program
def features_that_are_means() -> None:
    on_features(lambda x: x.mean(0, keepdim=True).expand(rows_of(x), WIDTH))


@program
def features_summed_up_to_each_row() -> None:
    on_features(lambda x: x.cumsum(0))


@program
def features_mixed_by_a_public_matrix() -> None:
    on_features(lambda x: crypten.cryptensor(torch.ones(rows_of(x), rows_of(x))).matmul(x))


@program
def features_projected() -> None:
    on_features(lambda x: x.matmul(torch.eye(WIDTH)))


@program
def features_that_are_similarities() -> None:
    on_features(lambda x: x.matmul(x.t())[:, :WIDTH])


@program
def features_of_one_record_in_all_rows() -> None:
    on_features(lambda x: x[0].expand(rows_of(x), WIDTH))


@program
def features_selected_twice() -> None:
    on_features(lambda x: x.index_select(0, torch.zeros(rows_of(x), dtype=torch.int64)))


@program
def features_of_some_rows() -> None:
    script = Script()
    half = rows_of(script.x) // 2
    script.step(x=lambda x: x[:half], y=lambda y: y[:half])


@program
def features_doubled_in_number() -> None:
    Script().step(x=lambda x: crypten.cat([x, x]), y=lambda y: crypten.cat([y, y]))


@program
def features_stacked_and_averaged() -> None:
    on_features(lambda x: crypten.stack([x, x.flip(0)]).mean(0))


@program
def features_split_and_put_together() -> None:
    on_features(lambda x: crypten.cat(list(x.split(2))[::-1]))


@program
def features_viewed() -> None:
    on_features(lambda x: x.view(-1, WIDTH))


@program
def features_with_rows_merged() -> None:
    on_features(lambda x: x.reshape(WIDTH, -1).t())


@program
def features_transposed_twice() -> None:
    on_features(lambda x: x.t().t())


@program
def features_with_an_axis_more_and_less() -> None:
    on_features(lambda x: x.unsqueeze(0).squeeze(0))


@program
def features_repeated() -> None:
    Script().step(x=lambda x: x.repeat(3, 1), y=lambda y: y.repeat(3, 1))


@program
def features_of_another_sign() -> None:
    on_features(lambda x: -x)


@program
def features_squared() -> None:
    on_features(lambda x: x.square())


@program
def features_normalised_under_encryption() -> None:
    on_features(lambda x: x.clip_by_norm(1.0))


@program
def features_weighted_over_records() -> None:
    on_features(lambda x: x.softmax(0))


@program
def features_through_the_hosts_relu() -> None:
    on_features(lambda x: x.relu())


@program
def features_through_the_hosts_dropout() -> None:
    on_features(lambda x: x.dropout(0.5))


@program
def features_through_the_hosts_batch_norm() -> None:
    layer = crypten.nn.BatchNorm1d(WIDTH).encrypt()
    on_features(layer)


@program
def features_through_the_hosts_linear() -> None:
    layer = crypten.nn.Linear(WIDTH, WIDTH).encrypt()
    on_features(layer)


@program
def features_through_a_flatten_of_ones_own() -> None:
    on_features(crypten.nn.Flatten().encrypt())


@program
def features_padded_and_cut() -> None:
    on_features(lambda x: x.pad((0, 0, 1, 0))[:-1])


@program
def features_compared() -> None:
    on_features(lambda x: x > x.mean(0))


@program
def features_chosen_by_condition() -> None:
    on_features(lambda x: x.where(torch.ones(rows_of(x), WIDTH), 0.0))


@program
def features_scattered() -> None:
    index = torch.zeros(1, WIDTH, dtype=torch.int64)
    on_features(lambda x: x.scatter(0, index, x[:1]))


@program
def features_gathered() -> None:
    on_features(lambda x: x.gather(0, torch.zeros(rows_of(x), WIDTH, dtype=torch.int64)))


@program
def features_with_one_row_added_to_another() -> None:
    on_features(lambda x: x.index_add(0, torch.tensor([0]), x[1:2]))


@program
def features_folded_over_rows() -> None:
    kernel = torch.ones(1, 1, 3, 1)
    on_features(
        lambda x: (
            x.reshape(1, 1, rows_of(x), WIDTH)
            .conv2d(kernel, padding=(1, 0))
            .reshape(rows_of(x), WIDTH)
        )
    )


@program
def features_pooled_over_rows() -> None:
    on_features(
        lambda x: (
            x.reshape(1, 1, rows_of(x), WIDTH)
            .avg_pool2d((3, 1), stride=1, padding=(1, 0))
            .reshape(rows_of(x), WIDTH)
        )
    )


@program
def features_with_noise() -> None:
    on_features(lambda x: x + crypten_ext.gaussian_noise((rows_of(x), WIDTH), 0.1))


@program
def features_with_a_products_column() -> None:
    on_features(lambda x: crypten.cat([x[:, :-1], x[:, :1] * x[:, 1:2]], dim=1))


# Features are copied or changed in place.


@program
def features_cloned() -> None:
    on_features(lambda x: x.clone())


@program
def features_copied_and_changed() -> None:
    def change(x: Any) -> Any:
        other = copy.deepcopy(x)
        other.share *= 20
        return other

    on_features(change)


@program
def features_copied_deeply() -> None:
    on_features(copy.deepcopy)


@program
def features_copied_shallowly_and_changed() -> None:
    def change(x: Any) -> Any:
        other = copy.copy(x)
        other._tensor = x._tensor.mul(2)
        return other

    on_features(change)


@program
def features_detached() -> None:
    on_features(lambda x: x.detach())


@program
def features_wrapped_anew() -> None:
    on_features(lambda x: as_tensor(ring_of(x), x.share))


@program
def features_multiplied_in_place() -> None:
    on_features(lambda x: x.mul_(20))


@program
def features_added_to_in_place() -> None:
    def change(x: Any) -> Any:
        x += x.sum(0)
        return x

    on_features(change)


@program
def features_overwritten() -> None:
    def change(x: Any) -> Any:
        x.copy_(x.flip(0))
        return x

    on_features(change)


@program
def features_with_one_row_assigned() -> None:
    def change(x: Any) -> Any:
        x[0] = x[1]
        return x

    on_features(change)


@program
def features_with_another_share() -> None:
    def change(x: Any) -> Any:
        x.share = x.share * 20
        return x

    on_features(change)


@program
def features_with_another_tensor_inside() -> None:
    def change(x: Any) -> Any:
        x._tensor = x._tensor.add(x._tensor.sum(0))
        return x

    on_features(change)


@program
def features_with_the_share_changed_in_place() -> None:
    def change(x: Any) -> Any:
        x.share.add_(x.share.sum(0))
        return x

    on_features(change)


@program
def features_changed_through_a_view() -> None:
    def change(x: Any) -> Any:
        x.share[0].view(-1)[1:].zero_()
        return x

    on_features(change)


@program
def features_changed_through_data() -> None:
    def change(x: Any) -> Any:
        x.share.data.mul_(3)
        return x

    on_features(change)


@program
def features_with_their_data_replaced() -> None:
    def change(x: Any) -> Any:
        x.share.data = x.share.flip(0)
        return x

    on_features(change)


@program
def features_changed_through_numpy() -> None:
    def change(x: Any) -> Any:
        x.share.numpy()[:] += x.share.numpy().sum(axis=0)
        return x

    on_features(change)


@program
def features_with_another_storage() -> None:
    def change(x: Any) -> Any:
        x.share.set_(x.share.flip(0).contiguous())
        return x

    on_features(change)


@program
def features_resized() -> None:
    def change(x: Any) -> Any:
        x.share.t_()
        x.share.resize_(rows_of(x.share.t()), WIDTH)
        return x

    on_features(change)


@program
def features_read_with_another_precision() -> None:
    def change(x: Any) -> Any:
        x.encoder._scale = x.encoder._scale // 16
        return x

    script = Script()
    for parameter in script.model.parameters():
        parameter.encoder._scale = parameter.encoder._scale // 16
    script.step(x=change, y=change)


@program
def features_encoded_anew() -> None:
    def change(x: Any) -> Any:
        x._tensor.encode_(crypten.encoder.FixedPointEncoder(precision_bits=22))
        x.encoder = crypten.encoder.FixedPointEncoder(precision_bits=20)
        return x

    on_features(change)


@program
def features_as_bits_and_back() -> None:
    on_features(lambda x: x.to(crypten.mpc.binary).to(crypten.mpc.arithmetic, precision=20))


@program
def features_opened_and_encrypted_again() -> None:
    on_features(lambda x: crypten.cryptensor(x.get_plain_text()))


@program
def features_saved_and_loaded() -> None:
    def change(x: Any) -> Any:
        file = io.BytesIO()
        torch.save(x.share, file)
        file.seek(0)
        return MPCTensor.from_shares(torch.load(file), precision=20)

    on_features(change)


@program
def features_averaged_by_the_parties_themselves() -> None:
    def change(x: Any) -> Any:
        x.share = (x.share + x.share.roll(1, 0)).contiguous()
        return x

    on_features(change)


# Features come from somewhere else.


@program
def features_that_the_script_encrypted() -> None:
    x, y = encrypted()
    Script().step(x=lambda _: x, y=lambda _: y)


@program
def features_with_a_forged_note() -> None:
    x, y = encrypted()
    ((other, _),) = batches()
    known = provenance_of(other)
    for tensor in (x, y):
        tensor.public_batch = known.batch.public
        tensor.shared_batch = known.batch.shared
        tensor.provenance = known
    Script().step(x=lambda _: x, y=lambda _: y)


@program
def features_with_everything_of_a_batch_but_its_share() -> None:
    def change(x: Any) -> Any:
        other = MPCTensor([])
        vars(other).update(vars(x))
        other._tensor = x._tensor.mul(2)
        return other

    on_features(change)


@program
def features_shared_for_evaluation() -> None:
    x, y = crypten_ext.share_records(*records(), classes=CLASSES)
    Script().step(x=lambda _: x, y=lambda _: y)


@program
def features_that_are_targets() -> None:
    script = Script()
    script.step(x=lambda _: script.y)


@program
def features_of_another_batch() -> None:
    ((other, _),) = batches()
    Script().step(x=lambda _: other)


@program
def features_of_two_batches() -> None:
    (x, y), (other, targets) = batches(steps=2)
    Script().step(x=lambda _: crypten.cat([x, other]), y=lambda _: crypten.cat([y, targets]))


@program
def features_interpolated_between_batches() -> None:
    ((other, _),) = batches()
    on_features(lambda x: x * 0.5 + other * 0.5)


@program
def features_that_another_model_made() -> None:
    other = Script(nn.Linear(WIDTH, WIDTH))
    on_features(lambda x: other.model(x))


@program
def features_that_an_unadopted_model_made() -> None:
    other = crypten.nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()).encrypt()
    on_features(lambda x: other(x))


@program
def features_that_the_model_made_before() -> None:
    script = Script()
    script.step(x=script.model)


@program
def features_computed_without_gradient() -> None:
    script = Script.deep()
    with crypten.no_grad():
        hidden = script.model[0](script.x) if hasattr(script.model, "__getitem__") else None
        hidden = next(iter(script.model.children()))(script.x) if hidden is None else hidden
    script.step(hidden=lambda _: hidden)


# Targets are not those of the batch.


@program
def targets_scaled() -> None:
    on_targets(lambda y: y * 30)


@program
def targets_smoothed_by_the_batch() -> None:
    on_targets(lambda y: y * 0.9 + y.mean(0) * 0.1)


@program
def targets_turned_round() -> None:
    on_targets(lambda y: 1 - y)


@program
def targets_of_another_order() -> None:
    on_targets(lambda y: y[random_order(y)])


@program
def targets_cloned() -> None:
    on_targets(lambda y: y.clone())


@program
def targets_wrapped_anew() -> None:
    on_targets(lambda y: as_tensor(ring_of(y), y.share))


@program
def targets_multiplied_in_place() -> None:
    on_targets(lambda y: y.mul_(3))


@program
def targets_changed_through_data() -> None:
    def change(y: Any) -> Any:
        y.share.data[0] += y.share.data.sum(0)
        return y

    on_targets(change)


@program
def targets_of_another_batch() -> None:
    ((_, other),) = batches()
    on_targets(lambda _: other)


@program
def targets_that_the_script_encrypted() -> None:
    script = Script()
    ones = torch.ones(rows_of(script.y), CLASSES)
    script.step(y=lambda _: crypten.cryptensor(ones))


@program
def targets_that_are_features() -> None:
    script = Script()
    script.step(y=lambda _: script.x)


@program
def targets_that_are_predictions() -> None:
    script = Script()
    script.step(y=lambda _: script.model(script.x))


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


# Logits are not the model's output.


@program
def logits_with_everybodys_sum() -> None:
    on_logits(lambda z: z + z.sum(0) * 40)


@program
def logits_centred() -> None:
    on_logits(lambda z: z - z.mean(0))


@program
def logits_scaled() -> None:
    on_logits(lambda z: z * 2)


@program
def logits_of_another_order() -> None:
    on_logits(lambda z: z[random_order(z)])


@program
def logits_cloned() -> None:
    on_logits(lambda z: z.clone())


@program
def logits_detached() -> None:
    on_logits(lambda z: z.detach())


@program
def logits_viewed() -> None:
    on_logits(lambda z: z.view(-1, CLASSES))


@program
def logits_wrapped_anew() -> None:
    on_logits(lambda z: as_tensor(ring_of(z), z.share))


@program
def logits_normalised_over_the_batch() -> None:
    layer = crypten.nn.BatchNorm1d(CLASSES).encrypt()
    on_logits(layer)


@program
def logits_through_the_hosts_sigmoid() -> None:
    on_logits(lambda z: z.sigmoid())


@program
def logits_compared_with_those_of_others() -> None:
    on_logits(lambda z: z - z.flip(0))


@program
def logits_with_another_share() -> None:
    def change(z: Any) -> Any:
        z.share = z.share + z.share.sum(0)
        return z

    on_logits(change)


@program
def logits_changed_through_data() -> None:
    def change(z: Any) -> Any:
        z.share.data += z.share.data.sum(0)
        return z

    on_logits(change)


@program
def logits_overwritten() -> None:
    def change(z: Any) -> Any:
        z.copy_((z * 2).detach())
        return z

    on_logits(change)


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
    other.loss(other.model(script.model(script.x)), script.y).backward()
    other.optimizer.step()


@program
def logits_of_two_batches_put_together() -> None:
    script = Script()
    first, second = batches(steps=2)
    logits = crypten.cat([script.model(first[0]), script.model(second[0])])
    script.loss(logits, crypten.cat([first[1], second[1]])).backward()
    script.optimizer.step()


@program
def logits_that_are_a_batch() -> None:
    script = Script()
    script.step(logits=lambda _: script.x)


@program
def logits_that_are_hidden_values() -> None:
    script = Script.deep()
    script.loss(next(iter(script.model.children()))(script.x), script.y).backward()
    script.optimizer.step()


@program
def logits_of_a_batch_through_an_activation_alone() -> None:
    script = Script()
    script.step(logits=lambda _: nn.ReLU().encrypt()(script.x))


@program
def logits_with_a_skip() -> None:
    script = Script()
    script.step(logits=lambda z: z + script.x)


# Something stands between two layers.


@program
def hidden_values_with_everybodys_sum() -> None:
    on_hidden(lambda h: h + h.sum(0))


@program
def hidden_values_scaled() -> None:
    on_hidden(lambda h: h * 4)


@program
def hidden_values_normalised_over_the_batch() -> None:
    on_hidden(crypten.nn.BatchNorm1d(HIDDEN).encrypt())


@program
def hidden_values_through_dropout() -> None:
    on_hidden(crypten.nn.Dropout(0.5).encrypt())


@program
def hidden_values_that_attend_to_others() -> None:
    on_hidden(lambda h: h.matmul(h.t()).matmul(h))


@program
def hidden_values_of_another_order() -> None:
    on_hidden(lambda h: h.flip(0))


@program
def hidden_values_of_groups() -> None:
    def change(h: Any) -> Any:
        groups = rows_of(h) // 2
        means = h[: 2 * groups].reshape(groups, 2, HIDDEN).mean(1)
        return crypten.cat([means, means, h[2 * groups :]])

    on_hidden(change)


@program
def hidden_values_with_a_skip() -> None:
    script = Script.deep()
    script.step(hidden=lambda h: h + script.x)


@program
def hidden_values_changed_in_place() -> None:
    def change(h: Any) -> Any:
        h.share.mul_(2)
        return h

    on_hidden(change)


@program
def hidden_values_of_another_batch() -> None:
    script = Script.deep()
    first, second = batches(steps=2)
    below = next(iter(script.model.children()))
    other = below(second[0])
    script.x, script.y = first
    script.step(hidden=lambda _: other)


@program
def hidden_values_merged_over_rows() -> None:
    on_hidden(crypten.nn.Flatten(axis=0).encrypt())


@program
def hidden_values_through_the_hosts_tanh() -> None:
    on_hidden(lambda h: h.tanh())


@program
def hidden_values_after_a_caught_error() -> None:
    script = Script.deep()
    below, activation, above = script.model.children()
    h = activation(below(script.x))
    try:
        above(h + h.sum(0))
    except crypten_ext.nn.provenance.GradientError:
        h.share += h.share.sum(0)
    script.loss(above(h), script.y).backward()
    script.optimizer.step()


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
def model_with_a_module_of_ones_own() -> None:
    Script(Scaled(), nn.Linear(WIDTH, CLASSES)).step()


@program
def model_with_an_activation_of_ones_own() -> None:
    Script(nn.Linear(WIDTH, HIDDEN), MixingReLU(), nn.Linear(HIDDEN, CLASSES)).step()


@program
def model_with_a_linear_layer_of_ones_own() -> None:
    Script(MixingLinear(WIDTH, CLASSES)).step()


@program
def model_with_a_forward_of_ones_own() -> None:
    dpsgd(MixingSequential(nn.Linear(WIDTH, CLASSES)).encrypt())


@program
def model_whose_forward_was_replaced() -> None:
    script = Script()
    layer = next(iter(script.model.children()))
    script.model.forward = lambda x: layer(x - x.mean(0))
    script.step()


@program
def model_whose_layers_forward_was_replaced() -> None:
    script = Script()
    layer = next(iter(script.model.children()))
    layer.forward = lambda x: x.matmul(layer.weight.t()) + layer.bias
    script.step()


@program
def model_with_a_layer_put_in_afterwards() -> None:
    script = Script()
    inner = next(iter(script.model.children()))
    script.model = crypten.nn.Sequential(Scaled().encrypt(), inner)
    script.model.encrypted = True
    script.step()


@program
def model_with_a_layer_of_the_host_again() -> None:
    script = Script()
    next(iter(script.model.children())).__class__ = crypten.nn.Linear
    script.step()


@program
def model_without_its_tape() -> None:
    script = Script()
    next(iter(script.model.children())).tape = None
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


def frozen(*numbers: int) -> Script:
    """Returns a script with a hidden layer, of which these parameters are not trained."""
    script = Script.deep()
    parameters = list(script.model.parameters())
    for number in numbers:
        parameters[number].requires_grad = False
    return script


@program
def model_that_is_frozen_whole() -> None:
    frozen(0, 1, 2, 3).step()


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
def hidden_values_of_a_frozen_layer_centred() -> None:
    frozen(0, 1).step(hidden=lambda h: h - h.mean(0, keepdim=True))


@program
def logits_of_a_frozen_layer_doubled() -> None:
    frozen(2, 3).step(logits=lambda z: z * 2)


@program
def model_of_which_a_layer_is_passed_by() -> None:
    script = Script(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))
    *_, last = script.model.children()
    script.loss(last(script.x), script.y).backward()
    script.optimizer.step()


@program
def model_with_a_weight_from_elsewhere() -> None:
    script = Script()
    layer = next(iter(script.model.children()))
    own, layer.weight = layer.weight, script.x[:CLASSES].clone()
    layer.weight.requires_grad = True
    logits = script.model(script.x)
    layer.weight = own
    script.loss(logits, script.y).backward()
    script.optimizer.step()


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
def model_in_evaluation_mode() -> None:
    script = Script()
    script.model.eval()
    script.step()


@program
def model_run_without_gradient() -> None:
    script = Script()
    with crypten.no_grad():
        logits = script.model(script.x)
    script.step(logits=lambda _: logits)


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


@program
def batch_used_twice() -> None:
    script = Script()
    script.step()
    script.step()


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
def batch_used_again_behind_a_flatten() -> None:
    script = Script(crypten.nn.Flatten(), nn.Linear(WIDTH, CLASSES))
    script.step()
    script.step()


@program
def batch_used_again_behind_an_activation() -> None:
    script = Script(nn.ReLU(), nn.Linear(WIDTH, CLASSES))
    for _ in range(5):
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
def batch_of_another_rate_behind_an_activation() -> None:
    Script(nn.ReLU(), nn.Linear(WIDTH, CLASSES), sample_rate=0.01).step()


@program
def batch_of_another_rate_behind_a_flatten() -> None:
    Script(crypten.nn.Flatten(), nn.Linear(WIDTH, CLASSES), sample_rate=0.4).step()


@program
def batch_of_another_rate() -> None:
    script = Script()
    ((script.x, script.y),) = batches(sample_rate=0.9)
    script.step()


@program
def sample_vouched_for_with_another_rate() -> None:
    x, y = crypten_ext.vouch_for(*encrypted(), sample_rate=0.9, max_feature_norm=1.0)
    Script().step(x=lambda _: x, y=lambda _: y)


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


@program
def batch_vouched_for() -> None:
    ((x, y),) = batches()
    crypten_ext.vouch_for(x, y, sample_rate=0.01, max_feature_norm=1.0)


@program
def sample_vouched_for_without_rows_that_match() -> None:
    x, y = encrypted()
    crypten_ext.vouch_for(x, y[:-1], sample_rate=RATE, max_feature_norm=1.0)


@program
def sample_vouched_for_with_no_rate() -> None:
    crypten_ext.vouch_for(*encrypted(), sample_rate=0.0, max_feature_norm=1.0)


@program
def sample_vouched_for_without_a_bound() -> None:
    crypten_ext.vouch_for(*encrypted(), sample_rate=RATE, max_feature_norm=float("inf"))


# Gradients do not come from one loss on one batch.


@program
def gradient_of_the_hosts_loss() -> None:
    script = Script()
    crypten.nn.BCEWithLogitsLoss()(script.model(script.x), script.y).backward()
    script.optimizer.step()


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
def gradient_of_ones_own() -> None:
    script = Script()
    script.model(script.x).backward(script.y)
    script.optimizer.step()


@program
def gradient_of_a_sum() -> None:
    script = Script()
    script.model(script.x).sum().backward()
    script.optimizer.step()


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
def gradient_used_for_two_steps() -> None:
    script = Script()
    script.step()
    script.optimizer.step()


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
