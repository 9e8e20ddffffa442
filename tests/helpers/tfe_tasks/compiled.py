"""Tasks on what is traced, and how often."""

import numpy as np

import tfe_ext
from tests.helpers.tfe_tasks.session import graph, private


def the_first_call_traces_once():
    """Streams are made when they are first drawn from, which is while a function is traced."""
    traced = []

    @graph
    def run():
        traced.append(1)
        return private(np.ones([2])).reveal().to_native()

    with tfe_ext.ABY3():
        run()
    assert len(traced) == 1
