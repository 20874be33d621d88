"""Clean scripts with one small mistake each: what is replaced by what, and the check that must notice."""

# ruff: noqa: E501 — a line of code is replaced by another one, and reads best whole

from pathlib import Path
from typing import NamedTuple

SCRIPTS = Path(__file__).parent / "scripts"


class Twin(NamedTuple):
    """One mistake in one script."""

    id: str
    script: str
    right: str
    wrong: str


PPO, DQN, REINFORCE, SB3, SB3_DQN, SAC = (
    "ppo_single_file", "dqn_functions", "reinforce_classes", "sb3_normalized", "sb3_dqn", "sac_compact",
)  # fmt: skip

TWINS = [
    # ── episodes ──
    Twin(
        "COD101", PPO, "            next_terminated = torch.Tensor(terminated).to(device)",
        "            next_done = np.logical_or(terminated, truncated)\n            next_terminated = torch.Tensor(next_done).to(device)\n"
        "            bootstrap = args.gamma * (1.0 - next_done)",
    ),
    Twin(
        "COD101", DQN, "memory.add(obs, action, reward, next_obs, terminated)\n        obs = next_obs",
        "done = terminated or truncated\n        goal = reward + GAMMA * q_net(next_obs).max() * (1 - done)\n        obs = next_obs",
    ),
    Twin("COD102", DQN, "next_obs, reward, terminated, truncated, _ = env.step(action)", "next_obs, reward, terminated, _ = env.step(action)"),
    Twin("COD103", DQN, "import gymnasium as gym", "import gym"),
    Twin("COD104", DQN, "    obs, _ = env.reset(seed=SEED)\n", "    obs = env.reset(seed=SEED)\n"),
    Twin("COD105", DQN, "        if terminated or truncated:\n            obs, _ = env.reset()\n", ""),
    Twin("COD106", DQN, "        obs = next_obs\n", ""),
    Twin("COD106", SAC, "        obs = next_obs\n", ""),
    Twin("COD107", REINFORCE, "terminated, truncated, {}", "terminated or truncated, {}"),
    Twin("COD108", REINFORCE, "        return self.look(), {}\n", "        return torch.zeros(2).numpy().copy()\n"),
    Twin("COD109", REINFORCE, "def reset(self, *, seed=None, options=None):\n        super().reset(seed=seed)", "def reset(self):"),
    Twin("COD109", REINFORCE, "        super().reset(seed=seed)\n", ""),
    Twin(
        "COD110", REINFORCE, "        terminated = abs(self.inside) > 40\n        truncated = self.steps >= self.max_steps\n",
        "        terminated = self.steps >= self.max_steps\n        truncated = False\n",
    ),
    Twin(
        "COD111", REINFORCE, "        terminated = abs(self.inside) > 40\n        truncated = self.steps >= self.max_steps\n",
        "        terminated = False\n        truncated = False\n",
    ),
    Twin(
        "COD121",
        DQN,
        "        memory.add(obs, action, reward, next_obs, terminated)\n        obs = next_obs\n",
        "        obs = next_obs\n        memory.add(obs, action, reward, next_obs, terminated)\n",
    ),
    Twin(
        "COD122",
        DQN,
        "        next_obs, reward, terminated, truncated, _ = env.step(action)\n        memory.add(obs, action, reward, next_obs, terminated)\n        obs = next_obs\n",
        "        obs, reward, terminated, truncated, _ = env.step(action)\n        memory.add(obs, action, reward, terminated)\n",
    ),
    # ── policy ──
    Twin("COD201", REINFORCE, "            action = dist.sample()\n", "            action = dist.sample().clamp(-1, 1)\n"),
    Twin("COD201", REINFORCE, "dist.log_prob(action).sum()", "dist.log_prob(torch.tanh(action)).sum()"),
    Twin("COD202", SAC, " - torch.log(1 - action.pow(2) + 1e-6)", ""),
    Twin(
        "COD203", REINFORCE, "            seen.append(state)\n",
        "            clipped = action.clamp(-1, 1)\n            seen.append((state, clipped))\n",
    ),
    Twin("COD204", PPO, "logits = self.actor(x)\n", "logits = torch.softmax(self.actor(x), dim=-1)\n"),
    Twin("COD205", PPO, "Categorical(logits=logits)", "Categorical(logits)"),
    Twin("COD205", PPO, "Categorical(logits=logits)", "Categorical(probs=logits)"),
    Twin(
        "COD206", PPO, "            actions[step] = action\n            logprobs[step] = logprob\n",
        "            logits = agent.actor(next_obs)\n            action = logits.argmax(-1)\n            actions[step] = action\n"
        "            logprobs[step] = logprob\n",
    ),
    Twin("COD207", PPO, "ratio = logratio.exp()", "ratio = newlogprob - b_logprobs[mb_inds]"),
    Twin("COD208", PPO, "logratio = newlogprob - b_logprobs[mb_inds]", "logratio = newlogprob - newlogprob.detach()"),
    Twin("COD209", PPO, "1 - args.clip_coef, 1 + args.clip_coef", "-args.clip_coef, args.clip_coef"),
    Twin("COD209", PPO, "1 - args.clip_coef, 1 + args.clip_coef", "1 + args.clip_coef, 1 - args.clip_coef"),
    # ── losses ──
    Twin("COD301", PPO, "torch.max(pg_loss1, pg_loss2)", "torch.min(pg_loss1, pg_loss2)"),
    Twin(
        "COD302", PPO, "                pg_loss1 = -mb_advantages * ratio\n                pg_loss2 = -mb_advantages * torch.clamp(",
        "                pg_loss1 = mb_advantages * ratio\n                pg_loss2 = mb_advantages * torch.clamp(",
    ),
    Twin("COD303", REINFORCE, "policy_loss = -(torch.stack(log_probs) * advantage).mean()", "policy_loss = (torch.stack(log_probs) * advantage).mean()"),
    Twin("COD304", PPO, "pg_loss - args.ent_coef * entropy_loss", "pg_loss + args.ent_coef * entropy_loss"),
    Twin("COD304", PPO, "entropy_loss = entropy.mean()", "entropy_loss = -entropy.mean()"),
    Twin("COD305", PPO, "+ v_loss * args.vf_coef", "- v_loss * args.vf_coef"),
    Twin("COD306", REINFORCE, "advantage = (returns - values).detach()", "advantage = returns - values"),
    Twin("COD307", DQN, "    with torch.no_grad():\n        next_q = target_net(next_obs).max(1)[0]\n        target = reward", "    next_q = q_net(next_obs).max(1)[0]\n    target = reward"),
    Twin("COD308", REINFORCE, "-(torch.stack(log_probs) * advantage)", "-(torch.tensor(log_probs, requires_grad=True) * advantage)"),
    Twin("COD309", PPO, "(mb_advantages - mb_advantages.mean()) / (mb_advantages.std()", "(mb_advantages - b_advantages.mean()) / (mb_advantages.std()"),
    Twin("COD310", PPO, "/ (mb_advantages.std() + 1e-8)", "/ mb_advantages.std()"),
    # ── updates ──
    Twin("COD401", PPO, "                optimizer.zero_grad()\n", ""),
    Twin("COD401", REINFORCE, "        self.value_optimizer.zero_grad()\n", ""),
    Twin("COD402", DQN, "    optimizer.zero_grad()\n    loss.backward()\n", "    loss.backward()\n    optimizer.zero_grad()\n"),
    Twin("COD403", DQN, "    loss.backward()\n    optimizer.step()\n", "    optimizer.step()\n    loss.backward()\n"),
    Twin("COD404", DQN, "    loss.backward()\n    optimizer.step()\n", "    loss.backward()\n"),
    Twin("COD404", REINFORCE, "        self.value_optimizer.step()\n", ""),
    Twin("COD405", DQN, "    memory = Memory(50_000)\n", "    q_net = QNetwork(4, 3)\n    memory = Memory(50_000)\n"),
    Twin("COD406", REINFORCE, "[*self.policy.parameters(), self.log_std]", "self.policy.parameters()"),
    Twin("COD406", SAC, "[*qf1.parameters(), *qf2.parameters()]", "qf1.parameters()"),
    Twin(
        "COD407", PPO, "                loss.backward()\n                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)\n                optimizer.step()\n",
        "                loss.backward()\n                optimizer.step()\n                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)\n",
    ),
    Twin("COD408", PPO, "(update - 1.0) / num_updates", "(update - 1.0) / args.total_timesteps"),
    Twin(
        "COD409", REINFORCE, "    for episode in range(2_000):\n",
        "    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(agent.policy_optimizer, T_max=50)\n    for episode in range(2_000):\n        scheduler.step()\n",
    ),
    Twin("COD410", DQN, "nn.Linear(n_obs, 120), nn.ReLU(),", "nn.Linear(n_obs, 120), nn.ReLU(), nn.Dropout(0.2),"),
    Twin(
        "COD411", PPO, "            with torch.no_grad():\n                action, logprob, _, value = agent.get_action_and_value(next_obs)\n                values[step] = value.flatten()\n",
        "            action, logprob, _, value = agent.get_action_and_value(next_obs)\n            values[step] = value.flatten()\n",
    ),
    Twin("COD413", PPO, "lr=args.learning_rate, eps=1e-5", "lr=2.5, eps=1e-5"),
    Twin("COD413", SB3, "learning_rate=1e-3", "learning_rate=0.3"),
    # ── targets ──
    Twin("COD501", DQN, "GAMMA * next_q * (1 - terminated)", "GAMMA * next_q"),
    Twin("COD501", SAC, "GAMMA * (1 - batch.terminated) * next_q", "GAMMA * next_q"),
    Twin("COD502", DQN, "GAMMA * next_q * (1 - terminated)", "GAMMA * next_q * terminated"),
    Twin("COD503", PPO, "args.gae_lambda * nextalive * lastgaelam", "args.gae_lambda * lastgaelam"),
    Twin("COD504", REINFORCE, "for r in reversed(rewards):", "for r in rewards:"),
    Twin(
        "COD505", REINFORCE, "            returns.insert(0, R)\n        return torch.tensor(returns)\n\n    def learn(self, log_probs, rewards, seen):\n        returns = self.discounted(rewards)\n",
        "            returns.append(R)\n        return torch.tensor(returns)\n\n    def learn(self, log_probs, rewards, seen):\n        returns = self.discounted(rewards)\n",
    ),
    Twin("COD506", DQN, "            target_net.load_state_dict(q_net.state_dict())\n", "            print(step)\n"),
    Twin("COD507", DQN, "target_net = copy.deepcopy(q_net)", "target_net = q_net"),
    Twin("COD508", DQN, "    if random.random() < epsilon_at(step):", "    epsilon = 0.9\n    if random.random() < epsilon:"),
    Twin("COD509", DQN, "    if random.random() < epsilon_at(step):\n        return env.action_space.sample()\n", ""),
    Twin("COD510", DQN, "        if step > LEARNING_STARTS and len(memory) >= BATCH:\n            update(q_net, target_net, optimizer, memory)\n", "        update(q_net, target_net, optimizer, memory)\n"),
    Twin("COD511", DQN, "    if random.random() < epsilon_at(step):", "    epsilon = epsilon_at(step)\n    if random.random() > epsilon:"),
    Twin("COD512", DQN, "GAMMA = 0.99", "GAMMA = 99"),
    Twin("COD512", REINFORCE, "    agent = Reinforce()", "    agent = Reinforce(gamma=0.5)"),
    # ── stored ends, actors and Q-networks ──
    Twin(
        "COD101", DQN, "memory.add(obs, action, reward, next_obs, terminated)\n        obs = next_obs",
        "done = terminated or truncated\n        memory.add(obs, action, reward, next_obs, done)\n        obs = next_obs",
    ),
    Twin("COD101", DQN, "memory.add(obs, action, reward, next_obs, terminated)", "memory.add(obs, action, reward, next_obs, terminated or truncated)"),
    Twin("COD101", SAC, "buffer.add(obs, next_obs, action, reward, terminated)", "buffer.add(obs, next_obs, action, reward, terminated or truncated)"),
    Twin("COD123", DQN, "memory.add(obs, action, reward, next_obs, terminated)", "memory.add(obs, action, reward, obs, terminated)"),
    Twin("COD534", DQN, "target_net.load_state_dict(q_net.state_dict())", "q_net.load_state_dict(target_net.state_dict())"),
    Twin("COD507", SAC, "copy.deepcopy(qf1), copy.deepcopy(qf2)", "qf1, qf2"),
    Twin("COD521", SAC, "dist.rsample()", "dist.sample()"),
    Twin("COD522", SAC, "torch.min(qf1_target(", "torch.max(qf1_target("),
    Twin("COD523", SAC, "- alpha * next_log_pi", "+ alpha * next_log_pi"),
    Twin("COD523", SAC, "(alpha * log_pi - torch.min", "(alpha * log_pi + torch.min"),
    Twin("COD525", SAC, "alpha_loss = -(log_alpha", "alpha_loss = (log_alpha"),
    Twin("COD526", SAC, "target_entropy = -1.0", "target_entropy = 1.0"),
    Twin(
        "COD527", SAC, "target_param.data.lerp_(param.data, TAU)",
        "target_param.data.copy_(TAU * target_param.data + (1 - TAU) * param.data)",
    ),
    Twin("COD528", SAC, "torch.min(qf1(batch.obs, pi)", "torch.min(qf1(batch.obs, pi.detach())"),
    Twin("COD531", DQN, "nn.Linear(84, n_actions))", "nn.Linear(84, n_actions), nn.ReLU())"),
    Twin("COD532", DQN, "target_net(next_obs).max(1)[0]", "target_net(next_obs).max(1)[1]"),
    Twin("COD533", DQN, "target_net(next_obs).max(1)[0]", "target_net(next_obs).max(0)[0]"),
    # ── shapes ──
    Twin("COD601", PPO, "                newvalue = newvalue.view(-1)\n", ""),
    Twin("COD601", DQN, ".gather(1, action.unsqueeze(1)).squeeze(1)", ".gather(1, action.unsqueeze(1))"),
    # ── evaluation ──
    Twin("COD701", SB3, 'test_env = VecNormalize.load("pendulum_stats.pkl", make_vec_env(ENV, n_envs=1))', "test_env = make_vec_env(ENV, n_envs=1)"),
    Twin("COD702", SB3, '    env.save("pendulum_stats.pkl")\n', ""),
    Twin("COD703", SB3, "seed=1), training=False, norm_reward=False)", "seed=1))\n    print(eval_env)"),
    Twin("COD704", SB3, "EvalCallback(eval_env,", "EvalCallback(env,"),
    Twin("COD707", SB3_DQN, "model.predict(obs, deterministic=True)", "model.predict(obs)"),
    Twin("COD708", SB3, '    model = PPO.load("pendulum", env=test_env)\n', '    model.load("pendulum", env=test_env)\n'),
    # ── vectors ──
    Twin("COD801", SB3, "n_steps=1024, batch_size=64", "n_steps=1000, batch_size=64"),
    Twin("COD802", SB3, "total_timesteps=100_000", "total_timesteps=10_000"),
    Twin("COD803", SB3_DQN, ", reset_num_timesteps=False", ""),
    Twin("COD804", SB3_DQN, "DummyVecEnv([make(rank) for rank in range(2)])", "DummyVecEnv([lambda: env for _ in range(2)])"),
    Twin("COD805", SB3_DQN, "[make(rank) for rank in range(2)]", "[lambda: make(rank)() for rank in range(2)]"),
    Twin("COD806", PPO, "[make_env(args.env_id) for _ in range(args.num_envs)]", "[make_env(args.env_id, args.seed) for _ in range(args.num_envs)]"),
    Twin("COD808", SB3_DQN, 'Monitor(gym.make("CartPole-v1"))', 'gym.make("CartPole-v1")'),
    # ── seeds ──
    Twin("COD901", DQN, "    obs, _ = env.reset(seed=SEED)\n", "    env.seed(SEED)\n    obs, _ = env.reset()\n"),
    Twin("COD903", DQN, "        if terminated or truncated:\n            obs, _ = env.reset()\n", "        if terminated or truncated:\n            obs, _ = env.reset(seed=SEED)\n"),
]  # fmt: skip


def text_of(script: str) -> str:
    """The clean script."""
    return (SCRIPTS / f"{script}.py").read_text()


def broken(twin: Twin) -> str:
    """The script with the mistake in it."""
    text = text_of(twin.script)
    if twin.right not in text:
        raise AssertionError(f"{twin.script} has no {twin.right!r}")
    return text.replace(twin.right, twin.wrong)
