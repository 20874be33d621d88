"""Choosing among all tasks: each kind goes where it says, and goes on from its state."""

import numpy as np
import pytest

from rlclinic.config import CurriculumConfig
from rlclinic.curriculum import make_sampler
from rlclinic.curriculum.automatic import choose_by_progress
from tests.curriculum.agents import episodes

KINDS = ("uniform", "learnability", "plr", "alp_gmm")


def make(kind: str, tasks: int = 5, **settings):
    config = CurriculumConfig(kind=kind, parameter="difficulty", range=(0, 1), bins=tasks, **settings)
    return make_sampler(config, 4, 10_000)


def train(sampler, rates, rounds: int, seed: int = 0) -> None:
    random = np.random.default_rng(seed)
    for turn in range(rounds):
        tasks = random.choice(len(rates), 8, p=sampler.chances)
        sampler.add(episodes(*((0, task, random.random() < rates[task]) for task in tasks)), turn)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_begins_with_all_tasks_alike_and_keeps_a_chance_for_each(kind: str):
    sampler = make(kind)
    assert sampler.chances.tolist() == pytest.approx([0.2] * 5)
    train(sampler, [1.0, 0.9, 0.5, 0.1, 0.0], 15)
    sampler.score(np.array([0, 1, 2]), np.array([0.1, 5.0, 1.0]))
    assert sampler.chances.sum() == pytest.approx(1.0)
    assert sampler.chances.min() >= 0.2 / 5 - 1e-12


def test_no_level_is_the_task_itself():
    share = "train/curriculum/target_share"
    assert share not in make_sampler(CurriculumConfig(kind="uniform", levels=4), 2, 1_000).cells()
    assert share in make("uniform").cells()


def test_learnability_goes_where_success_is_a_coin_toss():
    sampler = make("learnability")
    train(sampler, [1.0, 1.0, 0.5, 0.0, 0.0], 200)
    assert sampler.chances.argmax() == 2
    assert sampler.chances[2] > 2.5 * sampler.chances[[0, 4]].max()


def test_uniform_stays_what_it_is():
    sampler = make("uniform")
    train(sampler, [1.0, 1.0, 0.5, 0.0, 0.0], 50)
    assert sampler.chances.tolist() == pytest.approx([0.2] * 5)
    assert sampler.cells()["train/curriculum/spread"] == pytest.approx(1.0)


def test_plr_replays_what_was_most_wrong_and_first_sees_everything():
    sampler = make("plr", uniform_share=0.0)
    sampler.score(np.array([0, 0, 1]), np.array([1.0, 3.0, 0.5]))
    # Two of five are known: three fifths of the chances are for the others.
    assert sampler.chances[2:].tolist() == pytest.approx([0.2] * 3)
    assert sampler.chances[0] > 5 * sampler.chances[1]
    sampler.score(np.array([2, 3, 4]), np.array([0.1, 9.0, 0.2]))
    assert sampler.chances.argmax() == 3
    # By staleness alone, what was not played for long comes again.
    assert sampler.chances[1] > sampler.chances[2]


def test_alp_gmm_goes_where_success_changes():
    random = np.random.default_rng(0)
    place = random.random(250)
    moved = np.where(np.abs(place - 0.7) < 0.1, 0.8, 0.02) + 0.02 * random.random(250)
    chances = choose_by_progress(np.stack([place, moved], 1), np.linspace(0, 1, 11))
    assert chances.argmax() == 7
    assert chances[7] > 3 * chances[2]


def test_alp_gmm_has_no_wish_where_nothing_changes():
    points = np.stack([np.linspace(0, 1, 250), np.zeros(250)], 1)
    assert choose_by_progress(points, np.linspace(0, 1, 5)).tolist() == [0.0] * 5
    sampler = make("alp_gmm")
    train(sampler, [1.0] * 5, 10)
    assert sampler.chances.tolist() == pytest.approx([0.2] * 5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sampler_goes_on_from_its_state(kind: str):
    whole, resumed = make(kind), make(kind)
    random = np.random.default_rng(3)
    for turn in range(30):
        ended = episodes(*((0, task, random.random() < task / 4) for task in random.choice(5, 4)))
        for sampler in (whole, resumed):
            sampler.add(ended, turn)
            sampler.score(ended.task, ended.task / 2.0)
        again = make(kind)
        again.load(resumed.state())
        resumed = again
    assert whole.chances.tolist() == resumed.chances.tolist()
    assert whole.cells() == resumed.cells()
