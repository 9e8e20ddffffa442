"""Low-rank adapters of a frozen encoder, with a head: outputs, and gradients of each record."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.data.features.combined import INPUTS
from extensions.data.features.networks.encoder import load
from extensions.data.features.networks.images import images_of, standardised
from extensions.errors import ArgumentError
from extensions.ring.fixed_point import Reals
from extensions.rules import Whole

TARGETS = ("query", "value", "q_proj", "v_proj", "q_lin", "v_lin", "q", "v", "qkv", "Wqkv")
"""Names of the linear layers that are adapted, as attention layers call them."""
SCALING = 2.0
"""Of what adapters add: alpha / rank."""
MOST_RANK = 256
_AT_ONCE = 256
"""Records whose outputs are computed at once, without gradients."""

Rows = npt.NDArray[Any]
"""What the encoder reads of each record, as `Extractor.inputs` returns it."""


@dataclass(frozen=True)
class AdapterTrace:
    """Outputs of some records, (records, outputs), with what their gradients are found by.

    Attributes:
        features: that the head is given, (records, hidden).
        passed: of each adapted layer its inputs, what A makes of them, and what B makes of that.
        ups: all B.
    """

    logits: Any
    features: Any
    passed: Sequence[tuple[Any, Any, Any]]
    ups: Sequence[Any]

    @property
    def outputs(self) -> Reals:
        """The outputs as an array."""
        return np.asarray(self.logits.detach().numpy(), dtype=np.float64)

    def gradients(self, deltas: Reals) -> Reals:
        """Returns each record's gradient as a row, given that at its outputs.

        Its entries are those of the flat weights, then those of the biases. One that is no finite
        number is 0.
        """
        import torch

        given = torch.from_numpy(deltas.astype(np.float32))
        found = torch.autograd.grad(self.logits, [last for _, _, last in self.passed], given)
        downs, ups = [], []
        with torch.inference_mode():
            for grad, up, (x, inner, _) in zip(found, self.ups, self.passed, strict=True):
                downs.append((grad @ up).mT @ x)
                ups.append(grad.mT @ inner)
            head = given[:, :, None] * self.features[:, None]
            rows = torch.cat([each.flatten(1) for each in (head, *downs, *ups, given)], dim=1)
        finite: Reals = np.nan_to_num(rows.numpy(), posinf=0.0, neginf=0.0)
        return finite


class Adapted:
    """A frozen encoder, low-rank adapters of its attention's queries and values, and a head.

    A linear layer W of the encoder that is adapted computes W x + 2 B A x. What the encoder makes
    of a record is the mean over tokens or patches, less its own mean, of norm 1, as features of
    ``hf:FOLDER`` are; the head is a linear layer of that. All trained weights are one flat array:
    the head's (outputs, hidden), then every A, (rank, inputs), then every B, (outputs, rank).

    Attributes:
        size: values of a record at an adapted layer, once it has read one.

    Raises:
        ArgumentError: no encoder of that name is here, it has no such layers, or they are smaller
            than the rank.

    Source:
        Hu et al., "LoRA: Low-rank adaptation of large language models", ICLR 2022.
    """

    def __init__(self, features: str, rank: int) -> None:
        import torch

        self.encoder = load(features.removeprefix("hf:").removesuffix(f",{INPUTS}"))
        self.rank, network = rank, self.encoder.network.float().requires_grad_(False)
        self.layers = {
            name: module
            for name, module in network.named_modules()
            if isinstance(module, torch.nn.Linear) and name.rpartition(".")[2] in TARGETS
        }
        if not self.layers:
            rule = f"an encoder with linear layers named {', '.join(TARGETS)}"
            raise ArgumentError("features", features, rule, "Only those layers can be adapted.")
        sides = [(each.out_features, each.in_features) for each in self.layers.values()]
        Whole(1, min(MOST_RANK, *map(min, sides))).check("rank", rank)
        self.shapes = [(rank, n) for _, n in sides] + [(m, rank) for m, _ in sides]
        self.hidden = int(network.config.hidden_size)
        self._used: list[Any] = []
        self._passed: list[tuple[Any, Any, Any]] = []
        self.size = self.hidden
        self._lock = Lock()
        for place, layer in enumerate(self.layers.values()):
            layer.register_forward_hook(self._hook(place))

    def _hook(self, place: int) -> Any:
        def add(_: Any, given: tuple[Any, ...], found: Any) -> Any:
            if not self._used:
                return found
            down, up = self._used[place], self._used[place + len(self.layers)]
            x = given[0].reshape(self._records, -1, given[0].shape[-1])
            inner = x @ down.mT
            last = inner @ up.mT
            self.size = x[0].numel()
            self._passed.append((x, inner, last))
            return found + SCALING * last.reshape(found.shape)

        return add

    def split(self, flat: Rows, outputs: int) -> list[Rows]:
        """Returns the head's weight, and all A and B, of the flat array; a rest is left out."""
        shapes = [(outputs, self.hidden), *self.shapes]
        ends = np.cumsum([m * n for m, n in shapes])
        pieces = zip(np.split(flat[: ends[-1]], ends[:-1]), shapes, strict=True)
        return [piece.reshape(shape) for piece, shape in pieces]

    def trace(self, weight: Reals, bias: Reals, rows: Rows) -> AdapterTrace:
        """Returns the outputs of records, from which their gradients are found."""
        return self._computed(self._tensors(weight, bias, learnt=True), rows)

    def outputs(self, weight: Reals, bias: Reals, rows: Rows) -> Reals:
        """Returns the outputs of records, (records, outputs).

        Raises:
            ArgumentError: records are not what the encoder reads.
        """
        import torch

        given = self._tensors(weight, bias)
        found = [np.zeros((0, len(bias)))]
        with torch.inference_mode():
            for start in range(0, len(rows), _AT_ONCE):
                found.append(self._computed(given, rows[start : start + _AT_ONCE]).outputs)
        return np.concatenate(found)

    @cached_property
    def pace(self) -> float:
        """Seconds of a record's gradients, about, on this machine; it takes about as many."""
        texts, few = self.encoder.tokenizer is not None, 8
        width = self.encoder.tokens if texts else 3 * self.encoder.size[0] * self.encoder.size[1]
        weight, bias = np.zeros((1, self.hidden + sum(m * n for m, n in self.shapes))), np.zeros(1)
        began = time.perf_counter()
        trace = self.trace(weight, bias, np.ones((few, width), dtype=np.int64))
        trace.gradients(np.ones((few, 1)))
        return (time.perf_counter() - began) / few

    def check(self, rows: Rows) -> None:
        """Checks that records are what the encoder reads, and that each is read alone.

        Raises:
            ArgumentError: they are not, or a record's outputs depend on others.
        """
        import torch

        texts = self.encoder.tokenizer is not None
        most = len(self.encoder.tokenizer) if texts else 255
        whole = rows.size and (rows == np.rint(rows)).all() and rows.min() >= 0
        if not whole or rows.max() > most or (texts and rows.shape[1] > self.encoder.tokens):
            rule = f"numbers of {self.encoder.name},{INPUTS}"
            raise ArgumentError("records", f"of {rows.shape[1:]} values", rule, code="data")
        with self._lock, torch.inference_mode():
            together, alone = self._features(rows[:2]), self._features(rows[:1])
        if not torch.allclose(together[0], alone[0], atol=1e-3):
            rule = "an encoder of one record at a time"
            raise ArgumentError("features", self.encoder.name, rule)

    def _tensors(self, weight: Reals, bias: Reals, *, learnt: bool = False) -> list[Any]:
        import torch

        parts = [*self.split(weight.reshape(-1), len(bias)), bias]
        return [torch.tensor(each, dtype=torch.float32, requires_grad=learnt) for each in parts]

    def _computed(self, parts: Sequence[Any], rows: Rows) -> AdapterTrace:
        head, *adapters, bias = parts
        with self._lock:
            self._used, self._passed = adapters, []
            z = self._features(rows)
            self._used, passed = [], self._passed
        z = z - z.mean(1, keepdim=True)
        z = z / z.norm(dim=1, keepdim=True).clamp(min=1e-12)
        return AdapterTrace(z @ head.T + bias, z, passed, adapters[len(self.layers) :])

    def _features(self, rows: Rows) -> Any:
        import torch

        self._records, encoder = len(rows), self.encoder
        if encoder.tokenizer is None:
            images = images_of(rows, encoder.size)
            return encoder.of_images(standardised(images, encoder.size, encoder.standard))
        held = torch.from_numpy(rows.astype(np.int64))
        mask = (held > 0).long()
        mask[:, 0] = 1  # a row of padding, which counts for nothing, has something to attend to
        padding = encoder.tokenizer.pad_token_id or 0
        tokens = torch.where(held > 0, held - 1, padding)
        return encoder.of_texts({"input_ids": tokens, "attention_mask": mask})


@lru_cache(maxsize=2)
def adapted(features: str, rank: int) -> Adapted:
    """Returns the encoder that features name, ``hf:FOLDER,inputs``, with adapters of a rank."""
    return Adapted(features, rank)
