"""From one recorded backward pass to one update of the encrypted parameters."""

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any, NoReturn

from crypten_ext.dealer import begin_step
from crypten_ext.nn.batches import whole_batch_of
from crypten_ext.nn.forecast import StepCost, gradients_of
from crypten_ext.nn.layers.adoption import adopt, layers_of
from crypten_ext.nn.provenance import LayerUse, Version, provenance_of, rejection
from crypten_ext.nn.state import Shares
from crypten_ext.nn.tape import BackwardPass, Tape
from crypten_ext.ring.crypten_ring import CrypTenRing, ring_of
from crypten_ext.ring.forecast import ForecastMode, process_memory
from crypten_ext.ring.hosts_tuples import warn_of_first_party
from crypten_ext.world import SOFTWARE, exchange
from extensions.errors import ArgumentError, GradientError
from extensions.layers.chain import Network
from extensions.layers.losses import Loss
from extensions.privacy.ledger import GO_ON
from extensions.protocols.agreement import Statement, agree
from extensions.protocols.dpsgd import Sums, added, clipped_sums
from extensions.protocols.drift import check_start, with_largest_rate, within_initial_bound
from extensions.protocols.optimizer import TOTAL, Mean
from extensions.protocols.optimizer.counted import Counted
from extensions.protocols.optimizer.sample import InTurn, SampleFacts
from extensions.protocols.settings import ScriptTraining
from extensions.protocols.step import Step
from extensions.protocols.updates import rule_for
from extensions.ring.fixed_point import Integers
from extensions.ring.interface import NoiseSource
from extensions.runs.manifest import comparable_settings, versions

import crypten
from crypten.mpc import MPCTensor

_step = lru_cache(16)(Step.of_script)
"""Of those that optimizers of a process asked for lately."""


class RecordedStep(Counted, crypten.optim.Optimizer):
    """Adopts a model, reads the tape after each backward pass and applies one update."""

    private: bool
    _further: Mapping[str, Any] = {}
    """Settings beside those that all optimizers have."""

    def __init__(
        self, model: Any, settings: ScriptTraining, source: NoiseSource | None = None
    ) -> None:
        if not getattr(model, "encrypted", False):
            raise ArgumentError("model", "a plaintext model", "encrypted", "Call model.encrypt().")
        for name, parameter in model.named_parameters():
            if not isinstance(parameter, MPCTensor):
                raise ArgumentError(
                    "model",
                    f"with the public parameter {name!r}",
                    "encrypted whole",
                    "Apply the public part of a network to your own records in the clear, and give "
                    "poisson_batches its output. Or encrypt it, and freeze it with requires_grad = "
                    "False.",
                )
        warn_of_first_party(crypten.mpc.get_default_provider())
        self._tape = Tape(settings)
        adopt(model, self._tape)
        self._model = model
        if settings.average and settings.steps is None:
            advice = "It says which iterates are the last."
            raise ArgumentError("steps", None, "with {average}", advice, code="missing")
        crypten.optim.Optimizer.__init__(self, list(model.parameters()), {"lr": settings.lr})
        super().__init__(settings, source)
        self._compared: frozenset[str] | None = None
        self._store = Shares(model, [*rule_for(settings).names_of(settings), TOTAL])
        self._pieces = InTurn[Sums]()
        self._known: dict[str, Version] = {}
        self._check_start(self._versions())

    def __reduce__(self) -> NoReturn:
        """Raises GradientError: a copy would not be that of a model's backward passes."""
        raise GradientError(
            "An optimizer cannot be copied or pickled, because two optimizers would account for "
            "the same steps. Make another one for the model, and give it this one's state: call "
            "load_state_dict(optimizer.state_dict()) and load_shares(optimizer.shares()). The "
            "ledger is part of the state."
        )

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the previous backward pass; call it before each one, in every party.

        It is also where a step begins for the dealer (`crypten_ext.dealer.begin_step`).
        """
        begin_step()
        crypten.optim.Optimizer.zero_grad(self, set_to_none=set_to_none)
        self._tape.clear()

    def step(self, closure: None = None) -> None:
        """Applies one update to the encrypted parameters.

        With a piece of a batch (`crypten_ext.in_pieces`), but for the last one, it only adds up
        clipped gradients, in shares. A step is accounted for before anything changes by its sums.

        Raises:
            GradientError: no backward pass, one that was used already, one that did not reach
                every parameter, or one that does not fit the optimizer's settings.
            ArgumentError: the step's integers would not fit the ring; or, at every party and at the
                first step, whatever the parties' optimizers, models or batches differ in.

        Cost:
            At the first step one round more, and at the last one if a mean of iterates is taken.
        """
        if closure is not None:
            raise ArgumentError("closure", closure, "None", "Call backward() before step().")
        recorded = self._tape.take()
        layers, batch = recorded.origin.layers, recorded.origin.batch
        parameters = dict(self._model.named_parameters())
        self._compare(batch.public, parameters)
        self._check_coverage(layers, parameters)
        self._check_start(self._check_unchanged(layers, parameters))
        ring = ring_of(layers[0].weight)
        bounds = self._bounds(ring, recorded)
        step = self._next(*bounds)
        self._check_mean(step.mean)
        self._pieces.check(batch, bounds)
        batch.use(self)
        padding = None if batch.shared is None else batch.shared.padding
        clipped = clipped_sums(ring, recorded.gradients, step.plan, padding)
        total = self._pieces.add(batch, clipped, partial(added, plan=step.plan))
        if total is None:
            return
        self._account(batch.public)
        public = [step.mean.counts(self.iterations + 1), *self.public(step.rule)]
        self.count(step.rule)
        store = self._store.at(layers)
        step.finish(ring, total, self.source, store, public)
        if TOTAL in store and self.iterations == step.mean.steps:
            step.mean.finish(ring, store)
            store.drop(TOTAL)
        self._known = self._versions()

    def plan(self, x: Any, y: Any, loss: Loss = "sigmoid") -> StepCost:
        """Returns what a step on such a batch will take; nothing is computed, used or sent.

        Args:
            x: features of a batch, or of a piece of one; it may serve a step afterwards.
            y: its targets.
            loss: "sigmoid" (`crypten_ext.nn.BCEWithLogitsLoss`) or "softmax".

        Raises:
            GradientError: they are no batch, or the model is not in training.
            ArgumentError: the step's integers would not fit the ring; or whoever deals takes rounds
                that cannot be told beforehand.

        Cost:
            Some milliseconds for each operation of a party.
        """
        batch, tape = whole_batch_of(x, y), Tape(self._settings)
        with ForecastMode() as mode:
            recorded, padding = gradients_of(self._model, tape, batch, x, y, loss)
            layers, ring = recorded.origin.layers, ring_of(x)
            config, *bounds = self._bounds(ring, recorded)
            step = _step(config.at_rate(self.param_groups[0]["lr"]), *bounds)
            store = self._store.at(layers)
            sums = clipped_sums(ring, recorded.gradients, step.plan, padding)
            step.updates(ring, sums, store, self.public(step.rule))
        return StepCost(
            rounds=mode.rounds,
            bytes=mode.counted,
            dealt=mode.dealt,
            memory=process_memory(mode.peak),
            trained=step.plan.parameters,
            ways=tuple(step.plan.ways),
        )

    def _check_mean(self, mean: Mean) -> None:
        """Raises GradientError if the last step is made, or the sum of iterates is lacking."""
        made = self.iterations
        if self._settings.average and made >= mean.steps:
            raise GradientError(
                f"All steps = {mean.steps} are made, and the model is the mean of its last "
                f"iterates. To train it further, make another optimizer and {GO_ON}"
            )
        if mean.counted(made) and TOTAL not in self._store:
            raise GradientError(
                f"The sum of the iterates before step {made + 1} is missing. Load the shares that "
                "the optimizer had then, or start again."
            )

    def _compare(self, public: SampleFacts, parameters: Mapping[str, Any]) -> None:
        """Compares settings, model and batch with all parties', once.

        Raises GradientError if other parameters are trained since then.
        """
        trained = frozenset([name for name, p in parameters.items() if p.requires_grad])
        if self._compared is not None:
            if trained != self._compared:
                changed = ", ".join(map(repr, sorted(trained ^ self._compared)))
                raise GradientError(
                    f"requires_grad of {changed} was changed after the first step (model.train() "
                    "sets it for all parameters). Set it back, or make another optimizer and load "
                    "this one's state, which continues the ledger."
                )
            return
        shapes = {name: str([*p.size()]) for name, p in parameters.items()}
        statement = {
            **comparable_settings(self._settings),
            "optimizer": type(self).__name__,
            "lr": self.param_groups[0]["lr"],
            **{f"batch: {name}": value for name, value in comparable_settings(public).items()},
            **{f"shape of {name}": shape for name, shape in shapes.items()},
            **{f"trained: {name}": name in trained for name in shapes},
            **versions(SOFTWARE),
        }
        agree(exchange, [()], Statement(run=statement))
        self._compared = trained

    def state_dict(self) -> dict[str, Any]:
        """Returns what was counted so far, public, as values that JSON can hold.

        Raises GradientError if a batch has pieces left.
        """
        if self._pieces.is_open:
            raise GradientError(
                "Only some pieces of a batch are summed, and their sum has no noise yet, so it "
                "cannot be saved. Save after a step."
            )
        return super().state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """What `state_dict` returned counts as done, with the parameters of then."""
        super().load_state_dict(state)
        self._known = self._versions()

    def shares(self) -> dict[str, Integers]:
        """Returns this party's shares of what steps go on from beside the parameters; secret."""
        return self._store.shares()

    def load_shares(self, shares: Mapping[str, Integers]) -> None:
        """What `shares` returned, among others, belongs to the parameters of then."""
        self._store.load_shares(shares)

    def _versions(self) -> dict[str, Version]:
        """Returns the parameters as they are, to tell any that takes the place of one."""
        return {name: Version.of(parameter) for name, parameter in self._model.named_parameters()}

    def _check_start(self, now: dict[str, Version]) -> None:
        """Checks the norms of layers that no step has left behind, if hidden layers need it.

        Raises ArgumentError if one is beyond its part of the bound; only how many tests of
        `within_initial_bound` it passes is opened.
        """
        known = {name for name, version in now.items() if version.is_same(self._known.get(name))}
        if self.private and len(known) < len(now):
            layers = layers_of(self._model)
            new = [one for one in layers if not one.keys() <= known]
            if len(layers) > 1 and new:
                shares = [[parameter.share for parameter in one.values()] for one in new]
                ring, bound = ring_of(next(iter(new[0].values()))), self._settings.max_weight_norm
                (found,) = ring.open_sum([within_initial_bound(ring, shares, bound)])
                first = [next(iter(one)) for one in new]
                names = [name.removesuffix(".data").removesuffix(".weight") for name in first]
                check_start(dict(zip(names, found.tolist(), strict=True)), bound)
        self._known = now

    def _account(self, public: SampleFacts) -> None:
        raise NotImplementedError

    def _check_coverage(self, layers: list[LayerUse], parameters: Mapping[str, Any]) -> None:
        """Makes sure that the layers are all of the model, and nothing else is."""
        places = [id(parameter) for layer in layers for parameter in layer.parameters]
        reached = set(places)
        if len(reached) < len(places):
            raise GradientError(
                "Two layers share a bias, which is not supported, because momentum would keep only "
                "one layer's part. Give each layer its own bias."
            )
        for name, parameter in parameters.items():
            if parameter.requires_grad and id(parameter) not in reached:
                raise GradientError(
                    f"Parameter {name!r} received no per-example gradient. Every trained parameter "
                    "must belong to a layer that the loss depends on."
                )
        if not reached <= set(map(id, parameters.values())):
            raise GradientError(
                "A layer was applied with a weight or bias that is not a parameter of the model, "
                "so a step could not account for it. Use the model's own parameters."
            )

    def _check_unchanged(
        self, layers: list[LayerUse], parameters: Mapping[str, Any]
    ) -> dict[str, Version]:
        """Returns the parameters as they are, if they and all inputs are what layers were given."""
        for layer in layers:
            if provenance_of(layer.inputs) is not layer.origin:
                raise rejection("A layer's input", layer.inputs, "what it was in the forward pass")
        names = {id(parameter): name for name, parameter in parameters.items()}
        now = {name: Version.of(parameter) for name, parameter in parameters.items()}
        for layer in layers:
            pairs = zip(layer.versions, layer.parameters, strict=True)
            unchanged = [version.is_same(now[names[id(part)]]) for version, part in pairs]
            if not (all(unchanged) and layer.is_as_trained):
                raise GradientError(
                    "A layer's parameters, or which of them are trained (requires_grad), were "
                    "changed between the forward pass and step(). Leave them as they are."
                )
        return now

    def _next(self, config: ScriptTraining, *bounds: Any) -> Step:
        """Returns the next step, whose bounds are proven, with the largest learning rate taken."""

        def checked(lr: float) -> Step:
            step, steps = _step(config.at_rate(lr), *bounds), config.steps
            if self.iterations == 0 and steps is not None:
                step.rule.check_moved([1.0] * steps, self._settings.max_weight_norm)
            self._drift.check(step.rule, 1)
            return step

        return with_largest_rate(self.param_groups[0]["lr"], checked)

    def _bounds(
        self, ring: CrypTenRing, recorded: BackwardPass
    ) -> tuple[ScriptTraining, Network, int, float]:
        """Returns all on which clipped sums depend (`Step.of_script`).

        Raises GradientError if the batch was drawn with another rate than is accounted for.
        """
        batch, rate = recorded.origin.batch, self._settings.sample_rate
        if self.private and batch.public.sample_rate != rate:
            raise GradientError(
                f"The batch was drawn with sample_rate = {batch.public.sample_rate}, the optimizer "
                f"accounts for {rate}. Give both the same rate."
            )
        config = self._settings.derived(
            max_feature_norm=batch.public.feature_norm,
            frac_bits=ring.frac_bits,
            parties=ring.parties,
        )
        return config, recorded.network, batch.rows, batch.public.expected_size
