"""A small data set in the TU collection's format, and writers of such files."""

import zipfile

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
