"""Padded batches made on the host, and nodes moved into the padding."""

import jax
import jax.numpy as jnp
import jraph
import numpy as np
from jaxtyping import Array, Bool
from jraph import GraphsTuple

from jattn._options import expect_mask
from jattn.batching._buckets import Bucket
from jattn.graphs import expect_one_tuple, expect_padded, expect_undirected, expect_values
from jattn.nn._topology import over_features


def pad(graphs: GraphsTuple, bucket: Bucket | None = None) -> GraphsTuple:
    """One padded batch of graphs, the input of a network.

    Args:
      graphs: a host-side `GraphsTuple` without padding. If `edges` is an array of weights [edges], they are the entries
        of A: list every undirected edge in both directions. Edges with features of another shape may be directed.
      bucket: size of the batch. Default: the smallest that holds the graphs, rounded up to multiples of 8.

    Raises:
      ValueError: the bucket is too small, an edge leaves its graph or lacks its reverse, or jattn's own fields, where
        present, are not finite numbers.

    >>> from jattn import from_arrays
    >>> graph = from_arrays([[1.0], [2.0]], senders=[0, 1], receivers=[1, 0])
    >>> pad(graph).n_node.tolist()  # the second graph is padding
    [2, 6]
    """
    expect_one_tuple(graphs)
    expect_values(graphs)
    expect_undirected(graphs)
    smallest = Bucket(
        nodes=int(np.sum(graphs.n_node)) + 1,
        edges=int(np.sum(graphs.n_edge)) + 1,
        graphs=len(graphs.n_node) + 1,
        max_nodes=int(np.max(graphs.n_node, initial=0)),
    )
    bucket = bucket or smallest._replace(nodes=-(-smallest.nodes // 8) * 8, edges=-(-smallest.edges // 8) * 8)
    for name in ("nodes", "edges", "graphs"):
        capacity, minimum = getattr(bucket, name), getattr(smallest, name)
        if capacity < minimum:
            raise ValueError(f"bucket: {capacity} {name}, but the graphs and their padding need {minimum}")
    return jraph.pad_with_graphs(graphs, bucket.nodes, bucket.edges, bucket.graphs)


def drop_nodes(graph: GraphsTuple, node_mask: Bool[Array, " nodes"]) -> GraphsTuple:
    """Moves some nodes and their edges into the padding graph of a padded `GraphsTuple`; shapes stay the same.

    For graph networks that take no masks; jattn's networks take a `Topology` with dropped nodes instead. All features
    of the padding graph become 0.

    Args:
      graph: padded as by `jraph.pad_with_graphs`, with any features.
      node_mask: the nodes to keep; its entries for padding are ignored.

    Raises:
      ValueError: the mask is not one boolean per row, or the graph is not padded. Inside jit missing padding can't be
        seen: the last graph then counts as padding.

    >>> from jattn import from_arrays
    >>> graph = pad(from_arrays([[1.0], [2.0], [3.0]], senders=[0, 1], receivers=[1, 0]))
    >>> drop_nodes(graph, jnp.arange(8) != 1).n_node.tolist()
    [2, 6]
    """
    expect_mask("node_mask", node_mask, jax.tree.leaves(graph.nodes)[0].shape[0], "row of the batch")
    expect_padded(graph)
    graph, node_mask = jax.device_put((graph, node_mask))
    real = jraph.get_graph_padding_mask(graph)
    padding = real.sum()  # the first graph after the real ones
    rows, graphs = len(node_mask), len(real)
    node_graph = jnp.repeat(jnp.arange(graphs), graph.n_node, total_repeat_length=rows)
    new_graph = jnp.where(node_mask & real[node_graph], node_graph, padding)
    order = jnp.argsort(new_graph, stable=True)
    new_row = jnp.zeros(rows, order.dtype).at[order].set(jnp.arange(rows))
    stays = (new_graph[graph.senders] < padding) & (new_graph[graph.receivers] < padding)
    edge_graph = jnp.where(stays, node_graph[graph.senders], padding)
    edge_order = jnp.argsort(edge_graph, stable=True)
    first_padding_node = (new_graph < padding).sum()

    def ends(nodes: Array) -> Array:
        return jnp.where(stays, new_row[nodes], first_padding_node)[edge_order]

    def in_order(x: Array, order: Array, stays: Array) -> Array:
        return jnp.where(over_features(stays[order], x), x[order], jnp.zeros((), x.dtype))

    return graph._replace(
        nodes=jax.tree.map(lambda x: in_order(x, order, new_graph < padding), graph.nodes),
        edges=jax.tree.map(lambda x: in_order(x, edge_order, stays), graph.edges),
        senders=ends(graph.senders),
        receivers=ends(graph.receivers),
        n_node=jnp.bincount(new_graph, length=graphs),
        n_edge=jnp.bincount(edge_graph, length=graphs),
    )
