import gymnasium as gym
import lightning as L
import torch
import torch.nn as nn
from torch.distributions import Categorical
from torch.utils.data import DataLoader, IterableDataset


def net(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, n_out))


class Stream(IterableDataset):
    """Calls a generator function anew at each epoch."""

    def __init__(self, generate):
        self.generate = generate

    def __iter__(self):
        return self.generate()


class PPO(L.LightningModule):
    def __init__(self, env_id="CartPole-v1", gamma=0.99, lam=0.95, lr_actor=3e-4, lr_critic=1e-3, batch_size=512,
                 steps_per_epoch=2048, nb_optim_iters=4, clip_ratio=0.2, max_episode_len=500):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.env = gym.make(env_id)
        n_obs, n_act = self.env.observation_space.shape[0], int(self.env.action_space.n)
        self.actor = net(n_obs, n_act)
        self.critic = net(n_obs, 1)
        self.state = torch.as_tensor(self.env.reset()[0], dtype=torch.float32)
        self.avg_ep_reward = 0.0

    def forward(self, x):
        pi = Categorical(logits=self.actor(x))
        return pi, pi.sample()

    def discount(self, xs, factor):
        out, total = [], 0.0
        for x in reversed(xs):
            total = x + factor * total
            out.append(total)
        return list(reversed(out))

    def advantages_and_returns(self, rewards, values, last_value):
        hp = self.hparams
        rewards_ = rewards + [last_value]
        values_ = values + [last_value]
        deltas = [rewards_[i] + hp.gamma * values_[i + 1] - values_[i] for i in range(len(rewards))]
        return self.discount(deltas, hp.gamma * hp.lam), self.discount(rewards_, hp.gamma)[:-1]

    def rows(self):
        """One epoch's transitions, one at a time; a path ends with its episode or with the epoch."""
        hp = self.hparams
        obs, acts, logps, advs, rets = [], [], [], [], []
        rewards, values, ep_rewards = [], [], []
        for step in range(hp.steps_per_epoch):
            with torch.no_grad():
                pi, action = self(self.state)
                value = self.critic(self.state).item()
                logp = pi.log_prob(action)
            next_state, reward, terminated, truncated, _ = self.env.step(action.item())
            obs.append(self.state)
            acts.append(action)
            logps.append(logp)
            rewards.append(float(reward))
            values.append(value)
            self.state = torch.as_tensor(next_state, dtype=torch.float32)

            epoch_end = step == hp.steps_per_epoch - 1
            if terminated or truncated or epoch_end:
                with torch.no_grad():
                    last_value = 0.0 if terminated else self.critic(self.state).item()
                a, r = self.advantages_and_returns(rewards, values, last_value)
                advs += a
                rets += r
                if terminated or truncated:
                    ep_rewards.append(sum(rewards))
                rewards, values = [], []
                self.state = torch.as_tensor(self.env.reset()[0], dtype=torch.float32)
        if ep_rewards:
            self.avg_ep_reward = sum(ep_rewards) / len(ep_rewards)
        adv = torch.tensor(advs)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        ret = torch.tensor(rets)
        for _ in range(hp.nb_optim_iters):
            for i in torch.randperm(len(obs)).tolist():
                yield obs[i], acts[i], logps[i], adv[i], ret[i]

    def actor_loss(self, obs, act, logp_old, adv):
        pi, _ = self(obs)
        ratio = torch.exp(pi.log_prob(act) - logp_old)
        clipped = torch.clamp(ratio, 1 - self.hparams.clip_ratio, 1 + self.hparams.clip_ratio)
        return -torch.min(ratio * adv, clipped * adv).mean()

    def critic_loss(self, obs, ret):
        return (ret - self.critic(obs).squeeze(-1)).pow(2).mean()

    def training_step(self, batch, batch_idx):
        obs, act, logp_old, adv, ret = batch
        opt_actor, opt_critic = self.optimizers()

        loss_pi = self.actor_loss(obs, act, logp_old, adv)
        opt_actor.zero_grad()
        self.manual_backward(loss_pi)
        opt_actor.step()

        loss_v = self.critic_loss(obs, ret)
        opt_critic.zero_grad()
        self.manual_backward(loss_v)
        opt_critic.step()
        self.log_dict({"loss_pi": loss_pi, "loss_v": loss_v, "avg_ep_reward": self.avg_ep_reward}, prog_bar=True)

    def configure_optimizers(self):
        return [
            torch.optim.Adam(self.actor.parameters(), lr=self.hparams.lr_actor),
            torch.optim.Adam(self.critic.parameters(), lr=self.hparams.lr_critic),
        ]

    def train_dataloader(self):
        return DataLoader(Stream(self.rows), batch_size=self.hparams.batch_size)


if __name__ == "__main__":
    L.seed_everything(0)
    L.Trainer(max_epochs=150, accelerator="cpu", logger=False).fit(PPO())
