"""The type of decoded images and frames. Imports no decoder."""

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
"""RGB: an image [height, width, 3], or several [n, height, width, 3]."""
