"""Types that several rooms share."""

from typing import Any, Literal

import numpy as np
from jaxtyping import Array

AnyArray = Array | np.ndarray  # on the device or on the host
Params = Any  # weights, a pytree of arrays, as `Network.init` returns them under "params"
Task = Literal["regression", "classification"]  # squared error of one output, or cross entropy of logits
