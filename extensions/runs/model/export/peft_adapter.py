"""A folder as peft has it: adapters of an encoder, which peft loads, and the head beside them."""

import json
from pathlib import Path

import numpy as np

from extensions import durable
from extensions.data.features.networks.adapters import SCALING
from extensions.errors import optional
from extensions.runs.model.files import HEADER, OpenedModel


def write(folder: Path, model: OpenedModel) -> None:
    """Writes ``adapter_model.safetensors``, ``adapter_config.json`` and ``head.safetensors``.

    ``PeftModel.from_pretrained(AutoModel.from_pretrained(ENCODER), folder)`` is the encoder with
    its adapters. The head's ``weight`` and ``bias`` take the mean of its last hidden states, over a
    text's tokens or an image's patches, less its own mean, of norm 1.
    """
    safetensors = optional("safetensors.numpy", "safetensors", "encoders")
    encoder, ((weight, bias),) = model.header.encoder, model.parameters
    assert encoder is not None, "only models with adapters have this format"
    head, *parts = encoder.split(weight.reshape(-1), len(bias))
    names = [f"{name}.lora_{part}.weight" for part in "AB" for name in encoder.layers]
    adapters = {f"base_model.model.{name}": each for name, each in zip(names, parts, strict=True)}
    settings = {
        "peft_type": "LORA",
        "task_type": "FEATURE_EXTRACTION",
        "base_model_name_or_path": encoder.encoder.name.removeprefix("hf:"),
        "r": encoder.rank,
        "lora_alpha": SCALING * encoder.rank,
        "target_modules": [*encoder.layers],
        "lora_dropout": 0.0,
        "bias": "none",
        "inference_mode": True,
    }
    metadata = {HEADER: model.header.to_json(), "format": "pt"}
    files = {
        "adapter_model.safetensors": safetensors.save(_singles(adapters), metadata=metadata),
        "head.safetensors": safetensors.save(_singles({"weight": head, "bias": bias})),
        "adapter_config.json": json.dumps(settings, indent=2).encode(),
    }
    folder.mkdir(mode=0o700, exist_ok=True)
    for name, content in files.items():
        with durable.write(folder / name) as file:
            file.write(content)


def _singles(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.ascontiguousarray(each, dtype=np.float32) for name, each in arrays.items()}
