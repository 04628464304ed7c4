"""A small data set in the TU collection's format, and writers of such files."""

import zipfile

import numpy as np

# A path of three nodes, a single node, and a loop beside an edge.
TOY = {
    "A": "2, 1\n1, 2\n2, 3\n3, 2\n5, 6\n6, 5\n5, 5\n",
    "graph_indicator": "1\n1\n1\n2\n3\n3\n",
    "graph_labels": "1\n-1\n1\n",
    "graph_attributes": "0.5, 1\n1.5, 2\n-2, 3e1\n",
    "node_labels": "0\n4\n0\n1\n1\n2\n",
    "node_attributes": " 1.5, 0\n2, 0\n3, 0\n4, 0\n5, 1\n6, 0\n",
}


def write(folder, files, name="TOY"):
    folder.mkdir(parents=True, exist_ok=True)
    for kind, text in files.items():
        (folder / f"{name}_{kind}.txt").write_bytes(text.encode("latin-1"))
    return folder


def write_zip(path, files, name="TOY", inside=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for kind, text in files.items():
            archive.writestr(f"{inside}{name}_{kind}.txt", text)
    return path


def random_files(sizes, seed=0, classes=2):
    """Files of random graphs of these sizes, with node labels 0 to 2, which tell a graph's class, and an attribute."""
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.arange(len(sizes)) % classes)
    start = np.cumsum(sizes) - sizes + 1
    edges = []
    for n, first in zip(sizes, start, strict=True):
        upper = np.triu(rng.random((n, n)) < 0.4, 1)
        edges += [f"{first + i}, {first + j}" for i, j in np.argwhere(upper | upper.T)]
    nodes = int(np.sum(sizes))
    of_node = np.repeat(label, sizes)
    return {
        "A": "\n".join(edges),
        "graph_indicator": "\n".join(map(str, np.repeat(np.arange(len(sizes)), sizes) + 1)),
        "graph_labels": "\n".join(map(str, label)),
        "node_labels": "\n".join(map(str, np.where(rng.random(nodes) < 0.5, of_node, 2))),
        "node_attributes": "\n".join(f"{x:.3f}" for x in rng.normal(5, 2, nodes)),
    }
