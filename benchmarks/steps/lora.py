"""``python -m benchmarks lora``: adapters of a small encoder, beside its frozen features."""

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from benchmarks.benchmark import ACCURACY, Benchmark, Result
from benchmarks.instruments.child_process import in_python
from benchmarks.tables import Table
from extensions.data.datasets.mnist import read_mnist
from extensions.data.datasets.sources import READERS
from extensions.data.features.images import resized
from extensions.errors import optional
from extensions.estimator import PrivateClassifier
from extensions.layers.models.lora import lora_sizes
from extensions.options import Option
from extensions.rules import Whole
from extensions.runs.config.run_time import opened_bytes

SIDE, CLASSES, OWNERS, HELD_OUT, RANK = 8, 10, 3, 360, 4
PUBLIC, EPOCHS = 6000, 8
"""Images of MNIST on which the encoder is trained in the clear, and how often."""
SIZES = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
TIMED = 10
"""Steps over all records, of which one is told."""


def write_encoder(folder: Path) -> None:
    """Writes a transformer of images of 8 x 8 points, trained on MNIST; takes half a minute."""
    torch = optional("torch", "torch", "crypten")
    transformers = optional("transformers", "transformers", "encoders")
    found = read_mnist(None, download=False)
    images, labels = found.train_x[:PUBLIC], torch.tensor(found.train_y[:PUBLIC])
    pixels = torch.tensor(resized(images, SIDE, SIDE)).permute(0, 3, 1, 2) / 127.5 - 1.0
    torch.manual_seed(0)
    sizes = {**SIZES, "image_size": SIDE, "patch_size": 2, "intermediate_size": 96}
    network = transformers.ViTModel(transformers.ViTConfig(**sizes), add_pooling_layer=False)
    head = torch.nn.Linear(SIZES["hidden_size"], CLASSES)
    optimizer = torch.optim.Adam([*network.parameters(), *head.parameters()], 2e-3)
    for _ in range(EPOCHS):
        for rows in torch.randperm(PUBLIC).split(128):
            states = network(pixel_values=pixels[rows]).last_hidden_state.mean(1)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(head(states), labels[rows]).backward()
            optimizer.step()
    network.save_pretrained(folder)
    size = {"height": SIDE, "width": SIDE}
    transformers.ViTImageProcessor(size=size).save_pretrained(folder)


class Digits:
    """The digits of scikit-learn, which owners have in the clear, each some."""

    def __init__(self, encoder: Path) -> None:
        found: Any = READERS["digits"][0](None, False)
        order = np.random.default_rng(0).permutation(len(found.x))
        self._x, self._y = found.x[order], found.y[order]
        self._features = f"hf:{encoder}"

    def fit(self, model: str, epsilon: float, **settings: Any) -> PrivateClassifier:
        """Returns a model of all records but those held out."""
        made = PrivateClassifier(
            epsilon, model=model, features=self._features, settings=settings or None
        )
        x, y = self._x[HELD_OUT:], self._y[HELD_OUT:]
        return made.fit(x, y, groups=np.arange(len(x)) % OWNERS)

    def accuracy(self, model: str, epsilon: float, seeds: int) -> float:
        """Returns the mean accuracy of held-out records, in percent."""
        x, y = self._x[:HELD_OUT], self._y[:HELD_OUT]
        found: list[float] = [self.fit(model, epsilon).score(x, y) for _ in range(seeds)]
        return 100 * statistics.mean(found)

    def step(self, model: str) -> tuple[float, int, int]:
        """Returns the processor's seconds of a step over all records, rows, and words opened."""
        seconds = []
        for steps in (1, 1 + TIMED):
            began = time.process_time()
            found = self.fit(model, 8.0, steps=steps, sample_rate=1.0)
            seconds.append(time.process_time() - began)
        sizes = lora_sizes(found.model_.header.spec.kind)
        assert sizes is not None
        words = CLASSES * (sizes.width(CLASSES) + 1)
        return (seconds[1] - seconds[0]) / TIMED, len(self._x) - HELD_OUT, words


@Benchmark(
    ACCURACY,
    "lora",
    "Adapters of an encoder, in open mode",
    minutes=6,
    needs="MNIST; --opacus-python for a peer",
    results=[
        Result(
            "lora",
            "A transformer of 8 x 8 images (2 layers of 48), trained on 6,000 images of MNIST, on "
            "1,437 digits of another collection: accuracy in percent on 360 others, with frozen "
            "features and with adapters of rank 4, both by the defaults.",
            columns="*",
        ),
        Result(
            "lora-step",
            "A step of the adapters over 1,437 records of three owners: the processor's seconds on "
            "one thread, beside Opacus with the same adapters.",
            columns="*",
        ),
    ],
)
def main(
    seeds: Annotated[int, Option(help="Draws of noise."), Whole(1)] = 3,
    opacus_python: Annotated[str | None, Option(help="Python that has Opacus.")] = None,
) -> Iterator[Table]:
    """Accuracy and cost of low-rank adapters beside frozen features, and beside Opacus."""
    optional("torch", "torch", "crypten").set_num_threads(1)
    model = f"lora:{RANK}"
    with tempfile.TemporaryDirectory() as folder:
        write_encoder(Path(folder))
        digits = Digits(Path(folder))
        rows = [
            {
                "epsilon": epsilon,
                "frozen": digits.accuracy("logistic", epsilon, seeds),
                model: digits.accuracy(model, epsilon, seeds),
            }
            for epsilon in (2.0, 8.0)
        ]
        yield Table("lora", rows, seeds=seeds)
        seconds, records, words = digits.step(model)
        row: dict[str, Any] = {
            "records": records,
            "weights and biases": words,
            "KB a party": opened_bytes(words, OWNERS) / 1e3,
            "seconds": seconds,
        }
        versions = {}
        if opacus_python is not None:
            module = "benchmarks.steps.models.opacus_lora"
            asked = ("-m", module, folder, *map(str, (RANK, records, TIMED)))
            answer = in_python("opacus_python", "Opacus", opacus_python, *asked)
            row["Opacus"] = statistics.median(answer["seconds"])
            row["times Opacus"] = seconds / row["Opacus"]
            versions = answer["versions"]
        yield Table("lora-step", [row], **versions)
