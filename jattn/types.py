"""Types that several rooms share."""

from typing import Any

import numpy as np
from jaxtyping import Array

from jattn._choices import Change as Change
from jattn._choices import Task as Task

AnyArray = Array | np.ndarray  # on the device or on the host
Params = Any  # weights, a pytree of arrays, as `Network.init` returns them under "params"
