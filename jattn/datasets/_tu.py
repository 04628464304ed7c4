"""Reader of the text format of the TU collection, from a zip or a folder.

A data set NAME has the files NAME_A.txt (a directed edge "row, column" per line) and NAME_graph_indicator.txt (the
graph of each node). It may have NAME_graph_labels.txt, NAME_graph_attributes.txt, NAME_node_labels.txt and
NAME_node_attributes.txt (a line per graph or node). Nodes and graphs are counted from 1 in the files, from 0 here.
NAME_edge_labels.txt and NAME_edge_attributes.txt are not read, with a warning.
"""

import contextlib
import operator
import os
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float32, Int32
from jraph import GraphsTuple

from jattn.datasets._tables import Location, read_table
from jattn.graphs import OneHot

_OF_MAC = "__MACOSX"
_IGNORED = ("edge_labels", "edge_attributes")
_KINDS = ("A", "graph_indicator", "graph_labels", "graph_attributes", "node_labels", "node_attributes")


class TUData(NamedTuple):
    """The files of a data set as arrays; None for a file that does not exist.

    Attributes:
      name: the data set's name.
      senders: first node of each directed edge, ascending. Every edge is listed once in each direction.
      receivers: second node of each directed edge, ascending for each sender.
      n_node: number of nodes of each graph.
      graph_labels: class of each graph, numbered as in the file.
      graph_attributes: values to regress.
      node_labels: categories of each node, numbered as in the file.
      node_attributes: continuous features of each node.
    """

    name: str
    senders: Int32[np.ndarray, " edges"]
    receivers: Int32[np.ndarray, " edges"]
    n_node: Int32[np.ndarray, " graphs"]
    graph_labels: Int32[np.ndarray, " graphs"] | None
    graph_attributes: Float32[np.ndarray, "graphs targets"] | None
    node_labels: Int32[np.ndarray, "nodes labels"] | None
    node_attributes: Float32[np.ndarray, "nodes attributes"] | None


def read_tu(path: str | os.PathLike[str], name: str | None = None) -> TUData:
    r"""Reads a data set in the text format of the TU collection and checks every line.

    Args:
      path: a zip, a folder that holds `NAME.zip`, or a folder that holds the text files. In a zip or a folder, the text
        files may be one folder deeper.
      name: name of the data set; it may be left out if `path` holds only one.

    Raises:
      FileNotFoundError: a file is missing.
      ValueError: a file breaks the format (the message names the file and the line), or `path` has several data sets.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:  # one graph with one edge
    ...     _ = Path(folder, "TOY_A.txt").write_text("1, 2\n2, 1\n")
    ...     _ = Path(folder, "TOY_graph_indicator.txt").write_text("1\n1\n")
    ...     read_tu(folder).n_node.tolist()
    [2]
    """
    with _opened(Path(path), name) as (folder, stem):
        if ignored := [file.name for file in _files(folder, stem, _IGNORED)]:
            warnings.warn(f"{folder}: {' and '.join(ignored)} not read; edges have weight 1", stacklevel=2)

        def table(kind: str, dtype: type[np.number], columns: int | None = None, rows: int | None = None) -> Any:
            file = folder / f"{stem}_{kind}.txt"
            if not file.is_file():
                return None
            numbers = read_table(file, dtype, columns)
            if rows is not None and len(numbers) != rows:
                raise ValueError(
                    f"{file}: expected {rows} lines, one for each {kind.split('_')[0]}, got {len(numbers)}"
                )
            return numbers

        indicator = table("graph_indicator", np.int32, columns=1)
        if indicator is None:
            raise FileNotFoundError(f"{folder / f'{stem}_graph_indicator.txt'} is missing")
        nodes = len(indicator)
        labels = table("graph_labels", np.int32, columns=1)
        attributes = table("graph_attributes", np.float32, rows=None if labels is None else len(labels))
        per_graph = attributes if labels is None else labels
        graphs = None if per_graph is None else len(per_graph)
        n_node = _graph_sizes(indicator[:, 0], graphs, folder / f"{stem}_graph_indicator.txt")
        senders, receivers = _edges(table("A", np.int32, columns=2), indicator[:, 0], folder / f"{stem}_A.txt")
        return TUData(
            name=stem,
            senders=senders,
            receivers=receivers,
            n_node=n_node,
            graph_labels=None if labels is None else labels[:, 0],
            graph_attributes=attributes,
            node_labels=table("node_labels", np.int32, rows=nodes),
            node_attributes=table("node_attributes", np.float32, rows=nodes),
        )


def sources(path: str | os.PathLike[str], name: str | None = None) -> tuple[str, list[Path]]:
    """The name of the data set that `read_tu` would read and the files on disk that hold it; errors as in `read_tu`."""
    with _opened(Path(path), name) as (folder, stem):
        if isinstance(folder, zipfile.Path):
            return stem, [Path(str(folder.root.filename))]
        return stem, [Path(str(file)) for file in _files(folder, stem, _KINDS)]


def as_graphs(data: TUData, features: np.ndarray | OneHot, attention: np.ndarray, label: np.ndarray) -> GraphsTuple:
    """All graphs of a data set as one GraphsTuple with edges of weight 1.

    Args:
      data: gives the structure.
      features: input features, [nodes, features], uint8 or float32, or a `OneHot`.
      attention: target attention, [nodes], at least 0.
      label: class or value to regress, [graphs]; int32 in the result if all are integers, float32 otherwise.

    Returns:
      A numpy `GraphsTuple` with the fields that `jattn.graphs` lists.
    """
    bounds = np.insert(np.cumsum(data.n_node, dtype=np.int32), 0, 0)
    whole = np.array_equal(label, np.round(label))
    return GraphsTuple(
        nodes={"features": features, "attention": attention.astype(np.float32)},
        edges=np.ones(len(data.senders), np.float32),
        senders=data.senders,
        receivers=data.receivers,
        globals={"label": label.astype(np.int32 if whole else np.float32)},
        n_node=data.n_node,
        n_edge=np.diff(np.searchsorted(data.senders, bounds)).astype(np.int32),  # senders ascend
    )


def consecutive_splits(graphs: GraphsTuple, sizes: dict[str, int]) -> dict[str, GraphsTuple]:
    """Cuts a numpy GraphsTuple into splits that follow one another.

    Args:
      graphs: all graphs.
      sizes: number of graphs of each split, in order.

    Returns:
      The splits by name, all but senders and receivers as views of `graphs`.

    Raises:
      ValueError: there are more or fewer graphs than the sizes add up to.
    """
    if len(graphs.n_node) != sum(sizes.values()):
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise ValueError(f"expected {sum(sizes.values())} graphs ({listed}), got {len(graphs.n_node)}")
    bounds = np.cumsum([0, *sizes.values()])
    node_bounds = np.insert(np.cumsum(graphs.n_node), 0, 0)[bounds]
    edge_bounds = np.insert(np.cumsum(graphs.n_edge), 0, 0)[bounds]
    splits = {}
    for i, split in enumerate(sizes):
        graph, node, edge = (slice(b[i], b[i + 1]) for b in (bounds, node_bounds, edge_bounds))
        splits[split] = GraphsTuple(
            nodes=jax.tree.map(operator.itemgetter(node), graphs.nodes),
            edges=graphs.edges[edge],
            senders=graphs.senders[edge] - np.int32(node.start),
            receivers=graphs.receivers[edge] - np.int32(node.start),
            globals=jax.tree.map(operator.itemgetter(graph), graphs.globals),
            n_node=graphs.n_node[graph],
            n_edge=graphs.n_edge[graph],
        )
    return splits


def _files(folder: Location, name: str, kinds: Iterable[str]) -> list[Location]:
    files = [folder / f"{name}_{kind}.txt" for kind in kinds]
    return [file for file in files if file.is_file()]


@contextlib.contextmanager
def _opened(path: Path, name: str | None) -> Iterator[tuple[Location, str]]:
    """The folder, on disk or in a zip, that holds the files of a data set, and the data set's name."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    found = _data_sets(path, name) if path.is_dir() else []
    with contextlib.ExitStack() as stack:
        if not found:
            archive = _only_zip(path, name) if path.is_dir() else path
            stack.enter_context(_named_if_damaged(archive))
            found = _data_sets(zipfile.Path(stack.enter_context(zipfile.ZipFile(archive))), name)
            if not found:
                raise FileNotFoundError(f"{archive} has no {name or 'NAME'}_A.txt, at its top or one folder deeper")
        if len(found) > 1:
            listed = ", ".join(str(folder / f"{stem}_A.txt") for folder, stem in found)
            raise ValueError(f"{path} has several data sets ({listed}): give the `name` of one, or a narrower `path`")
        yield found[0]


@contextlib.contextmanager
def _named_if_damaged(archive: Path) -> Iterator[None]:
    """Errors of opening and reading a zip name the file."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        is_zip = archive.suffix.lower() == ".zip"
        remedy = "give the data set's zip or a folder" if is_zip else "unpack it and give the path of its folder"
        raise ValueError(f"{archive} is not a zip file, or is incomplete or damaged ({error}): {remedy}") from error


def _data_sets(root: Location, name: str | None) -> list[tuple[Location, str]]:
    """Folder and name of each data set, or of those called `name`, in a folder and its subfolders.

    The files that macOS adds to zips, in `__MACOSX` or with a leading `._`, are skipped.
    """
    folders: list[Location] = [root, *(child for child in root.iterdir() if child.is_dir() and child.name != _OF_MAC)]
    files = [
        (folder, file.name)
        for folder in folders
        for file in folder.iterdir()
        if file.name.endswith("_A.txt") and not file.name.startswith("._")
    ]
    found = [(folder, file.removesuffix("_A.txt")) for folder, file in files]
    return [(folder, stem) for folder, stem in found if name is None or stem == name]


def _only_zip(folder: Path, name: str | None) -> Path:
    files = [file for file in sorted(folder.iterdir()) if file.suffix.lower() == ".zip" and file.name[:2] != "._"]
    zips = [file for file in files if name is None or file.stem == name]
    if not zips:
        stem = name or "NAME"
        raise FileNotFoundError(f"{folder} has no {stem}.zip, and no {stem}_A.txt at its top or one folder deeper")
    if len(zips) > 1:
        raise ValueError(f"{folder} has several zips ({', '.join(file.name for file in zips)}): give the `name` of one")
    return zips[0]


def _graph_sizes(indicator: np.ndarray, graphs: int | None, file: Location) -> np.ndarray:
    """Number of nodes of each graph, from the graph of each node, counted from 1."""
    if not len(indicator):
        raise ValueError(f"{file} is empty: expected the graph of each node")
    before = np.insert(indicator[:-1], 0, 1)
    falls = indicator < before
    if falls.any():
        line = int(falls.argmax())
        allowed = (
            "graphs count from 1"
            if line == 0
            else f"line {line} has graph {before[line]}, and graphs must follow in order"
        )
        raise ValueError(f"{file}, line {line + 1}: graph {indicator[line]}, but {allowed}")
    if graphs is not None and indicator[-1] > graphs:
        line = int((indicator > graphs).argmax())
        raise ValueError(f"{file}, line {line + 1}: graph {indicator[line]}, but only {graphs} graphs have a label")
    return np.bincount(indicator - 1, minlength=graphs or 0).astype(np.int32)


def _edges(pairs: np.ndarray, indicator: np.ndarray, file: Location) -> tuple[np.ndarray, np.ndarray]:
    """Sorted senders and receivers from pairs of nodes counted from 1, after checking the pairs."""
    rows, columns = pairs.T

    def refuse(faulty: np.ndarray, why: str) -> None:
        if faulty.any():
            line = int(faulty.argmax())
            raise ValueError(f"{file}, line {line + 1}: edge {rows[line]}, {columns[line]} {why}")

    nodes = len(indicator)
    refuse(
        (np.minimum(rows, columns) < 1) | (np.maximum(rows, columns) > nodes), f"is out of range: nodes are 1-{nodes}"
    )
    refuse(indicator[rows - 1] != indicator[columns - 1], "joins two graphs")
    # Sorting one 64-bit integer per edge is several times as fast as sorting pairs.
    key = (rows - np.int64(1)) * nodes + columns - 1
    ordered = np.sort(key)
    if (twice := ordered[1:] == ordered[:-1]).any():
        again = np.flatnonzero(key == ordered[twice.argmax()])[1]
        refuse(np.arange(len(key)) == again, "is listed twice")
    reverse = np.sort((columns - np.int64(1)) * nodes + rows - 1)
    if not np.array_equal(ordered, reverse):
        refuse(~np.isin(key, reverse), "has no reverse: list every edge in both directions")
    del key, reverse  # they are large
    senders, receivers = np.divmod(ordered, nodes)
    return senders.astype(np.int32), receivers.astype(np.int32)
