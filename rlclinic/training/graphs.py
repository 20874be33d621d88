"""A program of operations on a GPU as one CUDA graph: what a host would ask for in hundreds of calls, asked for in one."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")


def captured(program: Callable[[], Result], warm_up: Callable[[], object]) -> tuple[Any, Result]:
    """The graph of a program that reads and edits tensors that stay where they are; and its results, which every replay overwrites.

    The warm-up runs for real, beside the stream that others wait for: units are compiled, libraries take the memory they work in.
    The program itself is only recorded.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        warm_up()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = program()
    return graph, result
