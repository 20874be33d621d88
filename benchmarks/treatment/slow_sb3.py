"""`python -m benchmarks.treatment.slow_sb3`: what is prescribed to Stable-Baselines3 runs that are healthy and only slow, and does it harm?

Seven configs with settings that nothing is wrong with (four are SB3's defaults) train with SB3 on a budget that is too short for them.
Their logs are diagnosed as a user would, and the first prescription that changes a setting is tried with fresh seeds by the product's own
trial (`rlclinic trial LOGS --rx N`: our trainer with translated settings); where that is longer training of the same run, which no trial
compares, the next one is. A prescription that is given for use and that its trial rejects is a harm. What is held back (`held_back`: to be
tried before it is used) is counted apart, and tried all the same.

    python -m benchmarks.treatment.slow_sb3                                  train (stable-baselines3), diagnose, try, write the results
    python -m benchmarks.treatment.slow_sb3 --only dqn_cartpole ppo_acrobot  some of them; the results are written once all seven are there
    python -m benchmarks.treatment.slow_sb3 train dqn_cartpole --seed 3 --out DIR

It takes hours on two cores and goes on where it was stopped: a run that was saved, and a trial that has ended, are kept in --folder. What
was tried with another prescription than the one that is given now is tried again.
"""

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from benchmarks import provenance

CONFIGS: Final[dict[str, dict[str, Any]]] = {
    "dqn_cartpole": {"algo": "DQN", "env": "CartPole-v1", "steps": 50_000},
    "ppo_cartpole": {"algo": "PPO", "env": "CartPole-v1", "steps": 12_000},
    "a2c_cartpole": {"algo": "A2C", "env": "CartPole-v1", "steps": 25_000},
    "ppo_acrobot": {"algo": "PPO", "env": "Acrobot-v1", "steps": 40_000, "settings": {"learning_rate": 1e-4}},
    "a2c_acrobot": {"algo": "A2C", "env": "Acrobot-v1", "steps": 25_000, "settings": {"learning_rate": 3e-4}},
    "dqn_acrobot": {"algo": "DQN", "env": "Acrobot-v1", "steps": 30_000, "settings": {"learning_rate": 2e-4, "learning_starts": 1000}},
    "ppo_pendulum": {"algo": "PPO", "env": "Pendulum-v1", "steps": 60_000, "threshold": -200.0},
}
"""Settings that are not given are SB3's own defaults."""
COMMAND: Final = "python -m benchmarks.treatment.slow_sb3"
SEEDS: Final = (0, 1, 2, 3)
EVALUATIONS: Final = 25


def train(name: str, seed: int, out: Path, changes: list[str]) -> None:
    """One run of a config, logged as SB3 users log: progress.csv, evaluations.npz and the model."""
    import stable_baselines3
    import torch
    from stable_baselines3.common.callbacks import EvalCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.logger import configure

    torch.set_num_threads(1)
    config = CONFIGS[name]
    given = dict(change.partition("=")[::2] for change in changes if change and change != "none")
    steps = int(given.pop("total_timesteps", config["steps"]))
    # What is not given keeps the defaults that the agent's class has.
    values = {**config.get("settings", {}), **{key: json.loads(value) for key, value in given.items()}}
    n_envs = int(values.pop("n_envs", 1))
    env, judge = make_vec_env(config["env"], n_envs, seed=1000 * seed), make_vec_env(config["env"], 5, seed=10_000)
    model = getattr(stable_baselines3, config["algo"])("MlpPolicy", env, seed=seed, device="cpu", verbose=0, **values)
    model.set_logger(configure(str(out), ["csv"]))
    evaluate = EvalCallback(
        judge, n_eval_episodes=10, eval_freq=max(1, steps // EVALUATIONS // n_envs), log_path=str(out), verbose=0, deterministic=True
    )
    model.learn(steps, callback=evaluate, log_interval=1 if config["algo"] == "PPO" else 4)
    model.save(out / "model.zip")
    # As rl-zoo3 leaves them: a log alone does not say which environment it is about.
    about = out / config["env"]
    about.mkdir(exist_ok=True)
    arguments = {"algo": config["algo"].lower(), "env": config["env"], "seed": seed, "n_timesteps": steps}
    (about / "args.yml").write_text("".join(f"{key}: {value}\n" for key, value in arguments.items()))
    (about / "config.yml").write_text("{}\n")


def spawn(arguments: list[str], log: Path | None = None) -> int:
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    output = None if log is None else log.open("w")
    return subprocess.run([sys.executable, "-m", *arguments], check=False, stdout=output, stderr=output, env=surroundings).returncode


def train_all(folder: Path, names: list[str], cores: int) -> None:
    """Four seeds of each config, one folder each; those that were saved are kept."""
    jobs = [
        (name, seed, folder / "logs" / name / f"{name}_{seed}")
        for name in names
        for seed in SEEDS
        if not (folder / "logs" / name / f"{name}_{seed}" / "model.zip").exists()
    ]
    for _, _, out in jobs:
        out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(cores) as pool:
        list(
            pool.map(
                lambda job: spawn(
                    ["benchmarks.treatment.slow_sb3", "train", job[0], "--seed", str(job[1]), "--out", str(job[2])], job[2] / "stdout.log"
                ),
                jobs,
            )
        )


def diagnose(folder: Path, name: str) -> dict[str, Any]:
    """The verdict, the likeliest cause, and the prescriptions with what is said about them."""
    from rlclinic.ops.diagnose.diagnose import diagnose as diagnose_logs
    from rlclinic.ops.diagnose.prescribe import prescribe

    target = str(folder / "logs" / name)
    report = diagnose_logs(target, folder / "runs", threshold=CONFIGS[name].get("threshold"), write=False)
    found = prescribe(target, folder / "runs")
    first = report.diagnosis.causes[0]
    return {
        "verdict": report.diagnosis.verdict,
        "cause": first.id,
        "probability": first.probability,
        "prescriptions": [
            {
                "number": rx.number,
                "title": rx.title,
                "cause": rx.cause,
                "priority": rx.priority,
                "effect": rx.effect,
                "changes": rx.changes,
                "held_back": rx.held_back,
            }
            for rx in found.prescriptions
        ],
    }


def try_first(folder: Path, name: str, said: dict[str, Any], per_look: int) -> dict[str, Any]:
    """The product's trial of the first prescription that changes a setting."""
    changes = [rx for rx in said["prescriptions"] if rx["changes"]]
    if not changes:
        return {"given": None, "why": "no change of a setting is prescribed"}
    first = next((rx for rx in changes if rx["changes"].keys() != {"run.max_env_steps"}), changes[0])
    if first["changes"].keys() == {"run.max_env_steps"}:
        return {"given": first["title"], "tried": False, "why": "longer training of the same run: nothing is compared"}
    words = ["rlclinic", "trial", str(folder / "logs" / name), "--rx", str(first["number"]), "--outcome", "return", "--looks", "1"]
    words += ["--per-look", str(per_look), "--yes", "--quiet", "--json", "--runs-dir", str(folder / "runs" / name)]
    words += ["--threshold", str(CONFIGS[name]["threshold"])] if "threshold" in CONFIGS[name] else []
    tried, log = folder / f"{name}.tried.json", folder / f"{name}.trial.json"
    asked = {"changes": first["changes"], "per_look": per_look}
    kept = json.loads(tried.read_text()) if tried.exists() else {}
    if kept.get("asked") != json.loads(json.dumps(asked)):
        code, text = spawn(words, log), log.read_text()
        trial = json.loads(text[text.index("{") : text.rindex("}") + 1])["trial"] if code == 0 else {}
        arms = {arm["name"]: arm.get("final") or arm.get("score") for arm in trial.get("arms", [])}
        kept = {"asked": asked, "exit": code, "verdict": trial.get("verdict"), "seeds_per_arm": per_look, "arms": arms}
        if code == 0:
            tried.write_text(json.dumps(kept, indent=1, default=str))
    found = {key: value for key, value in kept.items() if key != "asked"}
    return {"given": first["title"], "held_back": first["held_back"] is not None, "tried": True, **found}


def count(result: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows: what was given for use and rejected, what was held back, what was tried, and where nothing was given."""
    of = f"of {len(result)}"
    given = [each for each in result.values() if each["given"] is not None]
    tried = [each for each in given if each["tried"]]
    counts = {
        "prescriptions given for use that a trial rejected": sum(each["verdict"] == "reject" and not each["held_back"] for each in tried),
        "prescriptions that were held back": sum(bool(each.get("held_back")) for each in given),
        "of those held back, rejected by their trial": sum(each["verdict"] == "reject" and each["held_back"] for each in tried),
        "prescriptions that were tried": len(tried),
        "configs without a change of a setting": len(result) - len(given),
    }
    return [
        {
            "what": f"healthy but slow SB3 configs: {what}", "unit": of, "value": value, "better": "lower",
            "bar": 0 if place == 0 else None, "stretch": None, **({"configs": result} if place == 0 else {}),
        }
        for place, (what, value) in enumerate(counts.items())
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="all", choices=("all", "train", "diagnose"))
    parser.add_argument("name", nargs="?")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--set", nargs="*", default=[], dest="changes")
    parser.add_argument("--folder", type=Path, default=Path("build/slow_sb3"))
    parser.add_argument("--only", nargs="*", default=list(CONFIGS))
    parser.add_argument("--per-look", type=int, default=8)
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    asked = parser.parse_args()
    if asked.what == "train":
        train(asked.name, asked.seed, asked.out, asked.changes)
        return
    folder = asked.folder.resolve()
    if asked.what == "all":
        train_all(folder, asked.only, asked.cores)
    result = {}
    for name in asked.only:
        said = diagnose(folder, name)
        result[name] = said | ({} if asked.what == "diagnose" else try_first(folder, name, said, asked.per_look))
        print(name, json.dumps(result[name], default=str), flush=True)
    if asked.what == "diagnose":
        return
    kept = folder / "slow_sb3.json"
    result = (json.loads(kept.read_text()) if kept.exists() else {}) | json.loads(json.dumps(result, default=str))
    kept.write_text(json.dumps(result, indent=1))
    missing = [name for name in CONFIGS if name not in result or (result[name].get("tried") and result[name]["verdict"] is None)]
    if missing:
        print(f"not written yet: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
        return
    for row in (rows := count({name: result[name] for name in CONFIGS})):
        print(f"{row['what']}: {row['value']} {row['unit']}")
    print(
        provenance.write(
            "slow_sb3", rows, provenance.provenance(COMMAND, {"stable-baselines3": metadata.version("stable-baselines3")}), False
        )
    )


if __name__ == "__main__":
    main()
