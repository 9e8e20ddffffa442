"""Losses of single records: weights count, and what divides by its batch is refused."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, nll_loss

import fl
from extensions.errors import ArgumentError
from fl.clients import ClientRound

RNG = np.random.default_rng(0)
N, CLASSES = 60, 3
WEIGHT = torch.tensor([0.05, 1.0, 3.0])
QUIET = {"noise_multiplier": 2.0**-20, "max_grad_norm": 40.0, "steps": 1, "sample_rate": 1.0}
"""All but no noise, and nothing clipped: what a step adds is the gradient alone."""
ROUND = ClientRound(number=1, client=0, seed=1)


class Pixels(nn.Module):
    """Classes of each of 4 places of a record."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.Conv1d(2, CLASSES, 1)

    def forward(self, x):
        return self.layer(x)


class Text(nn.Module):
    """Scores (tokens, vocabulary) of a text."""

    def __init__(self, vocabulary: int = 6) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.layers = nn.Sequential(nn.Embedding(vocabulary, 3), nn.Linear(3, vocabulary))

    def forward(self, x):
        return self.layers(x)


def of_tokens(outputs, labels, **more):
    return cross_entropy(outputs.transpose(1, 2), labels, **more)


def linear(*last: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, CLASSES), *last)


FLAT = torch.tensor(RNG.normal(size=(N, 5)), dtype=torch.float32)
PLACES = torch.tensor(RNG.normal(size=(N, 2, 4)), dtype=torch.float32)
OF_PLACES = torch.tensor(RNG.integers(0, CLASSES, (N, 4)))
CLASS = torch.tensor(RNG.integers(0, CLASSES, N))
TOKENS = torch.tensor(RNG.integers(0, 6, (N, 4)))
PADDED = OF_PLACES.masked_fill(torch.arange(4) >= torch.tensor(RNG.integers(1, 5, (N, 1))), -100)
SHARES = torch.rand(N, CLASSES).softmax(1)


def moved(loss, make, x, y):
    """Returns the gradient by which a step of RecordDP moved the model."""
    model = make()
    before = [p.detach().clone() for p in model.parameters()]
    training = fl.RecordDP(**QUIET, lr=1.0, loss=loss).training
    training.check(model, x, y)
    training(model, torch.utils.data.TensorDataset(x, y), ROUND)
    return [was - p.detach() for was, p in zip(before, model.parameters(), strict=True)]


def by_hand(loss, make, x, y):
    model = make()
    return torch.autograd.grad(loss(model(x), y), list(model.parameters()))


def same(one, other, atol: float = 2e-5) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=atol)
        assert b.abs().max() > 1e-3


CASES = {
    "weights": (nn.CrossEntropyLoss(weight=WEIGHT), linear, FLAT, CLASS, N),
    "weights of log": (
        nn.NLLLoss(weight=WEIGHT),
        partial(linear, nn.LogSoftmax(1)),
        FLAT,
        CLASS,
        N,
    ),
    "ignored class": (nn.CrossEntropyLoss(ignore_index=0), linear, FLAT, CLASS, N),
    "smoothed": (
        nn.CrossEntropyLoss(weight=WEIGHT, label_smoothing=0.1),
        linear,
        FLAT,
        CLASS,
        N,
    ),
    "weights of places": (nn.CrossEntropyLoss(weight=WEIGHT), Pixels, PLACES, OF_PLACES, 4 * N),
    "ignored places": (nn.CrossEntropyLoss(ignore_index=1), Pixels, PLACES, OF_PLACES, 4 * N),
    "padded places": (nn.CrossEntropyLoss(), Pixels, PLACES, PADDED, 4 * N),
}


@pytest.mark.parametrize("name", CASES)
def test_weights_multiply_what_a_record_counts(name):
    """The sum of weight times loss, over records and places: as without weights, but for these."""
    loss, make, x, y, terms = CASES[name]
    total = type(loss)(
        weight=loss.weight,
        ignore_index=loss.ignore_index,
        reduction="sum",
        **({"label_smoothing": loss.label_smoothing} if hasattr(loss, "label_smoothing") else {}),
    )
    wanted = by_hand(lambda outputs, labels: total(outputs, labels) / terms, make, x, y)
    same(moved(loss, make, x, y), wanted)
    assert loss.reduction == "mean"


def test_the_usual_loss_is_that_of_its_module():
    """Of padded places too, which the function alone would count by how many a record has."""
    usual, module = (
        moved(loss, Pixels, PLACES, PADDED) for loss in (cross_entropy, nn.CrossEntropyLoss())
    )
    same(usual, module)


TAKEN = {
    "function": (cross_entropy, linear, FLAT, CLASS),
    "sum": (nn.CrossEntropyLoss(weight=WEIGHT, reduction="sum"), linear, FLAT, CLASS),
    "shares": (nn.CrossEntropyLoss(weight=WEIGHT), linear, FLAT, SHARES),
    "squares": (nn.MSELoss(), linear, FLAT, SHARES),
    "of two": (nn.BCEWithLogitsLoss(pos_weight=WEIGHT), linear, FLAT, SHARES.round()),
    "probabilities": (nn.BCELoss(weight=WEIGHT), partial(linear, nn.Sigmoid()), FLAT, SHARES),
    "absolute": (nn.SmoothL1Loss(), linear, FLAT, SHARES),
    "margin": (nn.MultiMarginLoss(weight=WEIGHT), linear, FLAT, CLASS),
    "relative entropy": (nn.KLDivLoss(reduction="batchmean"), linear, FLAT, SHARES),
    "counts": (nn.PoissonNLLLoss(), linear, FLAT, SHARES),
    "signs": (nn.SoftMarginLoss(), linear, FLAT, 2 * SHARES.round() - 1),
    "sum over tokens": (lambda o, y: of_tokens(o, y, reduction="sum"), Text, TOKENS, TOKENS),
    "nothing learnt yet": (
        nn.CrossEntropyLoss(weight=WEIGHT),
        lambda: linear().apply(lambda m: m.apply(_zeros)),
        FLAT,
        CLASS,
    ),
}


@torch.no_grad()
def _zeros(module: nn.Module) -> None:
    for parameter in module.parameters():
        parameter.zero_()


@pytest.mark.parametrize("name", TAKEN)
def test_losses_that_are_a_mean_or_a_sum_over_records_are_taken(name):
    loss, make, x, y = TAKEN[name]
    model = make()
    before = torch.get_rng_state()
    fl.RecordDP(**QUIET, lr=1.0, loss=loss).training.check(model, x, y)
    assert torch.equal(before, torch.get_rng_state())


def f_score(outputs, labels):
    hits = (outputs.softmax(1) * labels).sum()
    return 1 - 2 * hits / (outputs.softmax(1).sum() + labels.sum())


def over_non_zero(outputs, labels):
    each = cross_entropy(outputs, labels, reduction="none")
    return (each * (labels != 0)).sum() / (labels != 0).sum()


def centred(outputs, labels):
    return ((outputs - outputs.mean(0)) ** 2 * labels).mean()


def focal(outputs, labels):
    """Divides by the positive labels, of which numbers in (0, 1) have none."""
    each = binary_cross_entropy_with_logits(outputs, labels, reduction="none")
    return ((outputs.sigmoid() - labels) ** 2 * each).sum() / (labels == 1).sum().clamp(min=1)


def balanced_hinge(outputs, labels):
    return (1 - outputs * labels).relu().sum() / (labels == -1).sum().clamp(min=1)


class Counted(nn.Module):
    """Weights by how often it has seen a class."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.ones(CLASSES))

    def forward(self, outputs, labels):
        self.seen += torch.bincount(labels, minlength=CLASSES)
        return cross_entropy(outputs, labels, self.seen.sum() / self.seen)


class Weighted(nn.CrossEntropyLoss):
    """A loss of the user's, of which nothing is known but what it does."""

    def forward(self, outputs, labels):
        return super().forward(outputs, labels)


REFUSED = {
    "weights of a function": (partial(cross_entropy, weight=WEIGHT), FLAT, CLASS),
    "weights of log of a function": (partial(nll_loss, weight=WEIGHT), FLAT, CLASS),
    "ignored by a function": (partial(cross_entropy, ignore_index=0), FLAT, CLASS),
    "weights of a subclass": (Weighted(weight=WEIGHT), FLAT, CLASS),
    "score": (f_score, FLAT, SHARES),
    "those that are not 0": (over_non_zero, FLAT, CLASS),
    "centred": (centred, FLAT, SHARES),
    "root of the mean": (lambda o, y: ((o - y) ** 2).mean().sqrt(), FLAT, SHARES),
    "one for each": (nn.CrossEntropyLoss(reduction="none"), PLACES, OF_PLACES),
    "other labels": (nn.CrossEntropyLoss(), FLAT, CLASS.to(torch.int32)),
    "positive ones": (focal, FLAT, SHARES.round()),
    "negative ones": (balanced_hinge, FLAT, 2 * SHARES.round() - 1),
    "classes so far": (Counted(), FLAT, CLASS),
    "raises": (lambda o, y: {}["nothing"], FLAT, CLASS),
}


@pytest.mark.parametrize("name", REFUSED)
def test_losses_that_divide_by_something_of_their_batch_are_refused(name):
    loss, x, y = REFUSED[name]
    make = Pixels if x is PLACES else linear
    for model in (make(), make().apply(_zeros)):
        with pytest.raises(ArgumentError) as caught:
            fl.RecordDP(**QUIET, lr=1.0, loss=loss).training.check(model, x, y)
        assert caught.value.argument == "loss"


@pytest.mark.parametrize(
    "more",
    [
        {"weight": torch.arange(1.0, 7)},
        {"ignore_index": 0},
        {"ignore_index": 5},
        {"ignore_index": 255},
        {"ignore_index": -1},
        {},
    ],
)
def test_losses_of_texts_that_divide_by_the_tokens_they_count_are_refused(more):
    """Also where a text has as many tokens as there are classes, each of them once."""
    for tokens in (TOKENS, TOKENS.repeat(1, 3)):
        for loss in (partial(of_tokens, **more), lambda o, y: of_tokens(o, y, **more)):
            with pytest.raises(ArgumentError) as caught:
                fl.RecordDP(**QUIET, lr=1.0, loss=loss).training.check(Text(), tokens, tokens)
            assert caught.value.argument == "loss"


@pytest.mark.parametrize("classes", [500, 1000, 40_000])
@pytest.mark.parametrize("ignored", [0, 1, 3, -1])
def test_a_class_that_is_ignored_is_found_among_many(classes, ignored):
    loss = partial(cross_entropy, ignore_index=ignored % classes)
    with pytest.raises(ArgumentError) as caught:
        fl.RecordDP(**QUIET, lr=1.0, loss=loss).training.check(nn.Linear(5, classes), FLAT, CLASS)
    assert caught.value.argument == "loss"


class Shrinking(nn.Module):
    """Shortens the vectors of the tokens that it reads."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.vectors, self.layer = nn.Embedding(6, 4, max_norm=0.5), nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.layer(self.vectors(x).mean(1))


class Remembering(nn.Module):
    """Multiplies records by what it has seen before, in a buffer or beside."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where, self.layer = where, linear()
        self.register_buffer("buffer", torch.ones(5))
        self.beside = torch.ones(5)

    def forward(self, x):
        factor = getattr(self, self.where)
        setattr(self, self.where, factor * x.detach().mean(0))
        return self.layer(x * factor)


@pytest.mark.parametrize(
    ("make", "x"),
    [
        (Shrinking, TOKENS),
        (partial(Remembering, "buffer"), FLAT),
        (partial(Remembering, "beside"), FLAT),
    ],
)
def test_a_step_adds_up_what_each_record_does_alone(make, x):
    together = moved(cross_entropy, make, x[:6], CLASS[:6])
    alone = [moved(cross_entropy, make, x[k : k + 1], CLASS[k : k + 1]) for k in range(6)]
    same(together, [sum(parts) / 6 for parts in zip(*alone, strict=True)], atol=3e-4)


@pytest.mark.parametrize("loss", [partial(cross_entropy, weight=WEIGHT), over_non_zero])
def test_a_run_refuses_them_before_its_first_round(loss):
    settings = {"clients": [(FLAT, CLASS)], "aggregator": fl.PlainAggregator()}
    mechanism = fl.RecordDP(**QUIET, lr=1.0, loss=loss)
    with pytest.raises(ArgumentError) as caught:
        fl.FederatedAveraging(model=linear(), mechanism=mechanism, **settings)
    assert caught.value.argument == "loss"
    fl.FederatedAveraging(model=linear(), loss=loss, **settings)


def test_a_rare_class_that_weighs_more_is_found_more_often():
    y = torch.cat([torch.zeros(190), torch.ones(10)]).long()
    x = torch.tensor(RNG.normal(size=(200, 2)), dtype=torch.float32) + 1.2 * y[:, None]
    found = []
    for weight in (None, torch.tensor([0.05, 1.0])):
        mechanism = fl.RecordDP(
            **QUIET | {"steps": 60}, lr=2.0, loss=nn.CrossEntropyLoss(weight=weight)
        )
        run = fl.FederatedAveraging(
            model=nn.Linear(2, 2),
            clients=[(x, y)],
            client_fraction=1.0,
            aggregator=fl.PlainAggregator(),
            mechanism=mechanism,
        )
        run.fit(1, progress=False)
        found.append(int((run.model(x).argmax(1) == 1)[y == 1].sum()))
    assert found[0] <= 5
    assert found[1] >= 8
