import pytest

from rlclinic.errors import UsageError
from rlclinic.readers import options
from rlclinic.readers.guesses import Mapping
from rlclinic.readers.metric_aliases import Tag
from rlclinic.runs.history import History


def test_what_the_user_says_completes_and_overrides_the_log() -> None:
    given = options.make(threshold=200, budget=1e6)
    found = given.complete(History("a", "csv", max_env_steps=10, settings={"run.max_env_steps": 10, "algo.gamma": 0.9}))
    assert (found.threshold, found.max_env_steps) == (200, 1_000_000)
    assert found.settings == {"run.max_env_steps": 1_000_000, "spec.threshold": 200, "algo.gamma": 0.9}


def test_without_options_a_history_is_as_it_was() -> None:
    history = History("a", "csv")
    assert options.make().complete(history) is history


def test_mappings_are_texts_or_data() -> None:
    mapping = Mapping((Tag("time/fps", "x"),))
    assert options.make(mapping=["fps=x"]).mapping == options.make(mapping=mapping).mapping == mapping


@pytest.mark.parametrize(
    ("threshold", "budget", "message"), [(float("nan"), None, "--threshold"), (None, 0, "--budget"), (None, -5, "--budget")]
)
def test_numbers_that_make_no_sense_are_refused(threshold: float | None, budget: float | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        options.make(threshold, budget)
