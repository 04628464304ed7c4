"""Files: atomic writing; a network in one file; the published models of the paper."""

from jattn.io._files import read_arrays, to_jsonable, write_arrays, write_atomically, write_json
from jattn.io._networks import describe, load_network, network_from, save_network
from jattn.io._published import PublishedModel, load_published

__all__ = [
    "PublishedModel",
    "describe",
    "load_network",
    "load_published",
    "network_from",
    "read_arrays",
    "save_network",
    "to_jsonable",
    "write_arrays",
    "write_atomically",
    "write_json",
]
