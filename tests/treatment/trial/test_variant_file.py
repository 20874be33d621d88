"""Adopting: the winner of a trial as a variant of the user's file, which loads as exactly what was tried."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlclinic.config import Spec, files, load, set_values
from rlclinic.errors import ConfigError, UsageError
from rlclinic.ops.treat import adopt as operation
from rlclinic.runs import trials
from rlclinic.runs.store import Store
from rlclinic.treatment.trial import arms, conduct, variant_file
from rlclinic.treatment.trial.analysis import Standing
from rlclinic.treatment.trial.models import Observation, Trial

BASE = load("CartPole-v1:ppo_zoo").config
EVIDENCE = ["adopted from trial t3f on 2026-11-15: ADOPT rx1", "effect: 2.9x fewer steps"]
MINE = """# my own file
_run: &run {max_env_steps: 50_000, eval_every_env_steps: 2_000}

# slow but sure
careful:   # do not touch
  env: {id: CartPole-v1, n_envs: 4}
  algo: {name: ppo, learning_rate: 1e-4}
  run: *run

# quick
wild:
  env: {id: CartPole-v1}
  algo: {name: a2c}
"""


def loaded(text: str, variant: str, folder: Path):
    (folder / "CartPole-v1.yaml").write_text(text)
    return files.load(f"CartPole-v1:{variant}", search=folder).config


def same(found, config) -> bool:
    return found == config.model_copy(update={"name": found.name, "seed": found.seed})


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "algo.learning_rate": st.sampled_from(["3e-4", "{start: 1e-3, end: 1e-5, schedule: cosine, warmup: 0.1}"]),
        "algo.clip_range_vf": st.sampled_from(["none", "0.3"]),
        "algo.target_kl": st.floats(0.001, 0.5),
        "net.activation": st.sampled_from(["tanh", "relu"]),
        "net.hidden": st.sampled_from(["[]", "[16]", "[256, 128]"]),
        "env.kwargs.note": st.sampled_from(["yes", "1e5", "a: b", '"{x}"', "# no comment", '["off", 1]', ""]),
        "env.normalize_obs": st.booleans(),
        "run.max_env_steps": st.integers(2_000, 10**7),
        "run.eval_deterministic": st.booleans(),
    },
)


@settings(max_examples=30)
@given(CHANGES)
def test_whatever_was_tried_loads_as_it_was_tried(tmp_path_factory, changes):
    config = set_values(BASE, [f"{key}={value}" for key, value in changes.items()])
    text = variant_file.written("", config, "mine", EVIDENCE, "CartPole-v1")
    assert same(loaded(text, "mine", tmp_path_factory.mktemp("f")), config)
    assert text.startswith("# adopted from trial t3f")


@pytest.mark.parametrize(
    ("env", "change"),
    [
        ("CartPole-v1", "bonus={kind: rnd, coef: 0.2, until: first_success}"),
        ("CartPole-v1", "cost={limit: 25, multiplier: 1}"),
        ("Maze-v0", "curriculum={kind: learnability, parameter: size, range: [5, 9], bins: 3}"),
        ("Maze-v0", "curriculum={stages: [{name: 5 by 5, env: {size: 5}, success_threshold: 0.9}, {name: whole, env: {size: 9}}]}"),
    ],
)
def test_a_bonus_a_limit_and_a_curriculum_are_kept_with_the_winner(env, change, tmp_path):
    config = set_values(load(f"{env}:ppo").config, [change])
    text = variant_file.written("", config, "mine", EVIDENCE, env)
    (tmp_path / f"{env}.yaml").write_text(text)
    assert same(files.load(f"{env}:mine", search=tmp_path).config, config)
    assert len(text.splitlines()) < 25


def test_a_task_that_was_described_in_other_words_is_still_written_in_few_lines(tmp_path):
    mine = BASE.model_copy(update={"spec": BASE.spec.model_copy(update={"description": "", "source": ""})})
    text = variant_file.written("", mine, "mine", EVIDENCE, "CartPole-v1")
    assert len(text.splitlines()) < 25
    found = loaded(text, "mine", tmp_path)
    assert found.algo == mine.algo
    assert found.spec.threshold == mine.spec.threshold


def test_a_task_of_which_less_is_known_than_ships_is_still_written_in_few_lines(tmp_path):
    mine = BASE.model_copy(update={"spec": Spec(threshold=100.0)})
    text = variant_file.written("", mine, "mine", EVIDENCE, "CartPole-v1")
    assert len(text.splitlines()) < 25
    found = loaded(text, "mine", tmp_path)
    assert (found.algo, found.env, found.net, found.run) == (mine.algo, mine.env, mine.net, mine.run)
    assert (found.spec.threshold, found.spec.return_range, found.spec.max_episode_steps) == (100.0, None, None)


def test_other_variants_and_comments_stay_as_they_are(tmp_path):
    text = variant_file.written(MINE, BASE, "mine", EVIDENCE, "CartPole-v1")
    assert text.startswith(MINE.rstrip())
    assert same(loaded(text, "mine", tmp_path), BASE)
    assert loaded(text, "careful", tmp_path) == loaded(MINE, "careful", tmp_path)


def test_a_variant_is_replaced_with_its_evidence_and_nothing_else(tmp_path):
    first = variant_file.written(MINE, BASE, "mine", EVIDENCE, "CartPole-v1")
    faster = set_values(BASE, ["learning_rate=5e-3"])
    second = variant_file.written(first, faster, "mine", ["adopted from trial t9k on 2026-11-16: ADOPT rx2"], "CartPole-v1")
    assert "t3f" not in second
    assert second.count("mine:") == 1
    assert second.startswith(MINE.rstrip())
    assert same(loaded(second, "mine", tmp_path), faster)


def test_a_comment_of_the_users_own_is_left_when_its_variant_is_replaced():
    text = variant_file.written(MINE, BASE, "careful", EVIDENCE, "CartPole-v1")
    assert "# slow but sure" in text
    assert "# quick\nwild:" in text


def test_an_anchor_that_others_need_is_not_taken_away():
    shared = "first: &first\n  env: {id: CartPole-v1}\n  algo: {name: ppo}\nsecond:\n  <<: *first\n  run: {max_env_steps: 5_000}\n"
    with pytest.raises(ConfigError, match="Nothing was written"):
        variant_file.written(shared, BASE, "first", EVIDENCE, "CartPole-v1")


def test_settings_that_all_variants_inherit_do_not_leak_into_an_adopted_one(tmp_path):
    text = variant_file.written("_base:\n  algo: {gamma: 0.5}\nown:\n  env: {id: CartPole-v1}\n", BASE, "mine", EVIDENCE, "CartPole-v1")
    assert same(loaded(text, "mine", tmp_path), BASE)


def test_the_trial_of_a_variant_is_read_from_its_comment():
    text = variant_file.written(MINE, BASE, "mine", EVIDENCE, "CartPole-v1")
    assert variant_file.trial_of(text, "mine") == "t3f"
    assert variant_file.trial_of(text, "careful") is None
    assert variant_file.trial_of(text, "none") is None


@pytest.mark.parametrize("name", ["", "algo", "spec", "1st", "a b", "x:y"])
def test_a_name_that_no_file_can_hold_is_refused(name):
    with pytest.raises(UsageError, match="cannot be a variant's name"):
        variant_file.check_variant(name)


# ── the operation ──


def finished(store: Store, verdict: str = "adopt", changes: tuple[str, ...] = ("algo.learning_rate=1e-2",)) -> Trial:
    """A trial in the store that ended, without any training."""
    plan = conduct.plan(arms.control(BASE), [arms.changed(BASE, list(changes), "rx1")])
    standing = Standing(plan)
    steps = {"adopt": (90_000, 20_000), "reject": (20_000, 90_000)}.get(verdict, (50_000, 50_000))
    while not standing.decided:
        standing.add({name: [_seen(at + 1_000 * place) for place in range(8)] for name, at in zip(("control", "rx1"), steps, strict=True)})
    begun = Trial(
        id=trials.reserve(store), question="?", state="running", created=1.0, env_id="CartPole-v1", algo="ppo", source="own",
        outcome="steps", threshold=475.0, seed0=1_000, plan=plan, context=plan.context,
    )  # fmt: skip
    found = conduct._result(begun, standing, {}, "finished", 0.0)
    trials.write(store, found.id, found.model_dump(mode="json"))
    assert found.verdict == verdict
    return found


def _seen(reached: int) -> Observation:
    return Observation(
        run="r",
        seed=0,
        state="finished",
        env_steps=reached,
        reached_at=reached,
        final=500.0,
        success=None,
        seconds=1.0,
        seconds_per_100k=1.0,
    )


def test_an_adopted_variant_loads_at_once_with_its_evidence_above_it(tmp_path):
    store = Store(tmp_path / "runs")
    done = finished(store)
    result = operation.adopt(done.id, "CartPole-v1:mine", store.root, folder=tmp_path / "config")
    assert result.written
    text = (tmp_path / "config" / "CartPole-v1.yaml").read_text()
    for part in (done.id, "ADOPT rx1", "fewer steps", "8 seeds an arm from 1000", "algo.learning_rate:"):
        assert part in text
    config = files.load("CartPole-v1:mine", search=tmp_path / "config").config
    # What only the trial needed is put back as the control had it.
    assert same(config, set_values(BASE, ["learning_rate=1e-2"]))
    assert not config.run.stop_at_threshold
    assert any(line.startswith("+mine:") for line in result.diff)
    assert operation.trial_of("CartPole-v1:mine", tmp_path / "config") == done.id


def test_a_dry_run_shows_the_difference_and_writes_nothing(tmp_path):
    store = Store(tmp_path / "runs")
    result = operation.adopt(finished(store).id, "CartPole-v1:mine", store.root, dry_run=True, folder=tmp_path / "config")
    assert not result.written
    assert result.diff
    assert not (tmp_path / "config").exists()


def test_what_was_not_shown_to_help_and_what_is_there_already_need_force(tmp_path):
    store, folder = Store(tmp_path / "runs"), tmp_path / "config"
    rejected, adopted = finished(store, "reject"), finished(store)
    with pytest.raises(UsageError, match="REJECT rx1"):
        operation.adopt(rejected.id, "CartPole-v1:mine", store.root, folder=folder)
    operation.adopt(rejected.id, "CartPole-v1:mine", store.root, folder=folder, force=True)
    with pytest.raises(UsageError, match="already in"):
        operation.adopt(adopted.id, "CartPole-v1:mine", store.root, folder=folder)
    operation.adopt(adopted.id, "CartPole-v1:mine", store.root, folder=folder, force=True)
    assert (folder / "CartPole-v1.yaml").read_text().count("mine:") == 1


def test_evidence_of_one_environment_is_not_written_to_another(tmp_path):
    store = Store(tmp_path / "runs")
    with pytest.raises(UsageError, match="Acrobot-v1 was not tried"):
        operation.adopt(finished(store).id, "Acrobot-v1:mine", store.root, folder=tmp_path)


def test_a_name_without_a_variant_says_what_to_type(tmp_path):
    store = Store(tmp_path / "runs")
    with pytest.raises(UsageError, match="not ENV:VARIANT"):
        operation.adopt(finished(store).id, "mine", store.root, folder=tmp_path)
