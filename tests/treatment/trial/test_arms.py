"""Arms: what is changed against the control, and the user's own command with its placeholders."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlclinic.config import Config, load, set_values
from rlclinic.errors import ConfigError, UsageError
from rlclinic.treatment.trial import arms

BASE = load("CartPole-v1:ppo_zoo").config


def test_an_arm_knows_its_changes_as_set_takes_them():
    arm = arms.changed(BASE, ["learning_rate=1e-4", "clip_range=0.1"], "rx1")
    assert [change.split("=")[0] for change in arm.changes] == ["algo.learning_rate", "algo.clip_range"]
    assert set_values(BASE, list(arm.changes)) == arm.config
    assert arm.title == "learning_rate 0.0001 and clip_range 0.1"


def test_an_arm_that_changes_nothing_is_refused():
    with pytest.raises(UsageError, match="what the control already is"):
        arms.changed(BASE, ["n_epochs=20"], "rx1")


def test_an_arm_that_the_schema_refuses_is_a_config_error():
    with pytest.raises(ConfigError, match="does not divide"):
        arms.changed(BASE, ["batch_size=100"], "rx1")


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "algo.gamma": st.floats(0.5, 0.999),
            "algo.learning_rate": st.sampled_from(["1e-4", "{start: 1e-3, end: 0, schedule: linear}"]),
            "net.hidden": st.sampled_from(["[32]", "[64, 32]"]),
            "algo.n_epochs": st.integers(1, 30),
            "run.max_env_steps": st.integers(2_000, 10**6),
        },
    )
)
def test_differences_rebuild_the_other_config(changes):
    config = set_values(BASE, [f"{key}={value}" for key, value in changes.items()])
    assert set_values(BASE, list(arms.differences(BASE, config))) == config


def test_another_algorithm_is_one_change_and_what_differs_from_its_defaults():
    other = set_values(BASE, ["algo.name=a2c", "algo.gamma=0.9"])
    assert set(arms.differences(BASE, other)) == {"algo.name=a2c", "algo.gamma=0.9"}
    assert set_values(BASE, list(arms.differences(BASE, other))) == other


MAZE = load("Maze-v0:ppo").config
SIZES = "curriculum={kind: uniform, parameter: size, range: [5, 9], bins: 3}"


@pytest.mark.parametrize(
    ("base", "changes", "told"),
    [
        (BASE, ["bonus.kind=count", "bonus.coef=0.1"], ("bonus.kind=count", "bonus.coef=0.1")),
        (BASE, ["bonus={kind: rnd, coef: 0.05, until: first_success}"], ("bonus.kind=rnd", "bonus.until=first_success")),
        (set_values(BASE, ["bonus.kind=rnd"]), ["bonus.coef=0.1"], ("bonus.coef=0.1",)),
        (set_values(BASE, ["bonus.kind=rnd"]), ["bonus=null"], ("bonus=null",)),
        (BASE, ["cost_limit=25"], ("cost.limit=25.0",)),
        (set_values(MAZE, [SIZES]), ["curriculum.kind=learnability"], ("curriculum.kind=learnability",)),
        (set_values(MAZE, [SIZES]), ["curriculum=null"], ("curriculum=null",)),
    ],
)
def test_what_is_added_to_a_config_is_a_change_that_rebuilds_it(base: Config, changes: list[str], told: tuple[str, ...]) -> None:
    other = set_values(base, changes)
    assert arms.differences(base, other) == told
    assert set_values(base, list(told)) == other


def test_where_a_run_stops_and_how_it_is_computed_is_no_change():
    other = set_values(BASE, ["run.stop_at_threshold=true", "run.threads=2", "seed=7"])
    assert arms.differences(BASE, other) == ()


def test_two_environments_cannot_be_compared():
    with pytest.raises(UsageError, match="Acrobot-v1"):
        arms.against(BASE, load("Acrobot-v1:ppo").config, "other")


# ── commands ──


def test_a_command_gets_seed_folder_and_values():
    control, treated = arms.commands("train.py --seed {seed} --lr {lr} --out {out} '{{kept}}'", ["lr=1e-3", "lr=1e-2"])
    assert (control.name, treated.name) == ("control", "lr-1e-2")
    assert arms.filled(treated, 7, "/x") == "train.py --seed 7 --lr 1e-2 --out /x '{kept}'"


def test_several_placeholders_are_given_with_commas_and_lists_stay_whole():
    _, treated = arms.commands("t {seed} {lr} {net}", ["lr=1,net=[64,64]", "lr=2,net=[32,32]"])
    assert treated.changes == ("lr=2", "net=[32,32]")


@pytest.mark.parametrize(
    ("template", "values", "said"),
    [
        ("train.py --lr {lr}", ["lr=1", "lr=2"], "no {seed}"),
        ("train.py {seed} {lr}", ["lr=1"], "two arms or more"),
        ("train.py {seed} {lr}", ["lr=1", "clip=2"], "placeholders: lr"),
        ("train.py {seed} {lr}", ["lr=1", "nonsense"], "not KEY=VALUE"),
    ],
)
def test_a_command_that_cannot_be_tried_is_refused_with_what_to_type(template, values, said):
    with pytest.raises(UsageError, match=said.replace("{", r"\{").replace("}", r"\}")):
        arms.commands(template, values)


def test_arms_of_one_name_are_told_apart():
    twins = [arms.Arm(name="a", config=BASE), arms.Arm(name="a", config=BASE)]
    assert [arm.name for arm in arms.unique(twins)] == ["a", "a-2"]


def test_an_arm_survives_json():
    arm = arms.changed(BASE, ["learning_rate={start: 2e-3, end: 0, schedule: linear}"], "rx1")
    again = arms.Arm.model_validate_json(arm.model_dump_json())
    assert again == arm
    assert isinstance(again.config, Config)
