import pytest

from rlclinic.errors import UsageError
from rlclinic.readers import options
from rlclinic.readers.metric_aliases import Tag
from rlclinic.readers.options import Mapping
from rlclinic.runs.history import History


def test_what_the_user_says_completes_and_overrides_the_log() -> None:
    given = options.make_options(threshold=200, budget=1e6)
    found = given.complete(History("a", "csv", max_env_steps=10, settings={"run.max_env_steps": 10, "algo.gamma": 0.9}))
    assert (found.threshold, found.max_env_steps) == (200, 1_000_000)
    assert found.settings == {"run.max_env_steps": 1_000_000, "spec.threshold": 200, "algo.gamma": 0.9}


def test_without_options_a_history_is_as_it_was() -> None:
    history = History("a", "csv")
    assert options.make_options().complete(history) is history


def test_mappings_are_texts_or_data() -> None:
    mapping = Mapping((Tag("time/fps", "x"),))
    assert options.make_options(mapping=["fps=x"]).mapping == options.make_options(mapping=mapping).mapping == mapping


@pytest.mark.parametrize(
    ("threshold", "budget", "message"), [(float("nan"), None, "--threshold"), (None, 0, "--budget"), (None, -5, "--budget")]
)
def test_numbers_that_make_no_sense_are_refused(threshold: float | None, budget: float | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        options.make_options(threshold, budget)


def test_a_mapping_carries_sign_scale_aggregation_and_axis() -> None:
    assert options.parse_mapping(["entropy=-ent_loss", "train/loss/value=vf*2", "return=r:episodes", "step=iteration*2048"]) == Mapping(
        (
            Tag("train/metrics/entropy", "ent_loss", -1.0),
            Tag("train/loss/value", "vf", 2.0),
            Tag("train/roll/ep_rew_mean", "r", episodic=True),
        ),
        "iteration",
        2_048.0,
    )


@pytest.mark.parametrize("entry", ["", "entropy", "=column", "entropy="])
def test_a_mapping_that_is_none_shows_how_to_write_one(entry: str) -> None:
    with pytest.raises(UsageError, match="METRIC=COLUMN"):
        options.parse_mapping([entry])


def test_an_unknown_metric_offers_the_nearest() -> None:
    with pytest.raises(UsageError, match="train/loss/policy"):
        options.parse_mapping(["train/loss/polcy=x"])


def test_the_end_of_a_metrics_name_is_enough_where_it_is_unique() -> None:
    assert options.find_metric_name("ratio_first_dev") == "train/sentinel/ratio_first_dev"


def test_a_column_that_the_log_lacks_is_named_with_those_it_has() -> None:
    with pytest.raises(UsageError, match="reward_mean"):
        options.parse_mapping(["return=rewardmean"]).check(["step", "reward_mean"])
