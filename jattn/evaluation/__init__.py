"""Evaluation: metrics, and the scores of many seeds on test subsets."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
