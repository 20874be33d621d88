"""The two losses of TD3 as functions of a batch."""

import torch


def make_losses(ac, ac_targ, gamma=0.99, target_noise=0.2, noise_clip=0.5, act_limit=1.0):
    def compute_loss_q(data):
        o, a, r, o2, d = data["obs"], data["act"], data["rew"], data["obs2"], data["done"]
        q1 = ac.q1(o, a)
        q2 = ac.q2(o, a)
        with torch.no_grad():
            pi_targ = ac_targ.pi(o2)
            epsilon = torch.randn_like(pi_targ) * target_noise
            epsilon = torch.clamp(epsilon, -noise_clip, noise_clip)
            a2 = torch.clamp(pi_targ + epsilon, -act_limit, act_limit)
            q1_pi_targ = ac_targ.q1(o2, a2)
            q2_pi_targ = ac_targ.q2(o2, a2)
            q_pi_targ = torch.min(q1_pi_targ, q2_pi_targ)
            backup = r + gamma * (1 - d) * q_pi_targ
        loss_q1 = ((q1 - backup) ** 2).mean()
        loss_q2 = ((q2 - backup) ** 2).mean()
        return loss_q1 + loss_q2

    def compute_loss_pi(data):
        o = data["obs"]
        q1_pi = ac.q1(o, ac.pi(o))
        return -q1_pi.mean()

    return compute_loss_q, compute_loss_pi
