"""Faults that people write, each planted in a clean script: what is replaced by what, and where the fault must be reported.

The scripts and the faults were written before the checks were changed to find them. Half of the styles are held out (`HELD_OUT`): the
checks are developed on the other half. The choice is by the hash of the style's name, and so by nobody's taste.
"""

# ruff: noqa: E501 — a line of code is replaced by another one, and reads best whole

import hashlib
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

SCRIPTS: Final = Path(__file__).parent / "scripts"
STYLES: Final = tuple(
    sorted(
        ("cleanrl", "spinningup", "tutorial", "class_agent", "sb3", "lightning"), key=lambda name: hashlib.sha256(name.encode()).hexdigest()
    )
)
DEVELOPMENT: Final = STYLES[:3]
HELD_OUT: Final = STYLES[3:]

FAULTS: Final = {
    # name: the checks that may report it
    "no-done-mask": ("COD501",),
    "target-from-online-network": ("COD536", "COD307"),
    "target-with-gradient": ("COD307",),
    "column-against-row": ("COD601", "COD602"),
    "truncation-as-end": ("COD101",),
    "mask-inverted": ("COD502",),
    "flags-one-step-early": ("COD515",),
    "stored-after-the-step": ("COD121", "COD122", "COD123"),
    "advantage-with-gradient": ("COD306",),
    "old-log-prob-recomputed": ("COD208",),
    "ratio-without-exp": ("COD207",),
    "policy-loss-sign": ("COD302", "COD303", "COD523", "COD524"),
    "surrogate-extreme": ("COD301",),
    "entropy-sign": ("COD304",),
    "value-loss-sign": ("COD305",),
    "clip-bounds": ("COD209",),
    "log-prob-of-new-action": ("COD210",),
    "log-prob-not-summed": ("COD211",),
    "no-zero-grad": ("COD401", "COD412"),
    "step-before-backward": ("COD403",),
    "cleared-before-step": ("COD402",),
    "clipped-after-step": ("COD407",),
    "parameters-without-optimizer": ("COD406", "COD414"),
    "gradient-lost": ("COD308",),
    "tanh-without-correction": ("COD202",),
    "squashed-log-prob": ("COD201",),
    "softmax-twice": ("COD204",),
    "scores-as-probabilities": ("COD205",),
    "no-rsample": ("COD521",),
    "actor-loss-detached": ("COD528",),
    "target-never-updated": ("COD506",),
    "target-is-the-network": ("COD507",),
    "target-copied-every-step": ("COD537",),
    "copied-the-wrong-way": ("COD534",),
    "polyak-shares-swapped": ("COD527",),
    "larger-of-two-critics": ("COD522",),
    "soft-value-sign": ("COD523",),
    "temperature-sign": ("COD525", "COD526"),
    "smoothing-noise-unclipped": ("COD529",),
    "noisy-action-unclipped": ("COD530",),
    "index-for-value": ("COD532",),
    "maximum-over-batch": ("COD533",),
    "no-reset": ("COD105",),
    "observation-not-carried": ("COD106",),
    "epsilon-constant": ("COD508", "COD513"),
    "exploration-inverted": ("COD511",),
    "no-exploration": ("COD509", "COD206"),
    "tiny-memory": ("COD535",),
    "trace-not-cut": ("COD503",),
    "returns-forwards": ("COD504",),
    "returns-reversed": ("COD505",),
    "returns-lack-value": ("COD514",),
    "discount-too-large": ("COD512",),
    "learning-rate": ("COD413", "COD809"),
    "hopeless-argument": ("COD809", "COD535", "COD413", "COD801", "COD802", "COD512"),
    "evaluated-on-training-env": ("COD704",),
    "normalizer-in-evaluation": ("COD701", "COD703", "COD706", "COD702"),
    "counter-restarted": ("COD803",),
    "load-dropped": ("COD708",),
    "limit-as-terminated": ("COD110",),
    "seed-ignored": ("COD109",),
    "same-episode": ("COD903",),
    "old-step": ("COD102", "COD107", "COD104", "COD108"),
}


class Mutant(NamedTuple):
    """One fault in one script."""

    script: str
    """Style and name: cleanrl/dqn."""
    fault: str
    right: str
    wrong: str
    at: tuple[str, ...] = ()
    """Texts on whose line the fault may be reported; without any, the first line of what was written in."""
    beside: tuple[int, ...] | None = None
    """Where lines are numbered instead: those on which it may be reported beside all that was written in."""

    @property
    def style(self) -> str:
        return self.script.partition("/")[0]

    @property
    def text(self) -> str:
        return text_of(self.script).replace(self.right, self.wrong, 1)

    @property
    def lines(self) -> set[int]:
        """Where the fault may be reported."""
        text = self.text
        if self.beside is not None:
            first = text_of(self.script).partition(self.right)[0].count("\n") + 1
            return {*range(first, first + self.wrong.count("\n") + 1), *self.beside}
        marks = self.at or ((self.wrong.lstrip("\n").splitlines() or [""])[0],)
        return {text[: place + len(mark) - len(mark.lstrip())].count("\n") + 1 for mark in marks for place in _places(text, mark)}


def _places(text: str, mark: str) -> list[int]:
    return [place for place in range(len(text)) if text.startswith(mark, place)]


@cache
def text_of(script: str) -> str:
    """A clean script."""
    return (SCRIPTS / f"{script}.py").read_text()


SEALED: Final = frozenset(
    {"eleventh_spinningup", "eleventh_tutorial", "eleventh_lightning", "twelfth_agent", "twelfth_cleanrl", "twelfth_lightning"}
)
"""Styles of which nothing but totals is ever shown: what runs over all scripts leaves them out."""


def clean(also: tuple[str, ...] = ()) -> list[str]:
    """Every clean script, by style and name, but for those of the sealed styles that are not asked for."""
    hidden = SEALED - set(also)
    return sorted(f"{path.parent.name}/{path.stem}" for path in SCRIPTS.glob("*/*.py") if path.parent.name not in hidden)


_PPO, _DQN, _SAC, _LISTS, _TD3 = (
    "cleanrl/ppo_discrete", "cleanrl/dqn", "cleanrl/sac_continuous", "cleanrl/ppo_continuous_lists", "cleanrl/td3",
)  # fmt: skip
_CLEANRL = [
    Mutant(
        _PPO,
        "mask-inverted",
        "nextnonterminal = 1.0 - dones[t + 1]",
        "nextnonterminal = dones[t + 1]",
        ("nextnonterminal = dones[t + 1]", "delta = rewards[t]", "advantages[t] = lastgaelam"),
    ),
    Mutant(_PPO, "flags-one-step-early", "1.0 - dones[t + 1]", "1.0 - dones[t]", ("nextnonterminal = 1.0 - dones[t]",)),
    Mutant(
        _PPO,
        "trace-not-cut",
        "args.gae_lambda * nextnonterminal * lastgaelam",
        "args.gae_lambda * lastgaelam",
        ("advantages[t] = lastgaelam",),
    ),
    Mutant(
        _PPO,
        "no-done-mask",
        "args.gamma * nextvalues * nextnonterminal - values[t]",
        "args.gamma * nextvalues - values[t]",
        ("delta = rewards[t]",),
    ),
    Mutant(_PPO, "returns-lack-value", "returns = advantages + values", "returns = advantages - values"),
    Mutant(_PPO, "ratio-without-exp", "ratio = logratio.exp()", "ratio = logratio"),
    Mutant(_PPO, "surrogate-extreme", "torch.max(pg_loss1, pg_loss2)", "torch.min(pg_loss1, pg_loss2)", ("pg_loss = torch.min",)),
    Mutant(
        _PPO,
        "policy-loss-sign",
        "pg_loss1 = -mb_advantages * ratio\n                pg_loss2 = -mb_advantages *",
        "pg_loss1 = mb_advantages * ratio\n                pg_loss2 = mb_advantages *",
        ("pg_loss1 = mb", "pg_loss2 = mb", "pg_loss = torch.max"),
    ),
    Mutant(_PPO, "entropy-sign", "pg_loss - args.ent_coef", "pg_loss + args.ent_coef", ("loss = pg_loss +",)),
    Mutant(_PPO, "column-against-row", "                newvalue = newvalue.view(-1)\n", "", ("v_loss = 0.5",)),
    Mutant(
        _PPO,
        "log-prob-of-new-action",
        "agent.get_action_and_value(b_obs[mb_inds], b_actions.long()[mb_inds])",
        "agent.get_action_and_value(b_obs[mb_inds])",
        ("_, newlogprob, entropy", "logratio = newlogprob"),
    ),
    Mutant(_PPO, "no-zero-grad", "                optimizer.zero_grad()\n", "", ("loss.backward()", "optimizer.step()")),
    Mutant(
        _PPO,
        "clip-bounds",
        "torch.clamp(ratio, 1 - args.clip_coef, 1 + args.clip_coef)",
        "torch.clamp(ratio, -args.clip_coef, args.clip_coef)",
        ("pg_loss2 =",),
    ),
    Mutant(
        _PPO,
        "stored-after-the-step",
        "            obs[step] = next_obs\n            dones[step] = next_done\n            with torch.no_grad():\n                action, logprob, _, value = agent.get_action_and_value(next_obs)\n                values[step] = value.flatten()\n            actions[step] = action\n            logprobs[step] = logprob\n            next_obs, reward, terminations, truncations, infos = envs.step(action.cpu().numpy())\n",
        "            dones[step] = next_done\n            with torch.no_grad():\n                action, logprob, _, value = agent.get_action_and_value(next_obs)\n                values[step] = value.flatten()\n            actions[step] = action\n            logprobs[step] = logprob\n            next_obs, reward, terminations, truncations, infos = envs.step(action.cpu().numpy())\n            obs[step] = torch.Tensor(next_obs)\n",
        ("obs[step] = torch.Tensor(next_obs)",),
    ),
    Mutant(
        _PPO,
        "old-log-prob-recomputed",
        "logratio = newlogprob - b_logprobs[mb_inds]",
        "_, oldlogprob, _, _ = agent.get_action_and_value(b_obs[mb_inds], b_actions.long()[mb_inds])\n                logratio = newlogprob - oldlogprob.detach()",
        ("_, oldlogprob, _, _", "logratio = newlogprob", "ratio = logratio.exp()"),
    ),
    Mutant(_DQN, "no-done-mask", "args.gamma * target_max * (1 - data.dones.flatten())", "args.gamma * target_max", ("td_target = data",)),
    Mutant(
        _DQN,
        "target-from-online-network",
        "target_max, _ = target_network(data.next_observations)",
        "target_max, _ = q_network(data.next_observations)",
        ("target_max, _ = q_network",),
    ),
    Mutant(
        _DQN,
        "target-with-gradient",
        "                with torch.no_grad():\n                    target_max, _ = target_network(data.next_observations).max(dim=1)\n                    td_target =",
        "                target_max, _ = q_network(data.next_observations).max(dim=1)\n                td_target =",
        ("target_max, _ = q_network", "td_target =", "loss = F.mse_loss"),
    ),
    Mutant(
        _DQN, "column-against-row", ".gather(1, data.actions).squeeze()", ".gather(1, data.actions)", ("old_val =", "loss = F.mse_loss")
    ),
    Mutant(
        _DQN,
        "truncation-as-end",
        "rb.add(obs, real_next_obs, actions, rewards, terminations, infos)",
        "dones = np.logical_or(terminations, truncations)\n        rb.add(obs, real_next_obs, actions, rewards, dones, infos)",
        ("dones = np.logical_or", "rb.add(obs", "td_target ="),
    ),
    Mutant(
        _DQN,
        "target-never-updated",
        "            if global_step % args.target_network_frequency == 0:\n                for target_param, param in zip(target_network.parameters(), q_network.parameters()):\n                    target_param.data.copy_(args.tau * param.data + (1.0 - args.tau) * target_param.data)\n",
        "",
        ("target_network = QNetwork", "target_network.load_state_dict", "target_max, _ = target_network"),
    ),
    Mutant(_DQN, "exploration-inverted", "random.random() < epsilon", "random.random() > epsilon", ("if random.random()",)),
    Mutant(
        _DQN,
        "observation-not-carried",
        "        obs = next_obs\n",
        "",
        ("next_obs, rewards, terminations", "actions = torch.argmax", "q_values = q_network", "rb.add(obs"),
    ),
    Mutant(_DQN, "maximum-over-batch", ".max(dim=1)", ".max(dim=0)", ("target_max, _ =", "td_target =")),
    Mutant(
        _SAC,
        "larger-of-two-critics",
        "torch.min(qf1_next_target, qf2_next_target)",
        "torch.max(qf1_next_target, qf2_next_target)",
        ("min_qf_next_target = torch.max",),
    ),
    Mutant(_SAC, "soft-value-sign", "- alpha * next_state_log_pi", "+ alpha * next_state_log_pi", ("min_qf_next_target = torch.min",)),
    Mutant(_SAC, "soft-value-sign", "((alpha * log_pi) - min_qf_pi)", "((alpha * log_pi) + min_qf_pi)", ("actor_loss = ",)),
    Mutant(
        _SAC,
        "temperature-sign",
        "(-log_alpha.exp() * (log_pi + target_entropy))",
        "(log_alpha.exp() * (log_pi + target_entropy))",
        ("alpha_loss = ",),
    ),
    Mutant(_SAC, "temperature-sign", "target_entropy = -torch.prod", "target_entropy = torch.prod"),
    Mutant(
        _SAC,
        "tanh-without-correction",
        "        log_prob -= torch.log(self.action_scale * (1 - y_t.pow(2)) + 1e-6)\n",
        "",
        ("log_prob = normal.log_prob(x_t)", "y_t = torch.tanh(x_t)", "log_prob = log_prob.sum"),
    ),
    Mutant(_SAC, "no-rsample", "normal.rsample()", "normal.sample()", ("x_t = normal.sample()",)),
    Mutant(
        _SAC,
        "no-done-mask",
        "(1 - data.dones.flatten()) * args.gamma * (min_qf_next_target).view(-1)",
        "args.gamma * (min_qf_next_target).view(-1)",
        ("next_q_value = ",),
    ),
    Mutant(
        _SAC,
        "column-against-row",
        "qf1_a_values = qf1(data.observations, data.actions).view(-1)",
        "qf1_a_values = qf1(data.observations, data.actions)",
        ("qf1_a_values = ", "qf1_loss = "),
    ),
    Mutant(
        _SAC,
        "polyak-shares-swapped",
        "zip(qf1.parameters(), qf1_target.parameters()):\n                    target_param.data.copy_(args.tau * param.data + (1 - args.tau) * target_param.data)",
        "zip(qf1.parameters(), qf1_target.parameters()):\n                    target_param.data.copy_((1 - args.tau) * param.data + args.tau * target_param.data)",
        ("target_param.data.copy_((1 - args.tau)",),
    ),
    Mutant(_LISTS, "mask-inverted", "* (1.0 - terminals[t])", "* terminals[t]", ("delta = rewards[t]",)),
    Mutant(_LISTS, "trace-not-cut", " * (1.0 - ends[t]) * running", " * running", ("running = delta",)),
    Mutant(
        _LISTS,
        "truncation-as-end",
        "terminals.append(float(terminated))",
        "terminals.append(float(terminated or truncated))",
        ("terminals.append", "delta = rewards[t]"),
    ),
    Mutant(
        _LISTS,
        "log-prob-not-summed",
        "new_logprob = dist.log_prob(b_actions[idx]).sum(-1)",
        "new_logprob = dist.log_prob(b_actions[idx])",
        ("new_logprob =", "ratio = torch.exp"),
    ),
    Mutant(
        _LISTS,
        "column-against-row",
        "return self.critic(x).squeeze(-1)",
        "return self.critic(x)",
        ("value_loss =", "return self.critic(x)"),
    ),
    Mutant(
        _LISTS,
        "no-reset",
        "            if terminated or truncated:\n                obs, _ = env.reset()\n",
        "",
        ("next_obs, reward, terminated",),
    ),
    Mutant(
        _LISTS,
        "stored-after-the-step",
        "            observations.append(x)\n",
        "            observations.append(torch.as_tensor(next_obs, dtype=torch.float32))\n",
        ("observations.append(torch",),
    ),
    Mutant(
        _LISTS,
        "step-before-backward",
        "                loss.backward()\n                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)\n                optimizer.step()\n",
        "                optimizer.step()\n                loss.backward()\n",
        ("optimizer.step()",),
    ),
    Mutant(
        _TD3,
        "smoothing-noise-unclipped",
        "(torch.randn_like(data.actions) * args.policy_noise).clamp(-args.noise_clip, args.noise_clip)",
        "torch.randn_like(data.actions) * args.policy_noise",
        ("clipped_noise = torch.randn_like", "next_state_actions ="),
    ),
    Mutant(
        _TD3,
        "noisy-action-unclipped",
        "actions.cpu().numpy().clip(low, high)",
        "actions.cpu().numpy()",
        ("actions = actions.cpu().numpy()", "actions += torch.normal", "next_obs, rewards, terminations"),
    ),
    Mutant(_TD3, "policy-loss-sign", "actor_loss = -qf1(", "actor_loss = qf1("),
    Mutant(
        _TD3,
        "target-from-online-network",
        "qf1_target(data.next_observations, next_state_actions)",
        "qf1(data.next_observations, next_state_actions)",
        ("qf1_next_target = qf1(",),
    ),
    Mutant(
        _TD3,
        "actor-loss-detached",
        "qf1(data.observations, actor(data.observations)).mean()",
        "qf1(data.observations, actor(data.observations).detach()).mean()",
        ("actor_loss =",),
    ),
]

_DQN, _PPO, _TD3, _A2C, _SAC, _DOUBLE, _REINFORCE = (
    f"class_agent/{name}_agent" for name in ("dqn", "ppo", "td3", "a2c", "sac", "double_dqn", "reinforce")
)
_CLASSES = [
    Mutant(_DQN, "no-done-mask", "self.gamma * (1.0 - terminated) * next_q", "self.gamma * next_q", ("return reward + self.gamma",)),
    Mutant(
        _DQN,
        "mask-inverted",
        "self.gamma * (1.0 - terminated) * next_q",
        "self.gamma * terminated * next_q",
        ("return reward + self.gamma",),
    ),
    Mutant(
        _DQN, "target-from-online-network", "next_q = self.target_q(next_obs)", "next_q = self.q(next_obs)", ("next_q = self.q(next_obs)",)
    ),
    Mutant(
        _DQN,
        "target-with-gradient",
        "        with torch.no_grad():\n            next_q = self.target_q(next_obs).max(dim=1).values\n",
        "        next_q = self.q(next_obs).max(dim=1).values\n",
        ("next_q = self.q(next_obs)", "return reward + self.gamma", "target = self.td_target", "loss = F.smooth"),
    ),
    Mutant(
        _DQN,
        "column-against-row",
        ".gather(1, action.unsqueeze(1)).squeeze(1)",
        ".gather(1, action.unsqueeze(1))",
        ("predicted =", "loss = F.smooth"),
    ),
    Mutant(
        _DQN,
        "truncation-as-end",
        "self.memory.push(obs, action, reward, next_obs, terminated)",
        "self.memory.push(obs, action, reward, next_obs, terminated or truncated)",
        ("self.memory.push", "return reward + self.gamma"),
    ),
    Mutant(
        _DQN,
        "stored-after-the-step",
        "                self.memory.push(obs, action, reward, next_obs, terminated)\n                obs = next_obs\n",
        "                obs = next_obs\n                self.memory.push(obs, action, reward, next_obs, terminated)\n",
        ("self.memory.push",),
    ),
    Mutant(
        _DQN,
        "target-copied-every-step",
        "                if self.n_steps % self.sync_every == 0:\n                    self.target_q.load_state_dict(self.q.state_dict())\n",
        "                self.target_q.load_state_dict(self.q.state_dict())\n",
        ("                self.target_q.load_state_dict",),
    ),
    Mutant(
        _DQN,
        "target-never-updated",
        "                if self.n_steps % self.sync_every == 0:\n                    self.target_q.load_state_dict(self.q.state_dict())\n",
        "",
        ("self.target_q = QNet", "        self.target_q.load_state_dict", "next_q = self.target_q"),
    ),
    Mutant(
        _DQN,
        "epsilon-constant",
        "            self.epsilon = max(self.eps_min, self.epsilon * self.eps_decay)\n",
        "",
        ("self.epsilon = 1.0", "random.random() < self.epsilon"),
    ),
    Mutant(_DQN, "no-zero-grad", "        self.optimizer.zero_grad()\n", "", ("loss.backward()", "self.optimizer.step()")),
    Mutant(_DQN, "target-is-the-network", "self.target_q = QNet(n_obs, n_act)", "self.target_q = self.q"),
    Mutant(
        _DQN,
        "observation-not-carried",
        "                obs = next_obs\n",
        "",
        ("next_obs, reward, terminated, truncated", "action = self.act(obs)", "self.memory.push"),
    ),
    Mutant(_DQN, "index-for-value", ".max(dim=1).values", ".max(dim=1).indices", ("next_q = ", "return reward + self.gamma")),
    Mutant(
        _PPO,
        "truncation-as-end",
        "self.value_of(next_obs), terminated, ended)",
        "self.value_of(next_obs), ended, ended)",
        ("self.rollout.add(", "delta = data.rewards", "ended = terminated or truncated"),
    ),
    Mutant(_PPO, "mask-inverted", "* (1 - data.ended[t]) * gae", "* data.ended[t] * gae", ("gae = delta",)),
    Mutant(_PPO, "trace-not-cut", "* (1 - data.ended[t]) * gae", "* gae", ("gae = delta",)),
    Mutant(_PPO, "ratio-without-exp", "(log_probs - old_log_probs[rows]).exp()", "log_probs - old_log_probs[rows]", ("ratio = log_probs",)),
    Mutant(_PPO, "policy-loss-sign", "policy_loss = -surrogate.mean()", "policy_loss = surrogate.mean()"),
    Mutant(_PPO, "entropy-sign", "value_loss - self.ent_coef", "value_loss + self.ent_coef", ("loss = policy_loss +",)),
    Mutant(_PPO, "value-loss-sign", "policy_loss + 0.5 * value_loss", "policy_loss - 0.5 * value_loss", ("loss = policy_loss -",)),
    Mutant(
        _PPO,
        "old-log-prob-recomputed",
        "(log_probs - old_log_probs[rows]).exp()",
        "(log_probs - log_probs.detach()).exp()",
        ("ratio = (log_probs",),
    ),
    Mutant(_PPO, "surrogate-extreme", "surrogate = torch.min(", "surrogate = torch.max("),
    Mutant(_PPO, "column-against-row", "self.value(hidden).squeeze(-1)", "self.value(hidden)", ("return Categorical(", "value_loss =")),
    Mutant(
        _PPO,
        "clipped-after-step",
        "                nn.utils.clip_grad_norm_(self.policy.parameters(), 0.5)\n                self.optimizer.step()\n",
        "                self.optimizer.step()\n                nn.utils.clip_grad_norm_(self.policy.parameters(), 0.5)\n",
        ("nn.utils.clip_grad_norm_",),
    ),
    Mutant(
        _PPO,
        "parameters-without-optimizer",
        "torch.optim.Adam(self.policy.parameters(), lr=lr)",
        "torch.optim.Adam([*self.policy.trunk.parameters(), *self.policy.logits.parameters()], lr=lr)",
        ("self.optimizer = torch", "self.policy = Policy", "self.value = nn.Linear"),
    ),
    Mutant(_TD3, "larger-of-two-critics", "torch.min(target_Q1, target_Q2)", "torch.max(target_Q1, target_Q2)", ("target_Q = torch.max",)),
    Mutant(
        _TD3, "no-done-mask", "reward + not_done * self.discount * target_Q", "reward + self.discount * target_Q", ("target_Q = reward",)
    ),
    Mutant(
        _TD3,
        "smoothing-noise-unclipped",
        "(torch.randn_like(action) * self.policy_noise).clamp(-self.noise_clip, self.noise_clip)",
        "torch.randn_like(action) * self.policy_noise",
        ("noise = torch.randn_like", "next_action ="),
    ),
    Mutant(
        _TD3,
        "noisy-action-unclipped",
        "(agent.select_action(np.array(state)) + noise).clip(-max_action, max_action)",
        "agent.select_action(np.array(state)) + noise",
        ("action = agent.select", "next_state, reward, terminated"),
    ),
    Mutant(_TD3, "policy-loss-sign", "actor_loss = -self.critic.Q1", "actor_loss = self.critic.Q1"),
    Mutant(
        _TD3,
        "polyak-shares-swapped",
        "(self.tau * param.data + (1 - self.tau) * target_param.data)\n            for",
        "(self.tau * target_param.data + (1 - self.tau) * param.data)\n            for",
        ("target_param.data.copy_(self.tau * target_param",),
    ),
    Mutant(_TD3, "mask-inverted", "self.not_done[self.ptr] = 1.0 - terminal", "self.not_done[self.ptr] = terminal"),
    Mutant(
        _TD3,
        "target-from-online-network",
        "target_Q1, target_Q2 = self.critic_target(next_state, next_action)",
        "target_Q1, target_Q2 = self.critic(next_state, next_action)",
    ),
    Mutant(_A2C, "advantage-with-gradient", "advantages.detach() * dist", "advantages * dist", ("policy_loss =", "advantages = returns")),
    Mutant(_A2C, "no-done-mask", "self.gamma * ret * (1.0 - terminal)", "self.gamma * ret", ("ret = reward",)),
    Mutant(_A2C, "returns-reversed", "        returns.reverse()\n", "", ("returns.append(ret)", "return torch.stack(returns)")),
    Mutant(
        _A2C,
        "column-against-row",
        "return self.critic(obs).squeeze(-1)",
        "return self.critic(obs)",
        ("return self.critic(obs)", "value_loss =", "advantages = returns"),
    ),
    Mutant(
        _A2C,
        "scores-as-probabilities",
        "Categorical(logits=self.policy(obs))",
        "Categorical(self.policy(obs))",
        ("return torch.distributions",),
    ),
    Mutant(
        _SAC,
        "tanh-without-correction",
        "(dist.log_prob(raw) - torch.log(1 - action.pow(2) + 1e-6)).sum",
        "dist.log_prob(raw).sum",
        ("log_prob = dist", "action = torch.tanh"),
    ),
    Mutant(
        _SAC,
        "soft-value-sign",
        "alpha * log_prob - torch.min(q1_new, q2_new)",
        "alpha * log_prob + torch.min(q1_new, q2_new)",
        ("policy_loss =",),
    ),
    Mutant(_SAC, "temperature-sign", "alpha_loss = -(self.log_alpha", "alpha_loss = (self.log_alpha"),
    Mutant(
        _SAC,
        "target-with-gradient",
        "        with torch.no_grad():\n            next_action, next_log_prob = self.policy.sample(next_obs)\n            next_q1, next_q2 = self.critic_target(next_obs, next_action)\n            next_value = torch.min(next_q1, next_q2) - alpha * next_log_prob\n            target =",
        "        next_action, next_log_prob = self.policy.sample(next_obs)\n        next_q1, next_q2 = self.critic(next_obs, next_action)\n        next_value = torch.min(next_q1, next_q2) - alpha * next_log_prob\n        target =",
        ("next_q1, next_q2 =", "next_value =", "target = reward", "critic_loss ="),
    ),
    Mutant(_DOUBLE, "no-done-mask", "            next_q[terminals] = 0.0\n", "", ("y = rewards",)),
    Mutant(_DOUBLE, "target-from-online-network", "next_q = self.target(next_obs)", "next_q = self.online(next_obs)"),
    Mutant(
        _DOUBLE,
        "target-never-updated",
        "        self.soft_update()\n",
        "",
        ("self.target.load_state_dict", "def soft_update", "slow.lerp_", "next_q = self.target"),
    ),
    Mutant(_REINFORCE, "policy-loss-sign", "loss = -(torch.stack", "loss = (torch.stack"),
    Mutant(
        _REINFORCE,
        "returns-forwards",
        "for reward in reversed(self.rewards):",
        "for reward in self.rewards:",
        ("for reward in", "running = reward"),
    ),
]

_DQN, _PPO, _SAC, _REINFORCE, _A2C, _DDPG = (f"lightning/{name}_module" for name in ("dqn", "ppo", "sac", "reinforce", "a2c", "ddpg"))
_LIGHTNING = [
    Mutant(_DQN, "no-done-mask", "            next_state_values[terminals] = 0.0\n", "", ("expected_state_action_values = rewards",)),
    Mutant(
        _DQN, "target-from-online-network", "next_state_values = self.target_net(next_states)", "next_state_values = self.net(next_states)"
    ),
    Mutant(
        _DQN,
        "target-with-gradient",
        "        with torch.no_grad():\n            next_state_values = self.target_net(next_states).max(1)[0]\n            next_state_values[terminals] = 0.0\n        expected",
        "        next_state_values = self.net(next_states).max(1)[0] * ~terminals\n        expected",
        ("next_state_values = self.net", "expected_state_action_values =", "return nn.MSELoss()("),
    ),
    Mutant(
        _DQN,
        "column-against-row",
        "actions.long().unsqueeze(-1)).squeeze(-1)",
        "actions.long().unsqueeze(-1))",
        ("state_action_values = self.net", "return nn.MSELoss()("),
    ),
    Mutant(
        _DQN,
        "truncation-as-end",
        "self.buffer.append((self.state, action, reward, terminated, new_state))",
        "self.buffer.append((self.state, action, reward, terminated or truncated, new_state))",
        ("self.buffer.append((self.state", "next_state_values[terminals]"),
    ),
    Mutant(
        _DQN,
        "stored-after-the-step",
        "        self.buffer.append((self.state, action, reward, terminated, new_state))\n        self.state = new_state\n",
        "        self.state = new_state\n        self.buffer.append((self.state, action, reward, terminated, new_state))\n",
        ("self.buffer.append((self.state",),
    ),
    Mutant(
        _DQN,
        "target-never-updated",
        "        if self.global_step % self.hparams.sync_rate == 0:\n            self.target_net.load_state_dict(self.net.state_dict())\n",
        "",
        ("self.target_net = deepcopy", "next_state_values = self.target_net"),
    ),
    Mutant(
        _DQN,
        "target-copied-every-step",
        "        if self.global_step % self.hparams.sync_rate == 0:\n            self.target_net.load_state_dict(self.net.state_dict())\n",
        "        self.target_net.load_state_dict(self.net.state_dict())\n",
        ("self.target_net.load_state_dict",),
    ),
    Mutant(_DQN, "tiny-memory", "ReplayBuffer(50_000)", "ReplayBuffer(100)", ("self.buffer = ReplayBuffer",)),
    Mutant(_PPO, "mask-inverted", "(1 - ended[t]) * last", "ended[t] * last", ("last = delta",)),
    Mutant(
        _PPO,
        "truncation-as-end",
        "reward, float(term), float(term or trunc)",
        "reward, float(term or trunc), float(term or trunc)",
        ("rewards[t], terminated[t]", "delta = rewards[t]"),
    ),
    Mutant(
        _PPO,
        "stored-after-the-step",
        "            next_obs[t] = torch.as_tensor(new_obs)\n",
        "            next_obs[t] = torch.as_tensor(new_obs)\n            obs[t] = torch.as_tensor(new_obs)\n",
        ("            obs[t] = torch.as_tensor(new_obs)",),
    ),
    Mutant(_PPO, "ratio-without-exp", "ratio = torch.exp(logp - logp_old)", "ratio = logp - logp_old"),
    Mutant(_PPO, "policy-loss-sign", "return -torch.min(ratio * adv", "return torch.min(ratio * adv"),
    Mutant(_PPO, "surrogate-extreme", "return -torch.min(ratio * adv", "return -torch.max(ratio * adv"),
    Mutant(_PPO, "entropy-sign", "returns) - self.hparams.ent_coef", "returns) + self.hparams.ent_coef", ("loss = self.actor_loss",)),
    Mutant(
        _PPO,
        "column-against-row",
        "return self.critic(obs).squeeze(-1)",
        "return self.critic(obs)",
        ("return self.critic(obs)", "return F.mse_loss(self.values", "delta = rewards[t]"),
    ),
    Mutant(_PPO, "no-zero-grad", "            opt.zero_grad()\n", "", ("self.manual_backward(loss)", "opt.step()")),
    Mutant(
        _PPO,
        "parameters-without-optimizer",
        "torch.optim.Adam(self.parameters(), lr=self.hparams.lr, eps=1e-5)",
        "torch.optim.Adam(self.actor.parameters(), lr=self.hparams.lr, eps=1e-5)",
        ("return torch.optim.Adam", "self.critic = nn.Sequential"),
    ),
    Mutant(_SAC, "larger-of-two-critics", "next_q = torch.min(", "next_q = torch.max("),
    Mutant(_SAC, "soft-value-sign", "(next_q - alpha * next_logp)", "(next_q + alpha * next_logp)", ("targets = rewards",)),
    Mutant(_SAC, "soft-value-sign", "(alpha * logp - q_pi).mean()", "(alpha * logp + q_pi).mean()", ("actor_loss =",)),
    Mutant(_SAC, "temperature-sign", "alpha_loss = -(self.log_alpha", "alpha_loss = (self.log_alpha"),
    Mutant(_SAC, "temperature-sign", "self.target_entropy = -n_act", "self.target_entropy = n_act"),
    Mutant(
        _SAC,
        "tanh-without-correction",
        "dist.log_prob(raw).sum(-1) - torch.log(1 - action**2 + 1e-6).sum(-1)",
        "dist.log_prob(raw).sum(-1)",
        ("logp = dist", "action = torch.tanh"),
    ),
    Mutant(_SAC, "no-rsample", "dist.rsample()", "dist.sample()", ("raw = dist.sample()",)),
    Mutant(
        _SAC,
        "step-before-backward",
        "        self.manual_backward(actor_loss)\n        actor_opt.step()\n",
        "        actor_opt.step()\n        self.manual_backward(actor_loss)\n",
        ("actor_opt.step()",),
    ),
    Mutant(_SAC, "no-done-mask", "self.hparams.gamma * (1 - terminals) * (next_q", "self.hparams.gamma * (next_q", ("targets = rewards",)),
    Mutant(_REINFORCE, "policy-loss-sign", "loss = -(log_probs * returns)", "loss = (log_probs * returns)"),
    Mutant(
        _REINFORCE,
        "returns-reversed",
        "torch.tensor(returns[::-1])",
        "torch.tensor(returns)",
        ("return torch.tensor(returns)", "returns.append(total)"),
    ),
    Mutant(
        _REINFORCE,
        "returns-forwards",
        "for reward in reversed(rewards):\n            total = reward + self.hparams.gamma * total\n            returns.append(total)\n        return torch.tensor(returns[::-1])",
        "for reward in rewards:\n            total = reward + self.hparams.gamma * total\n            returns.append(total)\n        return torch.tensor(returns)",
        ("for reward in rewards", "total = reward"),
    ),
    Mutant(_REINFORCE, "entropy-sign", ".mean() - 0.01 * entropies", ".mean() + 0.01 * entropies", ("loss = -(log_probs",)),
    Mutant(_A2C, "advantage-with-gradient", "targets - values.detach()", "targets - values", ("advantages = targets", "policy_loss =")),
    Mutant(
        _A2C,
        "target-with-gradient",
        "        with torch.no_grad():\n            _, next_values = self(next_obs)\n            targets =",
        "        _, next_values = self(next_obs)\n        targets =",
        ("_, next_values =", "targets =", "value_loss ="),
    ),
    Mutant(_A2C, "no-done-mask", "next_values * (1 - terminated)", "next_values", ("targets = rewards",)),
    Mutant(
        _A2C,
        "column-against-row",
        "self.value_head(hidden).squeeze(-1)",
        "self.value_head(hidden)",
        ("return self.policy_head", "value_loss =", "targets =", "advantages ="),
    ),
    Mutant(_DDPG, "policy-loss-sign", "actor_loss = -self.critic", "actor_loss = self.critic"),
    Mutant(_DDPG, "target-from-online-network", "next_q = self.critic_target(next_obs", "next_q = self.critic(next_obs"),
    Mutant(
        _DDPG,
        "noisy-action-unclipped",
        "        return action.clamp(-self.hparams.max_action, self.hparams.max_action)\n",
        "        return action\n",
        ("return action", "action = self.actor(obs) +"),
    ),
    Mutant(
        _DDPG,
        "polyak-shares-swapped",
        "self.hparams.tau * p.data + (1 - self.hparams.tau) * tp.data",
        "self.hparams.tau * tp.data + (1 - self.hparams.tau) * p.data",
        ("tp.data.copy_",),
    ),
]

_PPO, _SAC, _DDPG, _VPG, _TD3, _DQN, _GAE = (
    f"spinningup/{name}" for name in ("ppo", "sac", "ddpg", "vpg_simple", "td3_losses", "dqn_functions", "gae_buffer")
)
_SPINNINGUP = [
    Mutant(_PPO, "ratio-without-exp", "ratio = torch.exp(logp - logp_old)", "ratio = logp - logp_old"),
    Mutant(_PPO, "surrogate-extreme", "loss_pi = -(torch.min(", "loss_pi = -(torch.max("),
    Mutant(_PPO, "policy-loss-sign", "loss_pi = -(torch.min(", "loss_pi = (torch.min("),
    Mutant(
        _PPO,
        "clip-bounds",
        "torch.clamp(ratio, 1 - clip_ratio, 1 + clip_ratio)",
        "torch.clamp(ratio, 1 + clip_ratio, 1 - clip_ratio)",
        ("clip_adv =",),
    ),
    Mutant(
        _PPO,
        "column-against-row",
        "return torch.squeeze(self.v(obs), -1)",
        "return self.v(obs)",
        ("return self.v(obs)", "return ((ac.value(obs) - ret)"),
    ),
    Mutant(_PPO, "no-zero-grad", "            pi_optimizer.zero_grad()\n", "", ("loss_pi.backward()", "pi_optimizer.step()")),
    Mutant(
        _PPO,
        "cleared-before-step",
        "            loss_v.backward()\n            vf_optimizer.step()\n",
        "            loss_v.backward()\n            vf_optimizer.zero_grad()\n            vf_optimizer.step()\n",
        (
            "            loss_v.backward()\n            vf_optimizer.zero_grad()",
            "            vf_optimizer.zero_grad()\n            vf_optimizer.step()",
            "vf_optimizer.step()",
        ),
    ),
    Mutant(
        _PPO,
        "stored-after-the-step",
        "            buf.store(o, a, r, v, logp)\n            o = next_o\n",
        "            o = next_o\n            buf.store(o, a, r, v, logp)\n",
        ("buf.store(o",),
    ),
    Mutant(_PPO, "old-log-prob-recomputed", "ratio = torch.exp(logp - logp_old)", "ratio = torch.exp(logp - logp.detach())"),
    Mutant(_SAC, "no-done-mask", "gamma * (1 - d) * (q_pi_targ", "gamma * (q_pi_targ", ("backup = r",)),
    Mutant(_SAC, "mask-inverted", "gamma * (1 - d) * (q_pi_targ", "gamma * d * (q_pi_targ", ("backup = r",)),
    Mutant(_SAC, "soft-value-sign", "(q_pi_targ - alpha * logp_a2)", "(q_pi_targ + alpha * logp_a2)", ("backup = r",)),
    Mutant(_SAC, "soft-value-sign", "return (alpha * logp_pi - q_pi).mean()", "return (alpha * logp_pi + q_pi).mean()"),
    Mutant(_SAC, "larger-of-two-critics", "q_pi_targ = torch.min(q1_pi_targ", "q_pi_targ = torch.max(q1_pi_targ"),
    Mutant(
        _SAC,
        "target-from-online-network",
        "q1_pi_targ = ac_targ.q1(o2, a2)\n            q2_pi_targ = ac_targ.q2(o2, a2)",
        "q1_pi_targ = ac.q1(o2, a2)\n            q2_pi_targ = ac.q2(o2, a2)",
        ("q1_pi_targ = ac.q1", "q2_pi_targ = ac.q2", "backup = r"),
    ),
    Mutant(
        _SAC,
        "tanh-without-correction",
        "        logp_pi -= (2 * (np.log(2) - pi_action - F.softplus(-2 * pi_action))).sum(axis=1)\n",
        "",
        ("logp_pi = pi_distribution", "return self.act_limit * torch.tanh"),
    ),
    Mutant(_SAC, "no-rsample", "pi_distribution.rsample()", "pi_distribution.sample()", ("pi_action = mu",)),
    Mutant(
        _SAC,
        "truncation-as-end",
        "replay_buffer.store(o, a, r, o2, terminated)",
        "replay_buffer.store(o, a, r, o2, terminated or truncated)",
        ("replay_buffer.store", "backup = r"),
    ),
    Mutant(_SAC, "stored-after-the-step", "replay_buffer.store(o, a, r, o2, terminated)", "replay_buffer.store(o2, a, r, o2, terminated)"),
    Mutant(_DDPG, "policy-loss-sign", "return -q_pi.mean()", "return q_pi.mean()"),
    Mutant(
        _DDPG,
        "target-with-gradient",
        "        with torch.no_grad():\n            q_pi_targ = ac_targ.q(o2, ac_targ.pi(o2))\n            backup =",
        "        q_pi_targ = ac.q(o2, ac.pi(o2))\n        backup =",
        ("q_pi_targ = ac.q", "backup = r", "return ((q - backup)"),
    ),
    Mutant(
        _DDPG,
        "noisy-action-unclipped",
        "return np.clip(a, -act_limit, act_limit)",
        "return a",
        ("return a", "a += noise_scale", "o2, r, d, truncated"),
    ),
    Mutant(
        _DDPG,
        "target-never-updated",
        "        with torch.no_grad():\n            for p, p_targ in zip(ac.parameters(), ac_targ.parameters()):\n                p_targ.data.mul_(polyak)\n                p_targ.data.add_((1 - polyak) * p.data)\n",
        "",
        ("ac_targ = deepcopy", "q_pi_targ = ac_targ"),
    ),
    Mutant(_DDPG, "column-against-row", "return torch.squeeze(q, -1)", "return q", ("return q\n", "return ((q - backup)", "backup = r")),
    Mutant(
        _DDPG,
        "polyak-shares-swapped",
        "p_targ.data.mul_(polyak)\n                p_targ.data.add_((1 - polyak) * p.data)",
        "p_targ.data.mul_(1 - polyak)\n                p_targ.data.add_(polyak * p.data)",
        ("p_targ.data.mul_", "p_targ.data.add_"),
    ),
    Mutant(_DDPG, "no-done-mask", "gamma * (1 - d) * q_pi_targ", "gamma * q_pi_targ", ("backup = r",)),
    Mutant(_VPG, "policy-loss-sign", "return -(logp * weights).mean()", "return (logp * weights).mean()"),
    Mutant(
        _VPG,
        "stored-after-the-step",
        "            batch_obs.append(obs.copy())\n            act = get_action(torch.as_tensor(obs, dtype=torch.float32))\n            obs, rew, terminated, truncated, _ = env.step(act)\n",
        "            act = get_action(torch.as_tensor(obs, dtype=torch.float32))\n            obs, rew, terminated, truncated, _ = env.step(act)\n            batch_obs.append(obs.copy())\n",
        ("batch_obs.append",),
    ),
    Mutant(_VPG, "no-zero-grad", "        optimizer.zero_grad()\n", "", ("batch_loss.backward()", "optimizer.step()")),
    Mutant(
        _TD3,
        "smoothing-noise-unclipped",
        "            epsilon = torch.clamp(epsilon, -noise_clip, noise_clip)\n",
        "",
        ("epsilon = torch.randn_like", "a2 = torch.clamp"),
    ),
    Mutant(_TD3, "larger-of-two-critics", "q_pi_targ = torch.min(", "q_pi_targ = torch.max("),
    Mutant(_TD3, "policy-loss-sign", "return -q1_pi.mean()", "return q1_pi.mean()"),
    Mutant(_DQN, "target-from-online-network", "best = q_targ(o2)", "best = q(o2)"),
    Mutant(_DQN, "column-against-row", "q(o).gather(1, a).squeeze(-1)", "q(o).gather(1, a)", ("q_a =", "return nn.functional")),
    Mutant(_DQN, "no-done-mask", "gamma * (1 - d) * best", "gamma * best", ("backup = r",)),
    Mutant(
        _DQN,
        "target-copied-every-step",
        "        if t % sync == 0:\n            q_targ.load_state_dict(q.state_dict())\n",
        "        q_targ.load_state_dict(q.state_dict())\n",
        ("q_targ.load_state_dict",),
    ),
    Mutant(_DQN, "epsilon-constant", "eps = max(eps_end, 1.0 - t / eps_steps)", "eps = 1.0", ("eps = 1.0", "if np.random.rand() < eps")),
    Mutant(
        _GAE,
        "returns-lack-value",
        "self.adv_buf[path] + self.val_buf[path]",
        "self.adv_buf[path] - self.val_buf[path]",
        ("self.ret_buf[path] =",),
    ),
    Mutant(
        _GAE, "returns-forwards", "for t in reversed(range(len(rews))):", "for t in range(len(rews)):", ("for t in range", "adv = delta")
    ),
]

_REINFORCE, _DQN, _ONE, _A2C, _TABLE, _PLAIN, _DDPG = (
    f"tutorial/{name}"
    for name in ("reinforce", "dqn_cartpole", "actor_critic", "a2c_rollouts", "q_learning_table", "reinforce_plain", "ddpg_step")
)
_TUTORIALS = [
    Mutant(
        _REINFORCE,
        "advantage-with-gradient",
        "    vals = torch.stack(vals)\n    adv = rets - vals.detach()\n",
        "    adv = rets - torch.stack(vals)\n    vals = torch.stack(vals)\n",
        ("adv = rets", "policy_loss ="),
    ),
    Mutant(
        _REINFORCE,
        "column-against-row",
        "vals.append(baseline(s).squeeze(-1))",
        "vals.append(baseline(s))",
        ("vals.append(baseline(s))", "adv = rets", "value_loss =", "vals = torch.stack"),
    ),
    Mutant(_REINFORCE, "policy-loss-sign", "policy_loss = -(torch.stack", "policy_loss = (torch.stack"),
    Mutant(_REINFORCE, "returns-reversed", "rets.insert(0, G)", "rets.append(G)"),
    Mutant(
        _REINFORCE,
        "returns-forwards",
        "    for r in reversed(rews):\n        G = r + gamma * G\n        rets.insert(0, G)",
        "    for r in rews:\n        G = r + gamma * G\n        rets.append(G)",
        ("for r in rews", "G = r"),
    ),
    Mutant(
        _REINFORCE, "gradient-lost", "-(torch.stack(logps) * adv)", "-(torch.tensor(logps, requires_grad=True) * adv)", ("policy_loss =",)
    ),
    Mutant(_REINFORCE, "no-zero-grad", "    opt.zero_grad()\n", "", ("loss.backward()", "opt.step()")),
    Mutant(
        _REINFORCE,
        "parameters-without-optimizer",
        "list(policy.parameters()) + list(baseline.parameters())",
        "policy.parameters()",
        ("opt = torch", "baseline = nn"),
    ),
    Mutant(_REINFORCE, "value-loss-sign", "policy_loss + 0.5 * value_loss", "policy_loss - 0.5 * value_loss", ("loss = policy_loss",)),
    Mutant(
        _DQN,
        "no-done-mask",
        "GAMMA * next_state_values * (1 - terminal_batch)",
        "GAMMA * next_state_values",
        ("expected_state_action_values = reward",),
    ),
    Mutant(
        _DQN,
        "target-with-gradient",
        "    with torch.no_grad():\n        next_state_values = target_net(next_state_batch).max(1).values\n",
        "    next_state_values = policy_net(next_state_batch).max(1).values\n",
        ("next_state_values = policy_net", "expected_state_action_values = reward", "loss = criterion"),
    ),
    Mutant(_DQN, "target-from-online-network", "next_state_values = target_net(next", "next_state_values = policy_net(next"),
    Mutant(
        _DQN, "column-against-row", "expected_state_action_values.unsqueeze(1))", "expected_state_action_values)", ("loss = criterion",)
    ),
    Mutant(
        _DQN,
        "truncation-as-end",
        "torch.tensor([float(terminated)], device=device)",
        "torch.tensor([float(terminated or truncated)], device=device)",
        ("memory.push", "expected_state_action_values = reward"),
    ),
    Mutant(_DQN, "exploration-inverted", "if random.random() > eps_threshold:", "if random.random() < eps_threshold:"),
    Mutant(
        _DQN,
        "stored-after-the-step",
        "        memory.push(state, action, next_state, reward, torch.tensor([float(terminated)], device=device))\n        state = next_state\n",
        "        state = next_state\n        memory.push(state, action, next_state, reward, torch.tensor([float(terminated)], device=device))\n",
        ("memory.push",),
    ),
    Mutant(
        _DQN,
        "polyak-shares-swapped",
        "policy_net_state_dict[key] * TAU + target_net_state_dict[key] * (1 - TAU)",
        "policy_net_state_dict[key] * (1 - TAU) + target_net_state_dict[key] * TAU",
        ("target_net_state_dict[key] = policy",),
    ),
    Mutant(_DQN, "tiny-memory", "ReplayMemory(10000)", "ReplayMemory(200)", ("memory = Replay",)),
    Mutant(_DQN, "discount-too-large", "128, 0.99, 0.9", "128, 9.9, 0.9", ("BATCH_SIZE, GAMMA",)),
    Mutant(_ONE, "advantage-with-gradient", "td_error.detach()", "td_error", ("td_error = target", "actor_loss =")),
    Mutant(
        _ONE,
        "target-with-gradient",
        "        with torch.no_grad():\n            _, next_value = model(torch.from_numpy(next_obs).float())\n            target =",
        "        _, next_value = model(torch.from_numpy(next_obs).float())\n        target =",
        ("_, next_value =", "target = reward", "td_error = target", "critic_loss ="),
    ),
    Mutant(_ONE, "entropy-sign", "critic_loss - beta * dist", "critic_loss + beta * dist", ("loss = actor_loss",)),
    Mutant(_ONE, "policy-loss-sign", "actor_loss = -dist.log_prob", "actor_loss = dist.log_prob"),
    Mutant(_ONE, "observation-not-carried", "        obs = next_obs\n", "", ("next_obs, reward, terminated", "dist, value = model")),
    Mutant(_ONE, "no-done-mask", "next_value * (0.0 if terminated else 1.0)", "next_value", ("target = reward",)),
    Mutant(_A2C, "advantage-with-gradient", "(returns - values).detach()", "(returns - values)", ("advantages = ", "actor_loss =")),
    Mutant(_A2C, "column-against-row", "critic(S).squeeze(1)", "critic(S)", ("values = critic(S)", "advantages =", "critic_loss =")),
    Mutant(_A2C, "entropy-sign", ".mean() - 0.01 * dist", ".mean() + 0.01 * dist", ("actor_loss =",)),
    Mutant(_A2C, "no-done-mask", "gamma * R * (1 - ended[i])", "gamma * R", ("R = rewards[i]",)),
    Mutant(_A2C, "mask-inverted", "gamma * R * (1 - ended[i])", "gamma * R * ended[i]", ("R = rewards[i]",)),
    Mutant(_A2C, "softmax-twice", "dist = Categorical(actor(S))", "dist = Categorical(logits=actor(S))"),
    Mutant(_TABLE, "no-done-mask", "np.max(Q[s2]) * (not terminated)", "np.max(Q[s2])", ("target = r",)),
    Mutant(
        _TABLE, "epsilon-constant", "    epsilon = max(floor, epsilon * decay)\n", "", ("epsilon, decay, floor", "rng.random() < epsilon")
    ),
    Mutant(_TABLE, "observation-not-carried", "        s = s2\n", "", ("s2, r, terminated", "a = env.action_space")),
    Mutant(_PLAIN, "policy-loss-sign", "torch.stack([-lp * g", "torch.stack([lp * g", ("loss = torch.stack",)),
    Mutant(_PLAIN, "returns-reversed", "torch.tensor(out[::-1])", "torch.tensor(out)", ("out = torch.tensor(out)", "out.append(g)")),
    Mutant(
        _PLAIN,
        "softmax-twice",
        "torch.distributions.Categorical(probs)",
        "torch.distributions.Categorical(logits=probs)",
        ("m = torch.distributions",),
    ),
    Mutant(_DDPG, "policy-loss-sign", "actor_loss = -critic(", "actor_loss = critic("),
    Mutant(
        _DDPG,
        "noisy-action-unclipped",
        "np.clip(action + np.random.normal(0, 0.1 * bound, size=1), -bound, bound)",
        "action + np.random.normal(0, 0.1 * bound, size=1)",
        ("action = action + np", "next_state, reward, terminated"),
    ),
    Mutant(_DDPG, "no-done-mask", "0.99 * (1 - term) * q_next", "0.99 * q_next", ("y = r",)),
    Mutant(_DDPG, "no-reset", "    if terminated or truncated:\n        state, _ = env.reset()\n", "", ("next_state, reward, terminated",)),
    Mutant(
        _DDPG,
        "target-never-updated",
        "    soft_update(actor_target, actor)\n    soft_update(critic_target, critic)\n",
        "",
        ("actor_target, critic_target = ", "def soft_update", "q_next = critic_target"),
    ),
]

_PPO, _DQN, _SAC, _NORMAL, _CUSTOM, _NOISE, _SCHEDULE, _RESUME = (
    f"sb3/{name}"
    for name in ("ppo_vec", "dqn_cartpole", "sac_pendulum", "ppo_normalized", "a2c_custom_env", "td3_noise", "linear_schedule", "resume")
)
_SB3 = [
    Mutant(_PPO, "learning-rate", "learning_rate=3e-4,", "learning_rate=0.02,", ("learning_rate=0.02", "model = PPO(")),
    Mutant(_PPO, "hopeless-argument", "ent_coef=0.01,", "ent_coef=1.0,", ("ent_coef=1.0", "model = PPO(")),
    Mutant(_PPO, "hopeless-argument", "gamma=0.999,", "gamma=0.2,", ("gamma=0.2", "model = PPO(")),
    Mutant(_PPO, "hopeless-argument", "clip_range=0.2,", "clip_range=20,", ("clip_range=20", "model = PPO(")),
    Mutant(_PPO, "hopeless-argument", "n_steps=1024,", "n_steps=100_000,", ("n_steps=100_000", "model = PPO(", "model.learn(")),
    Mutant(_PPO, "hopeless-argument", "batch_size=64,", "batch_size=60,", ("batch_size=60", "model = PPO(")),
    Mutant(_PPO, "evaluated-on-training-env", "EvalCallback(eval_env,", "EvalCallback(venv,", ("callback = EvalCallback",)),
    Mutant(
        _DQN,
        "hopeless-argument",
        "learning_starts=1_000,",
        "learning_starts=50_000,",
        ("learning_starts=50_000", "model = DQN(", "model.learn("),
    ),
    Mutant(_DQN, "hopeless-argument", "buffer_size=100_000,", "buffer_size=200,", ("buffer_size=200", "model = DQN(")),
    Mutant(_DQN, "learning-rate", "learning_rate=2.3e-3,", "learning_rate=0.5,", ("learning_rate=0.5", "model = DQN(")),
    Mutant(
        _DQN,
        "hopeless-argument",
        "target_update_interval=10,",
        "target_update_interval=1_000_000,",
        ("target_update_interval", "model = DQN("),
    ),
    Mutant(
        _DQN, "hopeless-argument", "exploration_final_eps=0.04,", "exploration_final_eps=1.0,", ("exploration_final_eps", "model = DQN(")
    ),
    Mutant(_DQN, "hopeless-argument", "batch_size=64,", "batch_size=2,", ("batch_size=2", "model = DQN(")),
    Mutant(_SAC, "hopeless-argument", "learning_starts=100,", "learning_starts=20_000,", ("model = SAC(", "model.learn(")),
    Mutant(_SAC, "hopeless-argument", "buffer_size=200_000,", "buffer_size=200,", ("model = SAC(",)),
    Mutant(_SAC, "learning-rate", "learning_rate=1e-3,", "learning_rate=0.1,", ("model = SAC(",)),
    Mutant(_SAC, "hopeless-argument", "tau=0.005,", "tau=5.0,", ("model = SAC(",)),
    Mutant(_SAC, "hopeless-argument", "gradient_steps=1,", "gradient_steps=0,", ("model = SAC(",)),
    Mutant(
        _SAC,
        "load-dropped",
        'model = SAC.load("sac_pendulum")',
        'model = SAC("MlpPolicy", train_env, seed=3)\nmodel.load("sac_pendulum")',
        ('model.load("sac',),
    ),
    Mutant(
        _SAC,
        "evaluated-on-training-env",
        'eval_env = Monitor(gym.make("Pendulum-v1"))',
        "eval_env = train_env",
        ("eval_env = train_env", "obs, reward, terminated, truncated, _ = eval_env", "obs, _ = eval_env"),
    ),
    Mutant(
        _NORMAL,
        "normalizer-in-evaluation",
        '    venv = VecNormalize.load(f"{path}/normalizer.pkl", venv)\n    venv.training = False\n    venv.norm_reward = False\n',
        "",
        ("return evaluate_policy", "venv = make_vec_env", "model = PPO.load"),
    ),
    Mutant(
        _NORMAL,
        "normalizer-in-evaluation",
        "    venv.training = False\n    venv.norm_reward = False\n",
        "",
        ("venv = VecNormalize.load", "return evaluate_policy"),
    ),
    Mutant(
        _NORMAL,
        "normalizer-in-evaluation",
        'VecNormalize.load(f"{path}/normalizer.pkl", venv)',
        "VecNormalize(venv)",
        ("venv = VecNormalize(venv)", "return evaluate_policy"),
    ),
    Mutant(_NORMAL, "learning-rate", "learning_rate=3e-4", "learning_rate=0.02", ("model = PPO(",)),
    Mutant(
        _CUSTOM,
        "limit-as-terminated",
        "terminated = self.position == 0\n        truncated = self.steps >= self.limit",
        "terminated = self.position == 0 or self.steps >= self.limit\n        truncated = False",
        ("terminated = self", "truncated = False", "return self._observe(), reward"),
    ),
    Mutant(_CUSTOM, "seed-ignored", "        super().reset(seed=seed)\n", "", ("def reset",)),
    Mutant(
        _CUSTOM,
        "old-step",
        "reward, terminated, truncated, {}",
        "reward, terminated or truncated, {}",
        ("return self._observe(), reward", "def step"),
    ),
    Mutant(_CUSTOM, "hopeless-argument", "n_steps=8, seed=0", "n_steps=8, gamma=0.1, seed=0", ("model = A2C(",)),
    Mutant(_NOISE, "hopeless-argument", "learning_starts=10_000", "learning_starts=100_000", ("model = TD3(", "model.learn(")),
    Mutant(_NOISE, "hopeless-argument", "sigma=0.1 * np.ones", "sigma=10.0 * np.ones", ("noise = Normal",)),
    Mutant(
        _NOISE,
        "evaluated-on-training-env",
        'evaluate_policy(model, Monitor(gym.make("Pendulum-v1")),',
        "evaluate_policy(model, env,",
        ("mean, _ = evaluate",),
    ),
    Mutant(_SCHEDULE, "hopeless-argument", "vf_coef=0.5", "vf_coef=-0.5", ("model = PPO(",)),
    Mutant(_RESUME, "counter-restarted", ", reset_num_timesteps=False", "", ("model.learn(",)),
    Mutant(_RESUME, "hopeless-argument", "learning_starts=5_000", "learning_starts=500_000", ("model = SAC(", "model.learn(")),
    Mutant(_RESUME, "learning-rate", "learning_rate=3e-4", "learning_rate=0.02", ("model = SAC(",)),
    Mutant(_RESUME, "hopeless-argument", "buffer_size=1_000_000", "buffer_size=200", ("model = SAC(",)),
]

MUTANTS: Final = (*_CLEANRL, *_CLASSES, *_LIGHTNING, *_SPINNINGUP, *_TUTORIALS, *_SB3)
