"""Short names of NumPy's array types, for signatures, and the sample rate of speech models."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
FixedBytes = NDArray[np.bytes_]  # strings of bytes of one length
Float32s = NDArray[np.float32]
Float64s = NDArray[np.float64]
Int16s = NDArray[np.int16]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
UInt8s = NDArray[np.uint8]
UInt16s = NDArray[np.uint16]
UInt32s = NDArray[np.uint32]
UInt64s = NDArray[np.uint64]


RATE = 16_000  # Hz
