"""The benchmark of cures for faults of environments: what is put around a fault, and in which unit its arms are compared."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks import provenance
from benchmarks.diagnosis import faulty
from benchmarks.diagnosis.faulty import EnvFault
from benchmarks.diagnosis.worlds import learnable, native
from benchmarks.treatment import environment_cures
from rlclinic.training import envs


def test_a_fault_lies_inside_of_what_a_config_puts_around_the_environment():
    native.register()
    config = learnable.base("tank-0").env.model_copy(update={"frame_stack": 2, "reward_scale": -2.0})
    with faulty.planted([EnvFault(obs_scale=(0.0, 1.0), reward_scale=10.0)]):
        env = envs.make(config, [1], 3)
        assert env.obs_shape == (6,)
        shown = env.reset()
        assert torch.equal(shown[..., [0, 2, 3, 5]], torch.zeros(1, 3, 4)), "three components: both frames hide the same ones"
        assert (shown[..., [1, 4]] != 0).all()
        paid = env.step(torch.zeros(1, 3, dtype=torch.int64)).reward
    sound = envs.make(learnable.base("tank-0").env, [1], 3)
    sound.reset()
    assert torch.allclose(paid, -20.0 * sound.step(torch.zeros(1, 3, dtype=torch.int64)).reward)


def test_actions_are_stretched_around_a_box_that_is_too_wide():
    native.register()
    cell = environment_cures.choose("held_out", 1, causes=["action-bounds"])[0]
    wrapped = environment_cures.patch(cell.config, {"env.wrappers": [{"id": "RescaleAction", "min_action": -1.0, "max_action": 1.0}]})
    with faulty.planted([EnvFault(bound=500.0)]):
        env = envs.make(wrapped.env, [1], 2)
        env.reset()
        assert float(env.action.high.max()) == 1.0
        paid = env.step(torch.full((1, 2, *env.action.low.shape), 0.5)).reward
    sound = envs.make(cell.config.env, [1], 2)
    sound.reset()
    assert torch.allclose(paid, sound.step(torch.full((1, 2, *sound.action.low.shape), 0.5)).reward)


def test_arms_are_compared_in_the_true_unit_of_the_reward():
    """Where a sign is wrong on both sides, a high return in the log is a bad one; with the sign turned around it is a good one."""
    for cell in environment_cures.choose("held_out", 1000, causes=["reward-sign", "reward-scale-too-large", "reward-shifted"]):
        arms = environment_cures.arms_of(cell)
        assert environment_cures.unit_of(arms["clean"]) == 1.0
        if cell.faults[0].cause == "reward-sign":
            assert environment_cures.unit_of(arms["undone"]) == 1.0
            assert environment_cures.unit_of(arms["control"]) == (1.0 if cell.env.train_only else -1.0)
        elif cell.faults[0].cause == "reward-shifted":
            assert environment_cures.unit_of(arms["control"]) == 1.0
        else:
            assert environment_cures.unit_of(arms["control"]) == cell.env.reward_scale >= 1e3
        assert len({arm.id for arm in arms.values()}) == len(arms)


def test_a_short_time_limit_is_judged_by_episodes_as_long_as_the_worlds_own():
    """A short episode's return is not a long one's: who is paid costs would be harmed by every longer limit."""
    native.register()
    cell = environment_cures.choose("held_out", 1, causes=["episode-too-short"])[0]
    arms, own = environment_cures.arms_of(cell), cell.task.config.spec.max_episode_steps
    assert arms["sick"].env.eval_limit == 0
    assert {arms[name].env.eval_limit for name in ("control", "undone")} == {own}
    with faulty.planted([arms["control"].env]):
        trained, judged = (envs.make(cell.config.env, [1], 2, evaluation=evaluation) for evaluation in (False, True))
    assert (trained.max_episode_steps, judged.max_episode_steps) == (cell.config.env.max_episode_steps, own)
    other = environment_cures.choose("held_out", 1, causes=["observation-scale"])[0]
    assert environment_cures.arms_of(other)["control"].env.eval_limit == 0


def test_every_undoable_cause_is_planted_in_every_world_where_it_fits():
    chosen = environment_cures.choose("held_out", 1000)
    causes = {cell.faults[0].cause for cell in chosen}
    assert causes == set(environment_cures.UNDOABLE)
    assert len({cell.id for cell in chosen}) == len(chosen)


def test_groups_that_were_trained_later_are_added_to_those_that_are_recorded_and_none_counts_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(provenance, "RESULTS", tmp_path)

    def write(name: str, *groups: str, cured: bool = True) -> Path:
        path = tmp_path / name
        known = {"commit": "late", "sick": True, "undoable": True, "cured": cured, "harmful": not cured}
        path.write_text("".join(json.dumps({"id": group, **known}) + "\n" for group in groups), "utf-8")
        return path

    environment_cures.keep("sixth", 10, [write("first.jsonl", "a", "b")], added=False)
    environment_cures.keep("sixth", 10, [write("later.jsonl", "c", "d", cured=False)], added=True)
    kept = json.loads((tmp_path / "environment_cures_sixth.json").read_text("utf-8"))
    assert [group["id"] for group in kept["groups"]] == ["a", "b", "c", "d"]
    assert [(row["value"], row["n"]) for row in kept["rows"][:2]] == [(50.0, 4), (50.0, 4)]
    with pytest.raises(SystemExit, match="1 of these groups are recorded already, b among them"):
        environment_cures.keep("sixth", 10, [write("again.jsonl", "b", "e")], added=True)
