"""Values are put where a graph reads them, whatever they are and wherever they lie."""

import pytest
import torch
from torch import Tensor

from rlclinic.training.engines import cuda_graphs


def some(device: str) -> tuple[list[Tensor], list[Tensor]]:
    """Where values shall be, and the values: three kinds, one that lies crosswise, one that is there already."""
    there = torch.arange(4.0, device=device)
    own = [torch.zeros(2, 3), torch.zeros(3, dtype=torch.int64), torch.zeros(3, 2).T, torch.zeros(2, dtype=torch.float64), torch.zeros(())]
    given = [torch.ones(2, 3), torch.tensor([1, 2, 3]), torch.arange(6.0).view(2, 3), torch.tensor([1.5, 2.5]), torch.tensor(7.0)]
    return [*(each.to(device) for each in own), there], [*(each.to(device) for each in given), there]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_every_value_arrives_and_every_place_stays_where_it_was(device: str) -> None:
    own, given = some(device)
    places = [each.data_ptr() for each in own]
    cuda_graphs.fill(own, given)
    for place, to, value in zip(places, own, given, strict=True):
        assert to.data_ptr() == place
        assert torch.equal(to, value)


@pytest.mark.cuda
def test_a_graph_computes_with_what_was_put_in_and_leaves_its_result_in_one_place() -> None:
    place = torch.zeros(3, device="cuda")
    warmed: list[int] = []
    graph, found = cuda_graphs.captured(lambda: place * 2, lambda: warmed.append(1))
    assert warmed == [1]
    for number in (1.0, 5.0):
        cuda_graphs.fill([place], [torch.full((3,), number, device="cuda")])
        graph.replay()
        assert found.tolist() == [2 * number] * 3
