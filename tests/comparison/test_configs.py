from typing import Any

import pytest

from rlclinic.comparison import configs, derived, frameworks, impacts, trials
from rlclinic.comparison.models import Difference
from rlclinic.comparison.sides import Side, labelled, of_histories
from rlclinic.config import ALGORITHMS, describe
from rlclinic.references import REFERENCES
from tests.comparison import builders


def differences(*sides: Side) -> dict[str, Difference]:
    return {each.key: each for each in configs.diff(labelled(sides)).differences}


def test_only_what_differs_is_listed_with_every_default_written_out() -> None:
    found = differences(builders.trained_with(), builders.trained_with("algo.target_kl=0.02"))
    assert list(found) == ["algo.target_kl"]
    assert found["algo.target_kl"].shown == ["none", "0.02"]
    assert "fewer collapses" in found["algo.target_kl"].usual
    assert configs.diff([builders.trained_with(), builders.trained_with("algo.target_kl=0.02")]).same > 50


def test_equal_configs_do_not_differ_whatever_their_seeds_and_names() -> None:
    other = builders.config().model_copy(update={"seed": 7, "name": "another"})
    both = [builders.trained_with(), Side("b", "config", builders.dotted(other), True)]
    assert configs.diff(both).differences == []


def test_a_schedule_that_never_changes_is_its_number() -> None:
    written = 'algo.learning_rate={"schedule": "constant", "start": 0.001}'
    assert differences(builders.trained_with("algo.learning_rate=1e-3"), builders.trained_with(written)) == {}


def test_settings_of_another_algorithm_are_absent_and_not_unknown() -> None:
    found = configs.diff(labelled([builders.trained_with(), Side("a2c", "config", {"algo.name": "a2c"}, True)])).differences
    assert [each.key for each in found] == ["algo.name"]
    assert found[0].usual.startswith("another algorithm")


def test_the_change_is_from_the_first_side_that_knows_it_to_the_first_that_has_another() -> None:
    same, larger = builders.trained_with("algo.learning_rate=1e-3"), builders.trained_with("algo.learning_rate=1e-2")
    found = differences(same, same, larger)["algo.learning_rate"]
    assert found.change == "10x larger"
    assert found.values == [1e-3, 1e-3, 1e-2]


# ── other frameworks ──


def foreign(settings: dict[str, Any], source: str = "sb3") -> Side:
    history = builders.run([1.0], source=source)
    return of_histories("log", [type(history)("log", source, algo="ppo", settings=settings, series=history.series)])


def test_a_frameworks_hidden_default_is_resolved_and_marked() -> None:
    found = differences(builders.trained_with("algo.n_epochs=20"), foreign({"algo.name": "ppo", "algo.learning_rate": 1e-3}))
    assert found["algo.n_epochs"].shown[1] == "not recorded (sb3's default: 10)"
    assert found["algo.n_epochs"].change == "2x smaller"


def test_what_one_side_does_not_say_and_has_no_default_is_no_difference() -> None:
    made = configs.diff(labelled([builders.trained_with(), foreign({"algo.name": "ppo"}, "csv")]))
    assert "algo.gamma" not in [each.key for each in made.differences]
    assert "B did not record every setting" in made.notes[0]
    assert "algo.gamma" in made.notes[0] or "more" in made.notes[0]


def test_two_frameworks_with_other_defaults_differ_where_neither_said_so() -> None:
    found = differences(foreign({"algo.name": "ppo", "algo.vf_coef": 0.25}), foreign({"algo.name": "ppo"}))
    assert found["algo.vf_coef"].shown == ["0.25", "not recorded (sb3's default: 0.5)"]


# ── what follows ──


@pytest.mark.parametrize("changes", [(), ("algo.batch_size=0.25",), ("algo.name=a2c",), ("env.n_envs=16", "algo.gamma=0.999")])
def test_derived_numbers_are_those_of_the_config(changes: tuple[str, ...]) -> None:
    made = builders.config(*changes)
    found, oracle = derived.derived(builders.dotted(made)), describe(made)
    names = {
        "rollout": "rollout_size",
        "minibatch rows": "batch_rows",
        "gradient steps per rollout": "gradient_steps_per_rollout",
        "updates in all": "iterations",
        "gradient steps in all": "gradient_steps",
        "horizon": "horizon_steps",
    }
    assert {name: found[name] for name in names} == pytest.approx({name: oracle[key] for name, key in names.items()})


def test_derived_numbers_by_hand() -> None:
    settings = {
        "env.n_envs": 8,
        "algo.n_steps": 32,
        "algo.gamma": 0.98,
        "algo.gae_lambda": 0.8,
        "run.max_env_steps": 100_000,
        "algo.learning_rate": {"schedule": "linear", "start": 1e-3, "end": 0.0},
        "net.hidden": [64, 32],
    }
    found = derived.derived(settings)
    assert found["horizon"] == pytest.approx(50)
    assert found["GAE horizon"] == pytest.approx(1 / (1 - 0.784))
    assert found["rollout / GAE horizon"] == pytest.approx(32 * 0.216)
    assert [found[f"learning rate, {place}"] for place in ("start", "middle", "end")] == pytest.approx([1e-3, 5e-4, 0.0])
    assert found["hidden units"] == 96
    assert "gradient steps per rollout" not in found


def test_numbers_whose_parts_are_unknown_are_left_out() -> None:
    assert derived.derived({}) == {}
    assert "horizon" not in derived.derived({"algo.gamma": 1.0})
    assert derived.derived({"algo.gamma": "auto", "net.hidden": "big"}) == {}


@pytest.mark.parametrize("algo", ["dqn", "sac", "td3", "ddpg"])
def test_derived_numbers_of_a_learner_with_a_replay_are_those_of_the_config(algo: str) -> None:
    made = builders.config(f"algo.name={algo}", "algo.learning_starts=1000", "algo.train_freq=4", "algo.gradient_steps=2", "env.n_envs=2")
    found, oracle = derived.derived(builders.dotted(made)), describe(made)
    assert found["minibatch rows"] == oracle["batch_rows"]
    assert found["gradient steps per 1,000 env steps"] == pytest.approx(1_000 * oracle["updates_per_env_step"])
    assert found["times each transition is drawn"] == pytest.approx(oracle["times_each_transition_is_drawn"])
    assert found["gradient steps in all"] == pytest.approx(oracle["gradient_steps"], rel=0.01)
    assert "rollout" not in found


def test_how_far_a_target_lies_behind_is_counted_in_env_steps() -> None:
    base = {"env.n_envs": 1, "algo.buffer_size": 50_000, "algo.train_freq": 1, "algo.gradient_steps": 2, "run.max_env_steps": 100_000}
    copied = derived.derived({**base, "algo.name": "dqn", "algo.tau": 1.0, "algo.target_update_interval": 500})
    averaged = derived.derived({**base, "algo.name": "sac", "algo.tau": 0.005, "algo.target_update_interval": 1})
    delayed = derived.derived({**base, "algo.name": "td3", "algo.tau": 0.005, "algo.policy_delay": 2})
    assert [each["target lag"] for each in (copied, averaged, delayed)] == pytest.approx([500, 100, 200])
    assert copied["replay"] == 0.5


def test_settings_that_only_one_algorithm_has_are_shown_with_their_values() -> None:
    made = configs.diff(labelled([builders.trained_with(), builders.trained_with("algo.name=dqn", "algo.buffer_size=50000")]))
    said = [note for note in made.notes if note.startswith("only ")]
    assert any(note.startswith("only dqn has (B): ") and "buffer_size 50,000" in note for note in said)
    assert any(note.startswith("only ppo has (A): ") and "clip_range" in note for note in said)
    assert not configs.diff(labelled([builders.trained_with(), builders.trained_with("env.n_envs=16")])).notes


@pytest.mark.parametrize("algo", ["dqn", "sac", "td3", "ddpg"])
def test_defaults_of_stable_baselines_are_those_of_its_own_signatures(algo: str) -> None:
    import inspect

    known = inspect.signature(getattr(pytest.importorskip("stable_baselines3"), algo.upper()).__init__).parameters
    ours = frameworks.DEFAULTS["sb3", algo]
    names = {key.partition(".")[2]: value for key, value in ours.items() if key.startswith("algo.")}
    checked = {name: value for name, value in names.items() if name in known and name not in ("ent_coef", "target_entropy", "action_noise")}
    assert len(checked) >= 8
    assert {name: known[name].default for name in checked} == checked


def test_derived_rows_say_whether_they_differ() -> None:
    rows = {row.name: row for row in configs.diff([builders.trained_with(), builders.trained_with("env.n_envs=16")]).derived}
    assert rows["rollout"].values == [256.0, 512.0]
    assert rows["rollout"].differs
    assert not rows["horizon"].differs


# ── what it usually does ──


def test_every_entry_of_the_table_names_a_setting_a_direction_and_its_sources() -> None:
    known = {f"{section}.{name}" for algo in ALGORITHMS for section, names in fields(algo).items() for name in names}
    for (key, direction), impact in impacts.IMPACTS.items():
        assert key in known, key
        assert direction in ("up", "down", "on", "off", "falls", "holds", "changed")
        assert impact.text
        assert impact.cites
        assert set(impact.cites) <= set(REFERENCES), impact.cites


def fields(algo: str) -> dict[str, Any]:
    from rlclinic.config.setting_names import list_fields as known

    return known(algo)


def test_the_numbers_of_ppo_have_an_entry_for_both_directions() -> None:
    for key in (
        "learning_rate",
        "n_steps",
        "batch_size",
        "n_epochs",
        "gamma",
        "gae_lambda",
        "clip_range",
        "ent_coef",
        "vf_coef",
        "max_grad_norm",
    ):
        for way in ("up", "down"):
            assert impacts.usual(f"algo.{key}", way).text, key  # type: ignore[arg-type]


def test_the_numbers_of_learners_with_a_replay_have_an_entry_for_both_directions() -> None:
    wanted = ("buffer_size", "learning_starts", "train_freq", "gradient_steps", "tau", "target_update_interval", "n_step")
    for key in (*wanted, "exploration_fraction", "exploration_final_eps", "n_critics", "policy_delay", "action_noise_std"):
        for way in ("up", "down"):
            assert impacts.usual(f"algo.{key}", way).text, key  # type: ignore[arg-type]


def test_a_setting_that_the_table_does_not_know_has_nothing_to_say() -> None:
    assert impacts.usual("run.threads", "up") == ("", ())


# ── recorded trials ──


def test_trials_count_by_setting_and_direction() -> None:
    rate, both = {"algo.learning_rate": "down"}, {"algo.learning_rate": "down", "algo.target_kl": "on"}
    known = trials.recorded([(rate, True), (both, False), ({"algo.learning_rate": "up"}, True), ({"algo.optimizer": "adamw"}, True)])
    assert trials.tally("algo.learning_rate", "down", 1e-3, known) == (2, 1)
    assert trials.tally("algo.learning_rate", "up", 1e-1, known) == (1, 1)
    assert trials.tally("algo.target_kl", "on", 0.02, known) == (1, 0)
    assert trials.tally("algo.optimizer", "changed", "adamw", known) == (1, 1)
    # Trials that set another word say nothing about this one.
    assert trials.tally("algo.optimizer", "changed", "sgd", known) == (0, 0)
    sides = labelled([builders.trained_with("algo.learning_rate=1e-2"), builders.trained_with("algo.learning_rate=1e-3")])
    (found,) = configs.diff(sides, known).differences
    assert (found.trials, found.adopted) == (2, 1)


# ── schedules ──


def test_a_schedule_that_differs_is_followed_over_the_budget() -> None:
    changes = [(), ("algo.learning_rate=0.002",)]
    (course,) = configs.diff(labelled([builders.trained_with(*each) for each in changes])).courses
    assert course.key == "algo.learning_rate"
    assert course.sides["A"][0] == pytest.approx(1e-3)
    assert course.sides["A"][20] == pytest.approx(5e-4)
    assert course.sides["A"][-1] == pytest.approx(0.0)
    assert set(course.sides["B"]) == {0.002}


def test_numbers_that_stay_are_not_drawn() -> None:
    sides = labelled([builders.trained_with("algo.gamma=0.9"), builders.trained_with("algo.gamma=0.99")])
    assert configs.diff(sides).courses == []
