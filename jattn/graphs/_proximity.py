"""Complete graphs whose edge weights are a function of node positions, such as graphs of superpixels."""

import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float
from jraph import GraphsTuple


@struct.dataclass
class Proximity:
    """Edge weights of complete graphs without self-loops: exp(-d / width) for two nodes at distance d.

    It takes the place of the weights in the `edges` of a `GraphsTuple`, as a pytree without leaves. The nodes have
    "position" [nodes, dimensions].

    Attributes:
      width: in units of the positions, or of their squares if `squared`.
      squared: whether the weights are exp(-d^2 / width).

    >>> Proximity(width=0.5).weights(np.array([0.0, 0.0]), np.array([[0.0, 0.0], [0.3, 0.4]])).tolist()
    [1.0, 0.368]
    """

    width: float = struct.field(pytree_node=False)
    squared: bool = struct.field(pytree_node=False, default=False)

    def __post_init__(self) -> None:
        if not self.width > 0:
            raise ValueError(f"width: {self.width} is not allowed, expected more than 0")

    def weights(
        self, a: Float[Array | np.ndarray, "... dimensions"], b: Float[Array | np.ndarray, "... dimensions"]
    ) -> Float[Array, "..."]:
        """Weights between nodes at positions `a` and `b`, whose shapes broadcast."""
        squares = sum((a[..., k] - b[..., k]) ** 2 for k in range(a.shape[-1]))  # without an array of all differences
        if self.squared:
            return jnp.exp(-squares / self.width)
        apart = squares > 0  # the root has no finite derivative at 0
        return jnp.exp(-jnp.where(apart, jnp.sqrt(jnp.where(apart, squares, 1)), 0) / self.width)


def list_edges(graphs: GraphsTuple) -> GraphsTuple:
    """Host-side graphs of a `Proximity` with all edges listed, n (n - 1) for a graph of n nodes.

    Raises:
      ValueError: the edges are listed already.

    >>> import jattn
    >>> graph = jattn.datasets.image_graphs(np.eye(8), segmentation=jattn.datasets.Segmentation(segments=4))
    >>> list_edges(graph).n_edge.tolist() == [n * (n - 1) for n in graph.n_node.tolist()]
    True
    """
    proximity = graphs.edges
    if not isinstance(proximity, Proximity):
        raise ValueError("graphs: their edges are listed already")
    n_node, position = np.asarray(graphs.n_node), np.asarray(graphs.nodes["position"])
    ends = [np.zeros((2, 0), int)]
    for start, n in zip(np.cumsum(n_node) - n_node, n_node, strict=True):
        ends.append(start + np.stack(np.nonzero(~np.eye(n, dtype=bool))))
    senders, receivers = np.concatenate(ends, axis=1).astype(np.int32)
    weights = np.asarray(proximity.weights(position[senders], position[receivers]))
    return graphs._replace(
        edges=weights, senders=senders, receivers=receivers, n_edge=(n_node * (n_node - 1)).astype(np.int32)
    )
