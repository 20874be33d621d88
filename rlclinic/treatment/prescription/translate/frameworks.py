"""A prescription in the words of the framework that a run came from: SB3's arguments, CleanRL's flags, RLlib's calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rlclinic.config import Config
from rlclinic.treatment.prescription.prescription import changed, flow
from rlclinic.treatment.prescription.translate import d3rlpy, imitation, replay, rllib
from rlclinic.treatment.prescription.translate.replay import first_number, to_python

FRAMEWORKS: Final = ("sb3", "cleanrl", "gymnasium-solver", "rllib", "d3rlpy", "imitation")
_SAME_IN_SB3: Final = frozenset({
    "n_steps", "n_epochs", "gamma", "gae_lambda", "learning_rate", "clip_range", "clip_range_vf", "target_kl", "ent_coef", "vf_coef",
    "max_grad_norm",
})  # fmt: skip
_SCHEDULED_IN_SB3: Final = frozenset({"learning_rate", "clip_range", "clip_range_vf"})
LINEAR: Final = "linear_schedule = lambda start, end=0.0: lambda left: end + (start - end) * left"
"""What SB3 calls with the share of the run that is left."""
COSINE: Final = "cosine_schedule = lambda start, end=0.0: lambda left: end + (start - end) * (1 - math.cos(math.pi * left)) / 2"
WARM: Final = (
    "warm_schedule = lambda start, warmup, end=0.0: lambda left: end + (start - end) * min((1 - left) / warmup, left / (1 - warmup))"
)
SCHEDULES: Final = {"linear_schedule": LINEAR, "cosine_schedule": COSINE, "warm_schedule": WARM}
_ACTIVATIONS: Final = {
    "tanh": "Tanh",
    "relu": "ReLU",
    "elu": "ELU",
    "gelu": "GELU",
    "silu": "SiLU",
    "leaky_relu": "LeakyReLU",
    "sigmoid": "Sigmoid",
}
_OPTIMIZERS: Final = {"adam": "Adam", "adamw": "AdamW", "rmsprop": "RMSprop", "sgd": "SGD"}
_CLEANRL: Final = {
    "n_steps": "num-steps", "n_epochs": "update-epochs", "gamma": "gamma", "gae_lambda": "gae-lambda", "learning_rate": "learning-rate",
    "clip_range": "clip-coef", "ent_coef": "ent-coef", "vf_coef": "vf-coef", "max_grad_norm": "max-grad-norm", "target_kl": "target-kl",
}  # fmt: skip


def spell(changes: Mapping[str, Any], framework: str, config: Config | None) -> str | None:
    """The changes as a user of that framework would write them; None for a framework that has no words of its own.

    `config` is what they are applied to: a minibatch given as a fraction, or as a number of them, depends on the rollout.
    """
    writers = {
        "sb3": _sb3,
        "cleanrl": _cleanrl,
        "gymnasium-solver": _gymnasium_solver,
        "rllib": rllib.spell,
        "d3rlpy": d3rlpy.spell,
        # What it trains against a discriminator is a model of SB3.
        "imitation": _sb3,
    }
    writer = writers.get(framework)
    after = changed(config, changes) if config is not None else None
    return writer(changes, after) if writer is not None and changes else None


# ── Stable-Baselines3 ──


@dataclass
class _Script:
    """A Stable-Baselines3 script in pieces."""

    after: Config | None
    arguments: dict[str, str] = field(default_factory=dict)
    """Of the algorithm's constructor."""
    network: dict[str, str] = field(default_factory=dict)
    """Of policy_kwargs."""
    lines: list[str] = field(default_factory=list)

    @property
    def algo(self) -> str:
        return self.after.algo.name if self.after is not None else "ppo"

    @property
    def replays(self) -> bool:
        """Whether the algorithm learns from a replay."""
        return self.after is not None and self.after.algo.loop == "off_policy"

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.after.algo.model_dump() if self.after is not None else {}

    def text(self) -> str:
        if self.network:
            self.arguments["policy_kwargs"] = "dict(" + ", ".join(f"{key}={text}" for key, text in self.network.items()) + ")"
        call = [f"{self.algo.upper()}(..., {', '.join(f'{key}={text}' for key, text in self.arguments.items())})"] if self.arguments else []
        helper = [text for name, text in SCHEDULES.items() if any(f"{name}(" in said for said in self.arguments.values())]
        return "; ".join([*helper, *dict.fromkeys(self.lines), *call])


def _sb3(changes: Mapping[str, Any], after: Config | None) -> str:
    if after is not None and after.algo.name in imitation.TRAINERS:
        said, others = imitation.spell(changes, after)
        # What remains is the generator's, PPO of SB3.
        return "; ".join(filter(None, [said, _sb3(others, None) if others else ""]))
    script = _Script(after)
    for setting, value in changes.items():
        section, _, name = setting.partition(".")
        {"algo": _sb3_algo, "net": _sb3_net}.get(section, _sb3_around)(script, name, value)
    return script.text()


def _sb3_algo(script: _Script, name: str, value: Any) -> None:
    if name == "name":
        script.lines.append(f"model = {str(value).upper()}(...)")
    elif name == "batch_size":
        script.arguments[name] = str(script.after.batch_rows if script.after is not None else value)
    elif name == "normalize_advantage":
        script.arguments[name] = str(value != "off")
    elif name == "optimizer":
        script.network["optimizer_class"] = f"torch.optim.{_OPTIMIZERS.get(str(value), str(value))}"
    elif name in ("adam_eps", "weight_decay", "momentum"):
        script.network["optimizer_kwargs"] = f"dict({'eps' if name == 'adam_eps' else name}={to_python(value)})"
    elif name == "n_critics":
        script.network[name] = str(value)
    elif script.replays and (known := replay.sb3_argument(name, first_number(value), script.settings)) is not None:
        script.arguments[known[0]] = known[1]
    elif name in _SAME_IN_SB3:
        script.arguments[name] = _scheduled(value) if name in _SCHEDULED_IN_SB3 else to_python(first_number(value))
    else:
        script.lines.append(f"# SB3 has no argument for {name}: {to_python(value)}")


def _sb3_net(script: _Script, name: str, value: Any) -> None:
    if name in ("hidden", "critic_hidden", "shared"):
        # SB3 shares the feature extractor, never the hidden layers: separate lists are separate networks.
        net = script.after.net if script.after is not None else None
        policy = list(net.hidden) if net is not None else list(value)
        critic = list(net.critic_hidden or net.hidden) if net is not None else policy
        script.network["net_arch"] = (
            str(policy) if script.algo == "dqn" else f"dict(pi={policy}, {'qf' if script.replays else 'vf'}={critic})"
        )
    elif name == "activation":
        script.network["activation_fn"] = f"torch.nn.{_ACTIVATIONS[str(value)]}"
    elif name == "log_std_init":
        script.network["log_std_init"] = to_python(value)
    elif name == "policy_gain":
        script.network["ortho_init"] = "True"
    else:
        script.lines.append(f"# SB3 has no argument for net.{name}: {to_python(value)}")


def _sb3_around(script: _Script, name: str, value: Any) -> None:
    env = script.after.env if script.after is not None else None
    obs, reward = (env.normalize_obs, env.normalize_reward) if env is not None else (name.endswith("obs"), name.endswith("reward"))
    normalize, id = f"env = VecNormalize(env, norm_obs={obs}, norm_reward={reward}", env.id if env is not None else "ENV"
    spelled = {
        "n_envs": f"env = make_vec_env({id!r}, n_envs={value})",
        "normalize_obs": f"{normalize})",
        "normalize_reward": f"{normalize})",
        "clip_reward": f"{normalize}, clip_reward={to_python(value)})",
        "clip_obs": f"{normalize}, clip_obs={to_python(value)})",
        "max_episode_steps": f"env = gymnasium.make({id!r}, max_episode_steps={value})",
        "frame_stack": f"env = VecFrameStack(env, n_stack={value})",
        "wrappers": "env = gymnasium.wrappers.RescaleAction(env, -1.0, 1.0)",
        "reward_scale": f"env = gymnasium.wrappers.TransformReward(env, lambda r: {to_python(value)} * r)  # evaluation too",
        "train_reward_scale": f"env = gymnasium.wrappers.TransformReward(env, lambda r: {to_python(value)} * r)  # training only",
        "train_reward_shift": f"env = gymnasium.wrappers.TransformReward(env, lambda r: r + {to_python(value)})  # training only",
        "time_in_obs": "env = gymnasium.wrappers.TimeAwareObservation(env)",
        "max_env_steps": f"model.learn(total_timesteps={value})",
        "eval_episodes": f"EvalCallback(..., n_eval_episodes={value})",
        "eval_deterministic": f"EvalCallback(..., deterministic={value})",
    }
    script.lines.append(spelled.get(name, f"# SB3 has no argument for {name}: {to_python(value)}"))


def _scheduled(value: Any) -> str:
    if not isinstance(value, Mapping):
        return to_python(value)
    start, end = value.get("start", 0.0), value.get("end", 0.0)
    last = f", {end:g}" if end else ""
    if value.get("warmup"):
        return f"warm_schedule({start:g}, {value['warmup']:g}{last})"
    return f"{'cosine' if value.get('schedule') == 'cosine' else 'linear'}_schedule({start:g}{last})"


# ── CleanRL ──


def _cleanrl(changes: Mapping[str, Any], after: Config | None) -> str:
    flags = []
    for setting, value in changes.items():
        section, _, name = setting.partition(".")
        if after is not None and after.algo.loop == "off_policy" and section == "algo":
            known = replay.cleanrl_flag(name, value, after.algo.name)
            flags.append(known or f"# in the script: {_in_script(setting, value)}")
        elif name == "learning_rate":
            flags += [
                f"--learning-rate {to_python(first_number(value))}",
                "--anneal-lr" if isinstance(value, Mapping) else "--no-anneal-lr",
            ]
            if isinstance(value, Mapping) and (value.get("schedule") == "cosine" or value.get("warmup") or value.get("end")):
                flags.append(f"# in the script, in place of the straight fall: {flow(value)}")
        elif name == "batch_size" and after is not None:
            flags.append(f"--num-minibatches {max(after.rollout_size // after.batch_rows, 1)}")
        elif name == "normalize_advantage":
            flags.append("--norm-adv" if value != "off" else "--no-norm-adv")
        elif name == "clip_range_vf":
            flags.append("--no-clip-vloss" if value is None else "--clip-vloss")
        elif name in _CLEANRL and section == "algo":
            flags.append(f"--{_CLEANRL[name]} {to_python(first_number(value))}")
        elif setting in ("env.n_envs", "run.max_env_steps"):
            flags.append(f"--num-envs {value}" if name == "n_envs" else f"--total-timesteps {value}")
        else:
            flags.append(f"# in the script: {_in_script(setting, value)}")
    return " ".join(sorted(flags, key=lambda flag: flag.startswith("#")))


def _in_script(setting: str, value: Any) -> str:
    """What CleanRL has no flag for is a line of its one file."""
    lines = {
        "env.normalize_obs": "env = gym.wrappers.NormalizeObservation(env)  (in make_env)",
        "env.normalize_reward": "env = gym.wrappers.NormalizeReward(env, gamma=args.gamma)  (in make_env)",
        "env.wrappers": "env = gym.wrappers.RescaleAction(env, -1.0, 1.0)  (in make_env)",
        "env.reward_scale": f"env = gym.wrappers.TransformReward(env, lambda r: {to_python(value)} * r)  (in make_env)",
        "env.train_reward_scale": f"env = gym.wrappers.TransformReward(env, lambda r: {to_python(value)} * r)  (in make_env, for training)",
        "env.train_reward_shift": f"env = gym.wrappers.TransformReward(env, lambda r: r + {to_python(value)})  (in make_env, for training)",
        "env.time_in_obs": "env = gym.wrappers.TimeAwareObservation(env)  (in make_env)",
        "env.max_episode_steps": f"gym.make(env_id, max_episode_steps={value})  (in make_env)",
        "env.frame_stack": f"env = gym.wrappers.FrameStackObservation(env, {value})  (in make_env)",
        "algo.optimizer": f"optim.{_OPTIMIZERS.get(str(value), str(value))}(agent.parameters(), lr=args.learning_rate)",
        "net.activation": f"nn.{_ACTIVATIONS.get(str(value), str(value))}()  (in Agent)",
        "net.policy_gain": f"layer_init(nn.Linear(...), std={to_python(value)})  (the actor's last layer)",
        "net.log_std_init": f"self.actor_logstd = nn.Parameter(torch.full((1, n), {to_python(value)}))",
    }
    return lines.get(setting, f"{setting.partition('.')[2]} = {to_python(value)}")


# ── gymnasium-solver ──


def _gymnasium_solver(changes: Mapping[str, Any], after: Config | None) -> str:
    names = {
        "learning_rate": "policy_lr",
        "normalize_advantage": "normalize_advantages",
        "wrappers": "env_wrappers",
        "name": "algo_id",
        "hidden": "hidden_dims",
    }
    return ", ".join(
        f"{names.get(setting.partition('.')[2], setting.partition('.')[2])}: {flow(value)}" for setting, value in changes.items()
    )
