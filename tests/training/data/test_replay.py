"""The replay against a plain list of transitions: what is remembered, what follows it, what is drawn."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rlclinic.training.data import replay
from rlclinic.training.data.replay import Replay, Shape

MEMBERS, ENVS, SIZE = 2, 2, 3


def lived(steps: int, seed: int = 0, *, images: bool = False) -> SimpleNamespace:
    """Steps [M, T, N] of envs whose episodes end at random, for both reasons; observations are all different."""
    torch.manual_seed(seed)
    shape = (MEMBERS, steps, ENVS)
    seen = (4, 5, 1) if images else (SIZE,)

    def observations() -> torch.Tensor:
        return torch.randint(0, 256, (*shape, *seen), dtype=torch.uint8) if images else torch.randn(*shape, *seen)

    obs, final, reset = observations(), observations(), observations()
    terminated = torch.rand(shape) < 0.15
    truncated = torch.rand(shape) < 0.15
    end = terminated | truncated
    for t in range(1, steps):
        # What is acted on next: the reset's observation after an end, else what the action led to.
        before = end[:, t - 1].view(MEMBERS, ENVS, *([1] * len(seen)))
        obs[:, t] = torch.where(before, reset[:, t - 1], final[:, t - 1])
    following = torch.cat(
        [obs[:, 1:], torch.where(end[:, -1:].view(MEMBERS, 1, ENVS, *([1] * len(seen))), reset[:, -1:], final[:, -1:])], 1
    )
    return SimpleNamespace(
        obs=obs, next_obs=final, following=following, action=torch.randint(0, 4, shape), reward=torch.randn(shape),
        terminated=terminated, truncated=truncated, valid=None,
    )  # fmt: skip


def shape(rows: int, **changes: Any) -> Shape:
    return Shape(rows=rows, n_envs=ENVS, obs_shape=(SIZE,), action_size=1, **changes)


def filled(memory: Replay, steps: SimpleNamespace, turn: int) -> Replay:
    """A memory that was given the steps turn by turn."""
    length = steps.reward.shape[1]
    for first in range(0, length, turn):
        part = {name: None if each is None else each[:, first : first + turn] for name, each in vars(steps).items()}
        replay.add(memory, SimpleNamespace(**part))
    return memory


def plain(steps: SimpleNamespace, member: int, when: int, env: int, n_step: int, gamma: float) -> dict[str, Any]:
    """The transition that began at a time, looked up step by step in what was lived."""
    total, discount, at = 0.0, 1.0, when
    for k in range(n_step):
        at = when + k
        total += discount * float(steps.reward[member, at, env])
        discount *= gamma * (not steps.terminated[member, at, env])
        over = bool(steps.terminated[member, at, env] | steps.truncated[member, at, env])
        if over or at + 1 == steps.reward.shape[1]:
            break
    return {
        "obs": steps.obs[member, when, env],
        "action": steps.action[member, when, env].item(),
        "reward": total,
        "discount": discount,
        "next_obs": steps.next_obs[member, at, env],
    }


@pytest.mark.parametrize("turn", [1, 5])
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("kind", ["vectors", "once", "images", "images once"])
def test_every_row_is_the_transition_that_was_lived(turn: int, n_step: int, kind: str) -> None:
    length, rows = 40, 24 if turn == 1 else 200
    steps = lived(length, images="images" in kind)
    made = Shape(rows, ENVS, tuple(steps.obs.shape[3:]), 1, images="images" in kind, once="once" in kind)
    memory = filled(replay.start(made, MEMBERS, torch.device("cpu")), steps, turn)
    count = memory.size // ENVS
    index = torch.arange(memory.size).expand(MEMBERS, -1)
    batch = replay.gather(memory, index, n_step, torch.tensor([[0.9], [0.5]]))
    lost = 0
    for member, gamma in enumerate((0.9, 0.5)):
        for row in range(memory.size):
            # The row's time: the newest one is the last that was lived.
            newest = (memory.stored // ENVS - 1) % (rows // ENVS)
            when = length - 1 - (newest - row // ENVS) % (rows // ENVS)
            expected = plain(steps, member, when, row % ENVS, n_step, gamma)
            assert batch.action[member, row].item() == expected["action"]
            assert float(batch.reward[member, row]) == pytest.approx(expected["reward"], abs=1e-5)
            assert float(batch.discount[member, row]) == pytest.approx(expected["discount"], abs=1e-6)
            assert torch.equal(batch.obs[member, row], expected["obs"])
            counts = batch.weight is None or bool(batch.weight[member, row])
            lost += not counts
            if counts and expected["discount"] > 0:  # after a terminal state nothing is looked at
                assert torch.equal(batch.next_obs[member, row], expected["next_obs"])
    assert count == min(length, rows // ENVS)
    assert lost <= memory.size / 2, "final observations must not be lost for nothing"


def test_the_next_observation_of_a_cut_episode_is_its_final_one_and_never_the_reset() -> None:
    for once in (False, True):
        steps = lived(30, seed=3)
        steps.terminated[:] = False
        memory = filled(replay.start(shape(200, once=once), MEMBERS, torch.device("cpu")), steps, 6)
        batch = replay.gather(memory, torch.arange(60).expand(MEMBERS, -1), 1, torch.full((MEMBERS, 1), 0.9))
        cut = steps.truncated.flatten(1, 2)
        assert cut.any()
        known = torch.ones_like(cut) if batch.weight is None else batch.weight > 0
        assert torch.equal(batch.next_obs[cut & known], steps.next_obs.flatten(1, 2)[cut & known])
        assert not (batch.next_obs[cut & known] == steps.following.flatten(1, 2)[cut & known]).all(-1).any()


def test_a_final_observation_that_was_overwritten_does_not_count() -> None:
    steps = lived(64, seed=1)
    steps.terminated[:], steps.truncated[:] = False, True
    memory = filled(replay.start(shape(128, once=True), MEMBERS, torch.device("cpu")), steps, 4)
    batch = replay.gather(memory, torch.arange(128).expand(MEMBERS, -1), 1, torch.full((MEMBERS, 1), 0.9))
    assert batch.weight is not None
    assert batch.weight.sum(1).tolist() == [memory.shape.finals] * MEMBERS
    kept = batch.weight > 0
    assert torch.equal(batch.next_obs[kept], steps.next_obs.flatten(1, 2)[kept])


def test_rows_that_are_no_transition_weigh_nothing() -> None:
    steps = lived(10)
    steps.valid = torch.rand(MEMBERS, 10, ENVS) < 0.5
    memory = filled(replay.start(shape(40, marks_valid=True), MEMBERS, torch.device("cpu")), steps, 5)
    batch = replay.gather(memory, torch.arange(20).expand(MEMBERS, -1), 1, torch.full((MEMBERS, 1), 0.9))
    assert batch.weight is not None
    assert torch.equal(batch.weight > 0, steps.valid.flatten(1, 2))


def test_uniform_draws_take_every_row_as_often_and_depend_on_nothing_but_the_seed_and_the_step() -> None:
    memory = filled(replay.start(shape(50), MEMBERS, torch.device("cpu")), lived(30), 5)
    seed = torch.tensor([3, 4]).view(-1, 1, 1)
    drawn = replay.uniform(memory, seed, 0, 100, 200)
    counts = torch.stack([torch.bincount(each, minlength=50) for each in drawn]).double()
    expected = 100 * 200 / 50
    # Chi-squared with 49 degrees of freedom: 85.4 is its 99.9th percentile.
    assert (((counts - expected) ** 2 / expected).sum(1) < 85.4).all()
    alone = replay.uniform(memory, seed[1:], 40, 1, 200)
    assert torch.equal(alone[0], drawn[1].view(100, 200)[40])
    assert not torch.equal(drawn[0], drawn[1])


def test_draws_by_priority_follow_the_errors_and_are_weighted_down() -> None:
    memory = filled(replay.start(shape(16, prioritized=True), MEMBERS, torch.device("cpu")), lived(8), 4)
    assert memory.tree is not None
    error = torch.arange(1.0, 17.0).expand(MEMBERS, -1)
    memory.tree = replay.prioritized.put(memory.tree, torch.arange(16).expand(MEMBERS, -1), error)
    seed, beta = torch.tensor([3, 4]).view(-1, 1, 1), torch.ones(MEMBERS, 1)
    drawn = [replay.by_priority(memory, seed, update, 64, beta) for update in range(200)]
    counts = torch.bincount(torch.cat([index[0] for index, _ in drawn]), minlength=16).double()
    expected = 200 * 64 * error[0].double() / error[0].sum()
    assert ((counts - expected) ** 2 / expected).sum() < 37.7  # chi-squared, 15 degrees of freedom, 99.9 %
    index, weight = drawn[0]
    share = error[0][index[0]]
    assert torch.allclose(weight[0], share.min() / share)


def test_memory_is_computed_before_it_is_taken() -> None:
    for made in (
        shape(1000),
        shape(1000, once=True),
        shape(1000, prioritized=True),
        Shape(1000, ENVS, (8, 8, 1), 1, images=True),
        Shape(1000, ENVS, (8, 8, 1), 1, images=True, once=True),
    ):
        memory = replay.start(made, MEMBERS, torch.device("cpu"))
        taken = sum(tensor.numel() * tensor.element_size() for tensor in memory.tensors().values())
        assert made.size_in_bytes(MEMBERS) == pytest.approx(taken, rel=0.001)


def test_the_newest_rows_of_an_env_come_oldest_first() -> None:
    steps = lived(30)
    memory = filled(replay.start(shape(24), MEMBERS, torch.device("cpu")), steps, 3)
    order = replay.newest(memory, 1, 5)
    reward = memory.table[0, order, memory.cells["reward"].start]
    assert torch.equal(reward, steps.reward[0, 25:30, 1])
