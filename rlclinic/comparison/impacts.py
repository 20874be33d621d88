"""What a difference in a setting usually does, by setting and direction: a small table, each entry with its sources.

These are tendencies from the literature, not predictions for one environment; trials that were recorded here count more, and
`compare` says how many there are.
"""

from typing import Final, Literal, NamedTuple

Direction = Literal["up", "down", "on", "off", "falls", "holds", "changed"]
"""up, down: a larger or smaller number. on, off: from none or false, and back. falls, holds: the same start, but it now falls
over the run, or no longer does. changed: another word."""


class Impact(NamedTuple):
    """What such a change usually does."""

    text: str
    cites: tuple[str, ...]


def _table(text: str) -> dict[tuple[str, Direction], Impact]:
    """Entries from lines of `setting | direction | what it does | sources`."""
    found: dict[tuple[str, Direction], Impact] = {}
    for line in text.strip().splitlines():
        key, direction, said, sources = (cell.strip() for cell in line.split(" | "))
        found[key, direction] = Impact(said, tuple(sources.split()))  # type: ignore[index]
    return found


IMPACTS: Final = _table("""
    algo.learning_rate | up | larger steps: faster at first; too large, KL and clip fraction (or Q-values) rise and returns fall back | andrychowicz2021matters schulman2016nuts
    algo.learning_rate | down | smaller steps: safer and slower; too small, the budget ends before the return does | andrychowicz2021matters schulman2016nuts
    algo.learning_rate | falls | steps shrink over the run: less noise at the end, often a slightly better final return | andrychowicz2021matters engstrom2020matters
    algo.learning_rate | holds | steps stay as long as at the start: learning goes on late, and so does the noise | andrychowicz2021matters engstrom2020matters
    algo.value_lr | on | the critic gets a step size of its own: helps where explained variance stays low | andrychowicz2021matters
    algo.n_steps | up | longer rollouts: less biased advantages and steadier updates, but fewer of them on older data | schulman2017ppo andrychowicz2021matters
    algo.n_steps | down | shorter rollouts: more updates on fresher data, with advantages that lean on the critic | schulman2017ppo mnih2016a2c
    algo.batch_size | up | steadier gradient steps, and fewer of them per epoch where there are epochs | andrychowicz2021matters huang2022details
    algo.batch_size | down | noisier gradient steps, and more of them per epoch: the policy then moves further per rollout | andrychowicz2021matters huang2022details
    algo.n_epochs | up | more passes over each rollout: more learning per env step, until the policy has left its data behind | andrychowicz2021matters schulman2017ppo
    algo.n_epochs | down | fewer passes over each rollout: smaller policy changes, data used less | andrychowicz2021matters schulman2017ppo
    algo.gamma | up | looks further ahead: needed for late rewards, and makes values larger and harder to learn | andrychowicz2021matters schulman2015gae
    algo.gamma | down | looks less far ahead: easier values, blind to late rewards; one of the settings that matter most | andrychowicz2021matters schulman2015gae
    algo.gae_lambda | up | advantages trust observed rewards more: less bias, more noise | schulman2015gae
    algo.gae_lambda | down | advantages trust the critic more: less noise, more bias while the critic is bad | schulman2015gae
    algo.clip_range | up | the policy may move further per update: faster, and less safe | schulman2017ppo andrychowicz2021matters
    algo.clip_range | down | the policy may move less far per update: steadier, and slower | schulman2017ppo andrychowicz2021matters
    algo.clip_range | falls | updates are held tighter towards the end of the run | huang2022details
    algo.clip_range | holds | updates may move the policy as far at the end of the run as at its start | huang2022details
    algo.clip_range_vf | on | value steps are limited too: no benefit was found in large studies, and large returns may stall the critic | andrychowicz2021matters huang2022details
    algo.clip_range_vf | off | value steps are no longer limited: what large studies recommend | andrychowicz2021matters huang2022details
    algo.clip_range_vf | up | value steps are limited less | andrychowicz2021matters
    algo.clip_range_vf | down | value steps are limited more: slow where returns are large | andrychowicz2021matters
    algo.target_kl | on | epochs end early when the policy has moved far: fewer collapses, fewer gradient steps | huang2022details
    algo.target_kl | off | epochs are never cut short: more gradient steps, nothing stops a policy that runs away | huang2022details
    algo.target_kl | up | epochs are cut short later | huang2022details
    algo.target_kl | down | epochs are cut short earlier: safer, and data is used less | huang2022details
    algo.ent_coef | up | more exploration: helps where entropy collapses early, costs return where the task is nearly solved | mnih2016a2c andrychowicz2021matters
    algo.ent_coef | down | less exploration: commits sooner, and may commit too soon | mnih2016a2c andrychowicz2021matters
    algo.vf_coef | up | the critic's loss weighs more: with a shared trunk it shapes the features, else it only meets the clipped gradient | huang2022details
    algo.vf_coef | down | the critic's loss weighs less: with a shared trunk the policy shapes the features | huang2022details
    algo.max_grad_norm | up | gradients are shortened less often: faster, and exposed to single bad batches | andrychowicz2021matters engstrom2020matters
    algo.max_grad_norm | down | gradients are shortened more often: acts like a smaller learning rate once nearly all are | andrychowicz2021matters engstrom2020matters
    algo.normalize_advantage | changed | how long a policy step is comes to depend more, or less, on the scale of the rewards | andrychowicz2021matters huang2022details
    algo.optimizer | changed | another step rule: the best learning rate is rarely the same | kingma2015adam andrychowicz2021matters
    algo.adam_eps | up | smaller steps where gradients are tiny | huang2022details kingma2015adam
    algo.adam_eps | down | larger steps where gradients are tiny | huang2022details kingma2015adam
    algo.weight_decay | up | weights are pulled to 0: smaller weights, and a pull against what was learned | godbole2023playbook
    algo.buffer_size | up | older transitions are learned from, too: steadier and more varied, up to data that no longer matters | fedus2020replay mnih2015dqn
    algo.buffer_size | down | only recent transitions are learned from: fresher, and what was rare is forgotten | fedus2020replay mnih2015dqn
    algo.learning_starts | up | more random transitions before the first gradient step: a broader start, a later one | mnih2015dqn
    algo.learning_starts | down | learning begins on fewer transitions: sooner, and from what chance has seen so far | mnih2015dqn
    algo.train_freq | up | more env steps between trainings: fewer gradient steps per env step, unless gradient_steps grows with it | fedus2020replay
    algo.train_freq | down | fewer env steps between trainings: more gradient steps per env step, unless gradient_steps falls with it | fedus2020replay
    algo.gradient_steps | up | more learning per env step, until values chase their own errors | fedus2020replay
    algo.gradient_steps | down | less learning per env step: slower per env step, faster per second | fedus2020replay
    algo.tau | up | targets follow faster: quicker, and values may chase themselves | lillicrap2016ddpg
    algo.tau | down | targets follow more slowly: steadier and slower | lillicrap2016ddpg
    algo.target_update_interval | up | targets stand still for longer: steadier, and news travels more slowly | mnih2015dqn
    algo.target_update_interval | down | targets are renewed more often: quicker, and values may chase themselves | mnih2015dqn
    algo.n_step | up | rewards travel back further at once: faster, with actions that the policy would no longer take | fedus2020replay
    algo.n_step | down | rewards travel back one step at a time: slower, without old policies' actions in the targets | fedus2020replay
    algo.double | on | one network chooses and the other judges: values are overestimated less | hasselt2016double
    algo.double | off | the network that chooses also judges: values are overestimated more | hasselt2016double
    algo.prioritized | on | transitions with large errors are drawn more often: helps with rare rewards, costs time, exposed to noise | schaul2016prioritized
    algo.prioritized | off | all transitions are drawn alike | schaul2016prioritized
    algo.exploration_fraction | up | random actions for longer: finds more, exploits later | mnih2015dqn
    algo.exploration_fraction | down | random actions for a shorter time: exploits sooner what was found until then | mnih2015dqn
    algo.exploration_final_eps | up | more actions stay random to the end: keeps finding, costs return while training | mnih2015dqn
    algo.exploration_final_eps | down | fewer actions stay random: a better training return, less that is new | mnih2015dqn
    algo.n_critics | up | the lowest of more critics counts: less overestimation, more caution, more time | fujimoto2018td3
    algo.n_critics | down | fewer critics check each other: values are overestimated more | fujimoto2018td3
    algo.policy_delay | up | the actor waits for the critics to settle: steadier, fewer steps of the policy | fujimoto2018td3
    algo.policy_delay | down | the actor follows every step of the critics, their errors included | fujimoto2018td3
    algo.target_policy_noise | up | values are smoothed over nearby actions: narrow false peaks are not followed | fujimoto2018td3
    algo.target_policy_noise | down | values are smoothed less over nearby actions | fujimoto2018td3
    algo.action_noise | changed | how new actions are tried while training | lillicrap2016ddpg fujimoto2018td3
    algo.action_noise_std | up | actions are disturbed more: finds more, acts worse meanwhile | lillicrap2016ddpg fujimoto2018td3
    algo.action_noise_std | down | actions are disturbed less: acts better meanwhile, finds less | lillicrap2016ddpg fujimoto2018td3
    algo.ent_coef | on | a fixed temperature in place of a learned one: it suits one scale of rewards only | haarnoja2018sac
    algo.ent_coef | off | the temperature is learned: it follows the scale of the rewards | haarnoja2018sac
    algo.target_entropy | changed | how random the policy is kept by its learned temperature | haarnoja2018sac
    algo.name | changed | another algorithm: nothing below means quite the same | andrychowicz2021matters
    env.n_envs | up | more environments at a time: larger and more varied rollouts, fewer updates per env step, more steps per second | mnih2016a2c huang2022details
    env.n_envs | down | fewer environments at a time: smaller rollouts, more updates per env step, fewer steps per second | mnih2016a2c huang2022details
    env.normalize_obs | on | observations on one scale: of the largest effects where theirs differ widely | andrychowicz2021matters engstrom2020matters
    env.normalize_obs | off | observations as they are: fine where they are near 1, a large loss where they are not | andrychowicz2021matters engstrom2020matters
    env.normalize_reward | on | rewards on one scale: the critic learns faster where returns are large or small | engstrom2020matters henderson2018matters
    env.normalize_reward | off | rewards as they are: large returns slow the critic | engstrom2020matters henderson2018matters
    env.time_in_obs | on | the policy sees how much time is left: values near a time limit become learnable | pardo2018time
    env.time_in_obs | off | the policy does not see how much time is left | pardo2018time
    net.hidden | up | wider or deeper networks: can represent more, cost more time, may need a smaller learning rate | andrychowicz2021matters henderson2018matters
    net.hidden | down | narrower or shallower networks: faster, and may be too small | andrychowicz2021matters henderson2018matters
    net.activation | changed | tanh usually learns at least as well as relu in small policy networks | andrychowicz2021matters henderson2018matters
    net.shared | on | policy and critic share their features, and their gradients may pull against each other | andrychowicz2021matters
    net.shared | off | policy and critic have networks of their own: usually better in control from vectors | andrychowicz2021matters
    net.policy_gain | up | the first policy is less even: less exploration in the beginning | andrychowicz2021matters
    net.policy_gain | down | the first policy is more even: usually better | andrychowicz2021matters
    net.log_std_init | up | wider first actions: more exploration in the beginning | andrychowicz2021matters
    net.log_std_init | down | narrower first actions: less exploration in the beginning | andrychowicz2021matters
    run.max_env_steps | up | a larger budget; schedules that end with it stretch, so even the first half of the run differs | huang2022details
    run.max_env_steps | down | a smaller budget; schedules that end with it shrink, so even the first half of the run differs | huang2022details
    run.eval_episodes | up | evaluations are less noisy; a threshold is met by luck less often | henderson2018matters
    run.eval_episodes | down | evaluations are noisier; a threshold is met by luck more often | henderson2018matters
    run.eval_every_env_steps | up | evaluations are rarer: steps to the threshold are known less closely, and come out larger | henderson2018matters
    run.eval_every_env_steps | down | evaluations are more frequent: more chances to meet the threshold, so steps come out smaller | henderson2018matters
""")  # noqa: E501

_NOTHING: Final = Impact("", ())


def usual(key: str, direction: Direction) -> Impact:
    """What such a change usually does; empty where the table has nothing to say."""
    found = IMPACTS.get((key, direction))
    if found is None and direction in ("up", "down", "on", "off", "falls", "holds"):
        found = IMPACTS.get((key, "changed"))
    return found or _NOTHING
