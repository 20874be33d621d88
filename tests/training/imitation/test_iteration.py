"""DAgger and its relatives on tiny tasks: what is asked, kept, learned and resumed."""

import json
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from benchmarks.imitation import own_actions_stored
from rlclinic import trust
from rlclinic.config import Config
from rlclinic.datasets import Dataset
from rlclinic.ops.diagnose.diagnose import examine_group
from rlclinic.runs import labelling
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.training.__main__ import train_runs
from rlclinic.training.algos import dagger
from rlclinic.training.imitation import experts, labels
from rlclinic.training.policy import Policy
from tests.training import tasks
from tests.training.cohorts import Interrupted, interrupt_at, saved, table
from tests.training.imitation import expert

FILE = Path(__file__).with_name("expert.py")
ALGOS: dict[str, dict[str, Any]] = {
    "dagger": {},
    "safe_dagger": {"unsafe_error": 0.05},
    "ensemble_dagger": {"ensemble": 2, "doubt": 0.02},
    "thrifty_dagger": {"ensemble": 2},
}
SMALL = {"train_freq": 12, "gradient_steps": 6, "n_epochs": 2, "batch_size": 8}


@pytest.fixture(autouse=True)
def _approve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(trust.TRUST, "all")


def make(name: str = "dagger", seed: int = 0, asks: str = "pendulum", env: dict[str, Any] | None = None, **algo: Any) -> Config:
    settings = {"name": name, "expert": f"{FILE}:{asks}", **SMALL, **ALGOS[name], **algo}
    task = {"id": "Pendulum-v1", "n_envs": 2, "max_episode_steps": 10, **(env or {})}
    run = {"max_env_steps": 96, "eval_episodes": 2, "eval_every_env_steps": 24, "checkpoint_every_env_steps": 48}
    return Config.model_validate({"env": task, "algo": settings, "net": {"hidden": [8, 6]}, "run": run, "seed": seed})


def train(folder: Path, *configs: Config, callback: Callable[..., Any] | None = None) -> list[Run]:
    store = Store(folder / "runs")
    runs = [store.create_group([config]).runs[0] for config in configs]
    train_runs(runs, callback=callback)
    return runs


def rounds(run: Run) -> list[Dataset]:
    return labels.read(run.path)


def column(run: Run, name: str) -> list[float]:
    return [float(row[f"train/imitation/{name}"] or "nan") for row in table(run)]


@pytest.mark.parametrize("name", ALGOS)
def test_a_member_of_a_cohort_learns_as_it_would_alone(name: str, tmp_path: Path) -> None:
    together = train(tmp_path / "together", *(make(name, seed) for seed in (3, 4, 5)))
    (alone,) = train(tmp_path / "alone", make(name, 4))
    assert saved(together[1]) == saved(alone)
    assert table(together[1]) == table(alone)
    assert saved(together[0]) != saved(together[1])


@pytest.mark.parametrize("name", ALGOS)
def test_resuming_is_the_same_as_never_having_stopped_byte_for_byte(name: str, tmp_path: Path) -> None:
    (whole,) = train(tmp_path / "whole", make(name, 1))
    store = Store(tmp_path / "cut" / "runs")
    run = store.create_group([make(name, 1)]).runs[0]
    with pytest.raises(Interrupted):
        train_runs([run], callback=interrupt_at(72))  # a round after the checkpoint
    assert len(rounds(run)) == 3
    train_runs([run], resume=True)
    assert saved(run) == saved(whole)
    assert table(run) == table(whole)
    for one, other in zip(rounds(run), rounds(whole), strict=True):
        assert all(np.array_equal(one.beside[key], other.beside[key], equal_nan=True) for key in labels.BESIDE)


@pytest.mark.parametrize("name", ALGOS)
def test_a_saved_policy_acts_as_the_one_that_was_evaluated(name: str, tmp_path: Path) -> None:
    """The policy alone, without whoever is asked while it learns."""
    (run,) = train(tmp_path, make(name, 2))
    policy = Policy(run.config, run.checkpoint("@last").path)
    assert float(policy.evaluate(2).returns.mean()) == pytest.approx(float(table(run)[-1]["val/roll/ep_rew_mean"]), rel=1e-6)


def test_what_was_done_and_what_the_expert_said_are_kept_apart(tmp_path: Path) -> None:
    (run,) = train(tmp_path, make())
    first, *later = rounds(run)
    assert first.beside["by_expert"].all()
    assert np.array_equal(first.actions, first.beside["label"])
    for data in later:
        assert not data.beside["by_expert"].any()
        assert data.beside["answered"].all()
        assert not np.allclose(data.actions, data.beside["label"])
    said = [np.clip(expert.pendulum(row), -2, 2) for row in later[-1].transitions(np.arange(len(later[-1]))).observations]
    assert np.allclose(later[-1].beside["label"], np.array(said), atol=1e-6)


def test_the_budget_is_counted_exactly_and_never_exceeded_across_a_resume(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    run = store.create_group([make(max_queries=61, repeat_queries=0.3)]).runs[0]
    with pytest.raises(Interrupted):
        train_runs([run], callback=interrupt_at(48))
    shutil.rmtree(run.path / "checkpoints" / "48", ignore_errors=True)
    train_runs([run], resume=True)
    asked = sum(int(data.beside["queries"].sum()) for data in rounds(run))
    lines = (run.path / "labels" / "answers.jsonl").read_text().splitlines()
    assert asked == column(run, "queries")[-1] == len(lines) == 61
    assert len({tuple(json.loads(line)["at"]) for line in lines}) == 61, "no question was paid for twice"
    assert Run(run.path).status.state == "finished"
    assert "max_queries" in (Run(run.path).status.reason or "")


def test_a_round_that_was_interrupted_takes_the_answers_that_were_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, ...]] = []
    stop_at = [30]
    original = experts.call

    def counted(name: str) -> Any:
        answer = original(name)

        def ask(obs: Any, index: int, question: Any) -> Any:
            if len(asked) == stop_at[0]:
                raise KeyboardInterrupt
            asked.append(question.place)
            return answer(obs, index, question)

        return ask

    monkeypatch.setattr(experts, "call", counted)
    run = Store(tmp_path / "runs").create_group([make()]).runs[0]
    with pytest.raises(KeyboardInterrupt):
        train_runs([run])
    assert Run(run.path).status.state == "stopped"
    stop_at[0] = -1
    train_runs([run], resume=True)
    assert len(asked) == len(set(asked)) == 96
    (whole,) = train(tmp_path / "whole", make())
    assert saved(run) == saved(whole)


def test_answers_that_an_interruption_made_useless_were_paid_for_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that does not go on as it was asks about other states: the budget knows both kinds of questions, after any resume."""
    asked: list[tuple[int, ...]] = []
    stops_at = [40]
    original = experts.call

    def counted(name: str) -> Any:
        answer = original(name)

        def ask(obs: Any, index: int, question: Any) -> Any:
            if len(asked) in stops_at:
                stops_at.clear()
                raise KeyboardInterrupt
            asked.append(question.place)
            return answer(obs, index, question)

        return ask

    monkeypatch.setattr(experts, "call", counted)
    every_round = make(max_queries=90, env={"native": "never"}).model_dump()
    every_round["run"]["checkpoint_every_env_steps"] = 24
    run = Store(tmp_path / "runs").create_group([Config.model_validate(every_round)]).runs[0]
    for stop in (40, 70):  # in the middle of a round; the second resume reads what the first has left
        stops_at[:] = [stop]
        with pytest.raises(KeyboardInterrupt):
            train_runs([run], resume=stop > 40)
    train_runs([run], resume=True)
    useful = sum(int(data.beside["queries"].sum()) for data in rounds(run))
    assert useful < len(asked), "nothing was asked in vain: the test shows nothing"
    assert column(run, "queries")[-1] == len(asked) == 90


def test_a_choice_that_is_forbidden_is_no_answer_and_whoever_asks_says_which_are_allowed(tmp_path: Path) -> None:
    """The environment raises on what its mask forbids."""
    task = {"id": f"{Path(tasks.__file__)}:Slippery", "action_mask": True}
    (run,) = train(tmp_path / "one", make(asks="always_the_first", env=task))
    assert Run(run.path).status.state == "finished"
    answered = np.concatenate([data.beside["answered"] for data in rounds(run)])
    assert 0.2 < answered.mean() < 0.8
    assert "is forbidden here" in (run.path / "run.log").read_text()
    (tmp_path / "expert.py").write_text(
        'import json, sys\nfor line in sys.stdin:\n    print(json.dumps({"action": json.loads(line)["allowed"][-1]}), flush=True)\n'
    )
    command = f"command: {sys.executable} -S {tmp_path / 'expert.py'}"
    (run,) = train(tmp_path / "two", make(env=task, expert=command))
    assert all(data.beside["answered"].all() for data in rounds(run))
    (run,) = train(tmp_path / "two", make(env=task, expert=run.id))
    assert all(data.beside["answered"].all() for data in rounds(run)), "a policy that is asked knows what is allowed"


def test_a_person_who_stops_in_the_middle_of_a_round_goes_on_with_the_next_question(tmp_path: Path) -> None:
    """And learns what somebody would have learned who was never interrupted."""
    asked: list[str] = []

    def answer(run: Run, most: int, over: threading.Event) -> None:
        answered = 0
        while not over.wait(0.005):
            question = labelling.read_question(run.path)
            if question is None or question["id"] in asked[-1:]:
                continue
            if answered == most:
                run.ask(stop=True)
                return
            asked.append(question["id"])
            answered += 1
            labelling.answer(run.path, question["id"], expert.pendulum(question["observation"]))

    def label(run: Run, most: int = 1_000, *, resume: bool = False) -> None:
        over = threading.Event()
        person = threading.Thread(target=answer, args=(run, most, over))
        person.start()
        try:
            train_runs([run], resume=resume)
        finally:
            over.set()
            person.join()

    config = make(expert="person", env={"n_envs": 1}, train_freq=6, gradient_steps=2)
    short = config.run.model_copy(update={"max_env_steps": 12, "eval_every_env_steps": 12, "checkpoint_every_env_steps": 6})
    config = config.model_copy(update={"run": short})
    run, whole = (Store(tmp_path / name / "runs").create_group([config]).runs[0] for name in ("cut", "whole"))
    with pytest.raises(labelling.Interrupted, match="what was answered is kept"):
        label(run, 8)
    assert Run(run.path).status.state == "stopped"
    assert len(asked) == 8
    label(run, resume=True)
    assert Run(run.path).status.state == "finished"
    assert len(asked) == len(set(asked)) == 12, "none was asked for twice"
    asked.clear()
    label(whole)
    assert saved(run) == saved(whole)


def test_beta_mixes_step_by_step_and_every_state_is_labelled(tmp_path: Path) -> None:
    (run,) = train(tmp_path, make(beta=0.5, expert_rounds=0))
    acted = np.concatenate([data.beside["by_expert"] for data in rounds(run)])
    assert 0.3 < acted.mean() < 0.7
    assert all(data.beside["answered"].all() for data in rounds(run))


def test_an_ensemble_asks_less_when_it_may_doubt_more(tmp_path: Path) -> None:
    strict, calm = train(tmp_path, make("ensemble_dagger", doubt=0.001), make("ensemble_dagger", doubt=100.0))
    assert column(strict, "queries")[-1] == 96
    assert column(calm, "queries")[-1] < 40
    for data in rounds(calm)[1:]:
        audited = data.beside["answered"] & ~data.beside["by_expert"]
        assert audited.sum() == data.beside["answered"].sum(), "what is asked without need leaves the policy in charge"


def test_disagreement_of_choices_is_information_not_the_spread_of_their_numbers() -> None:
    class Spec:
        kind = "discrete"

    class Plan:
        action = Spec()

    same = torch.log(torch.tensor([0.7, 0.2, 0.1])).expand(1, 2, 1, 3)
    apart = torch.log(torch.tensor([[[[0.998, 0.001, 0.001]], [[0.001, 0.001, 0.998]]]]))
    assert float(dagger.disagree(Plan(), same)) == pytest.approx(0.0, abs=1e-6)  # type: ignore[arg-type]
    assert float(dagger.disagree(Plan(), apart)) > 0.95  # type: ignore[arg-type]


def test_the_loss_is_the_mean_square_over_rows_and_components_summed_over_policies() -> None:
    class Plan:
        class action:
            kind = "box"

        nets: ClassVar = {"actor": type("Net", (), {"copies": 2})()}

    outputs = torch.atanh(torch.tensor([[[0.5, 0.0]], [[-0.5, 0.0]]]))  # [M * C, B, K]
    batch = dagger.Labelled(torch.zeros(1, 1, 3), torch.tensor([[[0.0, 0.5]]]), torch.tensor([[[1.0], [1.0]]]))
    loss, _ = dagger.imitation_loss(Plan(), lambda name, obs: outputs, batch)  # type: ignore[arg-type]
    assert float(loss) == pytest.approx(2 * (0.25 + 0.25) / 2)
    alone, _ = dagger.imitation_loss(Plan(), lambda name, obs: outputs, batch._replace(weight=torch.tensor([[[1.0], [0.0]]])))  # type: ignore[arg-type]
    assert float(alone) == pytest.approx(0.25)


def test_repeated_questions_measure_the_noise_of_an_expert(tmp_path: Path) -> None:
    (noisy,) = train(tmp_path, make(asks="undecided", repeat_queries=1.0, max_queries=48))
    (sure,) = train(tmp_path, make(repeat_queries=0.5, max_queries=48))
    assert column(noisy, "label_noise")[-1] == pytest.approx(1.0 / np.sqrt(2), rel=0.3)
    assert column(sure, "label_noise")[-1] == 0.0


def test_wrong_answers_leave_states_without_a_label_and_the_policy_in_charge(tmp_path: Path) -> None:
    (run,) = train(tmp_path, make(asks="sometimes_wrong"))
    data = rounds(run)
    missing = sum(int((~each.beside["answered"]).sum()) for each in data)
    assert missing == column(run, "unanswered")[-1] > 20
    assert not any((each.beside["by_expert"] & ~each.beside["answered"]).any() for each in data)
    log = (run.path / "run.log").read_text()
    assert "2 numbers" in log
    assert "not finite" in log
    assert "no idea" in log


def test_an_expert_that_is_gone_stops_the_run_and_keeps_what_was_labelled(tmp_path: Path) -> None:
    run = Store(tmp_path / "runs").create_group([make(asks="gone")]).runs[0]
    with pytest.raises(experts.ExpertSilent, match="20 questions in a row"):
        train_runs([run])
    assert Run(run.path).status.state == "stopped"
    assert "When it answers again" in (Run(run.path).status.reason or "")
    examined = examine_group(Store(tmp_path / "runs").group(run.record["group"]))
    assert examined is not None
    assert "before it stopped: the expert" in examined.diagnosis.causes[0].title
    assert "IMI110" in {finding.rule for finding in examined.diagnosis.findings}


def test_a_checkpoint_is_an_expert_and_another_task_s_is_refused(tmp_path: Path) -> None:
    (teacher,) = train(tmp_path, make())
    (pupil,) = train(tmp_path, _with_expert(make(max_queries=24), f"{teacher.id}@last"))
    first = rounds(pupil)[0]
    policy = teacher.policy("@last")
    said = [policy.act(row) for row in first.transitions(np.arange(5)).observations]
    assert np.allclose(first.beside["label"][:5], np.array(said), atol=1e-5)
    assert not (pupil.path / "labels" / "answers.jsonl").exists()
    other = make(env={"id": "CartPole-v1"})
    with pytest.raises(Exception, match="other observations or actions"):
        train(tmp_path, _with_expert(other, f"{teacher.id}@last"))


def _with_expert(config: Config, expert: str) -> Config:
    return config.model_copy(update={"algo": config.algo.model_copy(update={"expert": expert})})


def test_a_fork_learns_from_its_parent_s_labels(tmp_path: Path) -> None:
    (parent,) = train(tmp_path, make())
    store = Store(tmp_path / "runs")
    config = make()
    child = store.create_group([config], parent=f"{parent.id}@48", parents=[f"{parent.id}@48"], extra={"start": "fork"}).runs[0]
    train_runs([child])
    assert saved(child) == saved(parent)
    assert len(rounds(child)) == 4


def test_choices_are_imitated_and_old_rounds_can_be_dropped(tmp_path: Path) -> None:
    task = {"id": "CartPole-v1", "max_episode_steps": 30}
    (everything,) = train(tmp_path, make(asks="cartpole", env=task, gradient_steps=60))
    (newest,) = train(tmp_path, make(asks="cartpole", env=task, gradient_steps=60, keep_rounds=1))
    assert column(everything, "disagreement")[-1] <= 0.5
    assert column(everything, "passes")[-1] < column(newest, "passes")[-1]
    assert column(everything, "learned_share") == [1.0] * 4
    assert column(newest, "learned_share") == pytest.approx([1.0, 1 / 2, 1 / 3, 1 / 4])


@pytest.mark.parametrize("task", ["pendulum", "cartpole"])
def test_labels_that_are_not_what_the_expert_answered_are_counted(task: str, tmp_path: Path) -> None:
    """Also of choices, where a policy that is right does what it is told anyway."""
    of_choices = {"asks": "cartpole", "env": {"id": "CartPole-v1", "max_episode_steps": 30}} if task == "cartpole" else {}
    (sound,) = train(tmp_path / "sound", make(**of_choices))
    assert column(sound, "label_altered") == [0.0] * 4
    with own_actions_stored():
        (broken,) = train(tmp_path / "broken", make(**of_choices))
    first, *later = column(broken, "label_altered")
    assert first == 0.0, "in the first round the expert acts"
    assert max(later) > 0.1


def test_a_classifier_learns_from_mistakes_as_they_were_when_they_were_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is held out here: all that it can know is how far the policy was off when it was asked, before it learned from the answer."""
    told: list[tuple[torch.Tensor, torch.Tensor]] = []
    classify = dagger.classify

    def watch(plan: Any, learner: Any, obs: torch.Tensor, unsafe: torch.Tensor, *more: Any) -> Any:
        told.append((obs, unsafe))
        return classify(plan, learner, obs, unsafe, *more)

    monkeypatch.setattr(dagger, "classify", watch)
    (run,) = train(tmp_path, make("safe_dagger", holdout=0.0, unsafe_error=0.3))
    steps = SMALL["gradient_steps"]
    data = rounds(run)
    assert len(told) == steps * len(data)
    judged = 0
    for number, made in enumerate(data[1:], 1):
        seen, asked = made.transitions(np.arange(len(made))).observations, made.beside["answered"]
        for obs, unsafe in told[number * steps : (number + 1) * steps] if asked.any() else ():
            near = np.abs(seen[None, asked] - obs[0].numpy()[:, None]).max(-1)
            assert near.min(1).max() < 1e-6, "a state of an older round, or one that it was not asked about"
            assert np.array_equal(unsafe[0].numpy() > 0, (made.beside["error"][asked] > 0.3)[near.argmin(1)])
            judged += unsafe.numel()
    assert judged
