"""Columns of the same records, which lie with different owners."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from extensions.data.datasets import no_labels
from extensions.errors import ArgumentError
from extensions.layers.chain import Network
from extensions.privacy.sampling import OwnRecords, as_reals, check_records
from extensions.rules import one_of
from tfe_ext.graphs.batches import check_players
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.inputs import share_rows
from tfe_ext.ring.shares import Replicated

import tf_encrypted as tfe


@dataclass(frozen=True)
class Columns:
    """Columns of the same records in one order by their owners' names, and one owner's labels.

    They are shared once, for steps with a ``sample_rate`` of 1. Epsilon towards other owners, who
    know which records there are, is ``get_epsilon(delta, neighbours="replace")``. Counts do not
    notice such records that the model was trained on.
    """

    x: Any
    y: Any

    def shared(
        self, ring: ABY3Ring, network: Network, max_feature_norm: float
    ) -> Sequence[Replicated]:
        """Returns shares of whole rows, of targets and of exact squared norms; one round.

        Each owner's columns are scaled by 1 / sqrt(owners), so that whole rows keep the bound.
        """
        checked = self._checked(network, ring.frac_bits, max_feature_norm)
        config, own = tfe.get_config(), [*checked.values()]
        at = [config.get_player(name).device_name for name in checked]

        def rows(parts: Sequence[Any]) -> Replicated:
            placed = [(at[i], [part]) for i, part in enumerate(parts) if len(part)]
            return share_rows(ring.servers, placed)[0]

        x, y, norms = (
            rows(parts)
            for parts in (
                [each.features.T for each in own],
                [each.labels.T for each in own],
                [np.einsum("ij,ij->i", each.features, each.features)[None] for each in own],
            )
        )
        return x.T, y.T, norms.sum(0)

    def _checked(
        self, network: Network, frac_bits: int, max_feature_norm: float
    ) -> dict[str, OwnRecords]:
        x, y = self.x, self.y
        if not isinstance(x, Mapping) or not isinstance(y, Mapping) or len(x) < 2:
            given = f"{type(x).__name__}, {type(y).__name__}"
            allowed = "dictionaries by owners' names: of two or more columns, of one the labels"
            raise ArgumentError("x, y", given, allowed, code="type")
        check_players("x", x)
        if len(y) != 1 or not y.keys() <= x.keys():
            raise ArgumentError("y", f"of {sorted(y)}", f"of one of {sorted(x)}", code="data")
        scale, own = 1 / math.sqrt(len(x)), {}
        for name, columns in x.items():
            features = as_reals("x", columns).astype(np.float64) * scale
            own[name] = check_records(
                features,
                y.get(name, no_labels(len(features))),
                frac_bits=frac_bits,
                classes=network.widths[-1] if name in y else 0,
                max_feature_norm=max_feature_norm * scale,
            )
        sizes = {name: len(each) for name, each in own.items()}
        if len({*sizes.values()}) > 1:
            raise ArgumentError("x", sizes, "of as many records at every owner", code="shape")
        width = sum(each.features.shape[1] for each in own.values())
        if width != network.widths[0]:
            allowed = f"{network.widths[0]}, as in the model's first layer"
            raise ArgumentError("x", f"{width} features", allowed, code="shape")
        return own


def of_columns(sample_rate: float, x: Any, y: Any, validation: Any) -> tuple[Any, None, Any]:
    """Returns what `Sequential.fit` is given by columns; all records take part in each step."""
    one_of((1.0,)).check("sample_rate", sample_rate, "Every owner knows who is in a step.")
    return Columns(x, y), None, validation and (Columns(*validation), None)
