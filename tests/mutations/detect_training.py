"""Detectors for one iteration of a small cohort: what a rollout stores, what an update does, who is touched by it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor

from rlclinic.config import Config, EnvConfig
from rlclinic.training import envs, evaluation, members
from rlclinic.training.data.episodes import Episodes
from rlclinic.training.data.rollouts import Batch, Rollout
from rlclinic.training.fast import gradients
from rlclinic.training.loops import on_policy
from rlclinic.training.maths import distributions, normalize
from rlclinic.training.nets import mlp
from tests.mutations.detect_maths import near, numbers
from tests.mutations.tiny import CPU, Cohort, config, rows_of

ENGINES = ("eager", "autograd")
NORMALIZED = {"normalize_obs": True, "normalize_reward": True, "max_episode_steps": 7}


def the_first_ratio_is_one() -> None:
    """Before its first step an update sees exactly the policy that acted: in every rollout, for every kind of action."""
    for made in (*in_both_engines(), config("probe:continuous", net={"log_std_init": -0.5}), config(env=NORMALIZED)):
        cohort = Cohort([made])
        for iteration in range(3):
            _, _, readings = cohort.iterate()
            first = float(readings["ratio_deviation"][0].max())
            assert first < 1e-4, f"{made.env.id}: ratio - 1 is {first:.3g} at the first minibatch of iteration {iteration}"
            assert float(readings["ratio_deviation"][-1].min()) > 1e-6, "the policy never moved from the one that acted"


def in_both_engines(**parts: dict[str, Any]) -> list[Config]:
    return [config("CartPole-v1", **parts, run={"engine": engine}) for engine in ENGINES]


def forbidden_actions_have_no_probability() -> None:
    """A masked action is never likely, neither when acting nor in the update."""
    policy = mlp.build(config().net, 4, distributions.Categorical(3))
    params = policy.layout.views(torch.cat([mlp.initialize(policy, seed) for seed in (0, 1)]))
    obs, mask = numbers(2, 6, 4), torch.tensor([True, False, True]).expand(2, 6, 3)
    for dist in (mlp.actor(policy, params, obs, mask), mlp.actor_critic(policy, params, obs, mask)[0]):
        assert float(dist.softmax(-1)[..., 1].max()) == 0, "a forbidden action has a probability"
        near(dist.softmax(-1)[..., 0] + dist.softmax(-1)[..., 2], torch.ones(2, 6), "allowed actions")


def the_rollout_is_what_happened() -> None:
    """Replayed action by action in a second env: observations, ends, what the networks saw, and the actions' probabilities."""
    cohort = Cohort([config(env=NORMALIZED)])
    for _ in range(2):
        cohort.iterate()
    stats, state = cohort.learner.obs_stats, cohort.env.state()
    rollout = cohort.collect()
    other = envs.make(cohort.config.env, [0, 1], 2)
    obs = other.load_state(state)
    for t in range(rollout.reward.shape[1]):
        near(rollout.obs[:, t], obs, f"observation acted on in step {t}", 0)
        step = other.step(rollout.action[:, t])
        near(rollout.next_obs[:, t], step.next_obs, f"next observation of step {t}", 0)
        obs = step.obs
        near(rollout.following[:, t], obs, f"observation after step {t}", 0)
    assert bool(rollout.end.any()), "the rollout has an episode's end to look at"
    assert stats is not None
    for seen, raw in ((rollout.net_obs, rollout.obs), (rollout.net_next_obs, rollout.next_obs)):
        mean, deviation = (x.float().view(2, 1, 1, 4) for x in (stats.mean, stats.var.sqrt()))
        near(seen, ((raw - mean) / deviation).clamp(-10, 10), "what the networks saw", 1e-4)
    near(rollout.log_prob, torch.distributions.Categorical(logits=rollout.dist).log_prob(rollout.action), "log-probability of the action")


def box_actions_are_stored_raw() -> None:
    """The action that was drawn, with its own log-probability; only the environment clips."""
    rollout = Cohort([config("probe:continuous")]).collect()
    mean, log_std = rollout.dist.chunk(2, -1)
    normal = torch.distributions.Normal(mean, log_std.exp())
    outside = float((rollout.action.abs() > 1).float().mean())
    assert 0.1 < outside < 0.6, f"{outside:.2f} of the actions lie outside of the box; a standard normal has 0.32 there"
    near(rollout.log_prob, normal.log_prob(rollout.action).sum(-1), "log-probability of the raw action")


def targets_use_the_final_observation() -> None:
    """At a time limit the value target is reward + gamma V(final observation), not V(the next episode's first one)."""
    cohort = Cohort([config(env={"max_episode_steps": 5}, algo={"gamma": 0.9})])
    rollout = cohort.collect()
    whole = cohort.assess(rollout)
    params = cohort.plan.policy.layout.views(cohort.learner.flat)
    cut = rollout.truncated & ~rollout.terminated
    assert bool(cut.any()), "an episode met its time limit"
    value = mlp.critic(cohort.plan.policy, params, rollout.next_obs.flatten(1, 2)).view_as(rollout.reward)
    near(whole.returns.view_as(rollout.reward)[cut], (rollout.reward + 0.9 * value)[cut], "value target at a time limit", 1e-4)


def written_gradients_are_autograds() -> None:
    """The chain rule by hand against the definition: every algorithm, kinds of action, shared and separate trunks, rows beyond the clip."""
    cases: list[dict[str, dict[str, Any]]] = [
        {"net": {"hidden": [16, 8]}, "algo": {"ent_coef": 0.1}},
        {"net": {"shared": True}, "algo": {"clip_range_vf": 0.2}},
        {"net": {"state_dependent_std": True}, "algo": {"ent_coef": 0.1}},
        {"algo": {"name": "a2c", "n_steps": 16, "ent_coef": 0.1}},
        {"algo": {"name": "reinforce", "n_steps": 16}},
    ]
    for parts in cases:
        for env_id in ("CartPole-v1", "Pendulum-v1"):
            cohort = Cohort([config(env_id, **parts)])
            whole, hp = cohort.assess(cohort.collect()), cohort.numbers()
            rows = whole.log_prob.shape
            batch = whole._replace(
                log_prob=whole.log_prob - 0.3 * numbers(*rows), advantage=numbers(*rows, seed=1), value=whole.value + numbers(*rows, seed=2)
            )
            found, readings = gradients.written_out(cohort.plan, cohort.learner.flat, batch, hp)
            expected, defined = gradients.by_autograd(cohort.plan, cohort.learner.flat, batch, hp)
            near(found, expected, f"gradient of {env_id} with {parts}", 1e-4)
            for name, reading in defined.items():
                near(readings[name], reading, f"{name} of {env_id} with {parts}", 1e-4)


def an_update_improves_every_term() -> None:
    """Good actions become more likely, bad ones less, the critic nears its targets, a bonus raises entropy; all layers move."""
    for engine in ENGINES:
        plain, eager = ({"max_grad_norm": 100.0, "normalize_advantage": "off", "ent_coef": ent_coef} for ent_coef in (0.0, 0.5))
        cohort, bold = (Cohort([config(algo=algo, net={"policy_gain": 1.0}, run={"engine": engine})]) for algo in (plain, eager))
        policy, batch = cohort.plan.policy, _batch(cohort)
        before = policy.layout.views(cohort.learner.flat)
        after = policy.layout.views(_stepped(cohort, batch))
        change = _log_prob(cohort, after, batch) - batch.log_prob
        assert bool(((change * batch.advantage).mean(1) > 0).all()), "actions with a positive advantage did not become more likely"
        error = [(mlp.critic(policy, params, batch.obs) - batch.returns).square().mean(1) for params in (before, after)]
        assert bool((error[1] < error[0]).all()), f"the critic's error rose from {error[0].tolist()} to {error[1].tolist()}"
        still = [name for name in policy.layout.shapes if torch.equal(before[name], after[name])]
        assert not still, f"{still} did not move"
        bolder = policy.layout.views(_stepped(bold, batch._replace(advantage=torch.zeros_like(batch.advantage))))
        entropy = [policy.distribution.entropy(mlp.actor(policy, params, batch.obs)).mean(1) for params in (before, bolder)]
        assert bool((entropy[1] > entropy[0]).all()), f"an entropy bonus took entropy from {entropy[0].tolist()} to {entropy[1].tolist()}"
        _, readings = gradients.gradient(cohort.plan, after.flat, batch, cohort.numbers())
        near(readings["log_ratio"], change, "log-ratio after a step", 1e-4)


def masked_rows_keep_their_mask_in_the_update() -> None:
    """Where an action was forbidden, the update's ratio is that of the masked policy: 1 before the first step."""
    for engine in ENGINES:
        cohort = Cohort([config(run={"engine": engine})])
        batch = _batch(cohort)
        mask = torch.nn.functional.one_hot(batch.action, 2).bool()  # the only allowed action is the one that was taken
        certain = batch._replace(log_prob=torch.zeros_like(batch.log_prob), action_mask=mask)
        _, readings = gradients.gradient(cohort.plan, cohort.learner.flat, certain, cohort.numbers())
        near(readings["log_ratio"], torch.zeros(2, 32), "log-ratio of the only allowed action")


def _batch(cohort: Cohort) -> Batch:
    obs, action = numbers(2, 32, 4), (numbers(2, 32, seed=1) > 0).long()
    batch = Batch(obs, action, obs, numbers(2, 32, seed=2), numbers(2, 32, seed=3), torch.zeros(2, 32), None, None)
    return batch._replace(log_prob=_log_prob(cohort, cohort.plan.policy.layout.views(cohort.learner.flat), batch))


def _log_prob(cohort: Cohort, params: Mapping[str, Tensor], batch: Batch) -> Tensor:
    dist = mlp.actor(cohort.plan.policy, params, batch.obs)
    return torch.distributions.Categorical(logits=dist).log_prob(batch.action)


def _stepped(cohort: Cohort, batch: Batch) -> Tensor:
    return on_policy.update_step(cohort.plan, cohort.learner.flat, cohort.learner.optimizer, batch, cohort.numbers(), None)[0]


def a_member_learns_as_it_would_alone() -> None:
    """Bit for bit, with other numbers beside it and a neighbour that is frozen; the frozen one keeps all it has."""
    numbers_of = (
        {"learning_rate": 1e-3, "vf_coef": 0.1},
        {"learning_rate": 1e-2, "vf_coef": 2.0},
        {"max_grad_norm": 0.01, "ent_coef": 0.1},
    )
    for engine in ENGINES:
        cohort = Cohort([config(env=NORMALIZED, algo=each, run={"engine": engine}) for each in numbers_of], seeds=(0, 1, 2))
        cohort.iterate()
        whole = cohort.assess(cohort.collect())
        active = torch.tensor([[True], [False], [True]])
        after, readings = cohort.learn(whole, active)
        assert torch.equal(after.flat[1], cohort.learner.flat[1]), "a frozen member's weights moved"
        frozen = zip(after.optimizer, cohort.learner.optimizer, strict=True)
        assert all(torch.equal(new[1], old[1]) for new, old in frozen), "a frozen member's optimizer state moved"
        assert readings["total"].shape == (4, 3), f"losses of 4 steps and 3 members have the shape {tuple(readings['total'].shape)}"
        for index in (0, 2):
            alone, _ = cohort.alone(index).learn(rows_of(whole, index))
            assert torch.equal(after.flat[index], alone.flat[0]), f"member {index} learned something else than it would alone"


def seeds_envs_episodes_and_rollouts_differ() -> None:
    """Nothing is drawn twice: weights per seed, starts per seed, env and episode, action noise per rollout."""
    cohort = Cohort([config(env={"max_episode_steps": 3})])
    assert not torch.equal(cohort.learner.flat[0], cohort.learner.flat[1]), "two seeds start from the same weights"
    starts = [cohort.position.obs]
    rollouts = []
    for _ in range(2):
        rollouts.append(rollout := cohort.collect())
        starts += [rollout.following[:, t] for t in range(rollout.end.shape[1]) if bool(rollout.end[:, t].all())]
        cohort.iteration += 1
    first = torch.cat(starts, 1).flatten(0, 1)
    assert first.shape[0] >= 12, f"only {first.shape[0]} episodes started"
    assert first.unique(dim=0).shape[0] == first.shape[0], "two episodes start alike"
    chosen = [rollout.action.transpose(1, 2).flatten(0, 1) for rollout in rollouts]  # a row per member and env
    assert torch.cat(chosen).unique(dim=0).shape[0] == 8, "two envs, members or rollouts drew the same noise"


def weights_start_as_the_gains_say() -> None:
    """Orthogonal times gain: rows of the policy's last layer have length 0.01, hidden ones sqrt(2)."""
    policy = mlp.build(config().net, 4, distributions.Categorical(2))
    params = policy.layout.views(mlp.initialize(policy, 0))
    near(params["policy.weight"].squeeze(0).norm(dim=1), [0.01, 0.01], "policy head", 1e-6)
    near(params["actor.0.weight"].squeeze(0).norm(dim=1), [2**0.5] * 4, "hidden layer")


def numbers_follow_their_schedules() -> None:
    """Halfway through the budget a linear schedule is halfway; each member has its own; value_lr governs the critic alone."""
    linear = {"start": 1e-3, "end": 0.0, "schedule": "linear"}
    made = [config(algo={"learning_rate": linear, "value_lr": 5e-2}), config(algo={"learning_rate": 1e-4, "vf_coef": 1.0})]
    cohort = Cohort(made)
    hp = members.hyperparameters(cohort.members, made[0].run.max_env_steps // 2, cohort.plan.policy, CPU)
    near(hp.learning_rate, [[5e-4], [1e-4]], "learning rates halfway")
    near(hp.vf_coef, [[0.5], [1.0]], "value coefficients")
    rates = cohort.plan.policy.layout.views(hp.step_size)
    for name, rate in rates.items():
        expected = 5e-2 if name.startswith(("critic.", "value.")) else 5e-4
        near(rate[0], torch.full_like(rate[0], expected), f"step size of {name}")


def cartpole_is_gymnasiums() -> None:
    """One step from states near the bounds, then a whole episode's end: the limit, both flags, the final observation, the restart."""
    env = envs.make(EnvConfig(id="CartPole-v1", max_episode_steps=4), [0, 1], 40)
    reference: Any = gymnasium.make("CartPole-v1").unwrapped
    wide = numbers(2, 40, 4) * torch.tensor([1.6, 1.0, 0.14, 1.0])
    env.load_state(env.state() | {"state": wide})
    action = (numbers(2, 40, seed=1) > 0).long()
    step = env.step(action)
    for m, n in np.ndindex(2, 40):
        reference.reset()
        reference.state = wide[m, n].double().numpy()
        reference.steps_beyond_terminated = None
        obs, reward, terminated, *_ = reference.step(int(action[m, n]))
        near(step.next_obs[m, n], obs.tolist(), "next observation", 1e-4)
        assert bool(step.terminated[m, n]) == terminated, f"from {wide[m, n].tolist()}: terminated is {bool(step.terminated[m, n])}"
        assert float(step.reward[m, n]) == reward
    assert 0.1 < float(step.terminated.float().mean()) < 0.9, "states on both sides of the bounds"
    _check_time_limit(env)


def _check_time_limit(env: envs.VecEnv) -> None:
    env.reset()
    for _ in range(4):
        step = env.step(torch.ones(2, 40, dtype=torch.int64))
    assert bool(step.truncated.all()), "four steps did not meet a time limit of four"
    assert not bool(step.terminated.any()), "a time limit was reported as termination"
    assert float(step.obs.abs().max()) <= 0.05, "no new episode was started"
    assert float(step.next_obs.abs().amax(-1).min()) > 0.05, "the final observation is not where the episode ended"
    later = env.step(torch.zeros(2, 40, dtype=torch.int64))
    assert not bool((later.truncated | later.terminated).any()), "the new episode ended at once"
    assert bool((later.obs != step.obs).any(-1).all()), "the observation after a step is the one before it"


def evaluation_is_a_plain_loop() -> None:
    """Against stepping the evaluation env by hand: normalized observations, the most likely action or a sample, one episode each."""
    cohort = Cohort([config(env={"normalize_obs": True}, net={"policy_gain": 1.0})])
    cohort.iterate()
    stats = cohort.learner.obs_stats
    assert stats is not None
    cohort.learner = replace(cohort.learner, obs_stats=stats._replace(mean=stats.mean + 0.03))
    for deterministic in (True, False):
        env = envs.make(cohort.config.env, [0, 1], 6, evaluation=True)
        found = evaluation.evaluate(
            cohort.plan, cohort.learner, env, deterministic=deterministic, seed=cohort.seed.squeeze(-1), wanted=[True, True]
        )
        expected = _played(cohort, env, deterministic)
        near(torch.from_numpy(found.returns), expected, f"returns with deterministic={deterministic}", 0)
        near(torch.from_numpy(found.lengths), expected, f"lengths with deterministic={deterministic}", 0)


def _played(cohort: Cohort, env: envs.VecEnv, deterministic: bool) -> Tensor:
    """CartPole's returns, which are its lengths; noise from the stream that evaluation uses."""
    policy, stats = cohort.plan.policy, cohort.learner.obs_stats
    params, obs = policy.layout.views(cohort.learner.flat), env.reset()
    total, alive = torch.zeros(2, 6, dtype=torch.float64), torch.ones(2, 6, dtype=torch.bool)
    assert stats is not None
    for t in range(500):
        logits = mlp.actor(policy, params, normalize.observations(stats, obs, 10.0))
        noise = policy.distribution.noise(cohort.seed.squeeze(-1), t, torch.arange(6).view(1, -1))
        step = env.step((logits if deterministic else logits + noise).argmax(-1))
        total += alive
        alive &= ~(step.terminated | step.truncated)
        obs = step.obs
        if not alive.any():
            break
    return total


def episodes_are_counted_by_hand() -> None:
    """Returns and lengths of two envs over two rollouts, one episode across both."""
    reward = torch.tensor([[[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]])
    end = torch.tensor([[[False, False], [True, False], [False, False]]])
    blank = torch.zeros(1, 3, 2)
    rollout = Rollout(blank, blank, blank, blank, blank, reward, end, torch.zeros_like(end), blank, blank, blank)
    episodes = Episodes(1, 2)
    episodes.add(rollout)
    elapsed = episodes.add(replace(rollout, terminated=torch.tensor([[[True, True], [False, True], [True, False]]])))
    wanted = [(3.0, 2.0, _NAN), (4.0, 2.0, _NAN), (70.0, 4.0, _NAN), (20.0, 1.0, _NAN), (5.0, 2.0, _NAN)]
    assert wanted == [tuple(each) for each in episodes.recent(0).tolist()]
    near(elapsed[0], [[1.0, 3.0], [0.0, 0.0], [1.0, 0.0]], "steps elapsed in the episode")


class _Nan(float):
    """A success that was not reported equals any other one."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and other != other

    __hash__ = float.__hash__


_NAN = _Nan("nan")

DETECTORS = (
    weights_start_as_the_gains_say,
    numbers_follow_their_schedules,
    episodes_are_counted_by_hand,
    forbidden_actions_have_no_probability,
    box_actions_are_stored_raw,
    masked_rows_keep_their_mask_in_the_update,
    an_update_improves_every_term,
    written_gradients_are_autograds,
    the_rollout_is_what_happened,
    targets_use_the_final_observation,
    cartpole_is_gymnasiums,
    the_first_ratio_is_one,
    a_member_learns_as_it_would_alone,
    seeds_envs_episodes_and_rollouts_differ,
    evaluation_is_a_plain_loop,
)
