"""What is planted in runs of Stable-Baselines3 on worlds: written down before any of them was trained.

`TELLABLE` are the faults that SB3's own log (progress.csv, monitor files, evaluations.npz, without our callback and without the script)
holds enough about: it has the learning rate, the clip range, counts of updates, losses, KL, entropy or standard deviation, explained
variance, returns, lengths and evaluations. What else is wrong may show in them, but they cannot tell what it is; there the right
answer is that they cannot.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final

from benchmarks.diagnosis.faults import Fault
from benchmarks.diagnosis.faulty import EnvFault
from benchmarks.diagnosis.worlds import cells, families, learnable, planted

SEEDS: Final = (0, 1)

TELLABLE: Final = frozenset(
    {
        "learning-rate-too-high", "learning-rate-too-low", "learning-rate-schedule-too-short", "clip-range-too-small", "clip-not-applied",
        "target-kl-too-tight", "too-few-updates", "rollout-too-small", "too-many-epochs", "entropy-bonus-too-high",
        "initial-policy-too-sure", "action-noise-too-wide", "budget-too-small", "reward-never-seen", "reward-scale-too-large",
        "environment-changed", "environment-not-finite", "evaluation-mismatch", "exploration-never-ends",
        "learning-starts-too-late", "episode-too-short", "seeds-identical",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Base:
    """Sound settings of an algorithm."""

    n_envs: int
    budget: int
    settings: Mapping[str, Any]


BASES: Final = {
    "ppo": Base(8, 18_432, {"n_steps": 64, "batch_size": 128, "n_epochs": 6, "learning_rate": 1e-3, "gae_lambda": 0.95}),
    "a2c": Base(8, 24_000, {"n_steps": 8, "learning_rate": 1.5e-3, "gae_lambda": 0.95}),
    "dqn": Base(
        1, 12_000,
        {"learning_rate": 1e-3, "buffer_size": 12_000, "learning_starts": 500, "batch_size": 64, "train_freq": 4,
         "target_update_interval": 250, "exploration_fraction": 0.3},
    ),
    "sac": Base(1, 3_600, {"learning_rate": 1e-3, "buffer_size": 3_600, "learning_starts": 300, "batch_size": 128}),
}  # fmt: skip

PLACES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "fit": {"ppo": ("point-2", "thermostat-3", "grid-1", "cart-4"), "dqn": ("thermostat-2",)},
    "held_out": {
        "ppo": ("inventory-0", "pursuit-3", "lander-1", "tank-0", "inventory-1", "pursuit-0", "lander-4", "tank-3"),
        "dqn": ("inventory-2", "pursuit-4", "tank-2"),
        "sac": ("tank-1", "inventory-3"),
        "a2c": ("pursuit-2", "tank-4"),
    },
    "reserve": {"ppo": ("harvest-0", "crane-1", "battery-2")},
    "second": {
        "ppo": ("steering-0", "dosing-1", "traffic-2", "lift-1", "beam-3", "steering-5", "dosing-4", "traffic-3"),
        "dqn": ("lift-3", "traffic-0", "dosing-2"),
        "sac": ("dosing-3", "beam-1"),
        "a2c": ("traffic-4", "beam-2"),
    },
    "third": {
        "ppo": ("mixer-0", "archer-2", "patrol-1", "rocket-0", "ferry-1", "radio-3", "press-1", "orbit-3"),
        "dqn": ("radio-0", "patrol-2", "orbit-2"),
        "sac": ("orbit-1", "patrol-3"),
        "a2c": ("radio-2", "mixer-2"),
    },
    "sixth": {
        "ppo": ("catcher-0", "sorter-0", "compass-1", "metro-1", "catcher-1", "sorter-1", "compass-0", "metro-0"),
        "dqn": ("metro-0", "compass-0", "catcher-0"),
        "a2c": ("sorter-1", "compass-1"),
    },
}


def places(part: str) -> dict[str, tuple[str, ...]]:
    """The worlds of each algorithm. Without names written down, by a rule: PPO has the first world of every family and a second one of
    the first, the other algorithms those that PPO does not have, from the end; SAC needs a box and DQN choices."""
    if part in PLACES:
        return PLACES[part]
    by_family: dict[str, list[str]] = {}
    for name in cells.worlds(part):
        by_family.setdefault(families.world(name).family, []).append(name)
    turns = [name for names in zip_longest(*by_family.values()) for name in names if name is not None]
    rest = turns[:7:-1]
    boxes = [name for name in rest if families.world(name).dims]
    choices = [name for name in rest if not families.world(name).dims]
    return {"ppo": tuple(turns[:8]), "dqn": tuple(choices[:3]), "sac": tuple(boxes[:2]), "a2c": (*choices[3:4], *boxes[2:3])}


TIMES: Final = {"fit": 1, "held_out": 2, "reserve": 1, "second": 2, "third": 2, "fourth": 3, "fifth": 1, "sixth": 2, "seventh": 2}
"""In how many worlds each fault of PPO is planted."""
ALGORITHMS: Final = {"fifth": ("ppo",), "sixth": ("ppo", "a2c", "dqn")}
"""Algorithms of a part, where they are not all: what the machine manages in the time."""
OFTEN: Final = ("actions-without-effect", "observation-scale", "reward-sign")
"""Faults of several kinds, planted twice as often."""


@dataclass(frozen=True)
class Planted:
    """One fault in one algorithm's words."""

    fault: str
    label: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    net: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the policy."""
    env: EnvFault = field(default_factory=EnvFault)
    also: tuple[str, ...] = ()
    limit: float = 1.0
    """Share of the world's time limit."""
    budget: float = 1.0
    n_envs: int | None = None
    actions: str = "any"
    """box, discrete or any."""
    scores: float = 1.0


def _ppo() -> list[Planted]:
    settings: list[tuple[str, str, dict[str, Any]]] = [
        ("learning-rate-too-high", "0.05", {"learning_rate": 0.05}), ("learning-rate-too-high", "0.1", {"learning_rate": 0.1}),
        ("learning-rate-too-low", "1e-5", {"learning_rate": 1e-5}), ("learning-rate-too-low", "1e-6", {"learning_rate": 1e-6}),
        ("learning-rate-schedule-too-short", "6%", {"learning_rate": ("cut", 1e-3, 0.06)}),
        ("clip-range-too-small", "0.002", {"clip_range": 0.002}),
        ("target-kl-too-tight", "1e-6", {"target_kl": 1e-6}),
        ("gradient-clip-too-tight", "1e-6", {"max_grad_norm": 1e-6}),
        ("entropy-bonus-too-high", "1", {"ent_coef": 1.0}), ("entropy-bonus-too-high", "3", {"ent_coef": 3.0}),
        ("discount-too-low", "0.2", {"gamma": 0.2}), ("discount-too-low", "0", {"gamma": 0.0}),
        ("discount-too-high", "1", {"gamma": 1.0}),
        ("gae-lambda-too-low", "0", {"gae_lambda": 0.0}),
        ("critic-not-trained", "0", {"vf_coef": 0.0}),
        ("too-few-updates", "4 in all", {"n_steps": 576, "batch_size": 4_608, "n_epochs": 1}),
        ("too-many-epochs", "60", {"n_epochs": 60}),
    ]  # fmt: skip
    nets: list[tuple[str, str, dict[str, Any]]] = [
        ("optimizer-mismatch", "sgd", {"optimizer": "sgd"}),
        ("saturating-activation", "4", {"activation": "sigmoid", "net_arch": (64, 64, 64, 64)}),
        ("network-too-small", "1", {"net_arch": (1,)}),
    ]
    return [
        *(Planted(fault, label, settings=changed) for fault, label, changed in settings),
        *(Planted(fault, label, net=changed) for fault, label, changed in nets),
        Planted("rollout-too-small", "8", settings={"n_steps": 8, "batch_size": 8}, n_envs=1),
        Planted("budget-too-small", "8%", budget=0.08),
        Planted("initial-policy-too-sure", "-4", net={"log_std_init": -4.0}, actions="box"),
        Planted("action-noise-too-wide", "2.5", net={"log_std_init": 2.5}, actions="box"),
        *_environment(BASES["ppo"].budget // 8),
    ]


def _environment(steps: int) -> list[Planted]:
    """As in our trainer; the settings that those change as well are left as they are, SB3 has no normalizer to switch off."""
    chosen: dict[str, list[Fault]] = {}
    for fault in planted.ENVIRONMENTS:
        chosen.setdefault(fault.cause, []).append(fault)
    made = []
    for cause, severities in chosen.items():
        for fault in severities:
            if cause == "evaluation-mismatch" and fault.label == "actions":
                continue
            limit = {"10%": 0.1, "7% terminal": 0.07, "15%": 0.15}.get(fault.label, 1.0)
            actions = "box" if cause == "action-bounds" else "any"
            settings = {"normalize_advantage": False} if cause == "reward-scale-too-small" else {}
            made.append(
                Planted(cause, fault.label, settings, env=fault.env, also=fault.also, limit=limit, actions=actions, scores=fault.scores)
            )
    made.append(Planted("environment-changed", "actions", env=EnvFault(action_flip_after=0.6 * steps)))
    made.append(Planted("environment-changed", "reward", env=EnvFault(reward_flip_after=0.6 * steps)))
    return made


def _environment_of(*wanted: tuple[str, str]) -> list[Planted]:
    return [each for each in _environment(8_000) if (each.fault, each.label) in wanted]


MENUS: Final[dict[str, list[Planted]]] = {
    "ppo": _ppo(),
    "a2c": [
        Planted("learning-rate-too-low", "1e-6", {"learning_rate": 1e-6}),
        Planted("learning-rate-too-high", "0.1", {"learning_rate": 0.1}),
        Planted("entropy-bonus-too-high", "3", {"ent_coef": 3.0}),
        Planted("discount-too-low", "0", {"gamma": 0.0}),
        *_environment_of(
            ("reward-sign", "both"), ("observation-constant", "zero"), ("actions-without-effect", "random"), ("reward-noise", "30")
        ),
    ],
    "dqn": [
        Planted("learning-rate-too-high", "0.3", {"learning_rate": 0.3}),
        Planted("learning-rate-too-low", "1e-6", {"learning_rate": 1e-6}),
        Planted("discount-too-low", "0", {"gamma": 0.0}),
        Planted("exploration-never-ends", "1", {"exploration_final_eps": 1.0}),
        Planted("exploration-ends-too-early", "0", {"exploration_initial_eps": 0.0, "exploration_final_eps": 0.0, "learning_starts": 0}),
        Planted("learning-starts-too-late", "95%", {"learning_starts": 11_400}),
        Planted("target-not-updated", "never", {"target_update_interval": 10**9}),
        Planted("replay-too-small", "64", {"buffer_size": 64}),
        *_environment_of(
            ("reward-sign", "both"), ("reward-never-seen", "none"), ("reward-noise", "30"), ("observation-constant", "zero"),
            ("observation-scale", "x1000"), ("observation-scale", "all /1000"), ("observation-partial", "odd"), ("observation-late", "4"),
            ("actions-without-effect", "random"), ("actions-without-effect", "ignored"), ("reward-delayed", "end"),
            ("episode-too-short", "10%"), ("reward-scale-too-large", "x1e4"),
        ),
    ],
    "sac": [
        Planted("learning-rate-too-high", "0.3", {"learning_rate": 0.3}),
        Planted("learning-rate-too-low", "1e-6", {"learning_rate": 1e-6}),
        Planted("discount-too-low", "0", {"gamma": 0.0}),
        Planted("temperature-too-high", "20", {"ent_coef": 20.0}),
        *_environment_of(
            ("reward-sign", "both"), ("observation-constant", "zero"), ("observation-partial", "odd"), ("actions-without-effect", "random"),
            ("observation-late", "4"), ("reward-noise", "30"), ("action-bounds", "/50"),
        ),
    ],
}  # fmt: skip

ODD: Final = (
    Planted("healthy", "as it is"),
    Planted("healthy", "relu", net={"activation": "relu", "net_arch": (64, 64)}),
    Planted("healthy", "rate x 0.6", settings={"learning_rate": 6e-4}),
    Planted("healthy", "rewards x 5", env=EnvFault(reward_scale=5.0), scores=5.0),
)


@dataclass(frozen=True)
class Spec:
    """One config that two seeds train."""

    part: str
    algo: str
    world: str
    what: Planted

    @property
    def name(self) -> str:
        text = f"{self.algo}_{self.world}_{self.what.fault}_{self.what.label}"
        return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in text)

    @property
    def threshold(self) -> float:
        return float(learnable.load()[self.world]["threshold"]) * self.what.scores

    def about(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "part": self.part,
            "algo": self.algo,
            "task": self.world,
            "family": families.world(self.world).family,
            "fault": self.what.fault,
            "also": list(self.what.also),
            "environment": self.what.fault in planted.ENVIRONMENT_CAUSES,
            "threshold": self.threshold,
        }


def all_specs(part: str) -> Iterator[Spec]:
    """The cells of a part of the split, healthy ones first."""
    for algo, worlds in places(part).items():
        if algo not in ALGORITHMS.get(part, MENUS):
            continue
        for place, world in enumerate(worlds):
            odd = ODD[: 4 if algo in ("ppo",) and part not in ("fit", "reserve", "fifth") else 2 if place < 2 else 1]
            yield from (Spec(part, algo, world, what) for what in odd)
        causes: dict[str, list[Planted]] = {}
        for what in MENUS[algo]:
            causes.setdefault(what.fault, []).append(what)
        times = TIMES[part] if algo == "ppo" else 1
        if algo == "dqn" and part == "fit":
            causes = {cause: severities for cause, severities in causes.items() if planted.draw(part, cause) < 0.5}
        for number, (cause, severities) in enumerate(causes.items()):
            count = min(len(worlds), 2 * times if times > 1 and cause in OFTEN else times)
            for turn in range(count):
                world = worlds[(number + turn * 5) % len(worlds)]
                kind = "box" if families.world(world).dims else "discrete"
                fitting = [what for what in severities if what.actions in ("any", kind)]
                if not fitting and (other := [w for w in worlds if families.world(w).dims]):
                    world, fitting = other[(number + turn) % len(other)], severities
                if fitting:
                    yield Spec(part, algo, world, fitting[(number + turn) % len(fitting)])
