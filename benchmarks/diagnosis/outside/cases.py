"""What is trained for the outside looks: groups of two seeds, sound and with one planted fault."""

from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.diagnosis.outside.planted import ENV_FAULTS


@dataclass(frozen=True)
class Case:
    env: str
    algo: str
    fault: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    label: str = "sound"
    size: float = 1.0
    evaluate: bool = False
    normalize: bool = False
    env_steps: int = 0

    @property
    def name(self) -> str:
        return f"{self.env}-{self.algo}-{self.fault or self.label}"

    @property
    def env_fault(self) -> str | None:
        return self.fault if self.fault in ENV_FAULTS else None


DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "ppo": {"learning_rate": 1e-3, "n_steps": 64, "batch_size": 64, "n_epochs": 8, "gamma": 0.97, "gae_lambda": 0.9, "ent_coef": 0.003},
    "a2c": {"learning_rate": 2e-3, "n_steps": 8, "gamma": 0.97, "gae_lambda": 0.9, "ent_coef": 0.003, "use_rms_prop": False},
    "dqn": {
        "learning_rate": 1e-3,
        "buffer_size": 15_000,
        "learning_starts": 500,
        "batch_size": 64,
        "gamma": 0.97,
        "target_update_interval": 250,
        "train_freq": 4,
        "exploration_fraction": 0.3,
        "exploration_final_eps": 0.05,
    },
    "sac": {"learning_rate": 1e-3, "buffer_size": 10_000, "learning_starts": 300, "batch_size": 64, "gamma": 0.97, "tau": 0.01},
    "td3": {"learning_rate": 1e-3, "buffer_size": 10_000, "learning_starts": 300, "batch_size": 64, "gamma": 0.97, "tau": 0.01},
}
STEPS: Final = {"ppo": 16_000, "a2c": 16_000, "dqn": 14_000, "sac": 4_000, "td3": 4_000}

# The same fault is another number in another algorithm.
SETTINGS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "lr-high": {
        "ppo": {"learning_rate": 0.1},
        "a2c": {"learning_rate": 0.2},
        "dqn": {"learning_rate": 0.3},
        "sac": {"learning_rate": 0.1},
        "td3": {"learning_rate": 0.1},
    },
    "lr-low": {
        "ppo": {"learning_rate": 1e-6},
        "a2c": {"learning_rate": 2e-6},
        "dqn": {"learning_rate": 1e-6},
        "sac": {"learning_rate": 1e-6},
        "td3": {"learning_rate": 1e-6},
    },
    "gamma-low": {name: {"gamma": 0.3} for name in STEPS},
    "entropy-high": {"ppo": {"ent_coef": 0.5}, "a2c": {"ent_coef": 0.5}, "sac": {"ent_coef": 5.0}},
    "epochs-many": {"ppo": {"n_epochs": 80}},
    "clip-tiny": {"ppo": {"clip_range": 0.002}},
    "grad-clip": {"ppo": {"max_grad_norm": 1e-7}, "a2c": {"max_grad_norm": 1e-7}, "dqn": {"max_grad_norm": 1e-8}},
    "rollout-tiny": {"ppo": {"n_steps": 2, "batch_size": 8}, "a2c": {"n_steps": 1}},
    "net-tiny": {name: {"policy_kwargs": {"net_arch": [1]}} for name in STEPS},
    "buffer-tiny": {name: {"buffer_size": 100} for name in ("dqn", "sac", "td3")},
    "starts-late": {"dqn": {"learning_starts": 12_500}, "sac": {"learning_starts": 3_600}, "td3": {"learning_starts": 3_600}},
    "tau-one": {"dqn": {"target_update_interval": 1}, "sac": {"tau": 1.0}, "td3": {"tau": 1.0}},
    "tau-tiny": {"dqn": {"target_update_interval": 10**6}, "sac": {"tau": 1e-6}, "td3": {"tau": 1e-6}},
    "explore-always": {"dqn": {"exploration_fraction": 1.0, "exploration_final_eps": 0.9}},
    "explore-never": {"dqn": {"exploration_fraction": 0.001, "exploration_final_eps": 0.0}},
    "updates-few": {
        "ppo": {"n_epochs": 1, "batch_size": 512, "learning_rate": 3e-4},
        "dqn": {"train_freq": 400},
        "sac": {"train_freq": 200},
    },
    "batch-tiny": {"dqn": {"batch_size": 2}, "sac": {"batch_size": 2}},
    "seeds-equal": {name: {} for name in STEPS},
    "eval-raw": {"ppo": {}, "a2c": {}},
    "eval-other": {"ppo": {}, "dqn": {}},
    "stopped-early": {name: {} for name in STEPS},
}


def _sound() -> list[Case]:
    discrete, continuous = ("ferry", "lockpick", "slalom", "auction", "patrol"), ("irrigation", "turret", "docking")
    cases = [Case(env, algo, evaluate=index % 2 == 0) for index, env in enumerate(discrete) for algo in ("ppo", "a2c", "dqn")]
    cases += [Case(env, algo, evaluate=env == "turret") for env in continuous for algo in ("ppo", "a2c", "sac", "td3")]
    # Sound too, only slower or set otherwise: rates, widths and rollouts that people use.
    for env in ("ferry", "patrol", "auction", "turret", "docking", "irrigation"):
        cases.append(Case(env, "ppo", settings={"learning_rate": 2.5e-4, "gamma": 0.99, "n_epochs": 4, "gae_lambda": 0.95}, label="slow"))
    for env in ("slalom", "lockpick", "docking"):
        cases.append(
            Case(
                env,
                "ppo",
                settings={"n_steps": 256, "batch_size": 128, "ent_coef": 0.0, "learning_rate": 5e-4},
                label="long",
                normalize=True,
            )
        )
    for env in ("ferry", "patrol", "slalom"):
        cases.append(
            Case(
                env, "dqn", settings={"learning_rate": 3e-4, "target_update_interval": 1_000, "batch_size": 32, "gamma": 0.99}, label="slow"
            )
        )
    for env in ("auction", "turret", "irrigation"):
        cases.append(
            Case(
                env,
                "a2c",
                settings={"learning_rate": 7e-4, "n_steps": 5, "gae_lambda": 1.0, "gamma": 0.99, "ent_coef": 0.0, "use_rms_prop": True},
                label="default",
            )
        )
    return cases


_WHERE: Final[dict[str, tuple[str, ...]]] = {
    "obs-stale": ("slalom-ppo", "turret-sac", "patrol-dqn"),
    "obs-frozen": ("patrol-ppo", "docking-ppo"),
    "obs-feature-gone": ("patrol-ppo", "lockpick-dqn", "docking-ppo"),
    "obs-scale": ("irrigation-ppo", "patrol-dqn", "turret-td3"),
    "obs-degrees": ("turret-ppo", "ferry-a2c"),
    "obs-noise": ("lockpick-ppo", "irrigation-sac"),
    "obs-shuffled": ("patrol-ppo", "slalom-dqn"),
    "act-ignored": ("slalom-ppo", "turret-sac", "patrol-dqn"),
    "act-sometimes": ("irrigation-ppo", "lockpick-dqn"),
    "act-late": ("slalom-ppo", "patrol-a2c"),
    "act-wide": ("irrigation-sac", "docking-td3"),
    "act-narrow": ("turret-ppo", "irrigation-ppo", "docking-sac"),
    "rew-sign": ("patrol-ppo", "ferry-dqn", "turret-ppo", "docking-ppo"),
    "rew-late": ("ferry-ppo", "irrigation-ppo"),
    "rew-tiny": ("patrol-dqn", "turret-sac", "ferry-ppo"),
    "rew-huge": ("ferry-ppo", "irrigation-td3", "slalom-dqn"),
    "rew-clipped": ("ferry-ppo", "auction-ppo"),
    "rew-shifted": ("patrol-ppo", "lockpick-ppo", "docking-ppo"),
    "rew-lost": ("slalom-ppo", "patrol-dqn"),
    "rew-noise": ("auction-ppo", "irrigation-ppo"),
    "end-never": ("patrol-ppo", "docking-ppo"),
    "end-limit-short": ("patrol-ppo", "lockpick-ppo"),
    "end-limit-terminal": ("ferry-ppo", "irrigation-ppo"),
    "same-start": ("docking-ppo", "patrol-ppo"),
    "lr-high": ("patrol-ppo", "ferry-a2c", "slalom-dqn"),
    "lr-low": ("auction-ppo", "patrol-dqn"),
    "gamma-low": ("docking-ppo", "slalom-dqn"),
    "entropy-high": ("lockpick-ppo", "irrigation-ppo", "turret-sac"),
    "epochs-many": ("ferry-ppo",),
    "clip-tiny": ("patrol-ppo",),
    "grad-clip": ("slalom-ppo",),
    "rollout-tiny": ("ferry-ppo",),
    "net-tiny": ("lockpick-ppo",),
    "buffer-tiny": ("patrol-dqn", "irrigation-sac"),
    "starts-late": ("ferry-dqn", "turret-td3"),
    "tau-one": ("slalom-dqn", "irrigation-td3"),
    "tau-tiny": ("lockpick-dqn", "turret-sac"),
    "explore-always": ("patrol-dqn",),
    "explore-never": ("lockpick-dqn",),
    "updates-few": ("patrol-ppo", "ferry-dqn"),
    "batch-tiny": ("slalom-dqn",),
    "seeds-equal": ("patrol-ppo",),
    "eval-raw": ("docking-ppo", "ferry-ppo"),
    "eval-other": ("slalom-ppo",),
    "stopped-early": ("docking-ppo", "turret-sac"),
}


def _faulty() -> list[Case]:
    cases = []
    for fault, places in _WHERE.items():
        for place in places:
            env, algo = place.split("-")
            settings = {} if fault in ENV_FAULTS else SETTINGS[fault][algo]
            evaluate = fault in ("same-start", "eval-raw", "eval-other", "obs-stale", "rew-sign")
            steps = {"stopped-early": STEPS[algo] // 10}.get(fault, 0)
            cases.append(Case(env, algo, fault, settings, fault, evaluate=evaluate, normalize=fault == "eval-raw", env_steps=steps))
    return cases


# The second look: four other tasks, other usual settings, other magnitudes.
_SECOND_BASE: Final[dict[str, dict[str, Any]]] = {
    "ppo": {"learning_rate": 7e-4, "n_steps": 128, "batch_size": 128, "n_epochs": 10, "gamma": 0.98, "ent_coef": 0.0},
    "a2c": {"learning_rate": 1e-3, "n_steps": 16},
    "dqn": {"learning_rate": 5e-4, "batch_size": 32, "train_freq": 2, "target_update_interval": 500},
    "sac": {"learning_rate": 7e-4, "tau": 0.02},
    "td3": {"learning_rate": 7e-4, "tau": 0.02},
}
_SECOND_SETTINGS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "lr-high": {"ppo": {"learning_rate": 0.04}, "a2c": {"learning_rate": 0.1}, "dqn": {"learning_rate": 0.1}},
    "lr-low": {"ppo": {"learning_rate": 3e-6}, "sac": {"learning_rate": 2e-6}},
    "gamma-low": {"ppo": {"gamma": 0.2}, "dqn": {"gamma": 0.2}},
    "entropy-high": {"ppo": {"ent_coef": 1.0}},
    "epochs-many": {"ppo": {"n_epochs": 60, "batch_size": 32}},
    "clip-tiny": {"ppo": {"clip_range": 0.004}},
    "buffer-tiny": {"dqn": {"buffer_size": 60}},
    "starts-late": {"dqn": {"learning_starts": 11_500}},
    "tau-tiny": {"dqn": {"target_update_interval": 500_000}, "sac": {"tau": 3e-6}},
    "explore-always": {"dqn": {"exploration_fraction": 1.0, "exploration_final_eps": 0.75}},
    "updates-few": {"dqn": {"train_freq": 300}},
    "seeds-equal": {"a2c": {}},
    "eval-raw": {"ppo": {}},
    "grad-clip": {"ppo": {"max_grad_norm": 3e-7}},
    "net-tiny": {"dqn": {"policy_kwargs": {"net_arch": [1]}}},
    "stopped-early": {"dqn": {}},
}
_SECOND_WHERE: Final[dict[str, tuple[tuple[str, float], ...]]] = {
    "obs-stale": (("juggler-ppo", 1.5), ("glider-ppo", 2.0)),
    "obs-frozen": (("relay-ppo", 1.0),),
    "obs-feature-gone": (("juggler-dqn", 1.0), ("relay-ppo", 1.0)),
    "obs-scale": (("glider-ppo", 0.3), ("brewery-dqn", 2.0)),
    "obs-noise": (("relay-dqn", 0.7),),
    "obs-shuffled": (("glider-sac", 1.0),),
    "act-ignored": (("juggler-dqn", 1.0), ("glider-ppo", 1.0), ("relay-a2c", 1.0)),
    "act-sometimes": (("relay-ppo", 1.5),),
    "act-late": (("juggler-ppo", 0.8),),
    "act-wide": (("glider-sac", 0.5),),
    "act-narrow": (("glider-ppo", 2.0),),
    "rew-sign": (("relay-ppo", 1.0), ("juggler-ppo", 1.0), ("brewery-ppo", 1.0), ("glider-td3", 1.0)),
    "rew-late": (("brewery-ppo", 1.0), ("glider-ppo", 1.0)),
    "rew-tiny": (("relay-dqn", 2.0), ("glider-sac", 0.5)),
    "rew-huge": (("brewery-dqn", 0.5), ("juggler-ppo", 1.0)),
    "rew-shifted": (("relay-ppo", 0.5),),
    "rew-lost": (("brewery-ppo", 1.0),),
    "rew-noise": (("glider-ppo", 0.7),),
    "end-never": (("relay-ppo", 1.0),),
    "end-limit-short": (("relay-ppo", 1.5),),
    "lr-high": (("brewery-ppo", 1.0), ("juggler-dqn", 1.0), ("relay-a2c", 1.0)),
    "lr-low": (("juggler-ppo", 1.0), ("glider-sac", 1.0)),
    "gamma-low": (("relay-ppo", 1.0), ("juggler-dqn", 1.0)),
    "entropy-high": (("brewery-ppo", 1.0), ("glider-ppo", 1.0)),
    "epochs-many": (("relay-ppo", 1.0),),
    "clip-tiny": (("juggler-ppo", 1.0),),
    "buffer-tiny": (("relay-dqn", 1.0),),
    "starts-late": (("juggler-dqn", 1.0),),
    "tau-tiny": (("relay-dqn", 1.0),),
    "explore-always": (("juggler-dqn", 1.0),),
    "updates-few": (("brewery-dqn", 1.0),),
    "seeds-equal": (("relay-a2c", 1.0),),
    "eval-raw": (("glider-ppo", 1.0),),
    "grad-clip": (("relay-ppo", 1.0),),
    "net-tiny": (("brewery-dqn", 1.0),),
    "stopped-early": (("relay-dqn", 1.0),),
}


def _second() -> list[Case]:
    discrete = [(env, algo) for env in ("brewery", "relay", "juggler") for algo in ("ppo", "a2c", "dqn")]
    cases = [
        Case(env, algo, settings=_SECOND_BASE[algo], evaluate=env in ("relay", "glider"))
        for env, algo in [*discrete, *(("glider", algo) for algo in ("ppo", "a2c", "sac", "td3"))]
    ]
    for env in ("brewery", "relay", "juggler", "glider"):
        slow = {**_SECOND_BASE["ppo"], "learning_rate": 1.5e-4, "clip_range": 0.1, "gae_lambda": 0.95}
        cases.append(Case(env, "ppo", settings=slow, label="slow"))
    slow = {**_SECOND_BASE["dqn"], "learning_rate": 1e-4, "exploration_fraction": 0.6}
    cases += [Case(env, "dqn", settings=slow, label="slow") for env in ("relay", "juggler")]
    for env in ("brewery", "glider"):
        wide = {**_SECOND_BASE["ppo"], "policy_kwargs": {"net_arch": [128, 128]}, "ent_coef": 0.01, "n_steps": 64}
        cases.append(Case(env, "ppo", settings=wide, label="wide", normalize=True, evaluate=True))
    for fault, places in _SECOND_WHERE.items():
        for place, size in places:
            env, algo = place.split("-")
            settings = _SECOND_BASE[algo] | ({} if fault in ENV_FAULTS else _SECOND_SETTINGS[fault][algo])
            steps = {"stopped-early": STEPS[algo] // 8}.get(fault, 0)
            normalize, evaluate = fault == "eval-raw", fault in ("eval-raw", "act-late", "rew-sign")
            cases.append(Case(env, algo, fault, settings, fault, size, evaluate, normalize, steps))
    return cases


_FIRST: Final = _sound() + _faulty()
# Every other group is kept back until what the first half taught is mended.
PARTS: Final = {"first": _FIRST[1::2], "kept_back": _FIRST[0::2], "second": _second()}
