"""Atari through ALE's vector environment is the same game as a single one stepped frame by frame, ends and all."""

from typing import Any

import numpy as np
import pytest
import torch

from rlclinic.config import EnvConfig
from rlclinic.errors import ConfigError, NotFound
from rlclinic.training import envs
from rlclinic.training.envs.base import Step

ale_py = pytest.importorskip("ale_py")
PLAIN: dict[str, Any] = {"n_envs": 2, "frame_stack": 4, "sticky_actions": 0.0, "noop_max": 0, "fire_reset": False}


def games(game: str = "Breakout", members: int = 1, evaluation: bool = False, **changes: Any) -> Any:
    config = EnvConfig(id=f"ALE/{game}-v5", **(PLAIN | changes))
    return envs.make(config, list(range(members)), config.n_envs, evaluation=evaluation)


def played(env: Any, steps: int, choices: int = 4) -> list[Step]:
    """Random but fixed actions."""
    draws = torch.Generator().manual_seed(1)
    env.reset()
    return [env.step(torch.randint(0, choices, (env.members, env.n_envs), generator=draws)) for _ in range(steps)]


class Single:
    """One game of the emulator's own, with frames skipped, joined and scaled by hand."""

    def __init__(self, game: str, skip: int) -> None:
        import gymnasium as gym

        gym.register_envs(ale_py)
        self.env = gym.make(f"ALE/{game}-v5", frameskip=1, repeat_action_probability=0.0, obs_type="grayscale")
        self.skip = skip

    def reset(self) -> np.ndarray:
        self.frames = [np.zeros((84, 84)), np.zeros((84, 84)), np.zeros((84, 84)), smaller(self.env.reset(seed=0)[0])]
        return np.stack(self.frames, -1)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, int]:
        seen: list[np.ndarray] = []
        total, over = 0.0, False
        for _ in range(self.skip):
            frame, reward, over, _, info = self.env.step(action)
            seen.append(frame)
            total += float(reward)
            if over:
                break
        joined = np.maximum(seen[-1], seen[-2]) if len(seen) > 1 else seen[-1]
        self.frames = [*self.frames[1:], smaller(joined)]
        return np.stack(self.frames, -1), total, over, info["lives"]


def smaller(frame: np.ndarray) -> np.ndarray:
    """A screen of 210x160 as 84x84: every new pixel is the mean of the area that it covers."""
    return shares(84, frame.shape[0]) @ frame.astype(float) @ shares(84, frame.shape[1]).T


def shares(small: int, large: int) -> np.ndarray:
    edges = np.arange(small + 1) * large / small
    low, high = np.maximum.outer(edges[:-1], np.arange(large)), np.minimum.outer(edges[1:], np.arange(1, large + 1))
    return np.clip(high - low, 0, None) * small / large


@pytest.mark.parametrize("game", ["Breakout", "Pong"])
def test_a_game_is_the_one_that_a_single_emulator_plays(game: str) -> None:
    env, single = games(game, n_envs=1), Single(game, skip=4)
    np.testing.assert_allclose(env.reset()[0, 0].numpy(), single.reset(), atol=1.01)
    draws, over = np.random.default_rng(0), False
    for step in range(400):
        action = int(draws.integers(4))
        taken = env.step(torch.tensor([[action]]))
        seen, reward, over, _ = single.step(action)
        assert (float(taken.reward), bool(taken.terminated), bool(taken.truncated)) == (reward, over, False), f"step {step}"
        # Frames after the game's end are the emulator's own affair; its last observation is compared in the next test.
        if over:
            break
        np.testing.assert_allclose(taken.next_obs[0, 0].numpy(), seen, atol=1.01, err_msg=f"step {step}")
    assert over is (game == "Breakout"), "five lives are lost within 400 steps, 21 points are not"


def test_the_final_observation_is_the_old_games_and_the_next_one_begins_a_new_game() -> None:
    """Compared with ALE's other way to reset, which shows the final observation in its place and the new game a step later."""
    from ale_py.vector_env import AtariVectorEnv
    from gymnasium.vector import AutoresetMode

    env = games(n_envs=1)
    peer = AtariVectorEnv(
        "breakout", 1, autoreset_mode=AutoresetMode.NEXT_STEP, noop_max=0, use_fire_reset=False, reward_clipping=False, num_threads=1
    )
    env.reset()
    peer.reset(seed=np.array([0]))
    draws = np.random.default_rng(0)
    for _ in range(400):
        action = int(draws.integers(4))
        taken = env.step(torch.tensor([[action]]))
        obs, _, terminated, _, _ = peer.step(np.array([action]))
        np.testing.assert_array_equal(taken.next_obs[0, 0].numpy(), obs[0].transpose(1, 2, 0))
        if terminated[0]:
            break
    assert bool(taken.terminated)
    assert not torch.equal(taken.obs, taken.next_obs)
    fresh, *_ = peer.step(np.array([0]))
    np.testing.assert_array_equal(taken.obs[0, 0].numpy(), fresh[0].transpose(1, 2, 0))


def test_a_time_limit_truncates_and_does_not_terminate() -> None:
    steps = played(games(max_episode_steps=20), 45)
    ends = [t for t, step in enumerate(steps) if bool(step.truncated.any())]
    assert ends
    assert ends[0] in (19, 20), "counted in env steps"
    assert not any(bool(step.terminated.any()) for step in steps)


def test_a_lost_life_is_terminal_for_learning_while_the_game_goes_on() -> None:
    by_life, whole = played(games(episodic_life=True), 300), played(games(), 300)
    lost = sum(int(step.goes_on.sum()) for step in by_life if step.goes_on is not None)
    games_over = sum(int(step.terminated.sum()) for step in whole)
    assert lost >= 4 * max(games_over, 1) > 0, "five lives make a game"
    for step in by_life:
        assert step.goes_on is not None
        assert bool((step.terminated | ~step.goes_on).all()), "it goes on only where learning was told of an end"
        assert torch.equal(step.obs[step.goes_on], step.next_obs[step.goes_on]), "the same game, the same screen"
    for one, other in zip(by_life, whole, strict=True):
        assert torch.equal(one.reward, other.reward)
        assert torch.equal(one.obs, other.obs), "the game itself is not another one"
        assert other.goes_on is None


@pytest.mark.parametrize("evaluation", [False, True])
def test_a_life_begins_with_fire_where_the_game_knows_it(evaluation: bool) -> None:
    """The agent never presses it, and still every life is played: without it the ball would wait for ever."""

    def games_over(fire: bool) -> int:
        env = games(episodic_life=not evaluation, evaluation=evaluation, fire_reset=fire)
        env.reset()
        steps = [env.step(torch.full((1, 2), 3)) for _ in range(230)]
        return sum(int((step.terminated if step.goes_on is None else step.terminated & ~step.goes_on).sum()) for step in steps)

    assert games_over(True) >= 2
    assert games_over(False) == 0


def test_evaluations_play_whole_games_once_from_the_same_starts() -> None:
    env = games(episodic_life=True, evaluation=True, noop_max=30, fire_reset=True)
    first, steps = env.reset(), played(env, 300)
    assert all(step.goes_on is None for step in steps)
    assert sum(int((step.terminated | step.truncated).sum()) for step in steps) == 2, "one game in each env"
    assert steps[-1].valid is not None
    assert not bool(steps[-1].valid.any())
    assert torch.equal(env.reset(), first)


def test_members_play_their_own_games_whoever_plays_beside_them() -> None:
    config = EnvConfig(id="ALE/Pong-v5", **(PLAIN | {"noop_max": 30}))
    pair, alone = envs.make(config, [0, 1], 2), envs.make(config, [1], 2)
    assert torch.equal(pair.reset()[1:], alone.reset())
    for _ in range(30):
        both, one = pair.step(torch.zeros(2, 2, dtype=torch.int64)), alone.step(torch.zeros(1, 2, dtype=torch.int64))
    assert torch.equal(both.obs[1:], one.obs)
    assert not torch.equal(both.obs[0], both.obs[1]), "up to 30 frames of waiting make different games"


def test_colours_and_sizes_are_the_vector_environments_own_settings() -> None:
    env = games(frame_stack=2, kwargs={"grayscale": False, "img_height": 40, "img_width": 48})
    assert env.reset().shape == (1, 2, 40, 48, 6)
    assert env.picture.channels == 6
    assert env.render().shape == (160, 192, 3)


def test_settings_that_only_a_single_environment_has_are_not_mixed_with_frames() -> None:
    with pytest.raises(ConfigError, match=r"(?s)env.frame_skip is set, and so is env.kwargs.mode.*leave env.kwargs.mode out"):
        games(frame_skip=2, kwargs={"mode": 4})
    single = envs.make(EnvConfig(id="ALE/Breakout-v5", n_envs=1, kwargs={"obs_type": "grayscale"}), [0], 1)
    assert single.reset().shape == (1, 1, 210, 160, 1), "Gymnasium's own, with its own frame skip"


def test_a_game_that_does_not_exist_offers_the_nearest() -> None:
    with pytest.raises(NotFound, match=r"(?s)no Atari game ALE/Brekout-v5.*Try: ALE/Breakout-v5"):
        games("Brekout")
    assert games("MsPacman").reset().shape == (1, 2, 84, 84, 4)
