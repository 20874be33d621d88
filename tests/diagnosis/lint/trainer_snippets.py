"""What brief 003 gives its readers as code, whole, only indented; and what is needed to run its environment."""

from typing import Final

REPLAY: Final = '''
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class DQNAgent:
    def __init__(self, state_size, action_size, learning_rate=0.001):
        self.state_size = state_size
        self.action_size = action_size
        self.memory = deque(maxlen=10000)
        self.epsilon = 1.0
        self.epsilon_min = 0.01
        self.epsilon_decay = 0.995
        self.learning_rate = learning_rate
        self.gamma = 0.99

        # Processing networks
        self.q_network = self.build_model()
        self.target_network = self.build_model()
        self.update_target_network()

    def build_model(self):
        model = nn.Sequential(
            nn.Linear(self.state_size, 256),
            nn.ReLU(),
            nn.Linear(256, 256),
            nn.ReLU(),
            nn.Linear(256, self.action_size)
        )
        return model

    def act(self, state):
        """Epsilon-greedy action selection"""
        if random.random() <= self.epsilon:
            return random.randrange(self.action_size)

        q_values = self.q_network(torch.FloatTensor(state))
        return np.argmax(q_values.detach().numpy())

    def replay(self, batch_size=32):
        """Experience replay training"""
        if len(self.memory) < batch_size:
            return

        batch = random.sample(self.memory, batch_size)
        states = torch.FloatTensor([e[0] for e in batch])
        actions = torch.LongTensor([e[1] for e in batch])
        rewards = torch.FloatTensor([e[2] for e in batch])
        next_states = torch.FloatTensor([e[3] for e in batch])
        dones = torch.FloatTensor([e[4] for e in batch])

        current_q_values = self.q_network(states).gather(1, actions.unsqueeze(1))
        next_q_values = self.target_network(next_states).max(1)[0].detach()
        target_q_values = rewards + (self.gamma * next_q_values * (1 - dones))

        loss = F.mse_loss(current_q_values.squeeze(), target_q_values)

        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

        if self.epsilon > self.epsilon_min:
            self.epsilon *= self.epsilon_decay
'''
POLICY_GRADIENT: Final = '''
class PPOAgent:
    def __init__(self, state_dim, action_dim, continuous=True):
        self.state_dim = state_dim
        self.action_dim = action_dim
        self.continuous = continuous

        # Actor-Critic networks
        self.actor = self.build_actor()
        self.critic = self.build_critic()
        self.actor_old = deepcopy(self.actor)

        # PPO hyperparameters
        self.clip_epsilon = 0.2
        self.gamma = 0.99
        self.gae_lambda = 0.95
        self.entropy_coef = 0.01
        self.value_loss_coef = 0.5

    def compute_gae(self, rewards, values, next_value, dones):
        """Generalized Advantage Estimation"""
        advantages = []
        gae = 0

        for t in reversed(range(len(rewards))):
            if t == len(rewards) - 1:
                next_value_t = next_value
            else:
                next_value_t = values[t + 1]

            delta = rewards[t] + self.gamma * next_value_t * (1 - dones[t]) - values[t]
            gae = delta + self.gamma * self.gae_lambda * (1 - dones[t]) * gae
            advantages.insert(0, gae)

        return torch.FloatTensor(advantages)

    def ppo_update(self, states, actions, old_log_probs, advantages, returns):
        """PPO clipped objective"""
        for _ in range(self.ppo_epochs):
            # Get current policy
            if self.continuous:
                action_mean, action_std = self.actor(states)
                dist = Normal(action_mean, action_std)
                log_probs = dist.log_prob(actions).sum(-1)
                entropy = dist.entropy().mean()
            else:
                action_probs = self.actor(states)
                dist = Categorical(action_probs)
                log_probs = dist.log_prob(actions)
                entropy = dist.entropy().mean()

            # Compute ratios
            ratios = torch.exp(log_probs - old_log_probs)

            # Clipped surrogate loss
            surr1 = ratios * advantages
            surr2 = torch.clamp(ratios, 1 - self.clip_epsilon, 1 + self.clip_epsilon) * advantages
            actor_loss = -torch.min(surr1, surr2).mean()

            # Value loss
            values = self.critic(states).squeeze()
            value_loss = F.mse_loss(values, returns)

            # Total loss
            loss = actor_loss + self.value_loss_coef * value_loss - self.entropy_coef * entropy

            # Optimize
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.get_parameters(), 0.5)
            self.optimizer.step()
'''
ENVIRONMENT: Final = '''
class CustomRLEnvironment:
    def __init__(self, task_config):
        self.task_config = task_config
        self.state_space = self.define_state_space()
        self.action_space = self.define_action_space()
        self.reward_function = self.design_reward_function()

    def reset(self):
        """Reset environment to initial state"""
        self.state = self.sample_initial_state()
        self.steps = 0
        self.episode_reward = 0
        return self.state

    def step(self, action):
        """Execute action and return next state, reward, done"""
        # Apply action to environment
        self.state = self.transition_function(self.state, action)

        # Calculate reward
        reward = self.reward_function(self.state, action)

        # Check termination
        done = self.is_terminal(self.state) or self.steps >= self.max_steps

        # Additional info
        info = {
            "steps": self.steps,
            "episode_reward": self.episode_reward,
            "success": self.check_success(self.state)
        }

        self.steps += 1
        self.episode_reward += reward

        return self.state, reward, done, info

    def design_reward_function(self):
        """Design shaped reward for efficient learning"""
        def reward_fn(state, action):
            # Primary task reward
            task_reward = self.compute_task_reward(state)

            # Shaping rewards for faster learning
            progress_reward = self.compute_progress_reward(state)
            efficiency_penalty = -0.01  # Small penalty for each step

            # Curiosity bonus
            curiosity_bonus = self.compute_curiosity_bonus(state)

            # Safety constraints
            safety_penalty = self.compute_safety_penalty(state, action)

            total_reward = (
                task_reward +
                0.1 * progress_reward +
                efficiency_penalty +
                0.05 * curiosity_bonus +
                safety_penalty
            )

            return total_reward

        return reward_fn
'''
AGENTS: Final = '''
class MultiAgentRLSystem:
    def __init__(self, num_agents, env_config):
        self.num_agents = num_agents
        self.agents = [PPOAgent(env_config) for _ in range(num_agents)]
        self.communication_network = self.build_communication_network()

    def centralized_training_decentralized_execution(self):
        """CTDE paradigm for multi-agent training"""
        # Centralized critic with global information
        centralized_critic = self.build_centralized_critic()

        for episode in range(self.num_episodes):
            states = self.env.reset()
            episode_rewards = [0] * self.num_agents

            while not done:
                # Decentralized action selection
                actions = []
                for i, agent in enumerate(self.agents):
                    action = agent.select_action(states[i])
                    actions.append(action)

                # Environment step
                next_states, rewards, done, info = self.env.step(actions)

                # Store experiences with global information
                for i in range(self.num_agents):
                    self.agents[i].store_transition(
                        states[i], actions[i], rewards[i],
                        next_states[i], done,
                        global_state=self.get_global_state(states),
                        other_actions=actions
                    )

                states = next_states
                episode_rewards = [r + reward for r, reward in zip(episode_rewards, rewards)]

            # Centralized training
            self.update_agents_with_centralized_critic(centralized_critic)

    def competitive_self_play(self):
        """Train agents through competition"""
        for generation in range(self.num_generations):
            # Tournament selection
            tournament_results = self.run_tournament(self.agents)

            # Select best agents
            best_agents = self.select_top_agents(tournament_results, top_k=4)

            # Create new generation through mutation
            new_agents = []
            for agent in best_agents:
                # Self-play training
                mutated_agent = self.train_against_self(agent)
                new_agents.append(mutated_agent)

            self.agents = new_agents
'''
CURRICULUM: Final = '''
class CurriculumRLTrainer:
    def __init__(self, agent, base_env):
        self.agent = agent
        self.base_env = base_env
        self.curriculum_stages = self.design_curriculum()
        self.current_stage = 0

    def design_curriculum(self):
        """Progressive difficulty stages"""
        curriculum = [
            {
                "name": "Basic Movement",
                "env_config": {"difficulty": 0.1, "sparse_rewards": False},
                "success_threshold": 0.8,
                "min_episodes": 100
            },
            {
                "name": "Obstacle Navigation",
                "env_config": {"difficulty": 0.3, "obstacles": True},
                "success_threshold": 0.7,
                "min_episodes": 200
            },
            {
                "name": "Complex Tasks",
                "env_config": {"difficulty": 0.6, "multi_objective": True},
                "success_threshold": 0.6,
                "min_episodes": 500
            },
            {
                "name": "Expert Level",
                "env_config": {"difficulty": 1.0, "sparse_rewards": True},
                "success_threshold": 0.5,
                "min_episodes": 1000
            }
        ]
        return curriculum

    def train_with_curriculum(self):
        """Progressive training through curriculum"""
        for stage in self.curriculum_stages:
            print(f"Training Stage: {stage['name']}")

            # Configure environment for current stage
            env = self.configure_environment(stage["env_config"])

            # Train until success threshold
            success_rate = 0
            episodes = 0

            while success_rate < stage["success_threshold"] or episodes < stage["min_episodes"]:
                # Train for batch of episodes
                batch_results = self.train_batch(env, batch_size=10)

                # Update success rate
                success_rate = np.mean([r["success"] for r in batch_results])
                episodes += len(batch_results)

                print(f"Episodes: {episodes}, Success Rate: {success_rate:.2f}")

            # Progress to next stage
            self.current_stage += 1
            print(f"Stage {stage['name']} completed!")
'''
DEPLOYMENT: Final = """
import torch

# Load trained policy
policy = torch.load("trained_policy.pth")

# Deploy in real environment
obs = env.reset()
done = False

while not done:
    # Get action from policy
    action = policy.act(obs, deterministic=True)

    # Execute in environment
    obs, reward, done, info = env.step(action)

    # Safety checks
    if safety_monitor.check_violation(obs, action):
        action = safety_monitor.get_safe_action(obs)
"""
ARM: Final = """

class Arm(CustomRLEnvironment):
    # What the class above leaves open: a line of eleven places, a wall at one end that hurts, the goal at the other.

    def __init__(self, **told):
        import gymnasium

        self.spaces, self.visits, self.max_steps = gymnasium.spaces, {}, 50
        super().__init__({})
        self.observation_space = self.state_space

    def define_state_space(self):
        return self.spaces.Discrete(11)

    def define_action_space(self):
        return self.spaces.Discrete(2)

    def sample_initial_state(self):
        self.before = 5
        return 5

    def transition_function(self, state, action):
        self.before = state
        return min(10, max(0, state + (1 if action else -1)))

    def is_terminal(self, state):
        return state in (0, 10)

    def check_success(self, state):
        return state == 10

    def compute_task_reward(self, state):
        return float(state == 10)

    def compute_progress_reward(self, state):
        return max(0, state - self.before)

    def compute_curiosity_bonus(self, state):
        self.visits[state] = self.visits.get(state, 0) + 1
        return self.visits[state] ** -0.5

    def compute_safety_penalty(self, state, action):
        return -1.0 if state == 1 else 0.0
"""
GYMNASIUM: Final = (
    ("class CustomRLEnvironment:", "import gymnasium\n\n\nclass CustomRLEnvironment(gymnasium.Env):"),
    ("def reset(self):", "def reset(self, *, seed=None, options=None):\n        super().reset(seed=seed)"),
    ("return self.state\n", "return self.state, {}\n"),
    (
        "return self.state, reward, done, info",
        "return self.state, reward, self.is_terminal(self.state), self.steps >= self.max_steps, info",
    ),
)
"""Gymnasium's contract kept, and nothing else mended."""
TERMS: Final = (
    (
        "return total_reward",
        "self.terms = {\n"
        '                "task": task_reward, "progress": 0.1 * progress_reward, "efficiency": efficiency_penalty,\n'
        '                "curiosity": 0.05 * curiosity_bonus, "safety": safety_penalty,\n'
        "            }\n"
        "            return total_reward",
    ),
    ('"steps": self.steps,', '"steps": self.steps, "reward_terms": dict(self.terms),'),
)
"""And its terms told, as they are."""


def runnable(*changes: tuple[str, str]) -> str:
    """A module with the environment and its completion, changed."""
    text = ENVIRONMENT + ARM
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text
