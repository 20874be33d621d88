"""What is promised of DAgger and its relatives, in small: Pendulum, 800 labels, two seeds (the benchmark `imitation` has it whole)."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rlclinic import trust
from rlclinic.config import load
from rlclinic.ops.diagnose.diagnose import examine_group
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.training.__main__ import train_runs
from rlclinic.training.imitation import labels
from tests.training.imitation import expert

FILE = Path(__file__).with_name("expert.py")
USUAL = (
    *("algo.train_freq=100", "run.max_env_steps=800", "run.eval_every_env_steps=200", "run.eval_episodes=10", "net.hidden=[32,32]"),
    *("algo.gradient_steps=150", "algo.n_epochs=20", f"algo.expert={FILE}:pendulum", "spec.threshold=-200"),
)
SCARCELY_FALLING = 'algo.beta={"start": 1, "end": 0.4667, "schedule": "linear"}'
"""Falls to nothing over 15 rounds, of which there are 8."""
Trained = Callable[..., Group]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    made: dict[tuple[str, ...], Group] = {}

    def group(name: str, *settings: str) -> Group:
        if (name, *settings) not in made:
            config = load(f"Pendulum-v1:{name}", [*USUAL, *settings]).config
            runs = Store(tmp_path_factory.mktemp("promises") / "runs")
            made[name, *settings] = runs.create_group([config.model_copy(update={"seed": seed}) for seed in (0, 1)])
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv(trust.TRUST, "all")
                train_runs(made[name, *settings].runs)
        return made[name, *settings]

    return group


def returns(group: Group) -> float:
    return float(np.mean([run.evaluations[1][-1] for run in group.runs]))


def questions(group: Group) -> list[int]:
    return [sum(int(data.beside["queries"].sum()) for data in labels.read(run.path)) for run in group.runs]


def unsafe_share(group: Group) -> float:
    """Steps in which what was done lies more than a quarter of the range from what the expert would have done."""
    off = []
    for run in group.runs:
        for data in labels.read(run.path):
            seen = data.transitions(np.arange(len(data))).observations
            off += [
                abs(float(action[0]) - float(np.clip(expert.pendulum(obs)[0], -2, 2))) > 1.0
                for action, obs in zip(data.actions, seen, strict=True)
            ]
    return float(np.mean(off))


def test_labels_of_the_states_that_the_policy_gets_into_are_worth_more_than_those_of_the_expert(trained: Trained) -> None:
    assert returns(trained("dagger")) >= returns(trained("dagger", "algo.beta=1")) + 400
    assert questions(trained("dagger")) == [800, 800]


def test_a_beta_that_hardly_falls_in_the_rounds_there_are_is_named(trained: Trained) -> None:
    group = trained("dagger", SCARCELY_FALLING)
    assert returns(group) < returns(trained("dagger"))
    examined = examine_group(group)
    assert examined is not None
    assert examined.diagnosis.causes[0].id == "expert-drives"


def test_half_of_the_questions_are_enough_for_an_ensemble_and_the_robot_is_no_more_often_off(trained: Trained) -> None:
    """SafeDAgger saves little here: after 800 labels its policy is off in most states, and it says so."""
    group, all_asked = trained("ensemble_dagger"), trained("dagger")
    assert np.mean(questions(group)) <= 0.5 * np.mean(questions(all_asked))
    assert unsafe_share(group) <= unsafe_share(all_asked)
