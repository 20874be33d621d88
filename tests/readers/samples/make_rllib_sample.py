"""Makes samples/rllib_ppo: run it with a Python that has RLlib (`pip install "ray[rllib]" torch`); takes a minute.

    python tests/readers/samples/make_rllib_sample.py

Not run by the tests: they read what it wrote. Rows are the real ones without what the readers pass over (timers, hosts, throughputs)
and with the config in the first row only: whole, six rows are 100 kB.
"""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

SAMPLE = Path(__file__).resolve().parent / "rllib_ppo" / "PPO_CartPole-v1_00000"
LEFT_OUT = (
    "timers",
    "perf",
    "config",
    "hostname",
    "node_ip",
    "pid",
    "trial_id",
    "date",
    "timestamp",
    "fault_tolerance",
    "env_runner_group",
)
PASSED_OVER = ("timer", "throughput", "connector", "duration", "time_between")
"""Parts of the names of numbers that no reader looks at."""


def main() -> None:
    from ray import tune
    from ray.rllib.algorithms.ppo import PPOConfig

    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .learners(num_learners=0)
        .debugging(seed=1)
        .rl_module(model_config={"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh"})
        .training(lr=2e-3, gamma=0.99, lambda_=0.9, train_batch_size_per_learner=1000, minibatch_size=250, num_epochs=8, clip_param=0.2)
        .training(vf_loss_coeff=0.5, vf_clip_param=10_000.0, grad_clip=0.5, use_kl_loss=False)
    )
    with tempfile.TemporaryDirectory() as work:
        storage = tune.RunConfig(name="sample", storage_path=work, stop={"training_iteration": 6}, verbose=0)
        tune.Tuner("PPO", param_space=config, run_config=storage).fit()
        (result,) = Path(work).rglob("result.json")
        write([json.loads(line) for line in result.read_text().splitlines()], json.loads((result.parent / "params.json").read_text()))


def write(rows: list[dict[str, Any]], params: dict[str, Any]) -> None:
    """The sample: result.json, and the config in full beside it."""
    shutil.rmtree(SAMPLE.parent, ignore_errors=True)
    SAMPLE.mkdir(parents=True)
    plain = {key: value for key, value in params.items() if not isinstance(value, str) or "<" not in value}
    (SAMPLE / "params.json").write_text(json.dumps(plain))
    kept = [slim(row) for row in rows]
    kept[0]["config"] = plain
    (SAMPLE / "result.json").write_text("".join(json.dumps(row) + "\n" for row in kept))


def slim(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: slim(each) for key, each in value.items() if key not in LEFT_OUT and not any(part in key for part in PASSED_OVER)}


if __name__ == "__main__":
    main()
