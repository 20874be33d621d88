"""A program of operations on a GPU as one CUDA graph: what a host would ask for in hundreds of calls, asked for in one."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")


def captured(program: Callable[[], Result], warm_up: Callable[[], object]) -> tuple[torch.cuda.CUDAGraph, Result]:
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


def fill(own: Iterable[Tensor], given: Iterable[Tensor]) -> None:
    """Copy values to where a graph reads them. Tensors of one kind are copied by one operation; those that lie there already, not."""
    kinds: dict[torch.dtype | int, tuple[list[Tensor], list[Tensor]]] = {}
    for to, value in zip(own, given, strict=True):
        if to.data_ptr() != value.data_ptr():
            plain = to.is_contiguous() and value.is_contiguous()
            into, out_of = kinds.setdefault(value.dtype if plain and to.dtype == value.dtype else id(to), ([], []))
            into.append(to)
            out_of.append(value)
    for into, out_of in kinds.values():
        torch._foreach_copy_(into, out_of)


@contextmanager
def products(*, tf32: bool) -> Iterator[None]:
    """How matrix products are computed: a graph keeps what held when it was captured."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
