"""The ABY3 session that the tasks of one process share: three servers and two owners of data."""

from contextlib import contextmanager

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework.func_graph import FuncGraph
from tensorflow.python.ops.control_flow_v2_func_graphs import CondBranchFuncGraph

import tfe_ext

import tf_encrypted as tfe

OWNER, OTHER = "owner", "other"
CONFIG = tfe_ext.local_config(OWNER, OTHER)
tfe.set_config(CONFIG)
PROTOCOL = tfe_ext.ABY3(fixedpoint_config="f20")
tfe.set_protocol(PROTOCOL)
DEVICES = [server.device_name for server in PROTOCOL.servers]


def private(value, player=OWNER, **options):
    """Shares of the value, given by the player."""
    return tfe.define_private_input(player, lambda: tf.constant(value), **options)


def share_values(x):
    """The six shares as tensors, by server."""
    return [[share.value for share in pair] for pair in x.unwrapped]


def graph(function):
    return tf.function(function, autograph=False)


def assert_replicated(shares):
    """Each server's second share is its neighbour's first."""
    for i in range(3):
        np.testing.assert_array_equal(shares[i][1], shares[(i + 1) % 3][0])


@contextmanager
def counted_graphs():
    """Yields a function that says how many functions have been traced since, without branches."""
    made = []
    begin = FuncGraph.__init__

    def counting(own, *args, **kwargs):
        if not isinstance(own, CondBranchFuncGraph):
            made.append(1)
        begin(own, *args, **kwargs)

    FuncGraph.__init__ = counting
    try:
        yield lambda: len(made)
    finally:
        FuncGraph.__init__ = begin


def operations(function):
    """The nodes of the graphs that TensorFlow makes for the devices when a function first runs."""
    session = context.context()
    session.enable_graph_collection()
    try:
        function()
        graphs = session.export_run_metadata().partition_graphs
    finally:
        session.disable_graph_collection()
    return [node for partition in graphs for node in partition.node]


def messages(function):
    """What the first run of a traced function sends: (from, to, type, name) of each tensor.

    Control edges are left out.
    """
    return sent_by(operations(function))


def sent_by(nodes):
    """The messages among such nodes."""
    sent = []
    for node in (node for node in nodes if node.op == "_Send"):
        name = node.attr["tensor_name"].s.decode()
        if "ControlEdges" not in name:
            ends = node.attr["send_device"].s.decode(), node.attr["recv_device"].s.decode()
            sent.append((*ends, tf.as_dtype(node.attr["T"].type), name))
    return sent
