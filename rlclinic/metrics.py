"""The metric dictionary: what every column of metrics.csv means, its unit, how it is estimated, and what is healthy.

A band is where healthy runs usually are, with its source and the condition under which it holds; outside of it is a
question, not a verdict. A column without a band has no level that holds on every environment.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

STEPS: Final = "total_timesteps"
EVAL_RETURN: Final = "val/roll/ep_rew_mean"
TRAIN_RETURN: Final = "train/roll/ep_rew_mean"
INFINITY: Final = float("inf")
ROW: Final = "each row"
MEAN: Final = "mean over the gradient steps of the row"
LAST100: Final = "last 100 episodes"
EVALUATION: Final = "episodes of one evaluation; blank in rows without one"
ROLLOUT: Final = "transitions of the row's last rollout"
TESTIMONY: Final = "up to 512 neighbouring transitions (rewards, starts: 2,048), about 20 times in a run; blank otherwise"
PROBE: Final = "up to 128 transitions of the rollout, about 40 times in a run; blank otherwise"


class Band(NamedTuple):
    """Where healthy runs usually are."""

    low: float
    high: float
    source: str
    """A key of rlclinic.references, or "definition" where the number follows from what it measures."""
    when: str = "always"


@dataclass(frozen=True, slots=True)
class Metric:
    """One column."""

    name: str
    meaning: str
    unit: str
    estimator: str
    band: Band | None = None

    @property
    def clocked(self) -> bool:
        """Depends on the clock or the machine: not the same bytes in two runs of one seed."""
        return self.name.startswith("time")


def _table(prefix: str, estimator: str, text: str, bands: dict[str, Band] | None = None) -> list[Metric]:
    """Metrics from lines of `name | unit | meaning`, or `name | unit | meaning | estimator`."""
    found = []
    for line in text.strip().splitlines():
        name, unit, meaning, *own = (cell.strip() for cell in line.split(" | "))
        found.append(Metric(prefix + name, meaning, unit, own[0] if own else estimator, (bands or {}).get(name)))
    return found


_COUNTERS = _table("", ROW, """
    time | unix s | When the row was made.
    total_timesteps | env steps | Agent steps over all envs of the run: the axis of every curve. With recorded data: gradient steps.
    epoch | iterations | Rollouts collected and learned from.
    total_episodes | episodes | Training episodes that have ended.
""")  # fmt: skip

_ROLL = _table("train/roll/", LAST100, """
    ep_rew_mean | return | Mean return of training episodes, with exploration; the env's own reward, before any normalization.
    ep_rew_std | return | Standard deviation of those returns.
    ep_rew_best | return | The best single training episode so far. | all episodes so far
    ep_len_mean | steps | Mean length of training episodes.
    success_rate | share | Share of episodes that the env called a success (info["is_success"] or ["success"]); blank if it says nothing.
    ep_rew_clipped_mean | return | Mean return of those episodes in rewards as learning saw them; only with env.clip_raw_reward.
""")  # fmt: skip

_LOSSES = _table("train/loss/", MEAN, """
    policy | - | Policy loss, unweighted. Its level means little: it is near zero by construction and need not fall.
    value | return² | Squared error of the critic against its targets, unweighted.
    entropy | nats | Minus the policy's mean entropy.
    total | - | What the optimizer minimizes: policy + vf_coef x value + ent_coef x entropy.
""")  # fmt: skip

_METRICS = _table("train/metrics/", MEAN, """
    kl_divergence | nats | How far the policy moved from the one that collected the data. | k3 (never negative), mean over the last epoch
    clip_fraction | share | Share of samples whose probability ratio left the clip range (PPO).
    explained_variance | share | 1 - Var(target - value) / Var(target) before the update; blank if targets hardly vary. | rollout
    entropy | nats | The policy's mean entropy; for continuous actions it may be negative.
""", {
    "kl_divergence": Band(0.0, 0.05, "raffin2021sb3", "PPO, after the first updates; with what the return does, never alone"),
    "clip_fraction": Band(0.0, 0.5, "huang2022details", "PPO; low with low KL is a weak update, low with high KL a clip that is off"),
    "explained_variance": Band(0.0, 1.0, "schulman2016nuts", "after the first tenth of the budget; negative is worse than a constant"),
})  # fmt: skip

_GRADIENTS = _table("train/metrics/grad_norm/", MEAN, """
    all | - | Norm of the whole gradient before clipping.
    actor_head | - | Norm of the part that belongs to the policy's last layer (and log_std).
    critic_head | - | Norm of the part that belongs to the critic's last layer.
    trunk | - | Norm of the part that belongs to the hidden layers.
    p50 | - | Median over gradient steps of the whole norm. | quantile over the gradient steps of the row
    p95 | - | 95th percentile over gradient steps of the whole norm. | quantile over the gradient steps of the row
    max | - | Largest whole norm. | maximum over the gradient steps of the row
    clipped | share | Share of gradient steps that max_grad_norm shortened; blank without a limit.
""", {
    "clipped": Band(0.0, 0.5, "godbole2023playbook", "supervised learning; PPO with the usual 0.5 often clips more early on"),
})  # fmt: skip

_VALIDATION = _table("val/roll/", EVALUATION, """
    ep_rew_mean | return | Mean return of evaluation episodes: own envs, fixed start states, greedy unless the config says otherwise.
    ep_rew_std | return | Standard deviation of those returns over episodes.
    ep_rew_min | return | The worst episode.
    ep_len_mean | steps | Mean length of those episodes.
    success_rate | share | Share of them that the env called a success; one without a report is none; blank if it reports none at all.
""")  # fmt: skip

_TIME = _table("time/", "seconds since the row before, of the whole process (members share them)", """
    fps | env steps/s | Env steps per second of one run, without evaluation and writing. | since the row before
    env | s | Stepping environments.
    act | s | Choosing actions.
    learn | s | Advantages and gradient steps.
    sentinels | s | Computing sentinels.
    eval | s | Evaluating.
    write | s | Writing rows, status and checkpoints.
""")  # fmt: skip

_HYPERPARAMETERS = _table("train/hp/", "the value applied in the row's last iteration", """
    learning_rate | - | Step size of the optimizer.
    value_lr | - | Step size of the critic where it has its own; blank otherwise.
    gamma | - | Discount: rewards 1 / (1 - gamma) steps ahead still count.
    gae_lambda | - | Mixing of short (0, biased) and long (1, noisy) advantage estimates.
    rho_clip | - | V-trace: the most that one step may count; without it, unused.
    c_clip | - | V-trace: the most that a step may pass on of what came after it; without it, unused.
    clip_range | - | How far an update may move an action's probability ratio from 1.
    clip_range_vf | return | How far an update may move a value; blank when off.
    target_kl | nats | An iteration's updates end when KL passes 1.5 times this; blank when off.
    ent_coef | - | Weight of the entropy bonus.
    vf_coef | - | Weight of the value loss.
    max_grad_norm | - | Norm to which gradients are shortened; blank when off.
""")  # fmt: skip

_SENTINELS = _table("train/sentinel/", ROLLOUT, """
    ratio_first_dev | - | Largest deviation of the ratio from 1 before any step: not 0 means wrong log-probabilities. | first minibatch
    adv_logp_corr | correlation | Correlation of advantage with the change in log-probability: good actions get likelier. | last minibatch
    adv_mean | return | Mean advantage before scaling.
    adv_std | return | Standard deviation of advantages before scaling: 0 means that there is nothing to learn from.
    return_mean | return | Mean of the critic's targets.
    return_std | return | Standard deviation of the critic's targets: explained variance means nothing where it is near 0.
    return_abs_p95 | return | 95th percentile of the targets' size.
    value_mean | return | Mean of the critic's predictions before the update.
    value_std | return | Standard deviation of the critic's predictions before the update.
    ess | share | Share of samples that still count after reweighting to the new policy: 1 when nothing moved. | last minibatch
    early_stop_epoch | epochs | The epoch at which target_kl ended the updates; blank if it did not.
    updates | gradient steps | Gradient steps that were applied in the row's last iteration.
    update_ratio_min | share | Smallest ratio over layers of an iteration's weight change to the weight's norm.
    update_ratio_max | share | Largest such ratio.
    update_ratio_worst | index | Which weight matrix has the ratio furthest from 1e-3 on a log scale.
    obs_abs_max | obs | Largest component of what the networks are shown.
    obs_abs_worst | index | Which component that is.
    obs_std_min | obs | Smallest standard deviation over components: 0 is a component that never changes.
    obs_std_worst | index | Which component that is.
    obs_mean_abs_max | obs | Largest mean over components.
    obs_out_of_bounds | share | Share of observation components that left the bounds which the env declares; blank if it has none.
    obs_repeat | share | Share of steps whose observation did not change.
    action_at_bound | share | Share of continuous action components at or beyond a bound before clipping.
    action_top_share | share | Share of the most frequent action (discrete).
    action_std_min | action | Smallest standard deviation of the policy over action dimensions (continuous).
    action_std_max | action | Largest such standard deviation.
    entropy_relative | share | Entropy of the policy that collected as a share of the largest possible (discrete): starts near 1, falls.
    reward_mean | reward | Mean reward per step, as the env gives it.
    reward_std | reward | Standard deviation of the reward per step.
    reward_min | reward | Smallest reward.
    reward_max | reward | Largest reward.
    reward_nonzero | share | Share of steps with a reward other than 0.
    reward_trained_std | reward | Standard deviation of the reward that is learned from, after normalization and clipping.
    terminated | count | Episodes of the rollout that ended in a terminal state.
    truncated | count | Episodes of the rollout that a time limit cut off.
    bootstrap_mass | share | How much of all targets comes from values behind a time limit.
    next_obs_is_reset | share | Share of episode ends whose final observation is the next episode's first one: overwritten.
    weight_norm | - | Norm of all weights before the update.
    optimizer_steps | gradient steps | Steps that the optimizer has counted since the start.
    kl_first_epoch | nats | `kl_divergence` in the first epoch; the rest came later. | k3, mean over each iteration's first epoch
    kl_epoch_min | nats | `kl_divergence` of the epoch that stayed nearest. | k3, mean over the iterations of a row
    kl_epoch_max | nats | `kl_divergence` of the epoch that went furthest: later epochs reuse the data, and drift. | as kl_epoch_min
    kl_epoch_worst | epoch | Which epoch that was, from 0; one that is not the last came back. | as kl_epoch_min
    clip_fraction_first_epoch | share | `clip_fraction` in the first epoch: many there point at wrong log-probabilities. | first epochs
""", {
    "ratio_first_dev": Band(0.0, 1e-4, "definition", "PPO; float32 rounding only"),
    "ess": Band(0.0, 1.0, "definition"),
    "return_abs_p95": Band(0.0, 10.0, "jones2021debugging", "larger targets slow the critic down, or blow it up"),
    "obs_abs_max": Band(0.0, 10.0, "schulman2016nuts", "what the networks are shown"),
    "obs_out_of_bounds": Band(0.0, 0.0, "definition"),
    "next_obs_is_reset": Band(0.0, 0.0, "pardo2018time", "envs that do not start where they end"),
    "entropy_relative": Band(0.0, 1.0, "jones2021debugging"),
})  # fmt: skip

_ACTORS = _table("train/sentinel/", "the row's last rollout, where actors collect (A3C, IMPALA, APPO)", """
    policy_lag | updates | How many iterations older than the learner's the weights were that collected. | mean since the row before
    policy_lag_max | updates | The oldest of them. | since the row before
    actor_kl | nats | KL divergence of the learner's policy from the one that acted, before it learns from the rollout.
    actor_ess | share | Share of the rollout that still counts after reweighting it to the learner's policy: 1 when nothing has moved.
""", {
    "policy_lag": Band(0.0, 16.0, "espeholt2018impala", "what matters is actor_ess: updates may be small"),
    "actor_ess": Band(0.0, 1.0, "definition"),
})  # fmt: skip

_RANKS = _table("train/sentinel/", "about 40 times in a run that several ranks train (run.data_parallel)", """
    ranks_differ | ranks | Ranks whose weights have another hash than rank 0's: they train another run.
    ranks_normalizers_differ | ranks | Ranks whose running statistics of observations and rewards have another hash.
    ranks_gradient_error | share | How far the gradient of all ranks is off that of one process, on the same minibatch.
    ranks_copies | share | Environments of two ranks that took the same steps, beyond what environments of one rank do.
    ranks_foreign_actions | share | Actions that were drawn with other random numbers than those of their own environment.
    ranks_rows_min | rows | The smallest share of a minibatch that a rank had. | mean since the row before
    ranks_rows_max | rows | The largest one: another number is an uneven share. | mean since the row before
""", {
    "ranks_differ": Band(0.0, 0.0, "definition"),
    "ranks_normalizers_differ": Band(0.0, 0.0, "definition"),
    "ranks_gradient_error": Band(0.0, 1e-3, "definition", "sums are taken in another order, and no more"),
    "ranks_foreign_actions": Band(0.0, 0.0, "definition"),
    "ranks_copies": Band(0.0, 0.3, "definition", "environments or policies with some chance in them"),
})  # fmt: skip

_ACTOR_TIMES = _table("time/", "since the process began, where actors collect (A3C, IMPALA, APPO)", """
    actors_replaced | count | Actors that have died so far, and whose place another one has taken.
""")  # fmt: skip

_RANK_TIMES = _table("time/", "since the row before, in a run that several ranks train (run.data_parallel)", """
    exchange | s | Rank 0's time in collectives: messages, and waiting for slower ranks.
    ranks_communicate | s | Messages alone: what the rank that comes last still waits.
    ranks_idle | s | What a rank waits for slower ones, in the mean.
    ranks_slowest | rank | The rank that worked longest.
    ranks_slowest_ratio | - | How many times as long as the others in the mean.
""")  # fmt: skip

_RANDOM = _table("train/sentinel/", "20 episodes (Gymnasium's envs: as many as an evaluation has) before training; equal in all rows", """
    random_return | return | What a uniformly random policy gets from the evaluation starts: below it is worse than nothing learned.
    random_return_std | return | Standard deviation of those returns over episodes.
    scripted_return | return | What a simple policy written by hand gets there, for tasks that have one: it can be had without learning.
    random_length | steps | Mean length of those episodes; cut at 2,000 steps where no time limit is shorter.
""")  # fmt: skip

_FINGERPRINTS = _table("train/sentinel/", "all bytes after the row's last iteration, about 40 times in a run and at evaluations", """
    fingerprint_policy | 48 bits | Of the weights. Equal in two rows: nothing was learned between. Equal in two seeds: no seed was set.
    fingerprint_optimizer | 48 bits | Of the optimizer's moments and step counts.
    fingerprint_normalizer | 48 bits | Of the running statistics that scale observations and rewards; blank without any.
    fingerprint_normalizer_eval | 48 bits | The same, as the evaluation used them: if other, it saw other observations. | at evaluations
    fingerprint_random | 48 bits | Of the counters that randomness depends on: seed, iterations, episodes and steps of the environments.
""")  # fmt: skip

_COSTLY = _table("train/sentinel/", PROBE, """
    ev_after | share | Explained variance after the update.
    target_error | share | How far value targets within episodes are from what rewards and values give, relative to their size.
    target_error_ends | share | The same at terminal states, where the target is the last reward alone.
    target_error_cuts | share | The same at time limits, where what follows counts (learners with a replay).
    kl_exact | nats | KL divergence of the new policy from the old one, from the distributions themselves.
    grad_cosine | cosine | Angle between policy and value gradients on a shared trunk: below 0 they pull against each other.
    grad_value_share | share | Share of the value term in the trunk's gradient norm.
    grad_entropy_share | share | Share of the entropy term in the trunk's gradient norm.
    grad_signal | squared norm | Of the policy's true gradient on the hidden layers, from the product of two halves': above 0 in the mean.
    grad_noise | variance | Of one row's gradient, summed over weights; over grad_signal (means of both): rows at which half is noise.
    dormant_actor | share | Hidden units of the policy whose mean activation is below 2.5 % of their layer's.
    dormant_critic | share | The same for the critic.
    rank_actor | dimensions | Directions that the policy's last hidden layer uses: (sum λ)² / sum λ² of its covariance, from 1 to its width.
    rank_critic | dimensions | The same for the critic.
    saturated_actor | share | Hidden activations of the policy at the flat ends of tanh or sigmoid; blank for other activations.
    saturated_critic | share | The same for the critic.
    activation_norm_actor | - | Mean norm of the policy's last hidden layer: rising with a falling rank precedes collapse.
    activation_norm_critic | - | The same for the critic.
    ev_early | share | Explained variance early in episodes (elapsed steps up to their median). | rollout, about 40 times in a run
    ev_late | share | Explained variance late in episodes: a critic that cannot see the clock fails here. | rollout, about 40 times in a run
""", {
    "kl_exact": Band(0.0, INFINITY, "definition"),
    "target_error": Band(0.0, 1e-3, "definition", "the recursion of TD(lambda) holds for every step"),
    "target_error_ends": Band(0.0, 1e-3, "definition", "nothing follows a terminal state"),
    "target_error_cuts": Band(0.0, 1e-3, "definition", "a time limit stops the clock, not the task"),
    "dormant_actor": Band(0.0, 0.5, "sokar2023dormant", "rising is the warning, more than the level"),
    "dormant_critic": Band(0.0, 0.5, "sokar2023dormant", "rising is the warning, more than the level"),
})  # fmt: skip

_ENVIRONMENT = _table("train/sentinel/", TESTIMONY, """
    action_effect | share | Of the change in an observation that the observation leaves open, what the action explains; best component.
    action_effect_shuffled | share | The same by actions of other steps: what chance gives. Equal to it, actions do nothing.
    action_effect_lag1 | share | The same by the action of one step before: larger than `action_effect`, observations or actions come late.
    action_effect_lag2 | share | The same by the action of two steps before.
    action_effect_past | share | The same by the action of up to 8 steps before, the best of them.
    action_lag | steps | How many steps before that was, if it explains the change clearly better; else 0.
    action_effect_reward | share | Of the reward that the observation leaves open, what the action explains.
    action_effect_reward_shuffled | share | The same by actions of other steps: what chance gives.
    reward_by_action | share | R² of the reward by the action alone, its squares included: near 1, what acting costs or pays is all of it.
    obs_explained | share | R² of the next change by observation and action; median over components. Low: noise, or something hidden.
    obs_memory | share | What the observation before adds to that; best component. High: a velocity is hidden, and memory would help.
    obs_diff_autocorr | correlation | Of changes with the changes before, median over components: below 0 is noise on what is shown.
    reward_explained | share | R² of the reward by its own step: where it began, where it led, the action.
    reward_explained_past | share | R² of the reward by a step up to 8 steps before, the best of 1, 2, 3, 5 and 8.
    reward_lag | steps | How many steps before that was, if it explains the reward clearly better; else 0.
    reward_common | reward | The median reward.
    reward_common_share | share | Share of steps that pay exactly that: near 1, most steps tell nothing apart.
    reward_time_corr | correlation | Of the reward with the steps since the episode's start.
    reward_end_share | share | Share of all reward, by size, that comes with an episode's last step; blank if none ended.
    reward_end_gap | deviations | Reward at terminal states minus that of other steps, in standard deviations of the reward.
    reward_gap | steps | Mean distance of two rewards other than 0 within an episode; blank below four.
    reward_gap_spread | share | Standard deviation of those distances over their mean: 0 is clockwork, near 1 is chance.
    starts | count | Episodes that began.
    start_distinct | share | Share of their first observations that differ from each other; blank below two.
    obs_std_median | obs | Median over components of the standard deviation of what the networks are shown.
    obs_std_max | obs | Largest such standard deviation: far below 1, the networks see almost nothing.
    obs_offset_max | deviations | Largest mean of a component in units of its standard deviation: a small signal on a large constant.
    obs_constant | share | Share of components that did not change.
    obs_at_bound | share | Share of steps at a declared bound, of the component that is there most often: cut off, where it moves beyond.
    return_length_corr | correlation | Of returns with episodes' lengths: near 1 or -1, only how long they last counts. | last 100 episodes
    return_length_share | share | How much of returns is their length times the mean reward per step. | last 100 episodes
""")  # fmt: skip

_REPLAY_SEEN = _table("train/", MEAN, """
    loss/td | return² | TD error of a Q-network, as its framework weights it: Huber or squared.
    loss/actor | return | Actor loss of DDPG, TD3 or SAC: falls as the critic's values rise, which need not be true.
    loss/critic | return² | TD error of the critics.
    loss/alpha | - | Loss of SAC's temperature.
    metrics/q_mean | return | Mean of the Q-values of the batch's actions.
    metrics/q_min | return | Smallest such Q-value. | minimum over the gradient steps of the row
    metrics/q_max | return | Largest such Q-value. | maximum over the gradient steps of the row
    metrics/grad_norm/actor | - | Norm of the actor's gradient before clipping; `all` is then the critics'.
    hp/alpha | - | SAC's temperature. | the value applied
    hp/epsilon | share | Scheduled share of random actions (DQN). | the value applied
""")  # fmt: skip

_REPLAY_NUMBERS = _table("train/hp/", "the value applied in the row's last iteration", """
    tau | share | How much of the network the target takes over when it is updated.
    priority_alpha | - | How much TD errors (of PPO: advantages) decide what is drawn; without prioritized sampling, unused.
    priority_beta | - | How much of that draw's bias importance weights correct.
    exploration_fraction | share | Share of the budget over which epsilon falls.
    exploration_initial_eps | share | Epsilon at the start.
    exploration_final_eps | share | Epsilon after that.
    exploration_eps | share | Epsilon where it has a schedule of its own; blank otherwise.
    exploration_temperature | return | Temperature of Boltzmann exploration.
    ucb_constant | return | UCB exploration: how much it counts that an action was tried rarely.
    target_policy_noise | action | Noise on the target's actions (TD3), which reach from -1 to 1.
    target_noise_clip | action | The largest such noise.
    action_noise_std | action | Deviation of the noise on actions, which reach from -1 to 1.
    target_entropy | nats | The entropy that a learned temperature aims at.
""")  # fmt: skip

_REPLAY = _table("train/sentinel/", "the row's last batch", """
    q_abs_max | return | Largest Q-value by size. | 128 stored transitions
    q_bound | return | What no Q-value can pass: the largest reward seen / (1 - gamma). | all steps so far
    q_bound_ratio | share | Largest Q-value by size as a share of that bound: above 1 is impossible.
    q_bias | return | Q-values minus the discounted return that really came. | one env's last whole episode; if cut, far before the cut
    td_error | return | Mean size of the TD error, without SAC's bonus for entropy. | 128 stored transitions
    td_error_p50 | return | Median size of the TD error.
    td_error_p95 | return | 95th percentile of its size.
    td_error_p99 | return | 99th percentile of its size: far above the median, a few transitions decide.
    td_error_max | return | Largest size.
    target_distance | share | How far the target network is from the network, as a share of its norm. | after the gradient steps
    target_updates | share | Share of turns (train_freq steps, then gradient steps) that renewed the target. | all turns of the row
    head_disagreement | return | Standard deviation of Q over the heads (bootstrapped DQN): 0, all know the same. | all batches of the row
    head_split | share | Heads that prefer another action than most do: 0, whichever acts does the same. | all batches of the row
    replay_age | env steps | Mean age of a transition in the replay buffer. | the whole buffer
    buffer_share | share | How full the replay buffer is. | the whole buffer
    updates_per_step | share | Gradient steps per env step. | the row's last iteration
    epsilon_actual | share | Share of random actions, from those that are not the best ones; `hp/epsilon` is the plan. | last iteration
    is_weight_min | share | Smallest importance weight of prioritized replay, as a share of the largest; blank without it.
    is_weight_mean | share | Mean importance weight: 1 throughout means that nothing is corrected.
    replay_ess | share | Share of the batch that counts after importance weights: 1 where all weights are equal.
    action_reach | share | Largest action in the env as a share of its bound: far from 1, its scale is wrong. | the row's last iteration
""", {
    "q_bound_ratio": Band(0.0, 1.0, "definition", "rewards that have been seen at their largest"),
    "epsilon_actual": Band(0.0, 1.0, "definition"),
    "buffer_share": Band(0.0, 1.0, "definition"),
})  # fmt: skip

_OFFLINE = _table("train/sentinel/", "up to 1,024 recorded transitions, about 40 times in a run; blank otherwise", """
    terminated_share | share | Share of recorded steps that lead to a terminal state. Only there do values end; 0 where none ever does.
    policy_distance | action | Distance of the policy's action from the recorded one, of a range of 2; of choices, the share of others.
    loss_data | - | What the policy's fit to recorded actions costs, on rows that are learned from.
    q_policy_gain | return | Values of the policy's actions minus those of recorded ones: large, they are of actions nobody tried.
    data_value | return | Mean discounted return that really came after those recorded steps whose future is known.
    loss_held_out | - | The same on episodes that are held out: far above `loss_data`, actions are learned by heart.
    ends_at_longest | share | Recorded episodes that say terminated and have exactly the longest length: time limits recorded as ends.
    data_return_mean | return | Mean return of the recorded episodes that are learned from, as they were paid.
    target_return | return | Decision Transformer: the return of an episode that it is asked for when it acts.
    data_return_max | return | Decision Transformer: the highest return of the episodes that it learns from.
    target_above_data | share | Decision Transformer: how far the first lies above the second, as a share of the data's range.
    online | 0 or 1 | Whether a run that began on recorded data acts by now (data.then_online). | the row's last iteration
    switch_return | return | The evaluation at which it began to act. | one evaluation
    switch_lowest | return | The lowest evaluation since then, until one was as good as that again. | evaluations
    switch_dip | share | How far that lies below, as a share of what had been learned above a random policy. | evaluations
    switch_regained_at | steps | When an evaluation was as good again; blank while none was. | evaluations
""")  # fmt: skip

_OFFLINE_SEEN = _table("train/", MEAN, """
    metrics/advantage | return | How much better recorded actions are than what the state is valued at (IQL), or than the policy's (AWAC).
    metrics/weight_capped | share | Share of recorded actions whose weight is cut at weight_cap: beyond a fifth, advantages no longer count.
    metrics/weight_ess | share | Share of the batch that counts as if all weighed the same: near 0, a few actions are imitated.
    metrics/at_floor | share | Cal-QL: share of the policy's actions that are worth less than what the data's own policy earns.
    metrics/critic_spread | return | RLPD: the highest of the critics' values minus the lowest, of the same action.
    metrics/cql_gap | return | CQL: soft maximum of values over all actions minus the recorded action's: what the penalty charges.
    hp/cql_multiplier | - | CQL: what a unit of the gap costs. | the value applied
    hp/bc_alpha | - | TD3+BC: how much values count against imitation. | the value applied
    hp/expectile | share | IQL: which of the recorded actions a state's value speaks of. | the value applied
    hp/awac_lambda | return | AWAC: advantages are divided by it. | the value applied
    hp/cql_alpha | - | CQL: how much of the gap is charged. | the value applied
    hp/cql_threshold | return | CQL with cql_lagrange: the gap that is left uncharged. | the value applied
""", {
    "metrics/weight_capped": Band(0.0, 0.2, "kostrikov2022iql", "advantages decide what is imitated"),
})  # fmt: skip

_IMITATION = [
    *_table("train/loss/", MEAN, """
    imitation | action² or nats | How far the policy is from labels or recorded actions: squared distance, or minus the log-probability.
    safety | nats | Cross-entropy of the classifier of unsafe states (safe_dagger).
"""),
    *_table("train/imitation/", "the row's round", """
    round | rounds | Rounds that are over.
    queries | questions | How often the expert was asked, repeated questions included. | all rounds so far
    labels | labels | States with an answer of the expert's. | all rounds so far
    unanswered | states | States that it was asked about in vain. | all rounds so far
    expert_share | share | Share of the steps in which the expert acted.
    asked_share | share | Share of the steps about which it was asked.
    disagreement | action | How far the policy was from the labels when it was asked, before it learned from them. | mean; see unsafe_error
    disagreement_p95 | action | The 95th percentile of that.
    policy_state_error | action | The same in states that the policy itself led to: large with a small loss, states are new to it.
    first_round_error | action | How far the policy is from the first round's labels after training: rising, it forgets. | first round
    label_is_executed | share | Share of the policy's own steps whose label is exactly what it did: near 1, labels are not the expert's.
    label_altered | share | Share of the stored labels that are not what the expert answered.
    learned_share | share | Share of all labels whose rounds are still learned from: below 1, old ones are dropped. | all rounds so far
    passes | passes | How often each label was learned from in the round, on the average.
    label_noise | action | Deviation of the expert's answers to one question, from repeated ones; blank without any. | all rounds so far
    doubt | action | How far policies side by side are from each other; blank with one. | mean over the steps
    unsafe_share | share | Share of the labelled states in which the policy was off by more than unsafe_error (safe_dagger).
    missed_share | share | The same of states in which the classifier saw no danger and it was asked all the same (safe_dagger).
""", {
    "label_is_executed": Band(0.0, 0.9, "ross2011dagger", "continuous actions"),
    "label_altered": Band(0.0, 0.0, "definition"),
    "expert_share": Band(0.0, 1.0, "definition"),
    "asked_share": Band(0.0, 1.0, "definition"),
}),
    *_table("train/hp/", "the value applied in the row's last iteration", """
    beta | - | Share of steps in which the expert is to act (dagger); how much better actions are preferred (iql).
    policy_noise | action | Noise on the policy's own actions while collecting.
    unsafe_error | action | How far from the expert counts as unsafe (safe_dagger).
    doubt | action | Disagreement from which on the expert is asked (ensemble_dagger).
    reward_lr | - | Learning rate of the discriminator (gail, airl).
    gradient_penalty | - | How much the discriminator's slope is held to 1 (gail, airl).
"""),
]  # fmt: skip

_COST = _table("train/cost/", ROLLOUT, """
    return | cost | What an episode costs, on average over those that ended in the newest rollout in which one did.
    multiplier | reward per cost | What a unit of cost takes off the reward, as learned: it rises while episodes cost too much.
    explained_variance | share | How much of the costs to come their own critic explains.
""")  # fmt: skip
_BONUS = _table("train/bonus/", ROLLOUT, """
    return | return | What the bonus for new states pays in an episode, times its coefficient; the task's own return has none of it.
    share | share | The bonus' part of all that was paid, by size: near 1, the task's reward is not seen or does not count.
    half_life | env steps | The env steps in which the novelty of a step halved, on average since the start; blank while it has not fallen.
    new_states | per 1k env steps | States that were met for the first time: near 0, there is nothing new within reach.
""")  # fmt: skip
_TERMS = _table("train/terms_beyond/", ROLLOUT, """
    advantage | share | The part of advantages that is no term's: the critic beyond their values, a bonus, a cost. With theirs, 1.
""")  # fmt: skip

_ADVERSARY = _table("train/adversary/", ROLLOUT, """
    loss | nats | Cross-entropy of telling recorded steps from own ones; 0.69 (log 2) where the discriminator cannot.
    expert_accuracy | share | Recorded steps that it takes for recorded: near 1 together with policy_accuracy, the policy is told nothing.
    policy_accuracy | share | Own steps that it takes for own; about 0.5 with expert_accuracy where the policy does what was shown.
    held_out_accuracy | share | Of recorded steps that it never learned from: far below expert_accuracy, it knows those by heart.
    reward_mean | - | Mean of what it pays for a step, in place of the environment's reward.
    reward_std | - | Standard deviation of that over the rollout: near 0, all steps are paid alike.
    absorbing_share | share | Own steps that lie behind terminal ones, as a discount counts them (algo.horizon).
    absorbing_shown | share | The same of the demonstrations.
""")  # fmt: skip

_CURRICULUM = _table("train/curriculum/", ROW, """
    stage | - | The stage that is trained on, from 1; where tasks are chosen among all, the mean number of the next one's.
    stage_env_steps | env steps | When the stage was entered.
    success | share | Success in the stage as promotion counts it, in whole rounds of all environments. | curriculum.window episodes
    lower_bound | share | Success in the stage is at least this, with the next look's confidence. | curriculum.window episodes
    promoted_at | share | Success in the window at which the last stage was left as mastered.
    promotions | - | Stages left as mastered, so far.
    demotions | - | Returns to a stage that was forgotten, so far.
    escapes | - | Stages left after too long although they were not mastered, so far.
    target_share | share | Episodes of the task itself among all, so far.
    spread | share | How evenly the next task is chosen among all: 1 all alike, 0 one alone.
""")  # fmt: skip

_SEEN = (
    *(_COUNTERS, _ROLL, _LOSSES, _METRICS, _GRADIENTS, _REPLAY_SEEN, _OFFLINE_SEEN, _VALIDATION, _TIME, _HYPERPARAMETERS, _REPLAY_NUMBERS),
    _IMITATION,
)
_TESTIFIED = (
    _SENTINELS,
    _ACTORS,
    _ACTOR_TIMES,
    _RANKS,
    _RANK_TIMES,
    _COSTLY,
    _REPLAY,
    _OFFLINE,
    _FINGERPRINTS,
    _RANDOM,
    _ENVIRONMENT,
    _BONUS,
    _TERMS,
    _ADVERSARY,
    _COST,
    _CURRICULUM,
)
METRICS: Final[dict[str, Metric]] = {metric.name: metric for part in (*_SEEN, *_TESTIFIED) for metric in part}
"""By canonical name, in the order of a table's columns."""

_OTHERS = _table("train/", MEAN, """
    metrics/q2_mean | return | Mean of the Q-values of the second critic.
    metrics/action_std | action | Mean standard deviation of the policy over action dimensions (continuous).
    metrics/kl_signed | nats | Mean difference of old and new log-probabilities: as `kl_divergence`, but noisier, and it may be negative.
""")  # fmt: skip

FOREIGN: Final[dict[str, Metric]] = {metric.name: metric for metric in _OTHERS}
"""Metrics that other frameworks log and training here does not, by the name that readers give them."""


_SAID: Final = {
    ("terms", "return"): ("return", 'What the term {} of info["reward_terms"] adds up to in an episode.'),
    ("terms", "share"): ("share", "The share of {} in the sizes of all terms of the reward: 1 means that it decides alone."),
    ("terms", "advantage"): (
        "share",
        "The part of {} in the advantages that are learned from; all sum to 1, below 0 it pulls back.",
    ),
    ("info", "mean"): ("-", 'Mean of info["{}"] over an episode (env.log_info).'),
    ("info", "last"): ("-", 'info["{}"] at the end of an episode (env.log_info).'),
}
"""Columns that an environment brings along: train/terms/NAME/return and the like."""
_STAGED: Final = {
    ("train", "success_rate"): ("share", "Success in training episodes of stage {} of the curriculum, newer ones counting more."),
    ("train", "episodes"): ("episodes", "Training episodes of stage {} of the curriculum, so far."),
    ("val", "success_rate"): ("share", "Success in evaluation episodes of stage {} of the curriculum (curriculum.eval_episodes)."),
}
"""Columns that the stages of a curriculum bring along: val/stage/1/success_rate and the like."""


def find(name: str) -> Metric | None:
    """The entry of a column; None if it is not one of ours."""
    known = METRICS.get(name) or FOREIGN.get(name)
    parts = name.split("/")
    if known is None and len(parts) == 4 and parts[0] == "train" and (said := _SAID.get((parts[1], parts[3]))) is not None:
        return Metric(name, said[1].format(parts[2]), said[0], LAST100)
    if known is None and len(parts) == 4 and parts[1] == "stage" and (said := _STAGED.get((parts[0], parts[3]))) is not None:
        return Metric(name, said[1].format(parts[2]), said[0], EVALUATION if parts[0] == "val" else ROW)
    return known
