"""Episode statistics across rollouts against a slow count of every env by itself."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from rlclinic.training.data.episodes import WINDOW, Episodes
from rlclinic.training.data.rollouts import Rollout

MEMBERS, STEPS, ENVS = 2, 40, 3


def rollout(seed: int, *, with_success: bool = False, with_gaps: bool = False, end_rate: float = 0.15) -> Rollout:
    generator = torch.Generator().manual_seed(seed)
    shape = (MEMBERS, STEPS, ENVS)
    empty = torch.zeros(*shape, 1)
    terminated, truncated = (torch.rand(shape, generator=generator) < end_rate for _ in range(2))
    valid = None
    if with_gaps:
        # A reset row follows an end, as in a vector env that resets in the next step.
        valid = torch.ones(shape, dtype=torch.bool)
        valid[:, 1:] = ~(terminated | truncated)[:, :-1]
        terminated, truncated = terminated & valid, truncated & valid
    success = (torch.rand(shape, generator=generator) < 0.5).float() if with_success else None
    reward = torch.randn(shape, generator=generator)
    filler: dict[str, Any] = dict.fromkeys(("obs", "next_obs", "following", "action", "dist", "net_obs", "net_next_obs", "log_prob"), empty)
    return Rollout(reward=reward, terminated=terminated, truncated=truncated, valid=valid, success=success, **filler)


def slow(rollouts: list[Rollout], member: int) -> list[tuple[float, float, float]]:
    """(return, length, success) of every episode, in the order in which they ended; env by env in double precision."""
    ended = []
    for env in range(ENVS):
        total, length, at = 0.0, 0, 0
        for each in rollouts:
            for t in range(STEPS):
                if each.valid is None or each.valid[member, t, env]:
                    total += each.reward[member, t, env].item()
                    length += 1
                if each.terminated[member, t, env] or each.truncated[member, t, env]:
                    outcome = float("nan") if each.success is None else each.success[member, t, env].item()
                    ended.append(((at, env), (total, length, outcome)))
                    total, length = 0.0, 0
                at += 1
    return [episode for _, episode in sorted(ended, key=lambda entry: entry[0])]


@pytest.mark.parametrize("kind", ["plain", "with_success", "with_gaps"])
def test_statistics_are_those_of_the_last_hundred_episodes(kind: str) -> None:
    rollouts = [rollout(seed, **({} if kind == "plain" else {kind: True})) for seed in range(5)]
    episodes = Episodes(MEMBERS, ENVS)
    for each in rollouts:
        episodes.add(each)
    for member in range(MEMBERS):
        expected = slow(rollouts, member)
        assert len(expected) > WINDOW
        returns, lengths, outcomes = np.array(expected[-WINDOW:]).T
        row = episodes.row(member)
        assert row["total_episodes"] == len(expected)
        assert row["train/roll/ep_rew_mean"] == pytest.approx(returns.mean())
        assert row["train/roll/ep_rew_std"] == pytest.approx(returns.std())
        assert row["train/roll/ep_rew_best"] == pytest.approx(max(episode[0] for episode in expected))
        assert row["train/roll/ep_len_mean"] == pytest.approx(lengths.mean())
        assert row["train/roll/success_rate"] == (pytest.approx(outcomes.mean()) if kind == "with_success" else None)


def test_with_clipped_rewards_the_return_that_learning_saw_stands_beside_the_raw_one() -> None:
    rollouts = [rollout(seed, with_gaps=True) for seed in range(3)]
    episodes, plain = Episodes(MEMBERS, ENVS, clip=0.3), Episodes(MEMBERS, ENVS)
    for each in rollouts:
        assert torch.equal(episodes.add(each), plain.add(each))
    cut = [replace(each, reward=each.reward.clamp(-0.3, 0.3)) for each in rollouts]
    for member in range(MEMBERS):
        row = episodes.row(member)
        told = np.array(slow(cut, member)[-WINDOW:])[:, 0].mean()
        assert row.pop("train/roll/ep_rew_clipped_mean") == pytest.approx(told)
        assert row == plain.row(member)
        assert told != pytest.approx(row["train/roll/ep_rew_mean"], abs=0.01)
    episodes.restart(0)
    assert (episodes.running_return[[0, MEMBERS]] == 0).all()
    assert (episodes.running_length[[1, MEMBERS + 1]] > 0).any(1).all()


def test_statistics_of_clipped_rewards_are_blank_until_an_episode_ends_with_them() -> None:
    without, with_clip = Episodes(MEMBERS, ENVS), Episodes(MEMBERS, ENVS, clip=1.0)
    without.add(rollout(0))
    with_clip.load(0, without.state(0))
    assert with_clip.row(0) == {**without.row(0), "train/roll/ep_rew_clipped_mean": None}
    assert with_clip.columns()["train/roll/ep_rew_clipped_mean"] == [None, None]


def test_an_episode_that_spans_rollouts_is_counted_whole() -> None:
    episodes = Episodes(MEMBERS, ENVS)
    first, second = rollout(0, end_rate=0.0), rollout(1, end_rate=0.0)
    second.terminated[0, 4, 2] = True
    episodes.add(first)
    assert episodes.row(0) == {"total_episodes": 0}
    episodes.add(second)
    total = first.reward[0, :, 2].double().sum() + second.reward[0, :5, 2].double().sum()
    assert episodes.row(0)["train/roll/ep_rew_mean"] == pytest.approx(total.item())
    assert episodes.row(0)["train/roll/ep_len_mean"] == STEPS + 5
    assert episodes.row(1) == {"total_episodes": 0}


def test_elapsed_counts_the_steps_before_each_row_in_its_own_episode() -> None:
    episodes, first, second = Episodes(MEMBERS, ENVS), rollout(0), rollout(1)
    found = torch.cat([episodes.add(first), episodes.add(second)], 1)
    end = torch.cat([first.end, second.end], 1)
    for m, n in np.ndindex(MEMBERS, ENVS):
        since = 0
        for t in range(2 * STEPS):
            assert found[m, t, n] == since
            since = 0 if end[m, t, n] else since + 1


@pytest.mark.parametrize("clip", [None, 0.3])
def test_a_saved_and_loaded_member_goes_on_as_if_nothing_had_happened(clip: float | None) -> None:
    before, going_on = Episodes(MEMBERS, ENVS, clip), Episodes(1, ENVS, clip)
    before.add(rollout(0, with_success=True))
    going_on.load(0, before.state(1))
    assert going_on.row(0) == before.row(1)
    later = rollout(1, with_success=True)
    before.add(later)
    alone = Rollout(**{name: None if value is None else value[1:] for name, value in vars(later).items()})  # type: ignore[arg-type]
    going_on.add(alone)
    assert going_on.row(0) == before.row(1)
    for name, tensor in going_on.state(0).items():
        assert torch.equal(tensor, before.state(1)[name])


def test_restarting_forgets_what_was_under_way_and_keeps_what_was_finished() -> None:
    episodes = Episodes(MEMBERS, ENVS)
    episodes.add(rollout(0))
    finished = episodes.row(0)
    episodes.restart(0)
    assert episodes.row(0) == finished
    assert (episodes.running_return[0] == 0).all()
    assert (episodes.running_length[0] == 0).all()
    assert (episodes.running_length[1] > 0).any()


@pytest.mark.parametrize("clip", [None, 0.3])
def test_all_members_at_once_and_one_by_one_give_the_same_row(clip: float | None) -> None:
    generator = torch.Generator().manual_seed(0)
    episodes = Episodes(3, 4, clip)
    for length in (1, 40, 60):
        shape = (3, length, 4)
        reward = torch.randn(shape, generator=generator)
        end = torch.rand(shape, generator=generator) < torch.tensor([0.0, 0.1, 0.9]).view(3, 1, 1)
        success = torch.where(end, torch.rand(shape, generator=generator).round(), torch.nan)
        blank = torch.zeros(shape)
        rollout = Rollout(blank, blank, blank, blank, blank, reward, end, torch.zeros_like(end), blank, blank, blank, success=success)
        episodes.keep(rollout)
        episodes.take_in(episodes.settle()[1])
        columns = episodes.columns()
        for member in range(3):
            row = {name: cells[member] for name, cells in columns.items() if cells[member] is not None}
            assert row == pytest.approx({name: cell for name, cell in episodes.row(member).items() if cell is not None}, rel=1e-9)
    assert episodes.count.tolist()[0] == 0
    assert episodes.count[1] < 100 < episodes.count[2], "one ring is half full, one has gone round"


@pytest.mark.parametrize("clip", [None, 0.3])
def test_rollouts_kept_for_later_count_as_those_taken_at_once(clip: float | None) -> None:
    generator = torch.Generator().manual_seed(1)
    at_once, later, elapsed = Episodes(3, 4, clip), Episodes(3, 4, clip), torch.empty(0)
    for turn in range(12):
        shape = (3, 5, 4)
        end = torch.rand(shape, generator=generator) < torch.tensor([0.0, 0.1, 0.9]).view(3, 1, 1)
        blank, reward = torch.zeros(shape), torch.randn(shape, generator=generator)
        success = torch.where(end, torch.rand(shape, generator=generator).round(), torch.nan)
        rollout = Rollout(blank, blank, blank, blank, blank, reward, end, torch.zeros_like(end), blank, blank, blank, success=success)
        elapsed = at_once.add(rollout)
        later.keep(rollout)
        if turn % 4 == 3:
            since, ended = later.settle()
            torch.testing.assert_close(since, elapsed)
            later.take_in(ended)
            for member in range(3):
                assert later.row(member) == pytest.approx(at_once.row(member), rel=1e-9)
                for name, value in at_once.state(member).items():
                    torch.testing.assert_close(later.state(member)[name], value, equal_nan=True)


@pytest.mark.parametrize("later", [False, True])
def test_a_return_that_is_no_number_leaves_the_best_one_standing(later: bool) -> None:
    good, bad = rollout(1), rollout(2)
    bad = replace(bad, reward=torch.full_like(bad.reward, torch.nan))
    episodes, alone = Episodes(MEMBERS, ENVS), Episodes(MEMBERS, ENVS)
    for each, seen in ((episodes, (good, bad)), (alone, (good,))):
        for rows in seen:
            each.keep(rows) if later else each.add(rows)
        if later:
            each.take_in(each.settle()[1])
    assert np.array_equal(episodes.best, alone.best)
    assert np.isfinite(episodes.best).all()
