"""What the parties of test_dealer_noise.py draw, open and count."""

from typing import Any

import torch

import crypten_ext
from crypten_ext import dealer
from crypten_ext.processes.meter import Meter
from crypten_ext.processes.worker import Context
from crypten_ext.ring.exchange import open_sum
from extensions.errors import ArgumentError
from extensions.privacy.randomness import SystemSource
from extensions.ring.fixed_point import Integers
from tests.helpers.party_tasks.dealer import use
from tests.helpers.refused import fields_of

import crypten


class _Recorder(SystemSource):
    """The system's source, remembering what this party drew."""

    def __init__(self) -> None:
        self.drawn: list[Integers] = []

    def gaussian(self, party: int, scale: float, shape: tuple[int, ...]) -> Integers:
        self.drawn.append(super().gaussian(party, scale, shape))
        return self.drawn[-1]


def draw(context: Context, *, size: int, sigma: float) -> dict[str, Any]:
    """Returns opened noise with the dealer's part, this party's own part, its share and costs."""
    use("DEALER")
    recorder, meter, before = _Recorder(), Meter(), dealer.corrected_bytes()
    noise = crypten_ext.gaussian_noise(size, sigma, dealer_noise=True, source=recorder)
    rounds = meter.read().rounds
    (opened,) = open_sum([noise.share])
    return {
        "opened": opened.numpy(),
        "own": recorder.drawn[0],
        "share": noise.share.numpy(),
        "rounds": rounds,
        "dealt": dealer.corrected_bytes() - before,
    }


def refusal(context: Context, *, provider: str) -> str:
    """Returns why noise of this provider is refused."""
    use(provider)
    try:
        crypten_ext.gaussian_noise(3, 1.0, dealer_noise=True)
    except ArgumentError as error:
        return fields_of(error)
    return ""


def steps(context: Context, *, dealer_noise: bool, times: int) -> dict[str, Any]:
    """Returns rounds and dealt bytes of each step of a linear model, and its weights."""
    use("DEALER")
    crypten.cfg.encoder.precision_bits = 20
    x = crypten.cryptensor(torch.rand(6, 5) / 3)
    y = crypten.cryptensor(torch.eye(3)[torch.arange(6) % 3])
    model, loss = crypten_ext.nn.Linear(5, 3).encrypt(), crypten_ext.nn.BCEWithLogitsLoss()
    optimizer = crypten_ext.optim.DPSGD(
        model,
        lr=0.5,
        max_grad_norm=1.0,
        noise_multiplier=1.0,
        sample_rate=1.0,
        dealer_noise=dealer_noise,
    )
    rounds, dealt = [], []
    for _ in range(times):
        meter, before = Meter(), dealer.corrected_bytes()
        optimizer.zero_grad()
        xb, yb = crypten_ext.vouch_for(x, y, sample_rate=1.0, max_feature_norm=3.0)
        loss(model(xb), yb).backward()
        optimizer.step()
        rounds.append(meter.read().rounds)
        dealt.append(dealer.corrected_bytes() - before)
    return {"rounds": rounds, "dealt": dealt, "epsilon": optimizer.get_epsilon(1e-5)}
