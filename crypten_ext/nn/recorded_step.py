"""From one recorded backward pass to one update of the encrypted parameters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from crypten_ext.dealer import begin_step
from crypten_ext.nn.adoption import adopt
from crypten_ext.nn.tape import PublicBatch, Recorded, SharedBatch, SummedLoss, Tape
from crypten_ext.ring.crypten_ring import CrypTenRing, ring_of
from extensions.errors import ArgumentError, GradientError
from extensions.network.layers import LayerGradient, chain_of_shapes
from extensions.privacy.randomness import SystemSource
from extensions.protocols.dpsgd import dpsgd_step
from extensions.protocols.dpsgd_plan import DEFAULT_WEIGHT_NORM, StepPlan
from extensions.protocols.drift import Drift
from extensions.ring.interface import NoiseSource

import crypten

DEFAULT_FEATURE_NORM = 32.0


@dataclass(frozen=True, kw_only=True)
class StepSettings:
    """What all steps of an optimizer have in common; see `crypten_ext.nn.optim.DPSGD`."""

    max_grad_norm: float = 1.0
    noise_multiplier: float = 0.0
    max_feature_norm: float | None = None
    max_weight_norm: float = DEFAULT_WEIGHT_NORM
    expected_batch_size: float | None = None
    colluders: int = 1
    degree: int = 2
    steps: int | None = None


class RecordedStep(crypten.optim.Optimizer):
    """Adopts a model, reads the tape after each backward pass and applies one update."""

    private: bool

    def __init__(
        self, model: Any, lr: float, settings: StepSettings, source: NoiseSource | None = None
    ) -> None:
        if not getattr(model, "encrypted", False):
            raise ArgumentError("model", "a plaintext model", "encrypted", "Call model.encrypt().")
        self._tape = Tape()
        adopt(model, self._tape)
        self._model = model
        super().__init__(list(model.parameters()), {"lr": lr})
        self._settings = settings
        self.source = source or SystemSource()
        self._steps = 0
        self._last_batch: SharedBatch | None = None
        self._drift = Drift(settings.max_weight_norm)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the previous backward pass; call it before each one, in every party.

        It is also where a step begins for the dealer (`crypten_ext.dealer.begin_step`).
        """
        begin_step()
        super().zero_grad(set_to_none=set_to_none)
        self._tape.clear()

    def step(self, closure: None = None) -> None:
        """Applies one update to the encrypted parameters.

        Raises:
            GradientError: no backward pass, one that was used already, one that did not reach
                every parameter, or one that does not fit the optimizer's settings.
            ArgumentError: the step's integers would not fit the ring.
        """
        if closure is not None:
            raise ArgumentError("closure", closure, "None", "Call backward() before step().")
        records, loss = self._tape.take()
        self._check_coverage(records)
        ring = ring_of(records[0].inputs)
        public: PublicBatch | None = getattr(records[0].inputs, "public_batch", None)
        shared: SharedBatch | None = getattr(records[0].inputs, "shared_batch", None)
        padding = self._padding(shared, loss)
        if shared is not None and shared is self._last_batch:
            raise GradientError(
                "The batch was used for the step before: the accounting takes each batch as a "
                "fresh sample. Take the next one from poisson_batches."
            )
        plan = self._plan(ring, records, loss, public)
        if self._steps == 0 and self._settings.steps is not None:
            plan.check_drift(self._settings.steps, self._settings.max_weight_norm)
        self._drift.add(plan)
        gradients = [
            LayerGradient(
                inputs=r.inputs.share,
                deltas=r.deltas,
                squared_norm=shared.squared_norms if shared is not None and i == 0 else None,
                has_bias=r.bias is not None,
            )
            for i, r in enumerate(records)
        ]
        updates = dpsgd_step(ring, gradients, plan, self.source, padding)
        for record, (weight, bias) in zip(records, updates, strict=True):
            record.weight.share = record.weight.share - weight
            if bias is not None:
                record.bias.share = record.bias.share - bias
        self._steps += 1
        self._last_batch = shared
        self._account(public)

    def state_dict(self) -> dict[str, Any]:
        """Returns what was counted so far, public, as values that JSON can hold."""
        return {"steps": self._steps, "drift": self._drift.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """What `state_dict` returned counts as done, with the parameters of then."""
        self._steps = int(state["steps"])
        self._drift.restore(state["drift"])

    def _account(self, public: PublicBatch | None) -> None:
        raise NotImplementedError

    def _check_coverage(self, records: list[Recorded]) -> None:
        reached = {id(p) for r in records for p in (r.weight, r.bias) if p is not None}
        for name, parameter in self._model.named_parameters():
            if parameter.requires_grad and id(parameter) not in reached:
                raise GradientError(
                    f"Parameter {name!r} received no per-example gradient. Every trained parameter "
                    "must belong to a layer that the loss depends on."
                )

    def _padding(self, shared: SharedBatch | None, loss: SummedLoss) -> torch.Tensor | None:
        if shared is not None and loss.padding is None:
            raise GradientError(
                "The inputs are a padded batch but the targets are not: pass both tensors that "
                "poisson_batches yields, unchanged, to the model and to the loss."
            )
        return loss.padding

    def _plan(
        self,
        ring: CrypTenRing,
        records: list[Recorded],
        loss: SummedLoss,
        public: PublicBatch | None,
    ) -> StepPlan:
        settings, rows = self._settings, records[0].inputs.size(0)
        expected = settings.expected_batch_size
        if expected is None:
            expected = public.expected_size if public and public.expected_size else float(rows)
        layers = []
        for i, record in enumerate(records):
            batch: PublicBatch | None = getattr(record.inputs, "public_batch", None)
            input_norm = batch.feature_norm if batch else DEFAULT_FEATURE_NORM
            if i == 0 and settings.max_feature_norm is not None:
                input_norm = settings.max_feature_norm
            out_features, in_features = record.weight.size()
            layers.append((in_features, out_features, record.bias is not None, input_norm))
        return StepPlan(
            frac_bits=ring.frac_bits,
            layers=chain_of_shapes(
                layers, delta_norm=loss.delta_norm, weight_norm=settings.max_weight_norm
            ),
            rows=rows,
            learning_rate=self.param_groups[0]["lr"],
            expected_batch_size=expected,
            max_grad_norm=settings.max_grad_norm,
            noise_multiplier=settings.noise_multiplier,
            parties=ring.parties,
            colluders=settings.colluders,
            degree=settings.degree,
            private=self.private,
        )
