from ._files import read_arrays, to_jsonable, write_arrays, write_atomically, write_json
from ._networks import describe, load_network, network_from, save_network
from ._pretrained import (
    PretrainedCard,
    PretrainedScores,
    load_pretrained,
    pretrained_cards,
    write_pretrained,
)
from ._published import PublishedModel, load_published

__all__ = [
    "PretrainedCard",
    "PretrainedScores",
    "PublishedModel",
    "describe",
    "load_network",
    "load_pretrained",
    "load_published",
    "network_from",
    "pretrained_cards",
    "read_arrays",
    "save_network",
    "to_jsonable",
    "write_arrays",
    "write_atomically",
    "write_json",
    "write_pretrained",
]
