"""Questions in words: the right answer with the store's numbers and the command filled in, or that it is not known."""

from pathlib import Path

import pytest
import typer

import rlclinic
from rlclinic.errors import UsageError
from rlclinic.ops.diagnose.ask.answer import ask
from rlclinic.ops.diagnose.ask.search import read_words, search
from rlclinic.ops.diagnose.diagnose import diagnose
from rlclinic.ops.diagnose.requests import AskRequest
from rlclinic.report.ask import AskAnswer
from rlclinic.runs.record import Group
from tests.diagnosis import stored
from tests.ops.recorded import record_group


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Group]]:
    """A group that learns with another batch size, and after it one whose steps are too large."""
    root = tmp_path_factory.mktemp("ask") / "runs"
    return root, [record_group(root, changes=("run.max_env_steps=10240", "algo.batch_size=64")), stored.write_group("cp-lr-x30", root)]


def asked(store: tuple[Path, list[Group]], question: str) -> AskAnswer:
    return rlclinic.ask(question, runs_dir=store[0])


def test_a_flat_reward_gets_the_cause_the_change_and_the_trial_of_the_last_group(store: tuple[Path, list[Group]]) -> None:
    answer, sick = asked(store, "why is my reward not going up?"), store[1][1].id
    assert (answer.known, answer.name, answer.about) == (True, "stuck", sick)
    assert answer.commands == [f"rlclinic diagnose {sick}", f"rlclinic trial {sick} --rx 1"]
    facts = "\n".join(answer.facts)
    assert "2 of 3 seeds reached 475" in facts
    assert "policy step too large" in facts
    assert "learning_rate 0.03 →" in facts
    assert f"best here: {store[1][0].id}" in facts
    assert not (store[1][1].path / "report.md").exists(), "asking writes nothing"


def test_a_group_that_solved_its_task_is_not_asked_why_it_does_not_move(store: tuple[Path, list[Group]]) -> None:
    healthy, sick = (group.id for group in store[1])
    answer = asked(store, f"why is the reward of {healthy} not going up?")
    assert (answer.name, answer.about) == ("stuck", healthy)
    assert answer.answer.startswith(f"{healthy} did what it should")
    assert "did what it should" not in asked(store, f"why is the reward of {sick} not going up?").answer


def test_no_trial_is_offered_of_what_no_setting_mends(tmp_path: Path) -> None:
    """`rlclinic trial GROUP --rx 1` was offered where prescription 1 is words, and failed as soon as it was typed."""
    broken = stored.write_group("bug-advantage-sign", tmp_path / "runs")
    answer = rlclinic.ask("my run did not solve the environment: what went wrong?", runs_dir=tmp_path / "runs")
    assert answer.about == broken.id
    assert any("first change" in fact for fact in answer.facts)
    report = diagnose(broken.id, tmp_path / "runs", write=False)
    assert report.recommendations[0].overrides == [], "words"
    tried = [f"rlclinic trial {broken.id} --rx {rx.number}" for rx in report.recommendations if rx.overrides]
    assert [command for command in answer.commands if " trial " in command] == tried[:1]
    assert f"rlclinic rules {report.diagnosis.causes[0].rules[0]}" in answer.commands, "the check that found it, and no example"


def test_too_slow_and_faster_name_how_soon_other_groups_got_there(store: tuple[Path, list[Group]]) -> None:
    for question in ("it takes too long to reach the threshold", "how can I make my training converge faster?"):
        facts = "\n".join(asked(store, question).facts)
        assert "threshold at 10.2k – 15.1k env steps, 1 not within 50k" in facts
        assert f"soonest of 1 other group here: {store[1][0].id} after 8.2k env steps" in facts


def test_a_batch_size_is_answered_with_the_rollout_and_with_what_was_tried(store: tuple[Path, list[Group]]) -> None:
    answer = asked(store, "What batch size should I use for a PPO loop on my robot simulation?")
    facts = "\n".join(answer.facts)
    assert "batch 256 of a rollout of 256 = 8 envs x 32 steps" in facts
    assert "20 gradient steps on each rollout, 196 rollouts in 50k env steps" in facts
    assert "tried here: batch 64 in 1 group, 3 of 3 seeds reached the threshold" in facts
    assert any("algo.batch_size=128" in command for command in answer.commands), "a size that fits, and another one"


def test_an_id_in_a_question_is_no_strange_word_and_two_of_them_are_compared(store: tuple[Path, list[Group]]) -> None:
    healthy, sick = (group.id for group in store[1])
    for question in (f"what is wrong with {healthy}", f"whats wrong with {healthy}?", f"{healthy}: what went wrong"):
        answer = asked(store, question)
        assert (answer.name, answer.about) == ("did-not-converge", healthy), question
    assert asked(store, f"what is wrong with {sick}-s0").about == f"{sick}-s0"
    assert asked(store, f"is {sick} better than {healthy}").commands == [f"rlclinic compare {sick} {healthy}"]


def test_a_format_that_a_question_names_is_the_one_to_export_to(store: tuple[Path, list[Group]]) -> None:
    sick = store[1][1].id
    assert asked(store, "how do I export to wandb").commands == [f"rlclinic runs export {sick} --to wandb"]
    assert asked(store, "how do I export my results").commands == [f"rlclinic runs export {sick} --to html"]


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("what is wrong with my run", "did-not-converge"),
        ("what are my best runs", "rlclinic runs table --sort best"),
        ("what does it cost", "rlclinic efficiency GROUP"),
        ("what does explained variance mean", "train/metrics/explained_variance"),
        ("what is entropy", "train/loss/entropy"),
    ],
)
def test_what_is_asks_for_a_definition_unless_it_is_a_question_that_is_known(question: str, name: str) -> None:
    assert search(question)[0].document.name == name


def test_an_empty_store_invents_no_numbers_and_keeps_the_path_that_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("logs/dqn").mkdir(parents=True)
    answer = ask(AskRequest(question="why is my reward not going up in logs/dqn", runs_dir=tmp_path / "runs"))
    assert answer.commands == ["rlclinic diagnose logs/dqn --threshold RETURN --budget STEPS"]


def test_the_group_or_run_that_a_question_names_is_the_one_that_is_meant(store: tuple[Path, list[Group]]) -> None:
    healthy = store[1][0]
    answer = asked(store, f"which of my settings is wrong in {healthy.id}?")
    assert (answer.name, answer.about) == ("did-not-converge", healthy.id)
    assert f"rlclinic diagnose {healthy.id}" in answer.commands
    run = healthy.runs[1].id
    assert asked(store, f"run {run} did not converge, are my hyperparameters bad").commands[0] == f"rlclinic diagnose {run}"


@pytest.mark.parametrize(
    ("question", "kind", "name"),
    [
        ("what is explained variance", "metric", "train/metrics/explained_variance"),
        ("what is KL", "metric", "train/metrics/kl_divergence"),
        ("LRN101", "rule", "LRN101"),
        ("how do I delete a run", "command", "rlclinic runs rm GROUP"),
        ("is my gym environment correct", "command", "rlclinic lint --env ENV"),
    ],
)
def test_words_that_name_a_thing_are_explained(store: tuple[Path, list[Group]], question: str, kind: str, name: str) -> None:
    answer = asked(store, question)
    assert (answer.kind, answer.name) == (kind, name)
    assert "GROUP" not in answer.commands[0]


@pytest.mark.parametrize("question", ["what is the capital of france", "qwertz", "the of and", "?", "写一首诗", "a" * 400])
def test_what_nothing_here_answers_is_said_to_be_unknown(store: tuple[Path, list[Group]], question: str) -> None:
    answer = asked(store, question)
    assert (answer.known, answer.commands) == (False, [])
    assert answer.nearby


@pytest.mark.parametrize("question", ["", "  "])
def test_an_empty_question_is_asked_back_for(tmp_path: Path, question: str) -> None:
    with pytest.raises(UsageError, match="rlclinic ask 'why is my reward not going up'"):
        ask(AskRequest(question=question, runs_dir=tmp_path))


def test_an_empty_store_says_what_to_train_first(tmp_path: Path) -> None:
    answer = ask(AskRequest(question="why is my reward not going up", runs_dir=tmp_path / "runs"))
    assert answer.facts == ["there are no runs in this store yet: rlclinic train CartPole-v1:ppo --seeds 4"]


def test_every_command_that_is_offered_can_be_typed() -> None:
    from rlclinic.serve.cli.app import app

    for entry in read_words()["commands"]:
        found = typer.main.get_command(app)
        for word in entry["type"].split()[1:]:
            if not hasattr(found, "commands") or word not in found.commands:
                break
            found = found.commands[word]
        assert not hasattr(found, "commands") or found.invoke_without_command, entry["type"]
        options = {spelled for parameter in found.params for spelled in parameter.opts}
        assert {word for word in entry["type"].split() if word.startswith("--")} <= options, entry["type"]


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("reward flatlined", "stuck"),
        ("pong still at -21 after 2M frames", "stuck"),
        ("hows my run doing rn", "in-progress"),
        ("is it solved now", "just-finished"),
        ("the disk is full, purge old runs", "rlclinic runs rm GROUP"),
        ("how long did my last run take", "rlclinic runs show GROUP"),
        ("how long will it take", "rlclinic status"),
        ("y is my rwrd nan??", "crashes"),
        ("save a video", "rlclinic evaluate GROUP --video episode.gif"),
        ("how do i write an environment of my own", "rlclinic new env MyEnv"),
    ],
)
def test_a_question_in_a_hurry_is_understood(question: str, wanted: str) -> None:
    assert search(question)[0].document.name == wanted


def test_a_guide_is_found_by_other_words_than_its_own() -> None:
    from rlclinic.ops.diagnose.ask.guides import get_guide

    assert get_guide("dagger gets worse with every iteration").guide.name == "dagger-diverges"
    assert get_guide("would a pid controller be enough").guide.name == "is-rl-overkill"
