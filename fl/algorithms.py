"""What clients do in place of plain SGD, from papers that people compare.

    run = fl.FederatedAveraging(..., train=fl.algorithms.FedProx(mu=0.1, epochs=5, batch_size=10,
                                                                 lr=0.1, loss=cross_entropy))

Each is a `train=` of `fl.FederatedAveraging`. What they exchange beside the model goes through the
aggregator with it (`fl.ClientResult`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from extensions.rules import NOT_NEGATIVE
from fl.clients import ClientResult, ClientRound, LocalSGD
from fl.round.machines import Vector
from fl.training.optimizers import ServerOptimizer


@dataclass(frozen=True, kw_only=True)
class FedProx(LocalSGD):
    """Trains a client on its loss plus mu / 2 times the squared distance to the server's model.

    Attributes:
        mu: weight of that distance; 0 is `LocalSGD`.

    Source:
        Li et al., MLSys 2020, Algorithm 2.

    Examples:
        >>> from torch.nn.functional import cross_entropy
        >>> train = fl.algorithms.FedProx(
        ...     mu=0.1, epochs=1, batch_size=10, lr=0.1, loss=cross_entropy
        ... )
        >>> run = fl.FederatedAveraging(**setup, aggregator=fl.PlainAggregator(), train=train)
        >>> run.fit(rounds=2, test_set=test).accuracy > 0.3
        True
    """

    mu: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        NOT_NEGATIVE.check("mu", self.mu)

    def direction(self, gradient: Tensor, parameter: Tensor, start: Tensor) -> Tensor:
        """Returns the gradient of the loss with the proximal term."""
        return gradient + self.mu * (parameter - start)


_CONTROL = "control."


@dataclass(frozen=True, kw_only=True)
class Scaffold(LocalSGD):
    """Trains a client with SGD, corrected for how its gradients differ from the others'.

    Each client keeps a control variate c_k between its rounds. Their mean c travels with the model,
    so messages are twice as long. All clients of a round have equal weights.

    Source:
        Karimireddy et al., ICML 2020, Algorithm 1, with option II for c_k.

    Examples:
        >>> from torch.nn.functional import cross_entropy
        >>> train = fl.algorithms.Scaffold(epochs=1, batch_size=10, lr=0.1, loss=cross_entropy)
        >>> run = fl.FederatedAveraging(
        ...     **setup, aggregator=fl.PlainAggregator(), train=train, weighting="equal"
        ... )
        >>> run.fit(rounds=2, test_set=test).accuracy > 0.3
        True
    """

    stateful: ClassVar[bool] = True
    whole_model: ClassVar[bool] = True
    equal_weights: ClassVar[bool] = True

    def extra(self, model: nn.Module) -> dict[str, Tensor]:
        """Returns c before any round: zeros in the shape of each parameter that is trained."""
        return {name: torch.zeros(p.shape) for name, p in _controlled(model).items()}

    def __call__(
        self, model: nn.Module, records: TensorDataset, round: ClientRound
    ) -> ClientResult:
        """Trains the model in place, and returns c and c_k anew."""
        x, y = records.tensors
        model.train()
        trained = _controlled(model)
        common = {name: round.extra[name].to(p.device) for name, p in trained.items()}
        before = {**self.extra(model), **round.state}
        own = {name: before[name].to(p.device) for name, p in trained.items()}
        starts = {name: p.detach().clone() for name, p in trained.items()}
        for batch in self.batches(len(x)):
            loss = self.loss(model(x[batch]), y[batch])
            found = torch.autograd.grad(loss, list(trained.values()), materialize_grads=True)
            with torch.no_grad():
                for (name, parameter), gradient in zip(trained.items(), found, strict=True):
                    parameter.add_(gradient + common[name] - own[name], alpha=-self.lr)
        length = self.steps(len(x)) * self.lr
        with torch.no_grad():
            state = {
                name: own[name] - common[name] + (starts[name] - p) / length
                for name, p in trained.items()
            }
            extra = {k: common[k] + round.share * (state[k] - own[k]) for k in trained}
        return ClientResult(extra=extra, state={name: c.cpu() for name, c in state.items()})


def _controlled(model: nn.Module) -> dict[str, nn.Parameter]:
    """Returns the parameters that are trained, by the names of their control variates."""
    return {f"{_CONTROL}{k}": p for k, p in model.named_parameters() if p.requires_grad}


STEPS = "steps"


@dataclass(frozen=True, kw_only=True)
class NormalizedSGD(LocalSGD):
    """Trains a client with SGD, and sends the change divided by its steps: part of FedNova.

    Clients with more records take more steps, and this keeps them from dominating the model. Use it
    with `FedNova` as the server's optimizer.

    Source:
        Wang et al., NeurIPS 2020, equation (11), for SGD without momentum.

    Examples:
        >>> from torch.nn.functional import cross_entropy
        >>> train = fl.algorithms.NormalizedSGD(epochs=1, batch_size=10, lr=0.1, loss=cross_entropy)
        >>> train.steps(150)
        15
    """

    whole_model: ClassVar[bool] = True

    def extra(self, model: nn.Module) -> dict[str, Tensor]:
        """Returns the number of steps, of which the server learns the mean."""
        return {STEPS: torch.zeros(())}

    def __call__(
        self, model: nn.Module, records: TensorDataset, round: ClientRound
    ) -> ClientResult:
        """Trains the model in place, and leaves a step of average length."""
        starts = [p.detach().clone() for p in model.parameters()]
        super().__call__(model, records, round)
        steps = self.steps(len(records))
        with torch.no_grad():
            for parameter, start in zip(model.parameters(), starts, strict=True):
                parameter.copy_(start + (parameter - start) / steps)
        return ClientResult(extra={STEPS: torch.tensor(float(steps))})


@dataclass(frozen=True, kw_only=True)
class FedNova(ServerOptimizer):
    """Moves the model by the clients' mean normalized change times their mean number of steps.

    Source:
        Wang et al., NeurIPS 2020, equation (11): tau_eff is the mean of clients' steps.

    Examples:
        >>> from torch.nn.functional import cross_entropy
        >>> train = fl.algorithms.NormalizedSGD(epochs=1, batch_size=10, lr=0.1, loss=cross_entropy)
        >>> run = fl.FederatedAveraging(
        ...     **setup, aggregator=fl.PlainAggregator(), train=train,
        ...     server_optimizer=fl.algorithms.FedNova(),
        ... )
        >>> run.fit(rounds=2, test_set=test).accuracy > 0.3
        True
    """

    needs: ClassVar[tuple[str, ...]] = (STEPS,)

    def direction(self, mean: Vector, extra: Mapping[str, Vector]) -> Vector:
        """Returns the mean times the clients' mean number of steps."""
        return mean * float(extra[STEPS])
