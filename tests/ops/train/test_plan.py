from pathlib import Path

import pytest

from rlclinic.config.corrections import CORRECTIONS, Correction
from rlclinic.errors import ConfigError, NotFound, RunBusy, UsageError
from rlclinic.ops.train.plan import TrainPlan, plan_training
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from tests.ops.recorded import add_checkpoint, record_group


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def plan(root: Path, **request: object) -> TrainPlan:
    return plan_training(TrainRequest(runs_dir=root, **request))  # type: ignore[arg-type]


def seeds(planned: TrainPlan) -> list[int]:
    return [config.seed for config in planned.configs]


def with_checkpoints(root: Path, **how: object) -> Group:
    group = record_group(root, **how)  # type: ignore[arg-type]
    for run in group.runs:
        add_checkpoint(run.path, 5120)
        add_checkpoint(run.path, 10240, best=True)
    return group


def test_a_fresh_group_has_one_config_per_seed_and_writes_nothing(root: Path) -> None:
    planned = plan(root, ref="CartPole-v1:ppo", seed=3, seeds=4)
    assert seeds(planned) == [3, 4, 5, 6]
    assert planned.start is None
    assert not root.exists()


def test_settings_and_flags_are_applied_and_flags_win(root: Path) -> None:
    planned = plan(
        root, ref="CartPole-v1:ppo", changes=["gamma=0.9", "run.max_env_steps=5e4"], max_env_steps=60_000, threads=2, tensorboard=True
    )
    config = planned.configs[0]
    assert (config.algo.gamma, config.run.max_env_steps, config.run.threads, config.run.tensorboard) == (0.9, 60_000, 2, True)
    assert planned.origins["algo.gamma"] == "--set"
    assert "--max-env-steps 60000 stands; run.max_env_steps=5e4 is not used" in planned.notes


def test_an_environment_without_a_file_says_that_its_settings_are_general(root: Path) -> None:
    planned = plan(root, ref="probe:1")
    assert "general settings" in planned.notes[0]


def test_nothing_to_train_names_something_to_type(root: Path) -> None:
    with pytest.raises(UsageError, match="rlclinic train CartPole-v1:ppo"):
        plan(root)


def test_unknown_names_and_wrong_settings_are_refused_before_anything_is_made(root: Path) -> None:
    with pytest.raises(NotFound, match="CartPole-v1"):
        plan(root, ref="CartPol-v1")
    with pytest.raises(ConfigError, match="does not divide"):
        plan(root, ref="CartPole-v1:ppo_zoo", changes=["batch_size=100"])
    assert not root.exists()


def test_a_wrong_environment_in_a_setting_or_a_file_is_found_before_any_process_starts(root: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no environment CartPoll-v1(?s:.*)Try: CartPole-v1"):
        plan(root, ref="CartPole-v1:ppo", changes=["env.id=CartPoll-v1"])
    file = tmp_path / "mine.yaml"
    file.write_text("ppo:\n  env: {id: LunarLandr-v3}\n  algo: {name: ppo}\n")
    with pytest.raises(NotFound, match=r"no environment LunarLandr-v3(?s:.*)Try: LunarLander-v3"):
        plan(root, ref=f"{file}:ppo")
    with pytest.raises(NotFound, match=r"no environment probe:6(?s:.*)probe:5"):
        plan(root, ref="probe:1", changes=["env.id=probe:6"])
    assert not root.exists()
    assert plan(root, ref="Taxi-v3:ppo").configs, "a name that only a file here has"


def test_what_another_framework_trained_is_not_resumed(root: Path) -> None:
    group = Store(root).create_foreign([{"env": {"id": "CartPole-v1"}, "seed": 0}], [{"framework": "sb3"}])
    with pytest.raises(UsageError, match=rf"imported(?s:.*)rlclinic diagnose {group.id}"):
        plan(root, resume=group.id)


def test_a_run_or_group_is_trained_anew_with_its_own_settings_and_seeds(root: Path) -> None:
    group = record_group(root, seeds=(5, 6))
    planned = plan(root, ref=group.id, changes=["gamma=0.9"])
    assert seeds(planned) == [5, 6]
    assert planned.configs[0].run.max_env_steps == 10240
    assert planned.configs[0].algo.gamma == 0.9
    assert planned.parents == []
    assert seeds(plan(root, ref="@last", seeds=3)) == [5, 6, 7]


def test_a_fork_keeps_seed_and_settings_and_names_its_parent(root: Path) -> None:
    group = with_checkpoints(root, seeds=(7,))
    planned = plan(root, ref=f"{group.id}-s7@5120", changes=["algo.ent_coef=0.01"])
    assert (planned.start, planned.parents, planned.parent) == ("fork", [f"{group.id}-s7@5120"], f"{group.id}-s7@5120")
    assert seeds(planned) == [7]
    assert planned.configs[0].algo.ent_coef == 0.01
    assert planned.origins["algo.ent_coef"] == "--set"


def test_a_group_forks_member_by_member(root: Path) -> None:
    group = with_checkpoints(root, seeds=(0, 1))
    planned = plan(root, ref=f"{group.id}@last")
    assert planned.parents == [f"{group.id}-s0@10240", f"{group.id}-s1@10240"]
    assert planned.parent == group.id


def test_a_fork_at_a_step_that_is_not_kept_lists_those_that_are(root: Path) -> None:
    group = with_checkpoints(root, seeds=(0,))
    with pytest.raises(NotFound, match="5120, 10240"):
        plan(root, ref=f"{group.id}-s0@777")


def test_a_fork_whose_budget_ends_before_its_checkpoint_is_refused_before_anything_is_created(root: Path) -> None:
    group = with_checkpoints(root, seeds=(0,))
    there = sorted(path.name for path in root.iterdir())
    with pytest.raises(UsageError, match=r"s0@10240 lies behind a budget of 8,000 env steps(?s:.*)--max-env-steps 20480"):
        plan(root, ref=f"{group.id}-s0@10240", max_env_steps=8000)
    assert sorted(path.name for path in root.iterdir()) == there
    assert plan(root, ref=f"{group.id}-s0@5120", max_env_steps=8000).configs[0].run.max_env_steps == 8000


def test_an_old_run_whose_meaning_is_no_longer_known_is_neither_resumed_nor_forked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = with_checkpoints(root, seeds=(0,))
    monkeypatch.setitem(CORRECTIONS, "later", Correction("two was three", lambda config, skips: True))
    for request in ({"resume": group.id, "max_env_steps": 20480}, {"resume": group.id}, {"ref": f"{group.id}-s0@5120"}):
        with pytest.raises(UsageError, match="begun when two was three"):
            plan(root, **request)
    assert plan(root, ref=group.id).configs
    assert plan(root, ref="CartPole-v1:ppo", init_from=f"{group.id}-s0@5120").configs


def test_a_fork_starts_with_the_numbers_that_adjust_had_set_by_then(root: Path) -> None:
    from rlclinic.runs.writer import RunWriter
    from tests.ops.recorded import COLUMNS

    group = with_checkpoints(root, seeds=(0,))
    with RunWriter(group.runs[0].path, COLUMNS, offset=0) as writer:
        writer.intervention({"env_steps": 4096, "set": {"algo.ent_coef": 0.02}})
        writer.intervention({"env_steps": 8192, "set": {"algo.ent_coef": 0.5}})
        writer.status("finished", 10240)
    assert plan(root, ref=f"{group.id}-s0@5120").configs[0].algo.ent_coef == 0.02


def test_resume_takes_what_is_not_finished(root: Path) -> None:
    group = record_group(root, seeds=(0, 1), state="stopped", share_done=0.5)
    planned = plan(root, resume=group.id)
    assert [run.id for run in planned.resumed] == [f"{group.id}-s0", f"{group.id}-s1"]


def test_resuming_a_finished_group_offers_a_larger_budget(root: Path) -> None:
    group = record_group(root)
    with pytest.raises(UsageError, match=f"--resume {group.id} --max-env-steps 20480"):
        plan(root, resume=group.id)


def test_a_larger_budget_extends_as_children_of_the_last_checkpoints(root: Path) -> None:
    group = with_checkpoints(root, seeds=(0, 1))
    planned = plan(root, resume=group.id, max_env_steps=50_000)
    assert planned.start == "extend"
    assert planned.parents == [f"{group.id}-s0@10240", f"{group.id}-s1@10240"]
    assert {config.run.max_env_steps for config in planned.configs} == {50_000}
    assert seeds(planned) == [0, 1]
    with pytest.raises(UsageError, match="nothing to extend"):
        plan(root, resume=group.id, max_env_steps=10_240)


def test_resume_refuses_what_would_make_it_another_run(root: Path) -> None:
    group = record_group(root, state="stopped", share_done=0.5)
    with pytest.raises(UsageError, match=f"rlclinic train {group.id}@last --set gamma=0.9"):
        plan(root, resume=group.id, changes=["gamma=0.9"])
    with pytest.raises(UsageError, match="leave out CartPole-v1"):
        plan(root, resume=group.id, ref="CartPole-v1")


def test_a_run_that_is_training_cannot_be_resumed(root: Path) -> None:
    group = record_group(root, seeds=(0,), state="running", share_done=0.5)
    with pytest.raises(RunBusy, match="is training now"):
        plan(root, resume=group.id)


def test_weights_come_from_the_best_checkpoint_unless_another_is_named(root: Path) -> None:
    group = with_checkpoints(root, seeds=(0,))
    planned = plan(root, ref="CartPole-v1:ppo", init_from=f"{group.id}-s0", seeds=2)
    assert (planned.start, planned.parents) == ("init", [f"{group.id}-s0@10240"] * 2)
    other = plan(root, init_from=f"{group.id}-s0@5120")
    assert other.parents == [f"{group.id}-s0@5120"]
    assert other.configs[0].run.max_env_steps == 10240


def test_a_fork_with_other_weights_is_refused(root: Path) -> None:
    group = with_checkpoints(root, seeds=(0,))
    with pytest.raises(UsageError, match="already starts from a checkpoint"):
        plan(root, ref=f"{group.id}-s0@5120", init_from=f"{group.id}-s0")


def test_only_very_large_trainings_ask_first(root: Path) -> None:
    assert plan(root, ref="CartPole-v1:ppo", seeds=8).question is None
    question = plan(root, ref="CartPole-v1:ppo", seeds=200, max_env_steps=10_000_000).question
    assert question == "This trains 200 seeds x 10,000,000 = 2G env steps. Start?"


def test_missing_torch_is_said_before_anything_else(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: None)
    with pytest.raises(UsageError, match=r"pip install 'rlclinic\[train\]'"):
        plan(root, ref="CartPole-v1:ppo")


def test_a_budget_of_an_atari_game_is_said_in_frames_too(root: Path) -> None:
    planned = plan(root, ref="ALE/Pong-v5", seeds=200)
    assert planned.question == "This trains 200 seeds x 10,000,000 = 2G env steps (8G frames). Start?"
    assert planned.notes == ["one env step is 4 frames: 10,000,000 env steps (40M frames)"]
    assert plan(root, ref="ALE/Pong-v5:ppo").configs[0].env.id == "ALE/Pong-v5", "an environment, and no checkpoint of a run ALE"
    assert plan(root, ref="CartPole-v1").notes == []


def with_cores(monkeypatch: pytest.MonkeyPatch, cores: int, idle: int | None = None) -> None:
    monkeypatch.setattr("rlclinic.ops.train.plan.usable_cores", lambda: cores)
    monkeypatch.setattr("rlclinic.ops.train.plan.idle_cores", lambda: cores if idle is None else idle)


def test_a_large_network_gets_the_cores_that_are_idle_and_a_small_one_does_not(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_cores(monkeypatch, 8)

    def threads(*changes: str, **more: object) -> int:
        return plan(root, ref="CartPole-v1:ppo", changes=list(changes), **more).configs[0].run.threads

    assert threads() == 1
    assert threads("net.hidden=[512, 512]") == 8
    assert threads("net.hidden=[512, 512]", seeds=2) == 4
    assert threads("net.hidden=[512, 512]", seeds=20) == 1
    assert threads("net.hidden=[512, 512]", threads=2) == 2
    assert threads("net.hidden=[512, 512]", "run.threads=1") == 1
    assert "run.threads=1" in plan(root, ref="CartPole-v1:ppo", changes=["net.hidden=[512]"]).notes[-1]
    with_cores(monkeypatch, 8, idle=3)
    assert threads("net.hidden=[512, 512]") == 3, "others use five"
    assert threads("net.hidden=[512, 512]", seeds=4) == 1


def test_environments_whose_steps_are_slow_get_the_cores_that_are_idle(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_cores(monkeypatch, 2)

    def workers(ref: str, *changes: str, **more: object) -> int:
        return plan(root, ref=ref, changes=list(changes), **more).configs[0].env.workers

    assert workers("BipedalWalker-v3:ppo") == 2
    assert workers("BipedalWalker-v3:ppo", seeds=2) == 0, "both cores train"
    assert workers("BipedalWalker-v3:ppo", env_workers=0) == workers("BipedalWalker-v3:ppo", "env.workers=0") == 0
    assert workers("BipedalWalker-v3:ppo", "env.n_envs=4") == 0, "a message would take as long as the steps"
    assert workers("LunarLander-v3:ppo") == 0
    assert workers("Hopper-v5:ppo") == 0, "one environment"
    assert workers("CartPole-v1:ppo") == 0, "nobody knows how long it takes, and it need not be Gymnasium's"
    assert workers("ALE/Pong-v5:ppo") == 2, "threads of ALE's own"
    note = plan(root, ref="BipedalWalker-v3:ppo").notes[-1]
    assert "2 processes step the environments of each run, as cores are idle and 32 steps take 5.9 ms; env.workers=0" in note
    with_cores(monkeypatch, 64)
    assert 4 <= workers("BipedalWalker-v3:ppo") < 16, "each worker costs messages of its own"


@pytest.mark.parametrize(
    ("ref", "run", "text"),
    [
        ("CartPole-v1:ppo", {"engine": "captured"}, r"run.engine=captured, but run.device is cpu(?s:.*)--device cuda"),
        ("CartPole-v1:ppo", {"engine": "captured", "device": "auto"}, r"run.engine=captured, but run.device is auto"),
        ("CartPole-v1:ppo", {"device": "cuda"}, r"no NVIDIA driver(?s:.*)--device cpu(?s:.*)rlclinic doctor"),
        ("CartPole-v1:dqn", {"engine": "compiled"}, r"dqn trains with the eager engine on a CPU(?s:.*)--engine auto"),
        ("ALE/Pong-v5:ppo", {"engine": "compiled"}, r"gives images(?s:.*)nothing to compile(?s:.*)--engine auto"),
    ],
)
def test_an_engine_that_cannot_be_had_is_refused_before_a_folder_is_made(
    root: Path, monkeypatch: pytest.MonkeyPatch, ref: str, run: dict[str, str], text: str
) -> None:
    monkeypatch.setattr("rlclinic.ops.train.machine.has_gpu", lambda: False)
    with pytest.raises(ConfigError, match=text):
        plan(root, ref=ref, changes=[f"run.{name}={value}" for name, value in run.items()])
    assert not root.exists()


def test_a_gpu_that_is_there_may_be_asked_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlclinic.ops.train.machine.has_gpu", lambda: True)
    assert plan(root, ref="CartPole-v1:ppo", changes=["run.engine=captured", "run.device=cuda"]).configs[0].run.engine == "captured"


def test_an_algorithm_that_cannot_choose_an_environments_actions_is_refused_before_a_run_is_made(tmp_path: Path) -> None:
    for ref, said in (("CartPole-v1:sac", "CartPole-v1:dqn"), ("Pendulum-v1:dqn", "Pendulum-v1:sac")):
        with pytest.raises(ConfigError, match=f"(?s)takes actions of kind.*rlclinic train {said}"):
            plan_training(TrainRequest(ref=ref, runs_dir=tmp_path))
    assert not list(tmp_path.iterdir())
