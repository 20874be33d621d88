"""Episodes and histograms that are recorded while runs train: they show what happened, and change nothing of it."""

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rlclinic.runs.record import Run
from rlclinic.runs.recording import films as film_files
from rlclinic.runs.recording import histograms as histogram_files
from rlclinic.training import policy as policies
from rlclinic.training.__main__ import train_runs
from rlclinic.training.recording import films, histograms
from tests.training.cohorts import Interrupted, assert_same_run, interrupt_at, make_config, train

BOTH = {"film_every_env_steps": 64, "histograms_every_env_steps": 32, "eval_every_env_steps": 64, "checkpoint_every_env_steps": 64}


class Walk(gym.Env[Any, Any]):
    """Six steps to the right or to the left; the reward has two terms, and there is a picture where one is asked for."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 12}  # noqa: RUF012 - as users write it
    observation_space = gym.spaces.Box(-9, 9, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.steps = float(self.np_random.normal()), 0
        return self._obs(), {}

    def _obs(self) -> Any:
        return np.array([self.place, self.steps], np.float32)

    def step(self, action: Any) -> Any:
        self.place, self.steps = self.place + 2 * int(action) - 1, self.steps + 1
        terms = {"right": 2.0 * int(action) - 1, "time": -0.5}
        return self._obs(), sum(terms.values()), self.steps >= 6, False, {"reward_terms": terms, "is_success": True}

    def render(self) -> Any:
        return np.full((8, 900, 3), self.steps, np.uint8)


class Blind(Walk):
    """The same without pictures."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()


def seeds(**run: Any) -> list[Any]:
    return [make_config(env={"id": "Walk"}, seed=seed, run={"max_env_steps": 128, **run}) for seed in range(3)]


def test_films_and_histograms_change_nothing_of_the_runs_and_show_each_member_s_own_episode(tmp_path: Path) -> None:
    without = train(tmp_path / "without", seeds(eval_every_env_steps=64, checkpoint_every_env_steps=64), factory=Walk)
    recorded = train(tmp_path / "with", seeds(**BOTH), factory=Walk)
    for plain, run in zip(without, recorded, strict=True):
        assert_same_run(run, plain)
        assert sorted(file.name for file in (run.path / film_files.FOLDER).iterdir()) == ["128.gif", "128.json", "64.gif", "64.json"]
        trace = json.loads((run.path / film_files.FOLDER / "128.json").read_text())
        assert trace["observations"]["1"] == [0, 1, 2, 3, 4, 5]
        assert trace["terms"]["time"] == [-0.5] * 6
        assert trace["success"] is True
        # The policy of the checkpoint that was saved then acts the same way.
        assert policies.load(run, "128", Walk).record().trace.actions["0"] == trace["actions"]["0"]
    starts = {json.loads((run.path / film_files.FOLDER / "128.json").read_text())["observations"]["0"][0] for run in recorded}
    assert len(starts) == 1, "all of them begin at the first evaluation start"


def test_an_environment_without_pictures_is_recorded_in_numbers(tmp_path: Path) -> None:
    run = train(tmp_path, seeds(film_every_env_steps=128)[:1], factory=Blind)[0]
    assert [file.name for file in (run.path / film_files.FOLDER).iterdir()] == ["128.json"]


class Shy(Walk):
    """Draws no picture, although it says that it can."""

    def render(self) -> Any:
        raise OSError("no OpenGL here")


def test_whatever_goes_wrong_with_a_film_ends_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(films, "play", lambda *_: [].pop())
    run = train(tmp_path, seeds(film_every_env_steps=64)[:1], factory=Walk)[0]
    assert run.status.state == "finished"
    assert "no film from here on: IndexError: pop from empty list" in run.log


def test_an_environment_that_cannot_be_drawn_ends_no_run_and_is_said_once(tmp_path: Path) -> None:
    run = train(tmp_path, seeds(film_every_env_steps=32)[:1], factory=Shy)[0]
    assert run.status.state == "finished"
    assert run.log.count("no film from here on") == 1
    assert "no OpenGL here" in run.log


@pytest.mark.parametrize("kind", ["ppo", "dqn", "sac"])
def test_a_resume_leaves_the_histograms_that_it_would_have_left_without_a_stop(tmp_path: Path, kind: str) -> None:
    run = {"max_env_steps": 240, "eval_every_env_steps": 48, "checkpoint_every_env_steps": 48, "histograms_every_env_steps": 48}
    env = {"id": "Pendulum-v1" if kind == "sac" else "CartPole-v1", "max_episode_steps": 10}
    whole = train(tmp_path / "whole", [make_config(kind, env=env, run=run)])[0]
    with pytest.raises(Interrupted):
        train(tmp_path / "cut", [make_config(kind, env=env, run=run)], callback=interrupt_at(150))
    cut = next(iter((tmp_path / "cut" / "runs").glob("*-s0")))
    histogram_files.append(cut, 999, {})  # what was recorded after the last checkpoint is recorded again
    train_runs([Run(cut)], resume=True)
    assert_same_run(Run(cut), whole)
    assert (cut / histogram_files.FILE).read_bytes() == (whole.path / histogram_files.FILE).read_bytes()
    found = histogram_files.read(whole.path)
    assert {"rewards", "returns of the last 100 episodes"} <= found["collect"].keys()
    assert ("advantages" in found["collect"]) == (kind == "ppo")
    assert any(name.startswith("step") and name.endswith(".weight") for name in found["learn"])


def test_counts_are_those_of_numpy_and_leave_out_what_is_no_number() -> None:
    rows = torch.randn(3, 500, generator=torch.Generator().manual_seed(0))
    rows[1, 7], rows[1, 8] = torch.nan, torch.inf
    rows[2] = 4.0
    found = histograms.count(rows)
    for member in (0, 1):
        finite = rows[member][rows[member].isfinite()].numpy()
        low, high, counts = found[member] or (0.0, 0.0, [])
        expected, _ = np.histogram(finite, bins=histograms.BINS)
        assert [low, high] == pytest.approx([finite.min(), finite.max()], rel=1e-5)
        assert np.abs(np.array(counts) - expected).sum() <= 2, "a value on an edge may fall to either side"
        assert sum(counts) == len(finite)
    assert found[2] == (4.0, 4.0, [500] + [0] * 31)
    assert histograms.count(torch.full((1, 3), torch.nan)) == [None]
