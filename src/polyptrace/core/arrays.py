"""Types of NumPy arrays; shapes are in the comments where they are used."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Float32s = NDArray[np.float32]
Bools = NDArray[np.bool_]
Strings = NDArray[np.object_]  # Python strings, "" where unknown
Pixels = NDArray[np.uint8]  # images or crops, RGB
