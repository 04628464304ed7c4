"""DiffPool: a learned soft assignment of the nodes of every graph to K clusters (Ying et al. 2018)."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float

from jattn._choices import Aggregation
from jattn._options import expect_at_least, set_numbers
from jattn.nn._convolution import ChebyGINConv
from jattn.nn._topology import HIGHEST, BlockTopology, Topology


@dataclass(frozen=True)
class DiffPoolConfig:
    """One DiffPool, placed before a convolution (Ying et al. 2018). `cluster_assignment` has the clusters of nodes.

    Attributes:
      clusters: number of clusters of every graph, K; a graph may have fewer nodes.
      entropy_weight: weight of the entropy of assignments in the auxiliary loss. It drives each node into one cluster,
        and where edges are many and convolutions sum, all nodes into the same one.
    """

    clusters: int = 4
    entropy_weight: float = 1.0

    def __post_init__(self) -> None:
        set_numbers(self, ints=("clusters",), floats=("entropy_weight",))
        expect_at_least(1, clusters=self.clusters)
        expect_at_least(0, entropy_weight=self.entropy_weight)


class DiffPool(nn.Module):
    """Pools nodes into clusters. A convolution like the network's assigns them: Ying et al. 2018, eq. 6."""

    config: DiffPoolConfig
    order: int
    aggregation: Aggregation
    hidden: int | None

    @nn.compact
    def __call__(
        self, x: Float[Array, "nodes features"], topology: Topology
    ) -> tuple[Float[Array, "rows features"], BlockTopology, Float[Array, " graphs"]]:
        """Features of the clusters, their topology, and the auxiliary loss of each graph."""
        assignment = ChebyGINConv(
            self.config.clusters, self.order, self.aggregation, self.hidden, precision=HIGHEST, name="assignment"
        )
        return dense_diff_pool(x, assignment(x, topology), topology, self.config.entropy_weight)


def dense_diff_pool(
    x: Float[Array, "nodes features"],
    scores: Float[Array, "nodes clusters"],
    topology: Topology,
    entropy_weight: float = 1.0,
) -> tuple[Float[Array, "rows features"], BlockTopology, Float[Array, " graphs"]]:
    r"""Features and topology of the clusters, graph after graph, and the auxiliary loss of each graph.

    .. math:: S = \mathrm{softmax}(\mathrm{scores}), \quad X' = S^T X, \quad A' = S^T A S

    over the N kept nodes of a graph: Ying et al. 2018, eq. 3 and 4. An empty graph has no clusters. The auxiliary loss,
    0 for an empty graph, is the sum of the two of section 3.2, the second with a weight w that is 1 there,

    .. math:: \frac{1}{N} \|A - S S^T\|_F + \frac{w}{N} \sum_i H(S_i), \quad H(p) = -\sum_c p_c \log p_c.

    The paper leaves open how the first is divided. Divided by N it is the root mean square of N^2 entries, comparable
    across graph sizes. It is computed without an N x N matrix:

    .. math:: \|A - S S^T\|_F^2 = \sum_{ij} A_{ij}^2 - 2 \mathrm{tr}(A') + \|S^T S\|_F^2.

    Args:
      x: features, 0 in rows of dropped nodes.
      scores: logits of the assignment of each node to clusters.
      topology: the graphs.
      entropy_weight: w.
    """
    features, clusters = x.shape[1], scores.shape[1]
    log_s = jax.nn.log_softmax(topology.mask_nodes(scores))
    s = topology.mask_nodes(jnp.exp(log_s))
    neighbors = topology.multiply(s)
    products = topology.outer_sum(s, jnp.concatenate([x, neighbors, s], axis=1))
    pooled, adjacency, overlap = jnp.split(products, [features, features + clusters], axis=2)

    count = jnp.maximum(topology.num_nodes, 1)
    square = topology.sum(topology.square_weights().degrees) - 2 * jnp.trace(adjacency, axis1=1, axis2=2)
    square += (overlap**2).sum((1, 2))
    # The derivative of the root is infinite at 0, the value of an empty graph. Rounding may give less than 0.
    distance = jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)
    entropy = topology.sum(-(s * log_s).sum(1))
    auxiliary = (distance + entropy_weight * entropy) / count
    return pooled.reshape(-1, features), _cluster_topology(adjacency, topology), auxiliary


def _cluster_topology(adjacency: Float[Array, "graphs clusters clusters"], topology: Topology) -> BlockTopology:
    """The topology of clusters: the clusters of each graph are a block."""
    graphs, clusters, _ = adjacency.shape
    return BlockTopology(
        n_node=jnp.full(graphs, clusters),
        node_graph=jnp.repeat(jnp.arange(graphs), clusters),
        graph_mask=topology.graph_mask,
        node_mask=jnp.repeat(topology.num_nodes > 0, clusters),
        degrees=adjacency.sum(2).reshape(-1),
        max_nodes=clusters,
        adjacency=adjacency,
    )
