"""Files: atomic writing; a network in one file; ready-made models; the published models of the paper."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
