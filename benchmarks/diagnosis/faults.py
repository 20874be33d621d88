"""The frozen list of faults: what is planted, how badly, and what the diagnosis should name.

`split="fit"` severities are used to fit the ranking, `split="test"` ones only to measure it. A fault class is a cause id of
rlclinic.diagnosis; `also` names causes that are as right, because no log can tell them apart (merged classes).
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from benchmarks.diagnosis.faulty import EnvFault
from benchmarks.diagnosis.tasks import Task
from rlclinic.config import Config
from rlclinic.config.schedule import Schedule

Settings = Callable[[Config], list[str]]
Kind = Literal["user", "bug", "healthy"]


def _none(_: Config) -> list[str]:
    return []


def _always(_: Task) -> bool:
    return True


@dataclass(frozen=True)
class Fault:
    """One way to go wrong, at one severity."""

    cause: str
    label: str
    split: Literal["fit", "test"]
    settings: Settings = _none
    env: EnvFault = field(default_factory=EnvFault)
    bug: str | None = None
    """A planted bug of tests.mutations.bugs."""
    fits: Callable[[Task], bool] = _always
    also: tuple[str, ...] = ()
    scores: float = 1.0
    """Factor of the return, by which the threshold is moved along: the user has another unit."""

    @property
    def kind(self) -> Kind:
        return "healthy" if self.cause == "healthy" else "bug" if self.bug else "user"


def ppo(task: Task) -> bool:
    return not task.id.endswith("a2c")


def continuous(task: Task) -> bool:
    return task.continuous


def discrete(task: Task) -> bool:
    return not task.continuous


def vector(task: Task) -> bool:
    """Observations that are measurements, not one-hot places."""
    return task.id != "lake"


def named(*ids: str) -> Callable[[Task], bool]:
    return lambda task: task.id in ids


def both(*conditions: Callable[[Task], bool]) -> Callable[[Task], bool]:
    return lambda task: all(condition(task) for condition in conditions)


def scaled(value: Any, factor: float) -> str:
    """A number or schedule times a factor, as --set takes it."""
    if isinstance(value, Schedule):
        dumped = value.model_dump(exclude_none=True, by_alias=True, exclude_defaults=True)
        return json.dumps({**dumped, "start": value.start * factor, "end": value.end * factor})
    return repr(float(value) * factor)


def rate(factor: float) -> Settings:
    return lambda c: [f"algo.learning_rate={scaled(c.algo.learning_rate, factor)}"]


def sets(*values: str) -> Settings:
    return lambda _: list(values)


def number(name: str, value: Any) -> Settings:
    return lambda c: [f"algo.{name}={json.dumps(value)}"] if name in type(c.algo).model_fields else []


def discount(horizon: float) -> Settings:
    return number("gamma", 1 - 1 / horizon)


def ends_at(share: float) -> Settings:
    return lambda c: [f'algo.learning_rate={{"start": {_start(c.algo.learning_rate)}, "end": 0, "to": {share}}}']


def _start(value: Any) -> float:
    return float(value.start if isinstance(value, Schedule) else value)


def giant(updates: int) -> Settings:
    """So long a rollout, used once, that the whole run has this many updates."""

    def changes(c: Config) -> list[str]:
        n_steps = max(1, c.run.max_env_steps // (updates * c.env.n_envs))
        return [f"algo.n_steps={n_steps}", f"algo.batch_size={n_steps * c.env.n_envs}", "algo.n_epochs=1"]

    return changes


def tiny_rollout(n_steps: int) -> Settings:
    return lambda c: ["env.n_envs=1", f"algo.n_steps={n_steps}", f"algo.batch_size={n_steps}"]


def epochs(factor: int) -> Settings:
    return lambda c: [f"algo.n_epochs={getattr(c.algo, 'n_epochs', 1) * factor}"]


def budget(share: float) -> Settings:
    def changes(c: Config) -> list[str]:
        most = int(c.run.max_env_steps * share)
        return [f"run.max_env_steps={most}", f"run.eval_every_env_steps={max(most // 8, c.rollout_size)}"]

    return changes


OWN = ("docking", "docking-continuous", "buoy")


def beyond(share: float) -> Settings:
    """A threshold beyond what the environment can pay, by a share of the range."""

    def changes(c: Config) -> list[str]:
        top = c.spec.return_range[1] if c.spec.return_range else {200.0: 320.0}.get(c.spec.threshold or 0.0, 12.0)
        return [f"spec.threshold={top + share * max(abs(top), abs(c.spec.threshold or 1.0), 1.0)}"]

    return changes


def limit(share: float) -> Settings:
    return lambda c: [f"env.max_episode_steps={max(5, round((c.env.max_episode_steps or c.spec.max_episode_steps or 200) * share))}"]


def raw(*more: str) -> Settings:
    """Without normalizers, which would hide a scale."""
    return lambda c: ["env.normalize_reward=false", "env.normalize_obs=false", *more]


def _user(cause: str, label: str, split: Any, settings: Settings = _none, **more: Any) -> Fault:
    return Fault(cause, label, split, settings, **more)


def _pair(cause: str, fit: Mapping[str, Settings], test: Mapping[str, Settings], **more: Any) -> list[Fault]:
    return [
        *(_user(cause, label, "fit", settings, **more) for label, settings in fit.items()),
        *(_user(cause, label, "test", settings, **more) for label, settings in test.items()),
    ]


def _envs(cause: str, fit: Mapping[str, EnvFault], test: Mapping[str, EnvFault], settings: Settings = _none, **more: Any) -> list[Fault]:
    return [
        *(Fault(cause, label, "fit", settings, env, **more) for label, env in fit.items()),
        *(Fault(cause, label, "test", settings, env, **more) for label, env in test.items()),
    ]


SETTINGS: tuple[Fault, ...] = tuple(
    fault
    for group in (
        _pair("learning-rate-too-high", {"x20": rate(20), "x100": rate(100)}, {"x50": rate(50)}, fits=ppo),
        _pair("learning-rate-too-high", {"x30": rate(30), "x200": rate(200)}, {"x100": rate(100)}, fits=named("cartpole-a2c")),
        _pair("learning-rate-too-low", {"/50": rate(1 / 50), "/1000": rate(1e-3)}, {"/200": rate(1 / 200)}),
        _pair("learning-rate-schedule-too-short", {"3%": ends_at(0.03), "8%": ends_at(0.08)}, {"5%": ends_at(0.05)}),
        _pair(
            "clip-range-too-small",
            {"0.01": number("clip_range", 0.01), "0.001": number("clip_range", 0.001)},
            {"0.004": number("clip_range", 0.004)},
            fits=ppo,
        ),
        _pair(
            "target-kl-too-tight",
            {"1e-5": number("target_kl", 1e-5), "1e-7": number("target_kl", 1e-7)},
            {"1e-6": number("target_kl", 1e-6)},
            fits=ppo,
        ),
        _pair(
            "gradient-clip-too-tight",
            {"1e-5": number("max_grad_norm", 1e-5), "1e-7": number("max_grad_norm", 1e-7)},
            {"1e-6": number("max_grad_norm", 1e-6)},
        ),
        _pair("entropy-bonus-too-high", {"0.3": number("ent_coef", 0.3), "3": number("ent_coef", 3.0)}, {"1": number("ent_coef", 1.0)}),
        _pair("discount-too-low", {"2": discount(2), "1.2": discount(1.2)}, {"1.5": discount(1.5), "4": discount(4)}),
        _pair("discount-too-high", {"1": number("gamma", 1.0)}, {"0.9999": number("gamma", 0.9999)}),
        _pair("gae-lambda-too-low", {"0": number("gae_lambda", 0.0)}, {"0.1": number("gae_lambda", 0.1)}),
        _pair("critic-not-trained", {"0": number("vf_coef", 0.0)}, {"1e-6": number("vf_coef", 1e-6)}),
        _pair(
            "value-clip-too-tight",
            {"1e-3": number("clip_range_vf", 1e-3), "1e-5": number("clip_range_vf", 1e-5)},
            {"1e-4": number("clip_range_vf", 1e-4)},
            fits=ppo,
        ),
        _pair(
            "value-loss-dominates",
            {"50": sets("net.shared=true", "algo.vf_coef=50"), "1000": sets("net.shared=true", "algo.vf_coef=1000")},
            {"200": sets("net.shared=true", "algo.vf_coef=200")},
            fits=ppo,
        ),
        _pair("too-few-updates", {"8": giant(8), "3": giant(3)}, {"5": giant(5)}, fits=ppo),
        _pair("rollout-too-small", {"8": tiny_rollout(8), "16": tiny_rollout(16)}, {"12": tiny_rollout(12)}, fits=both(ppo, vector)),
        _pair("too-many-epochs", {"x6": epochs(6)}, {"x9": epochs(9)}, fits=ppo),
        _pair("optimizer-mismatch", {"sgd": sets("algo.optimizer=sgd")}, {"momentum": sets("algo.optimizer=sgd", "algo.momentum=0.5")}),
        _pair(
            "saturating-activation",
            {"4": sets("net.activation=sigmoid", "net.hidden=[64,64,64,64]")},
            {"5": sets("net.activation=sigmoid", "net.hidden=[32,32,32,32,32]")},
        ),
        _pair("network-too-small", {"1": sets("net.hidden=[1]")}, {"1,1": sets("net.hidden=[1,1]")}),
        _pair("initial-policy-too-sure", {"gain": sets("net.policy_gain=30")}, {"gain50": sets("net.policy_gain=60")}, fits=discrete),
        _pair(
            "initial-policy-too-sure", {"-4": sets("net.log_std_init=-4")}, {"-5": sets("net.log_std_init=-5")}, fits=continuous
        ),
        _pair("action-noise-too-wide", {"2": sets("net.log_std_init=2")}, {"1.9": sets("net.log_std_init=1.9")}, fits=continuous),
        _pair("budget-too-small", {"10%": budget(0.1)}, {"7%": budget(0.07)}),
        _pair("episode-too-short", {"8%": limit(0.08)}, {"12%": limit(0.12)}, fits=named("mcc", "acrobot", "mountaincar", "lunar", *OWN)),
        _pair("threshold-out-of-reach", {"+20%": beyond(0.2)}, {"+40%": beyond(0.4)}),
    )
    for fault in group
)  # fmt: skip


ENVIRONMENTS: tuple[Fault, ...] = (
    *_envs(
        "reward-scale-too-large",
        {"x1e3": EnvFault(reward_scale=1e3)},
        {},
        raw("net.shared=true"),
        scores=1e3,
    ),
    *_envs("reward-scale-too-large", {}, {"x1e4": EnvFault(reward_scale=1e4)}, raw("net.shared=true"), scores=1e4),
    *_envs("reward-scale-too-small", {"/1e4": EnvFault(reward_scale=1e-4)}, {}, raw("algo.ent_coef=0.01"), scores=1e-4),
    *_envs("reward-scale-too-small", {}, {"/1e5": EnvFault(reward_scale=1e-5)}, raw("algo.ent_coef=0.01"), scores=1e-5),
    *_envs("reward-sign", {"both": EnvFault(reward_scale=-1.0)}, {"training": EnvFault(reward_scale=-1.0, train_only=True)}),
    *_envs("reward-never-seen", {"none": EnvFault(reward_scale=0.0)}, {}),
    # A step that always costs the same: the agent learns to end the episode, as with a sign that is wrong.
    *_envs("reward-never-seen", {}, {"constant": EnvFault(reward_scale=0.0, reward_offset=-1.0)}, also=("reward-sign",)),
    *_envs(
        "reward-noise",
        {"30": EnvFault(reward_noise=30.0), "100": EnvFault(reward_noise=100.0)},
        {"60": EnvFault(reward_noise=60.0)},
        also=("evaluation-too-noisy",),
    ),
    *_envs("observation-constant", {"zero": EnvFault(obs_scale=(0.0,))}, {"tiny": EnvFault(obs_scale=(1e-9,))}),
    *_envs(
        "observation-scale",
        {"x1000": EnvFault(obs_scale=(1000.0, 1.0)), "all": EnvFault(obs_scale=(300.0,))},
        {"x3000": EnvFault(obs_scale=(1.0, 3000.0))},
        raw(),
        fits=vector,
    ),
    *_envs(
        "observation-partial", {"odd": EnvFault(obs_scale=(1.0, 0.0))}, {"even": EnvFault(obs_scale=(0.0, 1.0))}, fits=vector
    ),
    *_envs("observation-noise", {"2": EnvFault(obs_noise=2.0)}, {"4": EnvFault(obs_noise=4.0)}, fits=vector),
    *_envs(
        "observation-not-updated",
        {"frozen": EnvFault(obs_frozen=True)},
        {"training": EnvFault(obs_frozen=True, train_only=True)},
        also=("observation-constant",),
    ),
    *_envs("actions-without-effect", {"all": EnvFault(action_random=1.0)}, {"90%": EnvFault(action_random=0.9)}),
    *_envs("action-bounds", {"500": EnvFault(bound=500.0)}, {"100": EnvFault(bound=100.0)}, fits=continuous),
    *_envs(
        "evaluation-mismatch",
        {"actions": EnvFault(action_flip_after=1.0, eval_only=True), "observations": EnvFault(obs_scale=(-1.0,), eval_only=True)},
        {"random": EnvFault(action_random=0.7, eval_only=True)},
    ),
    *_envs(
        "reward-clipped",
        {"0.02": EnvFault(reward_clip=0.02)},
        {"0.05": EnvFault(reward_clip=0.05)},
        fits=named("mcc", "lunar", *OWN),
    ),
    *_envs("deceptive-reward", {"3": EnvFault(action_cost=3.0)}, {"1": EnvFault(action_cost=1.0)}, fits=named("mcc", *OWN)),
)  # fmt: skip


def late(task: Task) -> tuple[Fault, ...]:
    """Faults that begin at a share of the task's budget."""
    steps = task.config.run.max_env_steps
    return (
        *_envs(
            "environment-changed",
            {"actions": EnvFault(action_flip_after=0.5 * steps), "reward": EnvFault(reward_flip_after=0.6 * steps)},
            {"actions-late": EnvFault(action_flip_after=0.65 * steps)},
        ),
        *_envs("environment-not-finite", {"30%": EnvFault(nan_after=0.3 * steps)}, {"50%": EnvFault(nan_after=0.5 * steps)}),
    )


def _bug(cause: str, *ids: str, **more: Any) -> list[Fault]:
    """Bugs have no severity; the second of several ids is kept for the test."""
    return [Fault(cause, id, "test" if n % 2 else "fit", bug=id, **more) for n, id in enumerate(ids)]


LIMITED = named("pendulum", "cartpole", "cartpole-wide")
"""Where the time limit, not the task, ends good episodes."""


def normalizes(task: Task) -> bool:
    return bool(task.config.env.normalize_obs)


BUGS: tuple[Fault, ...] = tuple(
    fault
    for group in (
        _bug("advantage-sign", "advantage-sign"),
        _bug("advantage-sign", "ratio-inverted", fits=ppo, settings=sets("run.engine=autograd")),
        _bug("episode-ends-ignored", "termination-ignored", "gae-across-episodes", also=("returns-wrong",)),
        _bug("time-limit-as-terminal", "truncation-as-termination", "limit-reported-terminal", fits=LIMITED),
        _bug("returns-wrong", "returns-not-reversed", "bootstrap-own-value"),
        _bug("log-prob-mismatch", "log-prob-stale", "log-prob-shifted", fits=ppo),
        _bug("log-prob-mismatch", "clipped-action-stored", "clipped-action-log-prob", fits=both(ppo, continuous)),
        _bug("value-loss-sign", "value-loss-sign"),
        _bug("value-loss-sign", "value-error-negated", settings=sets("run.engine=autograd")),
        _bug("dead-surrogate", "dead-surrogate", fits=ppo),
        _bug("clip-not-applied", "surrogate-max", "surrogate-unclipped", fits=ppo, settings=sets("run.engine=autograd")),
        _bug("entropy-sign", "entropy-sign", settings=number("ent_coef", 0.05), also=("exploration-collapsed", "loss-terms-wrong")),
        _bug("rows-misaligned", "rows-misaligned"),
        _bug("layer-frozen", "actor-trunk-frozen", "critic-trunk-frozen"),
        _bug("updates-missing", "rows-dropped", fits=named("cartpole-wide", "acrobot", "pendulum", "mcc", "docking", "mountaincar")),
        _bug("kl-negative", "kl-sign", fits=ppo),
        _bug("schedule-not-followed", "schedule-budget"),
        _bug("final-observation-overwritten", "final-obs-overwritten"),
        _bug("observation-late", "observation-late"),
        _bug("never-reset", "never-reset"),
        _bug("returns-accounting", "returns-add-up"),
        _bug("evaluation-without-normalizer", "evaluation-raw", fits=normalizes),
        _bug("evaluation-mismatch", "evaluation-samples", fits=discrete),
        _bug("normalizer-moves", "statistics-before-update", "statistics-in-rollout", fits=both(ppo, normalizes)),
        _bug("time-limit-missing", "no-time-limit", fits=named("pendulum", "cartpole", "docking")),
        _bug("gradients-wrong", "slope-chosen-only", "slopes-summed", fits=both(ppo, discrete)),
    )
    for fault in group
)  # fmt: skip


def mild(index: int) -> Fault:
    """The index-th odd but harmless variation of a config: two numbers moved by up to a factor of about two."""
    turn = math.sin(index * 12.9898) * 43758.5453
    a, b = turn % 1, (turn * 7.31) % 1
    choices: list[Settings] = [
        rate(2 ** (2 * a - 1)),
        lambda c: [f"algo.gamma={1 - (1 - _start(c.algo.gamma)) * 2 ** (2 * a - 1):.6g}"],
        lambda c: [f"algo.gae_lambda={min(0.99, _start(getattr(c.algo, 'gae_lambda', 0.95)) * (0.9 + 0.15 * a)):.6g}"],
        lambda c: [f"algo.ent_coef={0.004 * a:.6g}"],
        lambda c: [f"algo.max_grad_norm={0.2 * 10 ** (1.5 * a):.6g}"],
        lambda c: [f"algo.vf_coef={0.25 * 4**a:.6g}"],
    ]
    first, second = choices[index % len(choices)], choices[(index + 1 + int(b * 5)) % len(choices)]
    if index < 2:
        return Fault("healthy", f"as-is-{index}", "fit" if index == 0 else "test")
    return Fault("healthy", f"mild-{index}", "fit" if index % 2 else "test", lambda c: [*first(c), *second(c)])


SHAPES: tuple[Fault, ...] = tuple(
    _user("healthy", label, split, settings, fits=fits)
    for label, split, settings, fits in (
        ("shared-relu", "fit", sets("net.shared=true", "net.activation=relu"), _always),
        ("wide-relu", "test", sets("net.hidden=[128,128]", "net.activation=relu"), _always),
        ("adamw", "fit", sets("algo.optimizer=adamw", "algo.weight_decay=0.001"), ppo),
        ("layer-norm", "test", sets("net.layer_norm=true"), _always),
        ("elu", "fit", sets("net.activation=elu"), _always),
        ("one-layer", "test", sets("net.hidden=[64]"), _always),
    )
)

PAIRS: tuple[tuple[str, str], ...] = (
    ("learning-rate-too-low", "discount-too-low"),
    ("learning-rate-too-high", "entropy-bonus-too-high"),
    ("learning-rate-too-high", "observation-partial"),
    ("learning-rate-too-low", "observation-constant"),
    ("discount-too-low", "entropy-bonus-too-high"),
    ("discount-too-low", "reward-noise"),
    ("clip-range-too-small", "observation-partial"),
    ("target-kl-too-tight", "reward-sign"),
    ("critic-not-trained", "entropy-bonus-too-high"),
    ("critic-not-trained", "learning-rate-too-low"),
    ("reward-noise", "learning-rate-too-high"),
    ("gradient-clip-too-tight", "observation-constant"),
    ("actions-without-effect", "learning-rate-too-low"),
    ("learning-rate-schedule-too-short", "discount-too-low"),
)
"""Two faults at once, both of kinds that one config can hold."""
