"""Lines for a user's own training script that log what a check needs, under the very names that are read back."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from rlclinic.actions import Action
from rlclinic.runs.history import History

_TORCH: Final = {
    "train/metrics/kl_divergence": "((ratio - 1) - log_ratio).mean().item()",
    "train/metrics/clip_fraction": "((ratio - 1).abs() > clip_range).float().mean().item()",
    "train/metrics/explained_variance": "1 - (returns - values).var().item() / returns.var().item()",
    "train/metrics/entropy": "dist.entropy().mean().item()",
    "train/metrics/grad_norm/all": "torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm).item()  # the norm before clipping",
    "train/metrics/grad_norm/actor_head": "sum(p.grad.norm() ** 2 for p in actor_head.parameters()).sqrt().item()",
    "train/metrics/grad_norm/critic_head": "sum(p.grad.norm() ** 2 for p in critic_head.parameters()).sqrt().item()",
    "train/metrics/grad_norm/max": "max(norms)  # of this rollout's gradient steps",
    "train/loss/policy": "policy_loss.item()",
    "train/loss/value": "value_loss.item()",
    "train/loss/entropy": "-entropy.mean().item()",
    "train/loss/total": "loss.item()",
    "train/roll/ep_rew_mean": "np.mean(last_100_returns)",
    "train/roll/ep_len_mean": "np.mean(last_100_lengths)",
    "val/roll/ep_rew_mean": "np.mean(evaluation_returns)",
    "train/sentinel/ratio_first_dev": "(ratio - 1).abs().max().item()  # first minibatch of the first epoch, before the step",
    "train/sentinel/adv_logp_corr": "np.corrcoef(advantages, new_log_prob - old_log_prob)[0, 1]  # after the update",
    "train/sentinel/adv_std": "advantages.std().item()  # before scaling",
    "train/sentinel/return_std": "returns.std().item()",
    "train/sentinel/return_abs_p95": "returns.abs().quantile(0.95).item()",
    "train/sentinel/entropy_relative": "dist.entropy().mean().item() / math.log(n_actions)",
    "train/sentinel/obs_abs_max": "obs.abs().max().item()  # as the network sees it",
    "train/sentinel/obs_std_min": "obs.std(0).min().item()",
    "train/sentinel/obs_repeat": "(next_obs == obs).all(-1).float().mean().item()",
    "train/sentinel/action_at_bound": "((action <= low) | (action >= high)).float().mean().item()  # before clipping",
    "train/sentinel/updates": "gradient_steps_of_this_rollout",
    "train/sentinel/optimizer_steps": "optimizer.state[p]['step'].item()",
    "train/sentinel/next_obs_is_reset": "(final_obs == first_obs_of_next_episode).all(-1).float().mean().item()",
    "train/sentinel/terminated": "terminated.sum().item()",
    "train/sentinel/truncated": "truncated.sum().item()",
    "train/sentinel/weight_norm": "torch.cat([p.flatten() for p in model.parameters()]).norm().item()",
    "train/sentinel/reward_std": "rewards.std().item()",
    "train/sentinel/reward_nonzero": "(rewards != 0).float().mean().item()",
}
_CONFIG: Final = "config:"

CALLBACK: Final = (
    "from rlclinic.sentinels.sb3 import SentinelCallback",
    "model.learn(…, callback=[SentinelCallback(), *yours])  # logs every sentinel and keeps the settings; see docs/sentinels.md",
)
"""What a script that uses Stable-Baselines3 needs for all sentinels, gradients and settings at once."""
_EVALUATION: Final = (
    "EvalCallback(eval_env, eval_freq=…, n_eval_episodes=20, log_path=…)  # wrapped as the training env is; beside your callbacks"
)
_LOOP: Final = (
    "sentinels = Sentinels(agent, optimizer, max_grad_norm=…)  # once; from rlclinic.sentinels.torch_loop import Sentinels",
    "sentinels.rollout(obs=obs, actions=actions, logprobs=logprobs, advantages=advantages, "
    "returns=returns, values=values, rewards=rewards)  # when they are there",
    "sentinels.minibatch(ratio=ratio, advantages=mb_advantages)  # before each gradient step",
    "sentinels.row(writer, global_step)  # after the update; see docs/sentinels.md",
)
"""The same for a loop of CleanRL's kind."""
_WHOLE_LOOP: Final = (
    "from rlclinic.sentinels.torch_loop import Sentinels",
    "sentinels = Sentinels(agent, optimizer, max_grad_norm=args.max_grad_norm)  # once",
    "sentinels.rollout(obs=obs, actions=actions, logprobs=logprobs, advantages=advantages, returns=returns, values=values,",
    "                  rewards=rewards, starts=dones)  # when advantages and returns are there",
    "sentinels.minibatch(ratio=ratio, advantages=mb_advantages)  # in the minibatch loop, when the ratio is there",
    "sentinels.row(writer, global_step)  # after the update",
)
_CALLBACKS: Final = {
    "sb3": ("from rlclinic.sentinels.sb3 import SentinelCallback", "model.learn(total_timesteps, callback=SentinelCallback())"),
    "cleanrl": _WHOLE_LOOP,
    "rllib": ("from rlclinic.sentinels.rllib import SentinelCallback", "config = config.callbacks(SentinelCallback)"),
    "tianshou": (
        "from rlclinic.sentinels.tianshou import SentinelHook",
        "hook = SentinelHook(writer, env=train_envs, policy=policy, settings=vars(args))",
        "collector = Collector(algorithm, train_envs, buffer, on_step_hook=hook)",
    ),
    "skrl": ("from rlclinic.sentinels.skrl import watch", "watch(agent, env=env)  # before the trainer starts"),
}
"""By source: what makes every check possible at once."""
_OURS: Final = ("train/sentinel/", "train/metrics/grad_norm/")
_NOT_THERE: Final = tuple(f"train/sentinel/{name}" for name in ("random_", "fingerprint_optimizer", "fingerprint_random"))
"""What the callback and the recipe leave out: they never step an environment on their own, and know only part of the state."""
_SENTINEL_LINES: Final = frozenset((*CALLBACK, *_LOOP))
_SENTINEL_LOGS: Final = tuple(f'log("{prefix}' for prefix in _OURS)
_NOT_LOGGED: Final = tuple(f'log("{prefix}' for prefix in _NOT_THERE)
_RECIPES: Final = {line: place for place, line in enumerate((*CALLBACK, _EVALUATION, *_LOOP))}


def recipe(source: str, pasted: Iterable[Iterable[str]]) -> list[str]:
    """Lines for the user's script that make the checks possible: a callback where there is one for its framework, else what to log."""
    known, wanted = _CALLBACKS.get(source), [list(lines) for lines in pasted]
    # Where no line asks for a sentinel (they are logged already, or another thing is missing), the callback would add nothing.
    lines = {line for lines in wanted for line in lines if not line.startswith(_NOT_LOGGED)}
    helps = any(line in _SENTINEL_LINES or line.startswith(_SENTINEL_LOGS) for line in lines)
    return list(known) if known and helps else most_useful(wanted)


def is_watched(history: History) -> bool:
    """Whether a log holds sentinels already: its script has the callback, and need not be told of it.

    Series have their names as the log has them: readers give some of a framework's own columns the name of a sentinel.
    """
    return any("sentinel/" in series.name for series in history.series.values())


def has_settings(history: History) -> bool:
    """Whether a file of settings lies beside the log (a callback's, or a saved model): no log holds the discount."""
    return "algo.gamma" in history.settings


def most_useful(pasted: Iterable[Iterable[str]]) -> list[str]:
    """The lines of many checks, those first that make the most of them possible; remarks about settings last."""
    counts = Counter(line for lines in pasted for line in lines)
    last = len(_RECIPES)
    return sorted(counts, key=lambda line: (_RECIPES.get(line, last), not line.startswith("log("), "…" in line, -counts[line], line))


def lines_for(missing: Iterable[str], histories: Sequence[History]) -> tuple[str, ...]:
    """What to add to the script of these runs for each missing input."""
    watched, settled = all(map(is_watched, histories)), all(map(has_settings, histories))
    return lines(missing, histories[0].source, watched=watched, settled=settled)


def lines(missing: Iterable[str], source: str = "", *, watched: bool = False, settled: bool = False) -> tuple[str, ...]:
    """What to add to the script (or to the command) for each missing input; `source` is whose log it is, as a History says.

    `watched`: the log holds sentinels already. What they leave out is not to be had by adding them once more. `settled`: nor are settings
    that the file beside the log leaves out.
    """
    pasted: list[str] = []
    for name in (option for names in missing for option in names.split(" or ")[:1]):
        ours = name.startswith(_OURS) and not name.startswith(_NOT_THERE)
        if watched and source in _CALLBACKS and (ours or (settled and name.startswith(_CONFIG))):
            continue
        if watched and source == "sb3" and name.startswith(_CONFIG):
            pasted.append(f"# keep the callback's sentinels.json beside the log: it holds {name.removeprefix(_CONFIG)}")
        elif source == "sb3" and (ours or name.startswith(_CONFIG)):
            pasted += CALLBACK
        elif source == "sb3" and name.startswith("val/"):
            pasted.append(_EVALUATION)
        elif source == "cleanrl" and ours:
            pasted += _LOOP
        elif name.startswith(_CONFIG):
            pasted.append(f"# put {name.removeprefix(_CONFIG)} into the run's config file, or into the mapping's settings")
        elif name in ("threshold", "budget"):
            pasted.append(Action.quoted(f"rlclinic diagnose … --{name} N"))
        elif watched and source in _CALLBACKS and source != "cleanrl":
            # The framework writes its own log: there is no loop of the user's to put a line into, and the callback is in place.
            continue
        elif name in _TORCH:
            pasted.append(f'log("{name}", {_TORCH[name]})' if "  #" not in _TORCH[name] else _commented(name))
        else:
            pasted.append(f'log("{name}", …)  # rlclinic runs metrics --list shows what it is in our own runs')
    return tuple(dict.fromkeys(pasted))


def _commented(name: str) -> str:
    code, comment = _TORCH[name].split("  #")
    return f'log("{name}", {code})  #{comment}'
