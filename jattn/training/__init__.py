"""Training: losses, one epoch as a pure function, many seeds in one program, devices and hosts."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
