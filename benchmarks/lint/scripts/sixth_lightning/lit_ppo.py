import argparse

import gymnasium as gym
import pytorch_lightning as pl
import torch
from torch import nn
from torch.distributions import Categorical
from torch.utils.data import DataLoader, IterableDataset


class FromGenerator(IterableDataset):
    def __init__(self, generate):
        self.generate = generate

    def __iter__(self):
        return iter(self.generate())


def perceptron(n_in, n_out, hidden=64):
    return nn.Sequential(nn.Linear(n_in, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, n_out))


class PPOModule(pl.LightningModule):
    """Each epoch of the trainer plays `steps_per_epoch` steps and goes over them `nb_optim_iters` times."""

    def __init__(self, env_id="CartPole-v1", gamma=0.99, lam=0.95, lr_actor=3e-4, lr_critic=1e-3, batch_size=256,
                 steps_per_epoch=2048, nb_optim_iters=4, clip_ratio=0.2, entropy_weight=0.01, grad_clip=0.5, seed=0):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.env = gym.make(env_id)
        n_obs, n_act = self.env.observation_space.shape[0], int(self.env.action_space.n)
        self.actor = perceptron(n_obs, n_act)
        self.critic = perceptron(n_obs, 1)
        self.state = torch.as_tensor(self.env.reset(seed=seed)[0], dtype=torch.float32)
        self.running, self.finished = 0.0, []

    def policy(self, states):
        return Categorical(logits=self.actor(states))

    def value(self, states):
        return self.critic(states).squeeze(-1)

    @torch.no_grad()
    def gae(self, rewards, values, next_values, terminated, ended):
        """Terminated: nothing follows. Ended: terminated or cut by a limit, so the sum stops there."""
        advantages = torch.zeros(len(rewards))
        trace = 0.0
        for t in range(len(rewards) - 1, -1, -1):
            delta = rewards[t] + self.hparams.gamma * next_values[t] * (1.0 - terminated[t]) - values[t]
            trace = delta + self.hparams.gamma * self.hparams.lam * (1.0 - ended[t]) * trace
            advantages[t] = trace
        return advantages

    def generate(self):
        states, actions, log_probs, rewards, next_states, terminated, ended = [], [], [], [], [], [], []
        for _ in range(self.hparams.steps_per_epoch):
            with torch.no_grad():
                dist = self.policy(self.state)
                action = dist.sample()
                log_prob = dist.log_prob(action)
            obs, reward, term, trunc, _ = self.env.step(action.item())
            next_state = torch.as_tensor(obs, dtype=torch.float32)
            states.append(self.state)
            actions.append(action)
            log_probs.append(log_prob)
            rewards.append(float(reward))
            next_states.append(next_state)
            terminated.append(float(term))
            ended.append(float(term or trunc))
            self.running += float(reward)
            self.state = next_state
            if term or trunc:
                self.finished.append(self.running)
                self.running = 0.0
                self.state = torch.as_tensor(self.env.reset()[0], dtype=torch.float32)

        states, next_states = torch.stack(states), torch.stack(next_states)
        actions, log_probs = torch.stack(actions), torch.stack(log_probs)
        with torch.no_grad():
            values, next_values = self.value(states), self.value(next_states)
        advantages = self.gae(rewards, values, next_values, terminated, ended)
        returns = advantages + values
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)

        for _ in range(self.hparams.nb_optim_iters):
            for i in torch.randperm(len(states)).tolist():
                yield states[i], actions[i], log_probs[i], advantages[i], returns[i]

    def actor_loss(self, states, actions, old_log_probs, advantages):
        dist = self.policy(states)
        ratio = torch.exp(dist.log_prob(actions) - old_log_probs)
        unclipped = ratio * advantages
        clipped = ratio.clamp(1 - self.hparams.clip_ratio, 1 + self.hparams.clip_ratio) * advantages
        return -torch.min(unclipped, clipped).mean() - self.hparams.entropy_weight * dist.entropy().mean()

    def critic_loss(self, states, returns):
        return (returns - self.value(states)).pow(2).mean()

    def training_step(self, batch, batch_idx):
        states, actions, old_log_probs, advantages, returns = batch
        opt_actor, opt_critic = self.optimizers()

        loss_actor = self.actor_loss(states, actions, old_log_probs, advantages)
        opt_actor.zero_grad()
        self.manual_backward(loss_actor)
        nn.utils.clip_grad_norm_(self.actor.parameters(), self.hparams.grad_clip)
        opt_actor.step()

        loss_critic = self.critic_loss(states, returns)
        opt_critic.zero_grad()
        self.manual_backward(loss_critic)
        nn.utils.clip_grad_norm_(self.critic.parameters(), self.hparams.grad_clip)
        opt_critic.step()

        self.log("loss_actor", loss_actor)
        self.log("loss_critic", loss_critic)
        if self.finished:
            self.log("avg_reward", sum(self.finished[-20:]) / len(self.finished[-20:]), prog_bar=True)

    def configure_optimizers(self):
        actor = torch.optim.Adam(self.actor.parameters(), lr=self.hparams.lr_actor)
        critic = torch.optim.Adam(self.critic.parameters(), lr=self.hparams.lr_critic)
        return [actor, critic]

    def train_dataloader(self):
        return DataLoader(FromGenerator(self.generate), batch_size=self.hparams.batch_size)

    @torch.no_grad()
    def test_return(self, n=10, seed=2024):
        env = gym.make(self.hparams.env_id)
        returns = []
        for k in range(n):
            obs, _ = env.reset(seed=seed + k)
            done, ret = False, 0.0
            while not done:
                logits = self.actor(torch.as_tensor(obs, dtype=torch.float32))
                obs, reward, term, trunc, _ = env.step(logits.argmax().item())
                ret += float(reward)
                done = term or trunc
            returns.append(ret)
        env.close()
        return sum(returns) / n


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--steps-per-epoch", type=int, default=2048)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    pl.seed_everything(args.seed)
    module = PPOModule(steps_per_epoch=args.steps_per_epoch, seed=args.seed)
    trainer = pl.Trainer(max_epochs=args.epochs, accelerator="cpu")
    trainer.fit(module)
    print(f"return of the greedy policy: {module.test_return():.1f}")
