import re
from pathlib import Path

import pytest

from rlclinic import readers
from rlclinic.readers import thresholds
from rlclinic.runs.history import History


@pytest.mark.parametrize(
    ("env", "threshold"),
    [("CartPole-v1", 475.0), ("CartPole-v0", 195.0), ("LunarLander-v3", 200.0), ("Pendulum-v1", None), ("Mine-v0", None)],
)
def test_an_environment_of_gymnasium_brings_its_own_threshold(env: str, threshold: float | None) -> None:
    found = thresholds.add_registered_threshold(History("log", "csv", env_id=env))
    assert (found.threshold, found.settings.get("spec.threshold")) == (threshold, threshold)
    assert any("as Gymnasium registers" in note for note in found.notes) is (threshold is not None)


def test_what_the_log_or_the_user_says_counts_more() -> None:
    assert thresholds.add_registered_threshold(History("log", "csv", env_id="CartPole-v1", threshold=200.0)).threshold == 200.0


def test_a_run_of_ours_knows_what_it_was_asked_for() -> None:
    assert thresholds.add_registered_threshold(History("run", "rlclinic", env_id="CartPole-v1")).threshold is None


def test_a_threshold_that_is_given_stands(samples: Path) -> None:
    assert [found.threshold for found in readers.read(samples / "cleanrl")] == [475.0]
    assert [found.threshold for found in readers.read(samples / "cleanrl", threshold=100)] == [100.0]


def test_the_numbers_are_those_of_gymnasiums_registry() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    known = {id: spec.reward_threshold for id, spec in gymnasium.registry.items() if spec.reward_threshold is not None and "/" not in id}
    assert len(known) > 10
    for id, registered in known.items():
        ours = thresholds.REGISTERED.get(id, thresholds.REGISTERED.get(re.sub(r"-v\d+$", "", id)))
        assert ours == registered, id
