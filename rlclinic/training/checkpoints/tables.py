"""Large tables of which little is filled, as a file holds them: where something stands, what stands there, and what stands elsewhere.

A bonus that counts states keeps a place for each of 65,536: written whole, every checkpoint of a small network would be ten times as large.
"""

import math
from typing import Final

import numpy as np
import torch
from torch import Tensor

from rlclinic.training.checkpoints.state import BONUS

LARGE: Final = 4_096
"""Numbers from which on a tensor is looked at."""
FILLED: Final = 0.25
"""The share of a table above which it is written whole."""
_KNOWN: Final = (torch.float16, torch.float32, torch.float64)
MARK: Final = "@"
"""Between a table's name and its parts; no other tensor has it in its name."""

Tensors = dict[str, Tensor]


def pack(tensors: Tensors) -> Tensors:
    """The same numbers, a bonus' tables that are nearly empty in parts; NaN is empty where there is one, else 0."""
    packed: Tensors = {}
    for name, whole in tensors.items():
        if not name.startswith(f"{BONUS}.") or whole.numel() < LARGE or whole.dtype not in _KNOWN:
            packed[name] = whole
            continue
        flat = whole.detach().flatten()
        # numpy finds the few that are filled in a fifth of torch's time, which every checkpoint of every run would take.
        numbers = flat.cpu().numpy()
        # A NaN anywhere makes the sum one, and no NaN equals itself. By bits: -0.0 is not 0.0.
        empty = math.nan if bool(flat.sum().isnan()) else 0.0
        filled = numbers == numbers if math.isnan(empty) else numbers.view(f"i{numbers.itemsize}") != 0
        places = torch.from_numpy(np.flatnonzero(filled)).to(flat.device)
        if len(places) > FILLED * len(flat):
            packed[name] = whole
            continue
        packed[f"{name}{MARK}places"], packed[f"{name}{MARK}values"] = places.int(), flat[places]
        packed[f"{name}{MARK}shape"] = torch.tensor(whole.shape, dtype=torch.int64)
        packed[f"{name}{MARK}empty"] = torch.tensor(empty, dtype=flat.dtype)
    return packed


def unpack(tensors: Tensors) -> Tensors:
    """What was packed; ValueError for parts that do not belong together."""
    whole: Tensors = {}
    for name, tensor in tensors.items():
        table, mark, part = name.rpartition(MARK)
        if not mark:
            whole[name] = tensor
        elif part == "places":
            try:
                values, shape, empty = (tensors[f"{table}{MARK}{each}"] for each in ("values", "shape", "empty"))
                flat = torch.full((math.prod(shape.tolist()),), float(empty), dtype=values.dtype)
                whole[table] = flat.index_copy(0, tensor.long(), values).view(shape.tolist())
            except (KeyError, IndexError, RuntimeError) as error:
                raise ValueError(f"the parts of {table} do not belong together ({error})") from error
    return whole
