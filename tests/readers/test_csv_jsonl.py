import gzip
import json
from pathlib import Path

import pytest

from rlclinic.errors import UsageError
from rlclinic.readers import csv_jsonl, options
from rlclinic.readers import read as read_path
from rlclinic.runs.history import History

RETURN = "train/roll/ep_rew_mean"


def read(path: Path, text: str, *mapping: str) -> History:
    path.write_text(text)
    (found,) = csv_jsonl.read(path, options.make_options(mapping=mapping))
    return found


def test_a_csv_with_usual_names_is_read_and_the_guesses_are_told(tmp_path: Path) -> None:
    found = read(tmp_path / "log.csv", "global_step,avg_reward,vf_loss,approx_kl\n100,1,5,0.01\n200,2,4,0.02\n")
    assert (found.id, found.source, found.env_steps) == ("log", "csv", 200)
    assert found[RETURN].values.tolist() == [1, 2]
    assert found["train/loss/value"].name == "vf_loss"
    assert any("train/roll/ep_rew_mean = avg_reward" in note for note in found.notes)


def test_spinning_ups_table_is_read(tmp_path: Path) -> None:
    names = ("Epoch", "AverageEpRet", "StdEpRet", "EpLen", "TotalEnvInteracts", "LossPi", "LossV", "KL", "Entropy", "ClipFrac")
    found = read(tmp_path / "progress.txt", "\t".join(names) + "\n0\t20\t3\t20\t4000\t0\t1\t0.01\t0.6\t0.1\n")
    assert csv_jsonl.matches(tmp_path / "progress.txt")
    assert found[RETURN].steps.tolist() == [4_000]
    assert found["train/roll/ep_rew_std"].last == 3
    assert {"train/loss/policy", "train/loss/value", "train/metrics/clip_fraction", "train/metrics/entropy"} <= found.series.keys()


def test_json_lines_with_nested_keys_are_read(tmp_path: Path) -> None:
    found = read(tmp_path / "log.jsonl", '{"env_steps": 10, "train": {"mean_return": 3.5}, "loss": {"entropy": 0.6}}\n')
    assert found[RETURN].last == 3.5


@pytest.mark.parametrize("logged", [0.6, -0.6])
def test_an_entropy_loss_of_either_sign_is_a_positive_entropy(logged: float, tmp_path: Path) -> None:
    found = read(tmp_path / "log.csv", f"step,mean_reward,entropy_loss\n1,2,{logged}\n")
    assert (found["train/metrics/entropy"].last, found["train/loss/entropy"].last) == (0.6, -0.6)
    assert any("entropy is positive" in note for note in found.notes)


def test_rllibs_result_is_recognized(tmp_path: Path) -> None:
    rest = '"env_runners": {"episode_return_mean": 9}, "learners": {"default_policy": {"vf_loss": 2}}}\n'
    found = read(tmp_path / "result.json", "".join(f'{{"num_env_steps_sampled_lifetime": {steps}, {rest}' for steps in (4_000, 8_000)))
    assert (found.env_steps, found[RETURN].last, found["train/loss/value"].estimator) == (8_000, 9, "clamped at vf_clip_param")
    assert "read as a log of RLlib" in found.notes


def test_columns_that_a_recognized_framework_has_no_name_for_are_guessed(tmp_path: Path) -> None:
    """As in an export of metta's metrics: CleanRL's losses, its own returns."""
    text = "metric/agent_step,losses/approx_kl,losses/clipfrac,losses/value_loss,overview/reward\n100,0.01,0.1,2,7\n"
    found = read(tmp_path / "export.csv", text)
    assert (found[RETURN].last, found["train/metrics/clip_fraction"].last, found["train/loss/value"].last) == (7, 0.1, 4)


def test_rows_of_single_episodes_have_a_running_mean_on_summed_lengths(tmp_path: Path) -> None:
    found = read(tmp_path / "log.csv", "episode,reward,length\n1,10,5\n2,20,7\n3,30,8\n")
    assert found[RETURN].steps.tolist() == [5, 12, 20]
    assert found[RETURN].values.tolist() == [10, 15, 20]
    assert any("sum of episode lengths" in note for note in found.notes)


def test_without_env_steps_the_axis_counts_iterations_and_says_so(tmp_path: Path) -> None:
    found = read(tmp_path / "log.csv", "iteration,mean_reward\n1,10\n2,20\n")
    assert (found[RETURN].steps.tolist(), found.env_steps) == ([1, 2], None)
    assert any("a map of step=COLUMN*FACTOR" in note for note in found.notes)


def test_without_any_counter_the_axis_counts_rows(tmp_path: Path) -> None:
    assert read(tmp_path / "log.csv", "mean_reward,lr\n10,1\n20,1\n")[RETURN].steps.tolist() == [0, 1]


def test_a_mapping_says_which_column_is_which(tmp_path: Path) -> None:
    text = "it,foo,bar,baz\n1,10,-0.5,3\n2,20,-0.4,5\n"
    found = read(tmp_path / "log.csv", text, "return=foo:episodes", "entropy=-bar", "train/loss/value=baz*0.5", "step=it*1000")
    assert found[RETURN].steps.tolist() == [1_000, 2_000]
    assert found[RETURN].values.tolist() == [10, 15]
    assert found["train/metrics/entropy"].values.tolist() == [0.5, 0.4]
    assert found["train/loss/value"].values.tolist() == [1.5, 2.5]


def test_a_mapping_counts_more_than_a_guess(tmp_path: Path) -> None:
    found = read(tmp_path / "log.csv", "step,mean_reward,true_return\n1,10,7\n", "return=true_return")
    assert found[RETURN].last == 7


def test_a_restarted_log_has_segments(tmp_path: Path) -> None:
    rows = "".join(f"{step},{step}\n" for step in (100, 200, 300, 400, 100, 200))
    found = read(tmp_path / "log.csv", "step,mean_reward\n" + rows)
    assert (found.segments, found.env_steps) == ((400.0,), 600)


def test_our_own_names_are_read_as_they_are(tmp_path: Path) -> None:
    found = read(tmp_path / "log.csv", "total_timesteps,train/sentinel/adv_std,train/roll/ep_rew_mean\n1,2,3\n")
    assert found["train/sentinel/adv_std"].last == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no rows"),
        ("a,b\n", "no rows"),
        ("step,mean_reward", "no rows"),
        ("step,foo\n1,2\n", "no column is known"),
        ("step,mean_reward\n,2\nx,3\n", "at which step"),
        ("{}\n{}\n", "no column is known|no rows|at which step"),
        ("[]", "no rows"),
        ("[1, 2", "no rows"),
    ],
)
def test_a_table_without_a_log_says_what_is_missing(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        read(tmp_path / "log.csv", text)


def test_a_column_that_is_not_there_cannot_be_mapped(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no column 'reward'"):
        read(tmp_path / "log.csv", "step,mean_reward\n1,2\n", "return=reward")


# ── other ways of writing a table ──

STEPS = "timesteps,ep_rew_mean\n" + "".join(f"{place * 1000},{place}\n" for place in range(50))


def test_a_packed_log_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a2c.csv.gz"
    path.write_bytes(gzip.compress(STEPS.encode()))
    (found,) = read_path(path)
    assert (found.id, found.env_steps) == ("a2c", 49_000)


def test_a_packed_log_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    rows = "timesteps,ep_rew_mean\n" + "".join(f"{place},{place * 7919 % 1013}\n" for place in range(20_000))
    whole = gzip.compress(rows.encode())
    path.write_bytes(whole[: len(whole) // 2])
    (found,) = read_path(path)
    assert 1_000 < (found.env_steps or 0) < 19_999


def test_a_log_in_utf_16_is_read_as_powershell_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(STEPS.replace("\n", "\r\n").encode("utf-16"))
    assert read_path(path)[0].env_steps == 49_000


def test_one_object_of_columns_is_a_table(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    path.write_text(json.dumps({"step": [10, 20, 30], "reward": [1.0, 2.0, 3.0], "note": "hello", "loss": [0.5, 0.4]}, indent=1))
    (found,) = read_path(path)
    assert found.env_steps == 30
    assert list(found.series["train/roll/ep_rew_mean"].values) == [1.0, 2.0, 3.0]
    assert len(found.series["train/loss/total"]) == 2


def test_every_run_of_an_export_of_wandb_is_a_run(tmp_path: Path) -> None:
    header = ["Step", *(f"{run} - charts/episodic_return{end}" for run in ("calm-sea-1", "red-hill-2") for end in ("", "__MIN", "__MAX"))]
    rows = [[place * 100, place, place, place, *(("", "", "") if place % 2 else (9, 9, 9))] for place in range(40)]
    path = tmp_path / "wandb_export.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in [header, *rows]) + "\n")
    first, second = read_path(path)
    assert (first.id, second.id) == ("calm-sea-1", "red-hill-2")
    assert len(first.series["train/roll/ep_rew_mean"]) == 40
    assert len(second.series["train/roll/ep_rew_mean"]) == 20
    assert second.series["train/roll/ep_rew_mean"].last == 9.0


def test_steps_that_fall_with_every_episode_are_lengths(tmp_path: Path) -> None:
    lengths = [20, 35, 12, 50, 31, 44, 10, 60, 22, 41, 18, 39]
    rows = "".join(f"{place},{length},{length * 2}\n" for place, length in enumerate(lengths))
    (found,) = read_path(_written(tmp_path / "a.csv", "episode,steps,reward\n" + rows))
    assert found.env_steps == sum(lengths)


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path
