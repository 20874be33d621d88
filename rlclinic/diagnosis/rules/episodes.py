"""Ends of episodes: resets, time limits, final observations."""

from collections.abc import Iterator

import numpy as np

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import EPISODES, EVAL_LENGTH, LENGTH, OFFLINE, RETURN, RETURN_STD, sentinel
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import ON_POLICY, BugLocation, advice, cause, change, evidence, grade, percent, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import detect, measures

REPEAT, OBS_STD, OBS_MAX = sentinel("obs_repeat"), sentinel("obs_std_min"), sentinel("obs_abs_max")
TERMINATED, TRUNCATED = sentinel("terminated"), sentinel("truncated")
LONG_ENOUGH = 2_000
"""Env steps without an end, above the length of nearly every task's episodes."""


cause(
    "never-reset",
    "episodes do not restart",
    "fault of environment",
    advice="reset the environment when terminated or truncated, and act on the observation that reset() returns",
    explains="ENV605 ENV607 REW504 REW501 ENV603 ENV602",
    bug=BugLocation(
        fix="reset an environment whose episode ended, or use a vector environment that does",
        check="assert episode lengths never exceed the time limit",
        rlclinic=("rlclinic/training/envs/stepping.py", "Lanes._restart", "it is called for every ended episode"),
        sb3=(
            "stable_baselines3/common/vec_env/dummy_vec_env.py",
            "DummyVecEnv.step_wait",
            "a vector environment of your own without reset",
        ),
        cleanrl=("ppo.py", "the rollout loop around envs.step", "the autoreset mode of the vector environment"),
        own="who calls reset after terminated or truncated",
    ),
)


@rule(
    "ENV606",
    severity=Severity.HIGH,
    needs=[EPISODES, LENGTH],
    cites=["sutton2018book"],
    certain=True,
    causes=["never-reset"],
    bad=lambda: cases.unsolved({"train/roll/ep_len_mean": cases.falls(0.1, 20.0, 1.0)}),
    # Episodes of evaluation are as short: the policy ends them.
    good=[lambda: cases.unsolved({"train/roll/ep_len_mean": cases.falls(0.1, 20.0, 1.0), "val/roll/ep_len_mean": 1.2})],
)
def episodes_do_not_restart(case: Case) -> Iterator[Finding]:
    """Episodes end at every step: the environment is not reset after an end.

    ## Why it hurts
    The agent learns on one frozen, terminal state.

    ## When it is fine
    Tasks of a single step (bandits).
    """
    length, episodes = case.signal(LENGTH), case.signal(EPISODES)
    late = length.share(0.3).median
    usual = case.sentinel("random_length")
    # A random policy's own episodes say how long one should be; without them, the first ones of the run.
    first = max(length.first, usual.median if len(usual) else 0.0)
    if late > 1.5 or first <= 2.5 or len(episodes) < 4:
        return
    judged = case.signal(EVAL_LENGTH).share(0.3)
    if len(judged) and judged.median < 2.5:
        return  # evaluation resets its environments, and ends them as soon: so the policy does
    text = f"episodes last {say(late)} steps (at first {say(first)})"
    fix = advice("reset the environment when terminated or truncated, and act on the observation that reset() returns", "> 30 %")
    yield Finding(text=text, evidence=(evidence(LENGTH, text, *case.span, late=late, first=first),), remedies=(fix,))


cause(
    "final-observation-overwritten",
    "final observations are overwritten by the reset",
    "fault of environment",
    advice='use info["final_obs"] (SAME_STEP) or mask the reset rows (NEXT_STEP) where values are bootstrapped',
    explains="VAL201 VAL211",
    bug=BugLocation(
        fix="take the next observation of an ended episode from info['final_obs'] (terminal_observation in SB3), not from the reset",
        check="assert not (next_obs[ended] == first_obs_of_next_episode).all()",
        rlclinic=("rlclinic/training/envs/stepping.py", "Lanes._step", "next_obs is kept before the restart"),
        sb3=(
            "stable_baselines3/common/vec_env/dummy_vec_env.py",
            "DummyVecEnv.step_wait",
            "a vector environment of your own that resets before it saves terminal_observation",
        ),
        cleanrl=(
            "ppo.py",
            "the rollout loop around envs.step",
            "real_next_obs: infos['final_obs'] where an episode ended; the autoreset mode of the vector environment",
        ),
        own="what the vector environment returns at an end: with autoreset the observation already belongs to the next episode",
    ),
)


@rule(
    "ENV607",
    severity=Severity.HIGH,
    needs=[sentinel("next_obs_is_reset")],
    cites=["pardo2018time"],
    certain=True,
    causes=["final-observation-overwritten"],
    bad=lambda: cases.unsolved({"train/sentinel/next_obs_is_reset": 1.0}),
    # Nothing is bootstrapped from the last state of an episode that terminated.
    good=[
        lambda: cases.unsolved(
            {"train/sentinel/next_obs_is_reset": 1.0, "train/sentinel/truncated": 0.0, "train/sentinel/terminated": 4.0}
        ),
        lambda: cases.q_learner(
            {"train/sentinel/next_obs_is_reset": 1.0, "train/sentinel/truncated": 0.0, "train/sentinel/terminated": 1.0}
        ),
        # Every observation is the same: so are the last and the first.
        lambda: cases.q_learner({"train/sentinel/next_obs_is_reset": 1.0, "train/sentinel/obs_constant": 1.0}),
    ],
)
def final_observation_overwritten(case: Case) -> Iterator[Finding]:
    """The observation at an episode's end is the first one of the next episode.

    ## Why it hurts
    Values at the end of episodes are bootstrapped from a state that has nothing to do with them: auto-reset has put it in place of
    the final observation (Gymnasium keeps that in info["final_obs"]).

    ## When it is fine
    Environments that end in the very state in which they start; runs whose episodes all terminate, since nothing follows them.
    """
    share = case.signal(sentinel("next_obs_is_reset"))
    strength = grade(share.median, 0.5, 0.9)
    repeat, deviation = case.signal(REPEAT), case.signal(OBS_STD)
    # Observations that hardly ever change equal the next first one by themselves.
    blind = len(repeat) > 0 and len(deviation) > 0 and repeat.median > 0.9
    constant = case.sentinel("obs_constant")
    blind = blind or (len(constant) > 0 and constant.median >= 1.0)
    # Where every start looks alike, an end that looks like one may be one of many states that do.
    strength *= 1.0 - measures.starts_alike(case)
    # Only where a time limit cuts an episode is its final observation looked at: a terminal state has no future.
    truncated, terminated = case.signal(TRUNCATED), case.signal(TERMINATED)
    harmless = len(truncated) > 0 and truncated.top == 0 and len(terminated) > 0 and terminated.top > 0
    if strength <= 0 or blind or harmless:
        return
    text = f"{percent(share.median)} of the final observations equal the next episode's first one"
    fix = advice('use info["final_obs"] (SAME_STEP) or mask the reset rows (NEXT_STEP) where values are bootstrapped', "10-30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(share.name, text, *case.span, share=share.median),), remedies=(fix,))


cause(
    "episode-too-short",
    "the time limit is too short for the task",
    "fault of environment",
    doses=["own-time-limit", "entropy-that-falls"],
    advice="raise the time limit until a scripted or a lucky agent gets there",
    explains="REW501 VAL201 REW505 VAL203",
)


@rule(
    "ENV612",
    severity=Severity.HIGH,
    needs=[TRUNCATED, TERMINATED, RETURN],
    cites=["pardo2018time"],
    causes=["reward-never-seen", "episode-too-short"],
    bad=lambda: cases.unsolved(
        {**cases.flat_returns(-50.0), "train/sentinel/truncated": 4.0, "train/sentinel/terminated": 0.0, "train/roll/ep_len_mean": 50.0},
        settings={"env.max_episode_steps": 50},
    ),
)
def every_episode_runs_into_the_time_limit(case: Case) -> Iterator[Finding]:
    """All episodes are cut by the time limit, and the return never leaves its floor; or most are, by a limit far below the task's own.

    ## Why it hurts
    The goal is not reached within the limit by any policy that was tried: either the limit is too short for the task, or exploration
    never gets there.

    ## When it is fine
    Tasks without an end, where longer is better or the return varies all the same.
    """
    cut, ended = case.signal(TRUNCATED).share(0.4), case.signal(TERMINATED).share(0.4)
    total = float(np.sum(cut.values) + np.sum(ended.values))
    returns, length = case.signal(RETURN).share(0.4), case.signal(LENGTH)
    if total < 4 or not case.sick or not len(returns) or not len(length):
        return
    share = float(np.sum(cut.values)) / total
    flat = grade(-detect.spread(returns.values) / max(abs(returns.median), 1e-9), -0.08, -0.02)
    # Means of many episodes lie close together whatever happens in them: on a floor single episodes do, too.
    single = case.signal(RETURN_STD).share(0.4)
    if len(single):
        flat = min(flat, grade(-single.median / max(abs(returns.median), 1e-9), -0.25, -0.1))
    # A limit that the config sets below the task's own is the first suspect; else it may be exploration that fails.
    limit, usual = case.count("env.max_episode_steps"), case.count("spec.max_episode_steps")
    strength = min(flat, grade(share, 0.9, 0.98)) * (1.0 if limit and (not usual or limit < usual) else 0.6)
    text = f"{percent(share)} of the episodes are cut after {say(length.median)} steps, all with a return of about {say(returns.median)}"
    # A few that get there in a fraction of the time that the task allows do not make it enough.
    short = 0.7 * min(grade(share, 0.4, 0.7), grade(-limit / usual, -0.4, -0.2)) if limit and usual else 0.0
    if short > strength:
        strength, text = short, f"{percent(share)} of the episodes are cut after {limit} steps; the task's own limit is {usual}"
    if strength <= 0:
        return
    own = usual if limit and usual and limit < usual else int(4 * length.median)
    longer = change(case, "env.max_episode_steps", own, "can a random or scripted agent get there in that time?", "> 30 %")
    curious = change(case, "algo.ent_coef", max(3 * (case.number("ent_coef") or 0.0), 0.01), "keep looking for the goal", "10-30 %")
    proof = evidence(TRUNCATED, text, *case.span, share=share)
    yield Finding(strength=strength, text=text, evidence=(proof,), remedies=(longer, curious))


@rule(
    "ENV625",
    severity=Severity.HIGH,
    needs=[LENGTH],
    cites=["pardo2018time"],
    causes=["episode-too-short"],
    bad=lambda: cases.foreign({**cases.flat_returns(6.0), "train/roll/ep_len_mean": 6.0, "val/roll/ep_len_mean": 6.0}),
    good=[
        lambda: cases.foreign({"train/roll/ep_len_mean": 60.0, "val/roll/ep_len_mean": 60.0}),
        # Episodes that end by themselves end at different times.
        lambda: cases.foreign({"train/roll/ep_len_mean": lambda share: 6.0 + 2 * share, "val/roll/ep_len_mean": 7.0}),
    ],
)
def every_episode_is_over_after_a_few_steps(case: Case) -> Iterator[Finding]:
    """Every episode has the same length, a few steps, in training and in evaluation.

    ## Why it hurts
    Something other than the task ends episodes: a time limit that is far too short. Nothing that takes longer can be reached or learned.

    ## When it is fine
    Tasks of a few decisions, such as bandits and short games.
    """
    length, judged = case.signal(LENGTH), case.signal(EVAL_LENGTH)
    ended = case.signal(TERMINATED)
    if len(length) < 4 or not case.sick or (case.time_limit and case.time_limit > 1.5 * length.median):
        return
    same = float(np.ptp(length.values)) <= 0.01 * length.median
    same = same and (not len(judged) or abs(judged.median - length.median) <= 0.01 * length.median)
    usual = case.count("spec.max_episode_steps")
    if not same or length.median < 2 or (usual and usual <= 1.5 * length.median) or (len(ended) and ended.top > 0 and case.ours):
        return
    # A run that once got better had time for something: a short game is as likely.
    strength = grade(-length.median, -16.0, -9.0) * (0.45 if case.improved else 1.0)
    if strength <= 0:
        return
    text = f"every episode is over after {say(length.median)} steps, in training and in evaluation"
    longer = change(case, "env.max_episode_steps", int(10 * length.median), "can a scripted agent get there in that time?", "> 30 %")
    yield Finding(strength=strength, text=text, evidence=(evidence(LENGTH, text, *case.span, length=length.median),), remedies=(longer,))


cause(
    "time-limit-as-terminal",
    "the time limit is treated as an end",
    "fault of environment",
    doses=["own-time-limit-if-it-ends-there", "show-the-clock-if-it-ends-there"],
    advice="report a time limit as truncated (gymnasium.wrappers.TimeLimit does), and add gamma x V(final observation) there",
    explains="VAL201 VAL211 VAL203",
    bug=BugLocation(
        fix="bootstrap with the value of the final observation where truncated is set and terminated is not",
        check="with a time limit of 1 step and reward 1 every step, the critic must approach 1 / (1 - gamma), not 1",
        rlclinic=("rlclinic/training/maths/returns.py", "gae", "next_value is kept where only truncated is set"),
        sb3=(
            "stable_baselines3/common/on_policy_algorithm.py",
            "OnPolicyAlgorithm.collect_rollouts",
            "an environment that does not say info['TimeLimit.truncated'] or has no terminal_observation",
        ),
        cleanrl=(
            "ppo.py",
            "the rollout loop around envs.step",
            (
                "next_done = np.logical_or(terminations, truncations) throws the difference away: add gamma * V(final_obs) to "
                "the reward of truncated steps"
            ),
        ),
        own="where terminated and truncated become one flag",
    ),
)


@rule(
    "ENV613",
    severity=Severity.MEDIUM,
    needs=[LENGTH, TRUNCATED, TERMINATED],
    cites=["pardo2018time"],
    certain=True,
    causes=["time-limit-as-terminal"],
    bad=lambda: cases.unsolved(
        {"train/roll/ep_len_mean": 500.0, "train/sentinel/truncated": 0.0, "train/sentinel/terminated": 3.0},
        settings={"env.max_episode_steps": 500},
    ),
)
def time_limit_reported_as_an_end(case: Case) -> Iterator[Finding]:
    """Episodes end at the time limit, but are reported as terminated.

    ## Why it hurts
    The critic learns that the last states before the limit are worth nothing, although the task goes on: values of good policies are
    too low, the more so the closer to the limit.

    ## When it is fine
    Where running out of time really is the end of the task.
    """
    limit = case.time_limit
    length, cut, ended = case.signal(LENGTH), case.signal(TRUNCATED), case.signal(TERMINATED)
    if not limit or len(length) < 4:
        return
    at_limit = length.values >= limit - 0.5
    share = float(at_limit.mean())
    if share < 0.2 or float(np.sum(cut.values)) > 0 or float(np.sum(ended.values)) == 0:
        return
    text = f"episodes last {say(length.top)} steps, the time limit, and all of them are reported as terminated"
    fix = advice("report the time limit as truncated (gymnasium.wrappers.TimeLimit does), and bootstrap there", "10-30 %")
    yield Finding(
        strength=grade(share, 0.1, 0.5), text=text, evidence=(evidence(TERMINATED, text, *case.span, share=share),), remedies=(fix,)
    )


cause(
    "time-limit-missing",
    "the time limit is not applied",
    "fault of environment",
    advice="wrap the environment in gymnasium.wrappers.TimeLimit",
)


@rule(
    "ENV614",
    severity=Severity.MEDIUM,
    needs=[LENGTH],
    cites=["pardo2018time"],
    certain=True,
    causes=["time-limit-missing"],
    bad=lambda: cases.unsolved({"train/roll/ep_len_mean": 900.0}, settings={"env.max_episode_steps": 500}),
)
def episodes_outlast_the_time_limit(case: Case) -> Iterator[Finding]:
    """Episodes are longer than the time limit that the config names.

    ## Why it hurts
    The limit is not applied: returns are not comparable with the threshold, and a run may never see an episode end.

    ## When it is fine
    Where the limit is counted in other units (frames before skipping).
    """
    limit = case.time_limit
    length = case.signal(LENGTH)
    if not limit or not length.top > limit + 0.5:
        return
    text = f"episodes last up to {say(length.top)} steps; the limit is {limit}"
    yield Finding(text=text, evidence=(evidence(LENGTH, text, *case.span, longest=length.top, limit=float(limit)),))


@rule(
    "ENV615",
    severity=Severity.MEDIUM,
    algos=ON_POLICY,
    needs=[sentinel("bootstrap_mass"), TRUNCATED],
    cites=["pardo2018time"],
    certain=True,
    causes=["time-limit-as-terminal"],
    bad=lambda: cases.unsolved({"train/sentinel/bootstrap_mass": 0.0, "train/sentinel/truncated": 2.0}),
)
def nothing_is_bootstrapped_at_time_limits(case: Case) -> Iterator[Finding]:
    """Episodes are cut by a time limit, and their targets end there as if the task were over.

    ## Why it hurts
    The same state is worth a lot early and nothing at the limit, and the critic cannot see the clock: values of good policies, whose
    episodes reach the limit, are too low and too noisy.

    ## When it is fine
    Where running out of time really is the end of the task.
    """
    mass, cut = case.signal(sentinel("bootstrap_mass")), case.signal(TRUNCATED)
    rows = [mass.at(step) for step, count in zip(cut.steps, cut.values, strict=True) if count >= 1]
    if len(rows) < 3 or float(np.median(rows)) > 1e-6:
        return
    text = f"in {len(rows)} rows with cut episodes none of the targets goes on behind the limit"
    fix = advice("add gamma x V(final observation) to the last reward of a truncated episode", "10-30 %")
    yield Finding(
        text=text, evidence=(evidence(sentinel("bootstrap_mass"), text, *case.span, median=float(np.median(rows))),), remedies=(fix,)
    )


@rule(
    "ENV617",
    severity=Severity.MEDIUM,
    needs=["threshold", RETURN, TRUNCATED, "config:env.max_episode_steps"],
    cites=["pardo2018time"],
    certain=True,
    causes=["episode-too-short"],
    bad=lambda: cases.solved(
        {"train/roll/ep_rew_mean": -50.0, "val/roll/ep_rew_mean": -50.0, "train/sentinel/truncated": 5.0, "train/sentinel/terminated": 0.0},
        settings={"env.max_episode_steps": 50, "spec.max_episode_steps": 200},
        threshold=-110.0,
    ),
)
def threshold_met_because_episodes_are_cut_short(case: Case) -> Iterator[Finding]:
    """The threshold is passed only because a shorter time limit leaves no time to lose more.

    ## Why it hurts
    The run counts as solved and has learned nothing: where each step costs, an episode cut after 50 steps costs 50.

    ## When it is fine
    Where the threshold was set for this very limit.
    """
    limit, usual = case.count("env.max_episode_steps"), case.count("spec.max_episode_steps")
    returns, cut, ended = case.signal(RETURN), case.signal(TRUNCATED), case.signal(TERMINATED)
    if case.solved_at is None or not limit or (usual and limit >= usual) or len(returns) < 4:
        return
    total = float(np.sum(cut.values) + (np.sum(ended.values) if len(ended) else 0.0))
    same = detect.spread(returns.values) <= 1e-6 * max(abs(returns.median), 1.0)
    if not same or total < 4 or float(np.sum(cut.values)) < 0.98 * total:
        return
    text = f"every episode is cut after {limit} steps with a return of {say(returns.median)}, from the first to the last"
    fix = change(case, "env.max_episode_steps", usual or 10 * limit, "the task's own limit", "> 30 %")
    yield Finding(text=text, evidence=(evidence(RETURN, text, *case.span, limit=float(limit)),), remedies=(fix,))


@rule(
    "ENV618",
    severity=Severity.HIGH,
    needs=[EPISODES],
    cites=["pardo2018time"],
    certain=True,
    causes=["time-limit-missing"],
    bad=lambda: cases.unsolved({"total_episodes": 0.0}),
)
def no_episode_ever_ends(case: Case) -> Iterator[Finding]:
    """Not one episode ended in the whole run.

    ## Why it hurts
    Nothing is ever started anew: what was visited once and left is never seen again, no return is known, and nothing tells the critic
    where a task is over. A missing time limit, or a `terminated` that cannot become true, looks like this.

    ## When it is fine
    Tasks that really go on for ever, with a return that is measured otherwise; a run that is shorter than one episode.
    """
    episodes, envs = case.signal(EPISODES), case.setting("env.n_envs") or 1
    each = case.trained / max(int(envs), 1)
    acts = case.algo not in OFFLINE
    if not acts or not len(episodes) or episodes.top > 0 or case.unfinished or each < LONG_ENOUGH:
        return
    text = f"no episode ended in {say(case.trained)} env steps, {say(each)} in each env"
    fix = advice("gymnasium.make(id, max_episode_steps=…), or wrappers.TimeLimit; then look at the condition of `terminated`", "> 30 %")
    proof = evidence(EPISODES, text, *case.span, steps_in_each=each)
    yield Finding(strength=grade(each, LONG_ENOUGH / 2, 2 * LONG_ENOUGH), text=text, evidence=(proof,), remedies=(fix,))
