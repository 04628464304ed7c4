"""Attention over nodes in graph neural networks: a functional API on jraph's GraphsTuples.

Graphs: `from_arrays`, `from_dense`, `from_networkx`, `Proximity`, `OneHot`, `check`, `select_graphs`, `pad`.
Batches: `device_put`, `pack`, `gather`, `evaluation_batches`.
Models: `Network` with `AttentionPoolingConfig` or `DiffPoolConfig`; for other networks `AttentionPooling` and
`ChebyGINConv` over a topology by `sparse_topology` or `block_topology`.
Training: `make_train` for one seed, `train_seeds` for many. Weak supervision: `leave_one_out`.
Metrics: `accuracy`, `matthews_correlation`, `attention_auc`, `regression_errors`.
Files: `save_network`, `load_network`. Ready-made models: `load_pretrained`, `pretrained_cards`.
Costs of a device: `CostModel`, `use_cost_model`. Modules: `jattn.datasets`, `jattn.plots`.

A name is imported where it is first used; `__init__.pyi` says from where.
"""

import lazy_loader

__getattr__, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)
_modules = {"attribution", "batching", "datasets", "evaluation", "graphs", "io", "nn", "plots", "training", "types"}
__all__ = [name for name in _names if name not in _modules]
