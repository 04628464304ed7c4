"""Batches of fixed size: packed on the host, kept on the device, gathered inside jit."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
