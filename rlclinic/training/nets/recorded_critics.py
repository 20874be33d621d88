"""Critics of recorded actions, whether those are choices or vectors: several side by side, of which the lowest is believed."""

from torch import Tensor

from rlclinic.config import Config
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.nets import q_nets
from rlclinic.training.nets.q_nets import Net, Networks


def build(config: Config, obs_size: int, env: VecEnv) -> Net:
    """Observation and action in and one value out; or observation in and a value for every choice out."""
    if env.action.kind == "box":
        return q_nets.build_critics(config, obs_size, env.action.sizes[0])
    hidden = config.net.hidden if config.net.critic_hidden is None else config.net.critic_hidden
    return q_nets.build(config.net, obs_size, hidden, env.action.sizes[0], copies=getattr(config.algo, "n_critics", 2))


def build_value(config: Config, obs_size: int) -> Net:
    """Observation in, its value out."""
    hidden = config.net.hidden if config.net.critic_hidden is None else config.net.critic_hidden
    return q_nets.build(config.net, obs_size, hidden, 1)


def values(params: Networks, obs: Tensor, action: Tensor) -> Tensor:
    """Q_i(s, a) of all critics, [M, C, B]."""
    if params.nets["critic"].beside:
        return q_nets.critics(params, obs, action)
    return every_value(params, obs).gather(-1, action.unsqueeze(1).expand(-1, params.nets["critic"].copies, -1, -1)).squeeze(-1)


def every_value(params: Networks, obs: Tensor) -> Tensor:
    """Q_i(s, .) of all critics and choices, [M, C, B, A]."""
    return params("critic", obs).unflatten(0, (-1, params.nets["critic"].copies))


def weigh(advantage: Tensor, scale: Tensor, cap: float) -> Tensor:
    """What recorded actions weigh in imitation, min(exp(scale x advantage), cap), [M, B]; no gradient goes through it."""
    return (advantage * scale).exp().clamp(max=cap).detach()


def describe_weights(weight: Tensor, cap: float) -> dict[str, Tensor]:
    """Readings [M, 1]: the share of rows at the cap, and the share that counts as if all weighed the same."""
    size = weight.sum(-1, keepdim=True).square() / (weight.square().sum(-1, keepdim=True) * weight.shape[-1]).clamp(min=1e-30)
    return {"weight_capped": (weight >= cap).float().mean(-1, keepdim=True), "weight_ess": size}
