"""Deep leakage from what the server sees of one update, scheme by scheme: table and figure."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import Tensor, nn

import fl
from benchmarks.report import RESULTS, publish
from fl.leakage import NO_LEAK, Reconstruction, attack, vectors_sent
from fl.weights import get_weights

LR = 1.0
CLASSES = {8: 10, 32: 100}
SCHEMES: dict[str, Callable[[], fl.Mechanism]] = {
    "none": fl.Mechanism,
    "LocalDP, Gaussian, epsilon 8": lambda: fl.LocalDP(epsilon=8.0, delta=1e-5, clip=1.0),
    "LocalDP, Laplace, epsilon 8": lambda: fl.LocalDP(epsilon=8.0, clip=1.0, noise="laplace"),
    "LocalDP, Laplace, epsilon 1": lambda: fl.LocalDP(epsilon=1.0, clip=1.0, noise="laplace"),
    "SignDS, epsilon 100": lambda: fl.SignDS(sign_eps=100.0),
}

Images = Annotated[
    Path | None,
    typer.Option(help="An image file of 32x32 images below one another; digits unless given."),
]
Labels = Annotated[Path | None, typer.Option(help="An .npz file whose y has their labels.")]
Records = Annotated[int, typer.Option(help="How many records are attacked.", min=1)]
Steps = Annotated[int, typer.Option(help="Steps of L-BFGS.", min=1)]
Tries = Annotated[int, typer.Option(help="First guesses, until one matches.", min=1)]


def main(
    images: Images = None,
    labels: Labels = None,
    records: Records = 2,
    steps: Steps = 50,
    tries: Tries = 3,
) -> None:
    """Attack every scheme's view; write the table, and the figure as a .png beside it."""
    x, y = _read(images, labels)
    name = "fl-leakage-digits" if images is None else f"fl-leakage-{images.parent.name}"
    chosen = np.linspace(0, len(x) - 1, records + 2).astype(int)[1:-1]
    rows: list[dict[str, Any]] = []
    found: dict[str, list[Reconstruction]] = {}
    for scheme, make in SCHEMES.items():
        found[scheme] = [_attacked(x[i], y[i], make(), steps, tries) for i in chosen]
        errors = [one.error(x[i]) for one, i in zip(found[scheme], chosen, strict=True)]
        rows.append(
            {
                "mechanism": scheme,
                "matching loss, least": min(one.loss for one in found[scheme]),
                "image error, least": min(errors),
                "image error, largest": max(errors),
                "error of one grey": float(np.mean([x[i].var(correction=0) for i in chosen])),
                f"records with loss below {NO_LEAK:g}": sum(one.matches for one in found[scheme]),
            }
        )
    publish(name, rows, records=chosen.tolist(), steps=steps, tries=tries, lr=LR)
    _draw(RESULTS / f"{name}.png", [x[i] for i in chosen], found)


def _read(images: Path | None, labels: Path | None) -> tuple[Tensor, Tensor]:
    if images is None:
        from sklearn.datasets import load_digits

        pixels, targets = load_digits(return_X_y=True)
        return torch.tensor(pixels / 16).reshape(-1, 1, 8, 8), torch.tensor(targets)
    from PIL import Image

    if labels is None:
        raise typer.BadParameter("--labels must be given with --images")
    strip = np.asarray(Image.open(images).convert("RGB")).reshape(-1, 32, 32, 3)
    x = torch.tensor(strip / 255.0).permute(0, 3, 1, 2)
    return x, torch.tensor(np.load(labels)["y"].astype(np.int64))


def _model(x: Tensor) -> nn.Module:
    torch.manual_seed(0)
    if x.shape[-1] == 32:
        return fl.models.lenet()
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Sigmoid(), nn.Linear(32, 10))


def _attacked(
    x: Tensor, y: Tensor, mechanism: fl.Mechanism, steps: int, tries: int
) -> Reconstruction:
    """Returns what the server makes of a round of one client with one record."""
    run = fl.FederatedAveraging(
        model=_model(x),
        clients=[(x[None], y[None])],
        aggregator=fl.PlainAggregator(),
        mechanism=mechanism,
        client_fraction=1.0,
        local_epochs=1,
        batch_size=None,
        lr=LR,
        weighting="equal",
    )
    run.fit(1, progress=False)
    assert run.outcome is not None
    view = run.outcome.transcript.view(fl.Coalition(server=True))
    updates = vectors_sent(view, 0, get_weights(run.model).size)
    found = attack(
        _model(x),
        updates,
        lr=LR,
        shape=x.shape,
        classes=CLASSES[x.shape[-1]],
        steps=steps,
        tries=tries,
    )
    assert found is not None
    return found


def _draw(path: Path, records: list[Tensor], found: dict[str, list[Reconstruction]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = len(found) + 1
    figure, axes = pyplot.subplots(
        len(records) + 1, columns, figsize=(2 * columns, 2 * len(records) + 3), squeeze=False
    )
    grid = axes[0, 0].get_gridspec()
    for axis in axes[0]:
        axis.remove()
    curves = figure.add_subplot(grid[0, :])
    for scheme, several in found.items():
        curves.semilogy(several[0].losses, label=scheme)
    curves.axhline(NO_LEAK, color="grey", linestyle="--", label="no leak above")
    curves.set_xlabel("step")
    curves.set_ylabel("matching loss")
    curves.legend(fontsize=6)
    for row, record in enumerate(records):
        shown = [record, *(several[row].record for several in found.values())]
        for axis, image, title in zip(axes[row + 1], shown, ["record", *found], strict=True):
            axis.imshow(image.permute(1, 2, 0).clamp(0, 1).numpy(), cmap="gray")
            axis.set_title(title, fontsize=6)
            axis.axis("off")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    print(path)
