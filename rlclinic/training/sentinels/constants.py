"""Numbers that stay the same all run, kept where they are needed: a host that copies them to a GPU anew waits for it every time."""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor


def on(device: torch.device, values: Any) -> Tensor:
    """An array as float32 on a device, for reading only."""
    array = np.asarray(values, dtype=np.float32)
    return _kept(array.tobytes(), array.shape, device)


@lru_cache(maxsize=64)
def _kept(content: bytes, shape: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.from_numpy(np.frombuffer(content, dtype=np.float32).reshape(shape).copy()).to(device)
