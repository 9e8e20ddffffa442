"""A model's file at its owner: what it is, and its layers; of mode 0600."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

from crypten_ext.pencil.terms import Terms
from extensions.errors import ArgumentError
from extensions.network.passes import forward
from extensions.owners.data import Labels, write_private
from extensions.protocols.host import named, pairs
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Reals, decode, encode
from extensions.runs.model.files import ModelFile

_TERMS = "terms"
_BLOCK = 4096


def write_model(path: Path, terms: Terms, layers: list[tuple[Reals, Reals]]) -> None:
    """The file holds this model, as a whole."""
    arrays = named([part for pair in layers for part in pair])
    write_private(path, **arrays, **{_TERMS: np.array(json.dumps(asdict(terms)))})


def read_model(path: Path) -> tuple[Terms, list[tuple[Reals, Reals]]]:
    """Returns what `write_model` wrote.

    Raises ArgumentError if the file is none, or its layers are others than it says.
    """
    file = ModelFile("start", path)
    arrays = file.arrays
    try:
        terms = Terms(**json.loads(str(arrays[_TERMS])))
    except ArgumentError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        allowed = "a model of `pea pencil owner`"
        raise ArgumentError("start", str(path), allowed, code="file") from error
    return terms, pairs(file.reals(terms.network))


def accuracy(terms: Terms, layers: list[tuple[Reals, Reals]], x: Reals, y: Labels) -> float:
    """Returns the fraction of records that the model classifies correctly."""
    f = terms.frac_bits
    ring = ClearRing(f)
    parameters = [(encode(w, f), encode(b, f)) for w, b in layers]
    right = 0
    size = terms.network.rows_at_once(_BLOCK)
    for start in range(0, len(x), size):
        block = slice(start, start + size)
        logits = forward(ring, terms.network, parameters, encode(x[block], f)).logits
        right += int((decode(logits, f).argmax(axis=1) == y[block]).sum())
    return right / len(x)
