"""The recipe for loops written by hand, in a small PPO of CleanRL's kind."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributions import Categorical

from rlclinic import metrics, readers
from rlclinic.errors import UsageError
from rlclinic.sentinels.torch_loop import Sentinels

S = "train/sentinel/"
STEPS, ENVS, ACTIONS = 16, 4, 3


class Writer:
    """As much of a SummaryWriter as is needed."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float, int]] = []

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.rows.append((name, value, step))


class Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, ACTIONS))
        self.critic = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))


def learn(writer: Any, *, watched: bool = True, broken: bool = False, iterations: int = 3) -> Agent:
    """Iterations of PPO on made-up data; `broken` stores the log-probabilities of another policy."""
    torch.manual_seed(0)
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-2)
    sentinels = Sentinels(agent, optimizer, max_grad_norm=0.5, n_actions=ACTIONS) if watched else None
    for iteration in range(iterations):
        obs = torch.randn(STEPS, ENVS, 2)
        with torch.no_grad():
            policy, values = Categorical(logits=agent.actor(obs)), agent.critic(obs).squeeze(-1)
        actions = policy.sample()
        logprobs = policy.log_prob(actions) + (0.3 if broken else 0.0)
        rewards = (actions == 1).float()
        advantages = rewards - rewards.mean()
        ends = torch.zeros(STEPS, ENVS, dtype=torch.bool)
        if sentinels is not None:
            sentinels.rollout(
                obs=obs, actions=actions, logprobs=logprobs, advantages=advantages, returns=rewards, values=values, rewards=rewards,
                terminations=ends, truncations=ends,
            )  # fmt: skip
        for _ in range(4):
            log_prob = Categorical(logits=agent.actor(obs)).log_prob(actions)
            ratio = (log_prob - logprobs).exp()
            if sentinels is not None:
                sentinels.minibatch(ratio=ratio, advantages=advantages)
            loss = -(ratio * advantages).mean() + (agent.critic(obs).squeeze(-1) - rewards).square().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
        if sentinels is not None:
            sentinels.row(writer, STEPS * ENVS * (iteration + 1))
    return agent


def test_an_iteration_is_written_under_our_names() -> None:
    writer = Writer()
    learn(writer)
    last = {name: value for name, value, step in writer.rows if step == 3 * STEPS * ENVS}
    assert [name for name in last if metrics.find(name) is None] == []
    assert last[S + "ratio_first_dev"] < 1e-5
    assert (last[S + "updates"], last[S + "optimizer_steps"], last[S + "terminated"]) == (4.0, 12.0, 0.0)
    assert last[S + "adv_logp_corr"] > 0.5
    assert 0 < last[S + "update_ratio_max"] < 1
    assert 0.9 < last[S + "entropy_relative"] < 1.1
    assert last["train/metrics/grad_norm/all"] > 0


def test_wrong_log_probabilities_show_in_the_first_minibatch() -> None:
    writer = Writer()
    learn(writer, broken=True)
    assert [value for name, value, _ in writer.rows if name == S + "ratio_first_dev"] == pytest.approx([0.259] * 3, abs=0.01)


def test_weights_are_the_same_with_it_and_without() -> None:
    alone, seen = learn(None, watched=False), learn(Writer())
    assert all(torch.equal(one, other) for one, other in zip(alone.parameters(), seen.parameters(), strict=True))


def test_rows_in_a_file_are_read_back(tmp_path: Path) -> None:
    learn(tmp_path / "sentinels.csv", iterations=5)
    (history,) = readers.read(tmp_path)
    assert history[S + "adv_std"].steps.tolist() == [64.0, 128.0, 192.0, 256.0, 320.0]


def test_what_is_forgotten_or_misspelt_is_named() -> None:
    sentinels = Sentinels(Agent())
    with pytest.raises(UsageError, match=r"lacks actions, .*\n.*\n  Type: sentinels.rollout\(obs="):
        sentinels.rollout(obs=torch.zeros(2, 2))
    given = dict.fromkeys(("obs", "actions", "advantages", "returns", "values", "rewards"), torch.zeros(2, 1))
    with pytest.raises(UsageError, match="does not know log_probs"):
        sentinels.rollout(**given, log_probs=torch.zeros(2, 1))


def test_bounds_and_resets_are_seen_where_they_are_given() -> None:
    sentinels = Sentinels(Agent(), action_low=[-1.0], action_high=[1.0], obs_low=[-1.0], obs_high=[1.0])
    column = torch.tensor([[0.5], [2.0], [3.0], [0.0]])
    sentinels.rollout(
        obs=column, actions=column, advantages=column, returns=column, values=column, rewards=column,
        final_obs=torch.tensor([[0.1], [0.2]]), reset_obs=torch.tensor([[0.1], [0.3]]),
    )  # fmt: skip
    row = sentinels.row(Writer(), 4)
    assert (row[S + "action_at_bound"], row[S + "obs_out_of_bounds"], row[S + "next_obs_is_reset"]) == (0.5, 1.0, 0.5)
