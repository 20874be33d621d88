import io
from pathlib import Path

import pytest

from rlclinic.errors import UsageError
from rlclinic.readers import console, options
from rlclinic.readers.options import Options
from rlclinic.runs.history import History

RETURN, EVAL = "train/roll/ep_rew_mean", "val/roll/ep_rew_mean"


def read(text: str | bytes, *mapping: str) -> History:
    data = text.encode() if isinstance(text, str) else text
    return console.read_text(io.BytesIO(data), options.make_options(mapping=mapping))


def test_sb3s_tables_are_read(samples: Path) -> None:
    (dqn,) = console.read(samples / "sb3_dqn" / "console.txt", Options())
    assert (dqn.source, dqn.algo, dqn.env_id, dqn.env_steps) == ("console", "dqn", "CartPole-v1", 4_860)
    assert dqn["train/hp/epsilon"].values[0] == 0.84
    assert (dqn["train/loss/td"].estimator, dqn["total_episodes"].last) == ("Huber", 420)
    assert dqn.settings["algo.learning_rate"] == 0.0001


def test_evaluations_between_tables_are_read(samples: Path) -> None:
    (ppo,) = console.read(samples / "sb3_ppo" / "console.txt", Options())
    assert ppo[EVAL].steps.tolist() == [2_048, 4_096, 6_144]
    assert ppo["val/roll/ep_rew_std"].values.tolist() == [19.46, 117.88, 71.83]


def test_what_rl_zoo3_prints_about_itself_are_settings(samples: Path) -> None:
    (found,) = console.read(samples / "sb3_zoo" / "console_7.txt", Options())
    assert (found.seed, found.env_id, found.max_env_steps, found.state) == (7, "CartPole-v1", 4_096, "finished")
    assert found.settings["algo.learning_rate"] == {"schedule": "linear", "start": 0.001, "end": 0.0}
    assert (found.settings["env.n_envs"], found.settings["algo.gae_lambda"]) == (8, 0.8)


TABLE = """-----------------------------
| rollout/           |      |
|    ep_rew_mean     | {ret} |
| time/              |      |
|    total_timesteps | {step} |
| train/             |      |
|    approx_kl       | 0.01 |
-----------------------------
"""


def test_half_a_table_at_the_end_counts_as_far_as_it_goes() -> None:
    found = read(TABLE.format(ret=1, step=100) + "\n".join(TABLE.format(ret=2, step=200).splitlines()[:5]))
    assert found[RETURN].values.tolist() == [1, 2]
    assert found["train/metrics/kl_divergence"].values.tolist() == [0.01]


@pytest.mark.parametrize("prefix", ["2024-01-01 10:00:00 worker-1 ", "> ", "\x1b[32m", "    "])
def test_tables_are_found_behind_prefixes_colours_and_quotes(prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for step in (100, 200) for line in TABLE.format(ret=step, step=step).splitlines())
    assert read(text)[RETURN].values.tolist() == [100, 200]


def test_a_progress_bar_before_a_table_does_not_hide_it() -> None:
    text = "".join(f" 10% |##   |\r 20% |####|\r{line}\n" for line in TABLE.format(ret=5, step=100).splitlines())
    assert read(text)[RETURN].last == 5


def test_keys_that_were_cut_off_are_completed() -> None:
    text = TABLE.format(ret=1, step=100).replace("|    approx_kl       |", "|    policy_gradient... |")
    assert read(text)["train/loss/policy"].name == "train/policy_gradient_loss"


def test_nan_in_a_table_is_evidence() -> None:
    found = read(TABLE.format(ret=1, step=100) + TABLE.format(ret=2, step=200).replace("0.01", "nan"))
    assert found["train/metrics/kl_divergence"].broken.tolist() == [200]


def test_a_second_run_in_the_same_text_is_a_segment() -> None:
    found = read("".join(TABLE.format(ret=step, step=step) for step in (100, 200, 300, 400, 100, 200)))
    assert (found.segments, found.env_steps) == ((400.0,), 600)


@pytest.mark.parametrize(
    ("ending", "state", "reason"),
    [
        ("ValueError: Expected parameter logits to satisfy the constraint", "failed", "ValueError: Expected parameter logits"),
        ("KeyboardInterrupt", "stopped", "KeyboardInterrupt"),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory.", "failed", "torch.cuda.OutOfMemoryError"),
    ],
)
def test_a_traceback_at_the_end_is_the_reason(ending: str, state: str, reason: str) -> None:
    found = read(TABLE.format(ret=1, step=100) + f'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n{ending}\n')
    assert found.state == state
    assert found.reason is not None
    assert found.reason.startswith(reason)


def test_a_traceback_that_was_caught_is_no_reason() -> None:
    text = TABLE.format(ret=1, step=100) + "Traceback (most recent call last):\nValueError: x\n" + TABLE.format(ret=2, step=200)
    assert read(text).state == "unknown"


def test_early_stops_are_counted() -> None:
    text = TABLE.format(ret=1, step=100) + "Early stopping at step 3 due to reaching max kl: 0.05\n" * 4
    assert any("early 4 times" in note for note in read(text).notes)


def test_tables_of_older_baselines_are_read() -> None:
    rows = "".join(
        f"---------\n| approxkl | 0.02 |\n| ep_reward_mean | {step} |\n| total_timesteps | {step} |\n| value_loss | 3 |\n---------\n"
        for step in (128, 256)
    )
    found = read(rows)
    assert found[RETURN].values.tolist() == [128, 256]
    assert found["train/loss/value"].last == 6


def test_cleanrls_lines_are_read() -> None:
    text = "".join(f"global_step={step}, episodic_return=[{step / 10}.]\nSPS: 900\n" for step in (20, 50, 90)).replace(".0.", ".")
    found = read(text)
    assert found[RETURN].steps.tolist() == [20, 50, 90]
    assert found[RETURN].values.tolist() == pytest.approx([2.0, 3.5, 16 / 3])
    assert found["time/fps"].last == 900


def test_any_text_with_keys_and_numbers_is_read() -> None:
    text = "".join(f"[INFO] step: {step:,} | mean reward: {step / 100} | kl=0.01 lr 3\n" for step in (1_000, 2_000))
    found = read("starting up\n" + text)
    assert (found.source, found[RETURN].values.tolist(), found.env_steps) == ("console", [10.0, 20.0], 2_000)
    assert found["train/metrics/kl_divergence"].last == 0.01


def test_blocks_of_keys_over_several_lines_are_rows() -> None:
    block = "Learning iteration {n}/100\n  Mean reward: {n}.5\n  Mean episode length: 200\n  Total timesteps: {steps}\n"
    found = read("".join(block.format(n=n, steps=98_304 * n) for n in (1, 2, 3)))
    assert found[RETURN].values.tolist() == [1.5, 2.5, 3.5]
    assert found[RETURN].steps.tolist() == [98_304, 196_608, 294_912]


@pytest.mark.parametrize(
    "text",
    [
        "step,mean_reward\n100,1\n200,2\n",
        '{"step": 100, "mean_reward": 1}\n{"step": 200, "mean_reward": 2}\n',
        '[{"step": 100, "mean_reward": 1}]',
    ],
)
def test_a_table_that_was_piped_is_read_as_a_table(text: str) -> None:
    found = read(text)
    assert (found.source, found[RETURN].values[0]) == ("csv", 1)


@pytest.mark.parametrize("text", ["", "\n\n", "hello\nworld\n", "no: numbers\n", "|||\n|a|\n", "\u0000"])
def test_a_text_without_a_log_says_what_was_looked_for(text: str) -> None:
    with pytest.raises(UsageError, match="found no table"):
        read(text)


def test_a_script_that_died_at_once_is_told_by_its_error() -> None:
    with pytest.raises(UsageError, match="ModuleNotFoundError: No module named 'gym'"):
        read("Traceback (most recent call last):\n  File \"train.py\"\nModuleNotFoundError: No module named 'gym'\n")


def test_columns_of_a_table_can_be_mapped() -> None:
    text = TABLE.format(ret=1, step=100).replace("approx_kl", "my_thing ")
    assert read(text, "kl=train/my_thing*2")["train/metrics/kl_divergence"].last == 0.02
    with pytest.raises(UsageError, match="no column"):
        read(text, "kl=train/nothing")


# ── what hand-written loops print ──


@pytest.mark.parametrize(
    ("line", "last", "steps"),
    [
        ("Episode {i}\tAverage Score: {r:.2f}\n", 60.0, None),
        ("Episode {i}  Reward: {r:.2f}  Epsilon: 0.500\n", 50.5, None),
        ("[{i:04d}/1000] ep {i} | steps {s} | avg return (100): {r:.2f} | loss=0.3000\n", 60.0, 5_000),
        ("Episode {i}/500, total reward = {r:.2f}\n", 50.5, None),
        ("2024-05-01 12:00:00,123 INFO trainer: iter {i} timesteps: {s} mean_reward: {r:.3f} kl: 0.01\n", 60.0, 5_000),
        ("Episode: {i}, Average reward over last 100 episodes: {r:.2f}\n", 60.0, None),
        ("Step: {s}, Reward: {r}\n", 60.0, 5_000),
    ],
)
def test_lines_of_hand_written_loops_are_read(line: str, last: float, steps: int | None) -> None:
    text = "".join(line.format(i=i, r=10.0 + i, s=i * 100) for i in range(51))
    found = read(text)
    assert found.env_steps == steps
    assert found.series["train/roll/ep_rew_mean"].last == pytest.approx(last, abs=1.0)


def test_passes_per_rollout_are_counted_in_printed_tables() -> None:
    table = "| time/ | |\n|    iterations | {i} |\n|    total_timesteps | {s} |\n"
    table += "| train/ | |\n|    clip_fraction | 0.1 |\n|    n_updates | {n} |\n"
    text = "".join("-" * 30 + "\n" + table.format(i=i, s=2048 * i, n=10 * (i - 1)) for i in range(2, 8))
    assert read(text).settings["algo.n_epochs"] == 10
