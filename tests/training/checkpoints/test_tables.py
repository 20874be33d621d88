"""Tables of a bonus that are nearly empty: small in a file, the same when read."""

import pytest
import torch

from rlclinic.training.checkpoints import tables


def table(empty: float, filled: int, shape: tuple[int, ...] = (3, 2_000)) -> torch.Tensor:
    whole = torch.full(shape, empty)
    whole.view(-1)[torch.randperm(whole.numel(), generator=torch.Generator().manual_seed(0))[:filled]] = torch.arange(filled).float()
    return whole


@pytest.mark.parametrize("empty", [0.0, torch.nan])
@pytest.mark.parametrize("filled", [0, 7, 1_400, 6_000])
def test_a_table_comes_back_as_it_was_and_takes_less_room_while_it_is_nearly_empty(empty: float, filled: int) -> None:
    before = {"bonus.counts": table(empty, filled), "bonus.found": torch.zeros(1), "obs": torch.zeros(5_000)}
    packed = tables.pack(before)
    after = tables.unpack(packed)
    assert after.keys() == before.keys()
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, rtol=0, atol=0, equal_nan=True)
    assert packed["obs"] is before["obs"]  # only what a bonus keeps is looked at
    size = sum(each.numel() * each.element_size() for name, each in packed.items() if name.startswith("bonus.counts"))
    assert (size < before["bonus.counts"].numel() * 4) == (filled < 6_000)


def test_a_zero_with_a_sign_keeps_it() -> None:
    whole = torch.zeros(5_000)
    whole[17] = -0.0
    assert torch.signbit(tables.unpack(tables.pack({"bonus.counts": whole}))["bonus.counts"][17])


@pytest.mark.parametrize("part", ["values", "shape", "empty"])
def test_parts_that_do_not_belong_together_are_refused(part: str) -> None:
    packed = tables.pack({"bonus.counts": table(0.0, 7)})
    with pytest.raises(ValueError, match="do not belong together"):
        tables.unpack({name: each for name, each in packed.items() if not name.endswith(part)})
    with pytest.raises(ValueError, match="do not belong together"):
        tables.unpack(packed | {"bonus.counts@places": torch.tensor([1_000_000])})
