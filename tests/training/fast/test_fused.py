"""The network in one kernel gives what the written-out layers give, there and back."""

from typing import Any

import pytest
import torch
from torch import Tensor

from rlclinic.training.fast import actor_critic_backward, fused
from tests.training.cohorts import TASKS, make_config, workshop

SIZES = {"discrete": "categorical", "box": "normal"}


def parts(task: str, members: int, rows: int, device: str = "cpu") -> tuple[Any, Tensor, Tensor, Tensor, Tensor]:
    """A policy with random weights, observations, and pulls at its outputs."""
    configs = [make_config(env=TASKS[task][0], net={"hidden": [32, 32]}, seed=seed) for seed in range(members)]
    policy = workshop(configs).plan.policy
    generator = torch.Generator().manual_seed(members * rows)
    outputs = policy.layout.shapes["policy.weight"][0]
    shapes = ((members, policy.layout.width), (members, rows, policy.obs_size), (members, rows, outputs), (members, rows))
    flat, obs, head, value = (torch.randn(shape, generator=generator).to(device) for shape in shapes)
    return policy, flat * 0.3, obs, head, value


def assert_like_written(task: str, members: int, rows: int, device: str, exact: bool = True) -> None:
    policy, flat, obs, head, value = parts(task, members, rows, device)
    params = policy.layout.views(flat)
    done = actor_critic_backward.forward(policy, params, obs)
    found_head, found_value = fused.forward(policy, flat, obs)
    torch.testing.assert_close(found_head, done.head, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found_value, done.value, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(fused.actor(policy, flat, obs), done.head, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(fused.critic(policy, flat, obs), done.value, rtol=1e-4, atol=1e-5)
    log_std = torch.ones(members, 1, 1, device=device) if policy.has_log_std else None
    wanted = actor_critic_backward.backward(policy, params, done, head, log_std, value)
    found = fused.backward(policy, flat, obs, head, log_std, value, exact=exact)
    assert (found - wanted).norm() <= (1e-5 if exact else 5e-3) * wanted.norm()


@pytest.mark.parametrize("task", SIZES)
@pytest.mark.parametrize(("members", "rows"), [(1, 8), (3, 100), (2, 300)])
def test_the_operations_give_what_the_written_out_layers_give(task: str, members: int, rows: int) -> None:
    assert_like_written(task, members, rows, "cpu")


@pytest.mark.cuda
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("task", SIZES)
@pytest.mark.parametrize(("members", "rows"), [(1, 8), (3, 100), (200, 300), (1, 5000)])
def test_the_kernels_give_what_the_written_out_layers_give(task: str, members: int, rows: int, exact: bool) -> None:
    assert_like_written(task, members, rows, "cuda", exact)


def test_rows_are_cut_into_as_many_parts_as_fill_the_card() -> None:
    assert [fused.parts_of(*case) for case in ((1, 8), (1, 256), (1, 65_536), (128, 256), (1024, 256))] == [1, 8, 132, 1, 1]


def test_a_network_of_another_make_is_left_to_the_layers() -> None:
    policy, _, obs, *_ = parts("discrete", 1, 8)
    assert not fused.covers(policy, obs), "there is no kernel for a CPU"
