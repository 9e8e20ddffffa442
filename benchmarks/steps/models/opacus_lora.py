"""Opacus at a step of `benchmarks.steps.lora`, in the clear.

``python -m benchmarks.steps.models.opacus_lora FOLDER RANK ROWS STEPS`` answers one line of JSON:
the processor's seconds of each step, and versions. It imports nothing of this project.
"""

import json
import sys
import time
import warnings
from importlib.metadata import version
from typing import Any

SIDE, CLASSES, WARM_UP = 8, 10, 2


def adapted(folder: str, rank: int) -> Any:
    """Returns the encoder of a folder with adapters of queries and values, and a head."""
    import torch
    import transformers
    from torch.nn import Linear, Module

    class Lora(Module):
        def __init__(self, frozen: Any) -> None:
            super().__init__()
            self.frozen = frozen
            self.down = Linear(frozen.in_features, rank, bias=False)
            self.up = Linear(rank, frozen.out_features, bias=False)
            torch.nn.init.zeros_(self.up.weight)

        def forward(self, x: Any) -> Any:
            return self.frozen(x) + 2.0 * self.up(self.down(x))

    class Classifier(Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = transformers.AutoModel.from_pretrained(folder).requires_grad_(False)
            for layer in self.encoder.layers:
                for name in ("q_proj", "v_proj"):
                    frozen = getattr(layer.attention, name)
                    setattr(layer.attention, name, Lora(frozen))
            self.head = Linear(self.encoder.config.hidden_size, CLASSES)

        def forward(self, pixels: Any) -> Any:
            z = self.encoder(pixel_values=pixels).last_hidden_state.mean(1)
            z = z - z.mean(1, keepdim=True)
            return self.head(z / z.norm(dim=1, keepdim=True))

    return Classifier().train()


def measure(folder: str, rank: int, rows: int, steps: int) -> list[float]:
    """Returns the processor's seconds of so many steps, on one thread."""
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    x, y = torch.randn(rows, 3, SIDE, SIDE), torch.arange(rows) % CLASSES
    model = adapted(folder, rank)
    trained = [each for each in model.parameters() if each.requires_grad]
    model, optimizer, _ = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(trained, lr=1.0),
        data_loader=DataLoader(TensorDataset(x, y), batch_size=rows),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
    )
    seconds = []
    for _ in range(WARM_UP + steps):
        began = time.process_time()
        optimizer.zero_grad()
        loss: Any = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        seconds.append(time.process_time() - began)
    return seconds[WARM_UP:]


def main() -> None:
    """Answer what the arguments ask for."""
    warnings.simplefilter("ignore")
    folder, *numbers = sys.argv[1:]
    seconds = measure(folder, *map(int, numbers))
    versions = {f"{package} beside": version(package) for package in ("opacus", "torch")}
    print(json.dumps({"seconds": seconds, "versions": versions}))


if __name__ == "__main__":
    main()
