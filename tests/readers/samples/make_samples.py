"""Makes the recorded samples in samples/: run it with a Python that has Stable-Baselines3, rl-zoo3 and tensorboard.

    python tests/readers/samples/make_samples.py [NAME ...]

Needs `pip install stable-baselines3 rl_zoo3 tensorboard`; takes about two minutes. Not run by the tests: they read what it wrote.
"""

import contextlib
import csv
import json
import math
import random
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


@contextlib.contextmanager
def fresh(name: str) -> Iterator[Path]:
    """An empty folder; afterwards its texts no longer name folders of the machine that made them."""
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    yield folder
    _tidy(folder)


def _tidy(folder: Path) -> None:
    packages = re.compile(r"/\S*/site-packages/")
    for path in folder.rglob("*.txt"):
        text = path.read_text().replace(str(HERE), "samples").replace(sys.executable, "python")
        path.write_text(packages.sub("site-packages/", text))


def sb3_ppo() -> None:
    """Everything that SB3 can write at once: CSV, JSON, TensorBoard, monitors of four envs, evaluations, the console and a model."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import EvalCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.logger import configure

    with fresh("sb3_ppo") as folder, (folder / "console.txt").open("w") as console, contextlib.redirect_stdout(console):
        env = make_vec_env("CartPole-v1", n_envs=4, seed=3, monitor_dir=str(folder / "monitor"))
        model = PPO(
            *("MlpPolicy", env),
            n_steps=64,
            batch_size=64,
            n_epochs=4,
            learning_rate=1e-3,
            ent_coef=0.01,
            gamma=0.98,
            seed=3,
            verbose=1,
            device="cpu",
            policy_kwargs={"net_arch": [16, 16]},
        )
        model.set_logger(configure(str(folder), ["stdout", "csv", "json", "tensorboard"]))
        evaluation = EvalCallback(
            make_vec_env("CartPole-v1", n_envs=1, seed=11), eval_freq=512, n_eval_episodes=5, log_path=str(folder / "eval"), verbose=1
        )
        model.learn(6_144, callback=evaluation)
        model.save(folder / "model.zip")
    _without_weights(folder / "model.zip")


def _without_weights(path: Path) -> None:
    """Only the settings are read from a model; the weights would make the sample large."""
    with zipfile.ZipFile(path) as full:
        kept = {name: full.read(name) for name in full.namelist() if name in ("data", "_stable_baselines3_version")}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as small:
        for name, data in kept.items():
            small.writestr(name, data)


def sb3_dqn() -> None:
    """The console only, as it is pasted into a question."""
    from stable_baselines3 import DQN

    with fresh("sb3_dqn") as folder, (folder / "console.txt").open("w") as console, contextlib.redirect_stdout(console):
        settings = {"learning_starts": 500, "target_update_interval": 500, "exploration_fraction": 0.5, "policy_kwargs": {"net_arch": [16]}}
        DQN("MlpPolicy", "CartPole-v1", verbose=1, seed=0, device="cpu", **settings).learn(5_000, log_interval=20)


def sb3_sac() -> None:
    """progress.csv of an off-policy algorithm with continuous actions, and a monitor in the same folder."""
    import gymnasium
    from stable_baselines3 import SAC
    from stable_baselines3.common.logger import configure
    from stable_baselines3.common.monitor import Monitor

    with fresh("sb3_sac") as folder:
        env = Monitor(gymnasium.make("Pendulum-v1"), str(folder / "monitor.csv"))
        model = SAC("MlpPolicy", env, learning_starts=400, seed=1, device="cpu", policy_kwargs={"net_arch": [16]}, batch_size=32)
        model.set_logger(configure(str(folder), ["csv"]))
        model.learn(2_400, log_interval=1)


def sb3_zoo() -> None:
    """Two seeds of rl-zoo3, with its TensorBoard folder beside them."""
    with fresh("sb3_zoo") as folder:
        for seed in (7, 8):
            command = (
                f"{sys.executable} -m rl_zoo3.train --algo ppo --env CartPole-v1 -n 4096 --eval-freq 2048 --eval-episodes 3 "
                f"--n-eval-envs 1 --seed {seed} -f logs --tensorboard-log tb --device cpu --save-freq -1"
            )
            done = subprocess.run(command.split(), cwd=folder, capture_output=True, text=True, check=True)
            (folder / f"console_{seed}.txt").write_text(done.stdout)
        for model in folder.rglob("*.zip"):
            model.unlink()


def sb3_restart() -> None:
    """`learn` called twice: the step count starts again, in the same TensorBoard folder and in the same CSV."""
    from stable_baselines3 import A2C
    from stable_baselines3.common.logger import configure

    with fresh("sb3_restart") as folder:
        model = A2C("MlpPolicy", "CartPole-v1", seed=5, device="cpu", policy_kwargs={"net_arch": [8]})
        model.set_logger(configure(str(folder), ["csv", "tensorboard"]))
        model.learn(2_000)
        model.learn(1_500)


def cleanrl() -> None:
    """CleanRL's tags, text and folder name, written with the library that it uses; the numbers are made up.

    CleanRL is a set of scripts that cannot be installed as a package, so this is its layout and not its output.
    """
    from torch.utils.tensorboard import SummaryWriter

    settings = {
        "exp_name": "ppo",
        "seed": 1,
        "torch_deterministic": True,
        "cuda": True,
        "track": False,
        "wandb_project_name": "cleanRL",
        "wandb_entity": None,
        "capture_video": False,
        "env_id": "CartPole-v1",
        "total_timesteps": 40_000,
        "learning_rate": 0.00025,
        "num_envs": 4,
        "num_steps": 128,
        "anneal_lr": True,
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "num_minibatches": 4,
        "update_epochs": 4,
        "norm_adv": True,
        "clip_coef": 0.2,
        "clip_vloss": True,
        "ent_coef": 0.01,
        "vf_coef": 0.5,
        "max_grad_norm": 0.5,
        "target_kl": None,
        "batch_size": 512,
        "minibatch_size": 128,
        "num_iterations": 78,
    }
    noise = random.Random(0)
    with fresh("cleanrl") as folder:
        writer = SummaryWriter(str(folder / "CartPole-v1__ppo__1__1700000000"))
        rows = "\n".join(f"|{key}|{value}|" for key, value in settings.items())
        writer.add_text("hyperparameters", "|param|value|\n|-|-|\n" + rows)
        step = 0
        for iteration in range(78):
            share = iteration / 78
            ability = 20 + 180 * share
            for at in sorted(step + noise.randrange(1, 128) * 4 for _ in range(max(1, int(512 / ability)))):
                length = max(8, round(ability * math.exp(noise.gauss(0, 0.4))))
                writer.add_scalar("charts/episodic_return", length, at)
                writer.add_scalar("charts/episodic_length", length, at)
            step += 512
            writer.add_scalar("charts/learning_rate", 0.00025 * (1 - share), step)
            writer.add_scalar("losses/value_loss", 10 + 60 * share, step)
            writer.add_scalar("losses/policy_loss", -0.005 + 0.002 * noise.random(), step)
            writer.add_scalar("losses/entropy", 0.69 - 0.15 * share, step)
            writer.add_scalar("losses/old_approx_kl", 0.001 + 0.002 * noise.gauss(0, 1), step)
            writer.add_scalar("losses/approx_kl", 0.004 + 0.002 * noise.random(), step)
            writer.add_scalar("losses/clipfrac", 0.03 + 0.02 * noise.random(), step)
            writer.add_scalar("losses/explained_variance", min(0.9, 2 * share) - 0.02 * noise.random(), step)
            writer.add_scalar("charts/SPS", 3_000 + noise.randrange(100), step)
        writer.close()


# ── gymnasium-solver: written after its format, since its runs need a package set that cannot be installed side by side ──

Row = dict[str, Any]
CURRENT = {
    "return": "roll/ep_rew/mean",
    "best": "roll/ep_rew/best",
    "length": "roll/ep_len/mean",
    "steps": "cnt/total_env_steps",
    "policy": "opt/loss/policy",
    "value": "opt/loss/value",
    "entropy": "opt/policy/entropy",
    "entropy_loss": "opt/loss/entropy",
    "kl": "opt/ppo/approx_kl",
    "kl_signed": "opt/ppo/kl",
    "clip": "opt/ppo/clip_fraction",
    "ev": "opt/value/explained_var",
    "norm": "opt/grads/norm/all",
    "head": "opt/grads/norm/policy_head",
    "lr": "hp/policy_lr",
    "fps": "sys/timing/fps",
}
DOCUMENTED = {
    "return": "roll/ep_rew_mean",
    "best": "roll/ep_rew_best",
    "length": "roll/ep_len_mean",
    "policy": "loss/policy",
    "value": "loss/value",
    "entropy_loss": "loss/entropy",
    "kl": "metrics/kl_divergence",
    "clip": "metrics/clip_fraction",
    "ev": "metrics/explained_variance",
    "norm": "metrics/grad_norm/all",
}
FLAT = {
    "return": "ep_rew_mean",
    "best": "ep_rew_best",
    "length": "ep_len_mean",
    "policy": "policy_loss",
    "value": "value_loss",
    "entropy_loss": "entropy_loss",
    "kl": "approx_kl",
    "kl_signed": "kl_div",
    "clip": "clip_fraction",
    "ev": "explained_var",
}
HEAD_CONFIG = {
    "project_id": "CartPole-v1_vector",
    "env_id": "CartPole-v1",
    "algo_id": "ppo",
    "description": "",
    "n_steps": 32,
    "batch_size": 256,
    "n_epochs": 20,
    "max_env_steps": 100_000,
    "seed": 42,
    "seed_train": 42,
    "n_envs": 8,
    "reward_threshold": None,
    "env_wrappers": [],
    "spec": {"returns": {"range": [0, 500], "threshold_solved": 475}},
    "normalize_obs": False,
    "model_id": "mlp_tiny",
    "obs_type": "vector",
    "policy_lr": 0.001,
    "optimizer": "adam",
    "max_grad_norm": 0.5,
    "gamma": 0.98,
    "gae_lambda": 0.8,
    "ent_coef": 0.0,
    "vf_coef": 0.5,
    "clip_range": 0.1,
    "clip_range_vf": 0.2,
    "target_kl": None,
    "normalize_advantages": "batch",
    "eval_freq_epochs": 10,
    "policy_lr_schedule": "linear",
    "policy_lr_schedule_start_value": 0.001,
    "policy_lr_schedule_end_value": 0.0,
    "policy_lr_schedule_start": 0.0,
    "policy_lr_schedule_end": 1.0,
    "policy_lr_schedule_warmup": 0.0,
    "early_stop_on_eval_threshold": True,
}
JULY_CONFIG = {
    "env_id": "CartPole-v1",
    "algo_id": "ppo",
    "n_timesteps": 100_000,
    "learning_rate": 0.001,
    "n_steps": 32,
    "batch_size": 0.25,
    "n_epochs": 20,
    "n_envs": 8,
    "seed": 42,
    "gamma": 0.98,
    "gae_lambda": 0.8,
    "clip_range": 0.1,
    "ent_coef": 0.0,
    "hidden_dims": [64, 64],
    "activation": "tanh",
    "policy": "MlpPolicy",
    "use_baseline": True,
    "subproc": False,
}
OCTOBER_CONFIG = {
    "env_id": "CartPole-v1",
    "algo_id": "ppo",
    "max_env_steps": 100_000,
    "policy_lr": 0.001,
    "n_steps": 32,
    "batch_size": 0.25,
    "n_epochs": 20,
    "n_envs": 8,
    "seed": 42,
    "gamma": 0.98,
    "hidden_dims": [64, 64],
    "activation": "tanh",
    "normalize_reward": False,
}


def gymnasium_solver() -> None:
    """Three generations of names: today's, those of October 2025's documents, and the flat ones of July 2025."""
    with fresh("gymnasium_solver") as folder:
        _solver_run(folder / "a1b2c3d4", HEAD_CONFIG, CURRENT, "val")
        _solver_run(folder / "local-20251002-101500", OCTOBER_CONFIG, DOCUMENTED, "val")
        _solver_run(folder / "local-20250720-101500", JULY_CONFIG, FLAT, "eval")
        (folder / "a1b2c3d4" / "run.log").write_text(
            "Rollout: 100%\nEarly stopping! 'val/roll/ep_rew/mean': 480.1 >= 475.\n\nMETRIC ALERTS\n"
            "- `train/opt/ppo/approx_kl/below` triggered in `12/60 (20.0%)` epochs of training:\n  approx_kl is very small\n\n"
            "=== Training Session Completed Successfully ===\n"
        )
        entry = {"run_id": "a1b2c3d4", "timestamp": "2026-01-20T10:00:00", "config_id": "CartPole-v1:ppo", "env_id": "CartPole-v1"}
        (folder / "runs.json").write_text(json.dumps([entry]))


def _solver_run(folder: Path, config: dict[str, Any], names: dict[str, str], evaluation: str) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    noise, rows = random.Random(1), []
    for epoch in range(60):
        share = epoch / 59
        numbers = {
            "return": 22 + 430 * share + noise.gauss(0, 5),
            "best": 60 + 440 * share,
            "length": 22 + 430 * share,
            "steps": 256 * (epoch + 1),
            "policy": -0.002 - 0.003 * noise.random(),
            "value": 8 + 40 * share,
            "entropy": 0.69 - 0.2 * share,
            "entropy_loss": -0.69 + 0.2 * share,
            "kl": 0.004 * noise.random(),
            "kl_signed": 0.003 * noise.gauss(0, 1),
            "clip": 0.08 + 0.02 * noise.random(),
            "ev": min(0.95, 2 * share),
            "norm": 1.5 + noise.random(),
            "head": 0.5 + noise.random(),
            "lr": 0.001 * (1 - 256 * (epoch + 1) / 100_000),
            "fps": 3_000 + 50 * noise.random(),
        }
        when = 1_768_900_000.0 + 1.7 * epoch
        if epoch % 10 == 9:
            tested = {
                f"{evaluation}/{names['return']}": round(30 + 450 * share, 2),
                f"{evaluation}/{names['length']}": round(30 + 450 * share, 2),
            }
            # In these rows the step column counts the evaluation's own steps.
            rows.append({"time": when, "total_timesteps": 4_000 + 300 * epoch, "epoch": epoch, **tested})
        trained = {f"train/{name}": round(numbers[key], 2 if key != "lr" else 6) for key, name in names.items()}
        rows.append({"time": when + 0.5, "total_timesteps": 32 * (epoch + 1), "epoch": epoch, **trained})
    _write_csv(folder / "metrics.csv", rows)


def _write_csv(path: Path, rows: list[Row]) -> None:
    first = ["time", "total_timesteps", "epoch"]
    names = first + sorted({key for row in rows for key in row} - set(first))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


SAMPLES: list[Callable[[], None]] = [sb3_ppo, sb3_dqn, sb3_sac, sb3_zoo, sb3_restart, cleanrl, gymnasium_solver]

if __name__ == "__main__":
    for make in SAMPLES:
        if len(sys.argv) == 1 or make.__name__ in sys.argv[1:]:
            make()
            print(make.__name__)
