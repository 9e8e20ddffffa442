"""A trained model as a file: what it was trained on and how, and what it says of new records."""

from extensions.runs.model.files import (
    OpenedModel,
    header_array,
    read_opened,
    write_opened,
)
from extensions.runs.model.header import FEATURE, Header, header_of
from extensions.runs.model.inference import logits_of, scores_of, write_predictions

__all__ = [
    "FEATURE",
    "Header",
    "OpenedModel",
    "header_array",
    "header_of",
    "logits_of",
    "read_opened",
    "scores_of",
    "write_opened",
    "write_predictions",
]
