"""How every recorded case was made: what was trained, what was wrong with it, and what the diagnosis should say.

`python -m tests.diagnosis.record [NAME ...]` trains them again and writes the compact files in `cases/`.
"""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Recipe:
    """One group of runs: a config, changes to it, and possibly a bug of tests.mutations.bugs planted while it trains."""

    name: str
    cause: str
    """What the diagnosis should name; "healthy" for runs in which nothing is wrong."""
    ref: str
    changes: tuple[str, ...] = ()
    bug: str | None = None
    seeds: int = 4
    first_seed: int = 0
    also: tuple[str, ...] = ()
    """Other causes that are as right: one fault may have several names."""
    mild: bool = False
    """It slows learning down more than it prevents it: no finding needs to be HIGH."""

    @property
    def command(self) -> str:
        """The command line that trains the same group (bugs are planted by the recorder only)."""
        sets = " ".join(f"--set {json.dumps(change)}" for change in self.changes)
        return f"rlclinic train {self.ref} --seeds {self.seeds} --seed {self.first_seed} {sets}".rstrip()


def wrapped(name: str, **kwargs: Any) -> str:
    """The setting that wraps the environment in one of tests.diagnosis.sick_envs."""
    return "env.wrappers=" + json.dumps([{"id": f"tests.diagnosis.sick_envs:{name}", **kwargs}])


CARTPOLE, PENDULUM, ACROBOT = "CartPole-v1:ppo_zoo", "Pendulum-v1:ppo", "Acrobot-v1:ppo"
SHORT, LONG, LONGER = "run.max_env_steps=50000", "run.max_env_steps=80000", "run.max_env_steps=150000"


def _recipe(
    name: str, cause: str, ref: str, *changes: str, bug: str | None = None, also: tuple[str, ...] = (), mild: bool = False, seeds: int = 3
) -> Recipe:
    return Recipe(name, cause, ref, changes, bug, seeds=seeds, also=also, mild=mild)


_LOOP = (
    "env.n_envs=1", "algo.train_freq=4", "algo.gradient_steps=4", "algo.learning_starts=500", "algo.buffer_size=20000",
    "algo.batch_size=64", "net.hidden=[64,64]", "net.activation=relu", "net.shared=false", "env.normalize_obs=false",
    "env.normalize_reward=false", "run.eval_episodes=8", "run.eval_every_env_steps=500",
)  # fmt: skip
DQN = (
    "algo.name=dqn", *_LOOP, "algo.target_update_interval=200", "algo.exploration_fraction=0.3", "algo.exploration_final_eps=0.04",
    "algo.learning_rate=5e-4",
)  # fmt: skip
SAC = ("algo.name=sac", *_LOOP, "algo.tau=0.01", "algo.learning_rate=1e-3", "algo.gamma=0.95")
SMALL = ("algo.batch_size=32", "net.hidden=[32,32]", "algo.learning_starts=200", "env.max_episode_steps=60", "run.max_env_steps=2500")
DQN_BUGS: tuple[tuple[str, ...], ...] = (
    ("replay-mask-inverted", "episode-ends-ignored"),
    ("replay-mask-missing", "episode-ends-ignored"),
    ("replay-no-discount", "returns-wrong"),
    ("replay-reset-stored", "final-observation-overwritten"),
    ("n-step-across-episodes", "episode-ends-ignored", "algo.n_step=3"),
    ("weights-missing", "importance-weights-missing", "algo.prioritized=true"),
    ("target-never-follows", "target-update-wrong", "algo.target_update_interval=130"),
    ("target-every-step", "target-update-wrong", "algo.target_update_interval=130"),
    ("double-target-chooses", "returns-wrong", "algo.double=true", "algo.target_update_interval=130"),
    ("epsilon-inverted", "schedule-not-followed"),
)
SAC_BUGS = (
    ("replay-limit-terminal", "time-limit-as-terminal"),
    ("target-tau-ignored", "target-update-wrong"),
    ("critic-largest", "returns-wrong"),
    ("soft-target-hard", "returns-wrong"),
    ("action-not-scaled", "action-bounds"),
    ("temperature-sign", "temperature-sign"),
)

HEALTHY = "healthy"
RECIPES = (
    # ── healthy ──
    _recipe("cp-healthy", HEALTHY, CARTPOLE, SHORT),
    _recipe("cpp-healthy", HEALTHY, "CartPole-v1:ppo"),
    _recipe("cpa2c-healthy", HEALTHY, "CartPole-v1:a2c", "run.max_env_steps=250000"),
    _recipe("cpr-healthy", HEALTHY, "CartPole-v1:reinforce", "run.max_env_steps=200000"),
    _recipe("pd-healthy", HEALTHY, PENDULUM, LONG),
    _recipe("ac-healthy", HEALTHY, ACROBOT, LONGER),
    _recipe("mc-healthy", HEALTHY, "MountainCar-v0:ppo", "run.max_env_steps=300000"),
    _recipe("mcc-healthy", HEALTHY, "MountainCarContinuous-v0:ppo"),
    _recipe("fld-healthy", HEALTHY, "FrozenLake-v1:ppo_deterministic"),
    _recipe("cp-shared", HEALTHY, CARTPOLE, SHORT, "net.shared=true", "net.activation=relu"),
    # ── odd, but healthy: what is a fault elsewhere did no harm here ──
    _recipe("cp-lr-x10", HEALTHY, CARTPOLE, SHORT, "algo.learning_rate=0.01"),
    _recipe("cp-ent-05", HEALTHY, CARTPOLE, SHORT, "algo.ent_coef=0.5"),
    _recipe("cp-clip-005", HEALTHY, CARTPOLE, SHORT, "algo.clip_range=0.005"),
    _recipe("cp-rollout-8", HEALTHY, CARTPOLE, SHORT, "env.n_envs=1", "algo.n_steps=8", "algo.batch_size=8"),
    _recipe("cp-obs-x1000", HEALTHY, CARTPOLE, SHORT, wrapped("Components", scales=[1000, 1, 1000, 1])),
    _recipe("pd-ent", HEALTHY, PENDULUM, LONG, "algo.ent_coef=0.5"),
    _recipe("pd-act-small", HEALTHY, PENDULUM, LONG, wrapped("ActionBox", bound=0.01)),
    # ── settings ──
    _recipe("cp-lr-x30", "learning-rate-too-high", CARTPOLE, SHORT, "algo.learning_rate=0.03"),
    _recipe("cp-lr-x100", "learning-rate-too-high", CARTPOLE, SHORT, "algo.learning_rate=0.1"),
    _recipe("pd-lr-x30", "learning-rate-too-high", PENDULUM, LONG, "algo.learning_rate=0.06"),
    _recipe("cp-lr-d100", "learning-rate-too-low", CARTPOLE, SHORT, "algo.learning_rate=1e-5"),
    _recipe("cp-lr-early0", "learning-rate-schedule-too-short", CARTPOLE, SHORT, 'algo.learning_rate={"start":1e-3,"end":0,"to":0.1}'),
    _recipe("cp-sgd", "optimizer-mismatch", CARTPOLE, SHORT, "algo.optimizer=sgd"),
    _recipe("cp-gamma-50", "discount-too-low", CARTPOLE, SHORT, "algo.gamma=0.5"),
    _recipe("ac-gamma-3", "discount-too-low", ACROBOT, LONGER, "algo.gamma=0.2"),
    _recipe("cp-lambda-0", "gae-lambda-too-low", CARTPOLE, SHORT, "algo.gae_lambda=0", mild=True),
    _recipe("cp-vf-0", "critic-not-trained", CARTPOLE, SHORT, "algo.vf_coef=0"),
    _recipe("cp-clipvf-tiny", "value-clip-too-tight", CARTPOLE, SHORT, "algo.clip_range_vf=0.001"),
    _recipe("cp-shared-vf50", "value-loss-dominates", CARTPOLE, SHORT, "net.shared=true", "algo.vf_coef=50", "algo.learning_rate=3e-4"),
    _recipe("pd-clip-005", "clip-range-too-small", PENDULUM, LONG, "algo.clip_range=0.003"),
    _recipe("cp-tkl-1e5", "target-kl-too-tight", CARTPOLE, SHORT, "algo.target_kl=1e-5"),
    _recipe("cp-mgn-1e5", "gradient-clip-too-tight", CARTPOLE, SHORT, "algo.max_grad_norm=1e-5"),
    _recipe("cp-giant", "too-few-updates", CARTPOLE, SHORT, "algo.n_steps=1024", "algo.batch_size=8192", "algo.n_epochs=1"),
    _recipe("cp-budget", "budget-too-small", CARTPOLE, "run.max_env_steps=6000"),
    _recipe("cp-sigmoid", "saturating-activation", CARTPOLE, SHORT, "net.activation=sigmoid", "net.hidden=[64,64,64,64]"),
    _recipe("cp-tiny-net", "network-too-small", CARTPOLE, SHORT, "net.hidden=[1]"),
    _recipe("pd-std-low", "initial-policy-too-sure", PENDULUM, LONG, "net.log_std_init=-4"),
    # ── environments ──
    _recipe("cp-rew-1e4", "reward-scale-too-small", CARTPOLE, SHORT, wrapped("Rescale", scale=1e-4), "algo.ent_coef=0.01"),
    _recipe("cp-rew-flip", "reward-sign", CARTPOLE, SHORT, wrapped("Rescale", scale=-1.0)),
    _recipe("cp-rew-none", "reward-never-seen", CARTPOLE, SHORT, wrapped("NoReward")),
    _recipe("cp-rew-noise", "reward-noise", CARTPOLE, SHORT, wrapped("NoisyReward", deviation=20.0)),
    _recipe("cp-obs-const", "observation-constant", CARTPOLE, SHORT, wrapped("Constant")),
    _recipe("cp-obs-hidden", "observation-partial", CARTPOLE, SHORT, wrapped("Components", scales=[1, 0, 1, 0])),
    _recipe("cp-obs-frozen", "observation-not-updated", CARTPOLE, SHORT, wrapped("Frozen")),
    _recipe("cp-act-loose", "actions-without-effect", CARTPOLE, SHORT, wrapped("IgnoresActions")),
    _recipe("cp-shift", "environment-changed", CARTPOLE, SHORT, wrapped("ShiftsAt", after=3000)),
    _recipe("cp-nan", "environment-not-finite", CARTPOLE, SHORT, wrapped("BreaksAt", after=2500)),
    _recipe("pd-act-large", "action-bounds", PENDULUM, LONG, wrapped("ActionBox", bound=500.0)),
    _recipe("pd-obs-scale", "observation-scale", PENDULUM, LONG, wrapped("Components", scales=[1, 1, 1000])),
    # ── learners with a replay; what is wrong in a run that is solved all the same weighs less ──
    _recipe("dqn-healthy", HEALTHY, CARTPOLE, *DQN, "env.max_episode_steps=200", "spec.threshold=150", "run.max_env_steps=6000"),
    _recipe("sac-healthy", HEALTHY, PENDULUM, *SAC, "spec.threshold=-250", "run.max_env_steps=4000"),
    *(
        _recipe(f"bug-{bug}", cause, CARTPOLE, *DQN, *SMALL, "spec.threshold=59", *more, bug=bug, seeds=1, mild=True)
        for bug, cause, *more in DQN_BUGS
    ),
    *(_recipe(f"bug-{bug}", cause, PENDULUM, *SAC, *SMALL, "spec.threshold=-20", bug=bug, seeds=1, mild=True) for bug, cause in SAC_BUGS),
    # ── planted bugs ──
    _recipe("bug-advantage-sign", "advantage-sign", CARTPOLE, SHORT, bug="advantage-sign"),
    _recipe("bug-termination-ignored", "episode-ends-ignored", CARTPOLE, SHORT, bug="termination-ignored"),
    _recipe("bug-returns-not-reversed", "returns-wrong", CARTPOLE, SHORT, bug="returns-not-reversed"),
    _recipe("bug-value-loss-sign", "value-loss-sign", CARTPOLE, SHORT, bug="value-loss-sign"),
    _recipe("bug-surrogate-max", "clip-not-applied", CARTPOLE, SHORT, bug="surrogate-max"),
    _recipe("bug-ratio-inverted", "advantage-sign", CARTPOLE, SHORT, bug="ratio-inverted"),
    _recipe("bug-dead-surrogate", "dead-surrogate", CARTPOLE, SHORT, bug="dead-surrogate"),
    _recipe("bug-clipped-action-stored", "log-prob-mismatch", PENDULUM, LONG, bug="clipped-action-stored"),
)
