"""What the parties of test_dealer.py do: they open tuples, compute, and count."""

import time
from pathlib import Path
from typing import Any

import torch

import crypten_ext
from crypten_ext import dealer
from crypten_ext.dealer.corrections import Corrections
from crypten_ext.processes.worker import Context
from crypten_ext.ring import tuples
from crypten_ext.ring.exchange import open_sum, open_xor
from crypten_ext.ring.joint import JointSource, followed
from crypten_ext.run.training import train as train_here
from extensions.errors import ArgumentError
from extensions.ring.circuits import SUBTRAHEND
from extensions.ring.comparison import SUBTRAHENDS
from extensions.ring.joint import joint_of
from extensions.ring.planes import planes, without_signs
from extensions.ring.tuples import (
    BitWords,
    Correlation,
    Dealt,
    TruncationPair,
    WordMasks,
)
from extensions.ring.words import products_of, shift_word
from extensions.runs.config import TrainConfig
from extensions.runs.options import RunOptions
from tests.helpers.party_tasks.launch import PAUSE

import crypten
from crypten import communicator
from crypten.common.util import count_wraps
from crypten.mpc.primitives import ArithmeticSharedTensor

CONVOLUTIONS = [
    ("conv1d", (2, 3, 9), (4, 3, 3), {"stride": 2, "padding": 1}),
    ("conv2d", (2, 4, 6, 7), (2, 2, 3, 3), {"groups": 2, "dilation": (1, 2)}),
    ("conv_transpose1d", (2, 3, 5), (3, 4, 3), {"stride": 2}),
    ("conv_transpose2d", (1, 3, 4, 4), (3, 2, 3, 3), {"padding": (1, 0)}),
]


def use(provider: str) -> Any:
    """CrypTen draws its tuples from this provider; returns it."""
    crypten_ext.enable()
    crypten.cfg.mpc.provider = provider
    crypten.cfg.encoder.precision_bits = 16
    return crypten.mpc.get_default_provider()


def host_tuples(context: Context, provider: str) -> dict[str, bool]:
    """Returns, for each kind of CrypTen's, whether opened tuples fulfil their relation."""
    source, right = use(provider), {}
    for op, left, other, options in [
        ("mul", (3, 1), (1, 4), {}),
        ("mul", (), (5,), {}),
        ("matmul", (2, 3, 4), (4, 5), {}),
        *CONVOLUTIONS,
    ]:
        triple = source.generate_additive_triple(left, other, op, device="cpu", **options)
        a, b, c = open_sum([t.share for t in triple])
        right[f"{op} {left}"] = torch.equal(getattr(torch, op)(a, b, **options), c)
        right[f"{op} {left} shapes"] = (a.shape, b.shape) == (left, other) and bool(a.any())
    r, square = open_sum([t.share for t in source.square(torch.Size((6,)))])
    right["square"] = torch.equal(r * r, square)
    triple = source.generate_binary_triple((3, 1), (4,))
    a, b, c = open_xor([t.share for t in triple])
    right["binary"] = torch.equal(a & b, c) and c.shape == (3, 4)
    r, wraps = source.wrap_rng((50,))
    shares = communicator.get().all_gather(r.share)
    right["wraps"] = torch.equal(count_wraps(shares), open_sum([wraps.share])[0])
    arithmetic, binary = source.B2A_rng(torch.Size((64,)))
    (bits,) = open_sum([arithmetic.share])
    right["bits"] = torch.equal(bits, open_xor([binary.share])[0]) and set(bits.tolist()) == {0, 1}
    right["empty"] = source.square((0,))[1].share.shape == (0,)
    return right


def own_tuples(context: Context, provider: str) -> dict[str, bool]:
    """Returns, for each kind of ours, whether opened tuples fulfil their relation."""
    use(provider)
    right = {}

    def deal(correlation: Correlation, *shape: int) -> Dealt:
        (dealt,) = tuples.source().deal([(correlation, torch.empty(shape))])
        return dealt

    (value,), words = deal(SUBTRAHEND, 5, 2)
    (r,), (bits, *products) = open_sum([value]), open_xor(list(words))
    right["bits of r"] = torch.equal(r, bits)
    right["products"] = len(products) == len(SUBTRAHEND.products) and all(
        torch.equal(products_of([m], [r])[0], w)
        for m, w in zip(SUBTRAHEND.products, products, strict=True)
    )
    masks, words = deal(SUBTRAHENDS, 5, 2)
    drawn, found = open_sum([masks])[0], open_xor(list(words))
    right["planes of r"] = all(
        torch.equal(word, lane) for word, lane in zip(planes(found[:4], 1), drawn, strict=True)
    )
    right["products of planes"] = all(
        torch.equal(products_of([m], without_signs(found[:4]))[0], w)
        for m, w in zip(SUBTRAHENDS.products, found[4:], strict=True)
    )
    shapes, shifts = [(7,), (2, 3)], [16, 0]
    wanted = [(TruncationPair(m), torch.empty(s)) for m, s in zip(shifts, shapes, strict=True)]
    pairs = tuples.source().deal(wanted)
    for pair, shape, shift in zip(pairs, shapes, shifts, strict=True):
        r, shifted, top = open_sum([*pair.masks, *pair.dependents])
        right[f"truncation {shift}"] = (
            torch.equal((r & (2**63 - 1)) >> shift, shifted)
            and torch.equal(shift_word(r, -63), top)
            and r.shape == shape
        )
    (word,), dependents = deal(BitWords((0, 5, 63)), 4)
    (word,), (bits,) = open_xor([word]), open_sum([dependents])
    right["bit words"] = torch.equal(torch.stack([(word >> i) & 1 for i in (0, 5, 63)]), bits)
    monomials = (((0, 0), (1, 3)), ((0, -2), (0, 1), (1, 0)))
    masks, products = deal(WordMasks(2, monomials), 3)
    opened = open_xor([*masks, *products])
    right["word masks"] = all(
        torch.equal(products_of([m], opened[:2])[0], w)
        for m, w in zip(monomials, opened[2:], strict=True)
    )
    masks, products = deal(WordMasks(2, ()), 3)
    right["no products"] = len(masks) == 2 and len(products) == 0
    right |= _joint_words()
    mixed = tuples.source().deal([(BitWords((1,)), torch.empty(2)), wanted[1]])
    right["several at once"] = [len(dealt.dependents) for dealt in mixed] == [1, 2]
    return right


JOINT = {
    "selection": [(9, 3, 0), (9, 3, 20), (4, 1, 62)],
    "truncations": [([(3,), (2, 2), (3,)], [5, 7, 40], [(0, 2), (1, 1)])],
    "scaled rows": [(4, [3, 1], [2], 11), (4, [3], [], 0)],
}
"""Parameters for each kind of `extensions.ring.joint`."""


def _joint_words() -> dict[str, bool]:
    """Returns whether opened words that are dealt jointly follow from the opened masks."""
    source, right = tuples.source(), {}
    if not isinstance(source, JointSource):
        return {}
    for kind, each in JOINT.items():
        for parameters in each:
            joint = joint_of(kind, *parameters)
            shares = source.deal_joint(kind, *parameters)
            opened = [
                (open_sum if part.sharing == "sum" else open_xor)([share])[0]
                for part, share in zip((*joint.masks, *joint.dependents), shares, strict=True)
            ]
            masks = opened[: len(joint.masks)]
            own = zip(followed(joint, masks), opened[len(masks) :], strict=True)
            right[f"{kind} {parameters}"] = all(torch.equal(*pair) for pair in own)
    return right


def shares_of_a_mask(context: Context) -> list[int]:
    """Returns this party's share of a mask that is dealt."""
    shares: list[int] = use("DEALER").square((8,))[0].share.tolist()
    return shares


def compute(
    context: Context, provider: str, scale: float = 1.0, repeat: int = 1
) -> list[dict[str, Any]]:
    """Returns opened results and CrypTen's count of rounds, once for each repetition."""
    use(provider)
    crypten.cfg.communicator.verbose = True
    results = []
    for _ in range(repeat):
        dealer.begin_step()
        x = crypten.cryptensor(scale * torch.linspace(0.5, 40.0, 12))
        rows = crypten.cryptensor(scale * torch.linspace(-3.0, 3.0, 12).reshape(4, 3))
        crypten.reset_communication_stats()
        root, clipped = x.inverse_sqrt(), rows.clip_by_norm(1.0)
        rounds = communicator.get().get_communication_stats()["rounds"]
        product = rows.matmul(rows.t())
        with_product = communicator.get().get_communication_stats()["rounds"]
        results.append(
            {
                "root": root.get_plain_text(),
                "clipped": clipped.get_plain_text(),
                "product": product.get_plain_text(),
                "rounds": rounds,
                "product_rounds": with_product - rounds,
            }
        )
    return results


def train(context: Context, provider: str, steps: int) -> dict[str, Any]:
    """Returns the opened weight, rounds, and how many tuples were announced, after each step."""
    use(provider)
    crypten.cfg.encoder.precision_bits = 20
    crypten.cfg.communicator.verbose = True
    torch.manual_seed(3)
    x, y = torch.rand(6, 5), torch.eye(3)[torch.arange(6) % 3]
    x, y = crypten.cryptensor(x), crypten.cryptensor(y)
    layer = crypten_ext.nn.Linear(5, 3)
    for name, shape in (("weight", (3, 5)), ("bias", (3,))):
        layer.set_parameter(name, torch.zeros(shape).requires_grad_())
    model, loss = layer.encrypt(), crypten_ext.nn.BCEWithLogitsLoss()
    optimizer = crypten_ext.optim.DPSGD(
        model, lr=0.5, max_grad_norm=1.0, noise_multiplier=0.0, sample_rate=1.0
    )
    crypten.reset_communication_stats()
    announced, counted = [], []
    for _ in range(steps):
        optimizer.zero_grad()
        xb, yb = crypten_ext.vouch_for(x, y, sample_rate=1.0, max_feature_norm=3.0)
        loss(model(xb), yb).backward()
        optimizer.step()
        counted.append(communicator.get().get_communication_stats()["rounds"])
        announced.append(_announced())
    return {
        "weight": model.weight.get_plain_text(),
        "rounds": counted,
        "announced": announced,
        "corrected_bytes": dealer.corrected_bytes(),
    }


def irregular(context: Context) -> dict[str, Any]:
    """Steps that repeat, change, end early and repeat again; returns whether all came out right."""
    use("DEALER")
    right, announced = [], []
    courses = [
        (3, 4),
        (3, 4),
        (3, 4),
        (3, 5),
        (3, 5),
        (3,),
        (3, 5),
        (7, 7, 7),
        (7, 7, 7),
        (7, 7, 7),
    ]
    for course in courses:
        dealer.begin_step()
        before = _announced()
        for size in course:
            x = torch.arange(float(size))
            right.append(torch.equal(_times(x), x * x))
        announced.append(_announced() - before)
    return {"right": all(right), "announced": announced}


def _times(x: torch.Tensor) -> torch.Tensor:
    encrypted = crypten.cryptensor(x)
    product: torch.Tensor = (encrypted * encrypted).get_plain_text()
    return product.round()


def _announced() -> int:
    source = dealer.current().source
    return source.announced if isinstance(source, Corrections) else 0


def multiply_forever(context: Context, provider: str = "DEALER") -> None:
    """Multiplies until something ends it; the event tells that the first product is done."""
    use(provider)
    _times(torch.ones(4))
    context.emit({"started": True})
    while True:
        _times(torch.ones(4))
        time.sleep(PAUSE)


def repeat_step(context: Context, steps: int, size: int) -> int:
    """Returns the bytes of all corrections of that many equal steps."""
    provider = use("DEALER")
    for step in range(steps):
        dealer.begin_step()
        provider.square((size,))
        provider.generate_binary_triple((size,), (size,))
        if step % 50 == 0:
            communicator.get().barrier()
            context.emit({"step": step})
    return dealer.corrected_bytes()


def say_goodbye(context: Context) -> None:
    dealer.disconnect()


def use_material(context: Context, path: Path) -> list[float]:
    """Returns squares that took their tuples from this party's prepared file."""
    provider = use("DEALER")
    dealer.use_material(path, {})
    r, square = provider.square((4,))
    x = ArithmeticSharedTensor(torch.arange(4.0), precision=16, src=0)
    (masked,) = open_sum([x.share - r.share])
    own = square.share + 2 * masked * r.share
    (opened,) = open_sum([own + masked * masked if context.rank == 0 else own])
    squares: list[float] = (opened / 2.0**32).tolist()
    return squares


def refusal(context: Context, config: TrainConfig, records: Path, material: Path) -> str:
    """Returns why a run with this party's prepared file does not begin."""
    before = crypten.cfg.mpc.provider
    try:
        train_here(config, records, context.emit, RunOptions(material=material))
    except ArgumentError as error:
        return str(error)
    finally:
        crypten.cfg.mpc.provider = before
    return "it began"
