"""The network that fits an environment: layers for vectors, convolutions below them for images; or why there is none."""

import math

from rlclinic.actions import Change
from rlclinic.config import Config, EnvConfig
from rlclinic.errors import ConfigError
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.maths import distributions
from rlclinic.training.nets import conv, mlp


def policy_for(config: Config, env: VecEnv) -> mlp.ActorCritic:
    """The actor-critic for what an environment gives and takes; ConfigError where the config's layers cannot be applied to it."""
    if env.picture is not None:
        _check_images(config, env)
    elif len(env.obs_shape) != 1:
        raise ConfigError(
            f"{config.env.id} gives observations of shape {tuple(env.obs_shape)}: neither a vector nor an image.\n"
            f"  The first layer could not be applied. (An image has three axes, or two of bytes.)\n  Flatten them: ",
            Change("env.wrappers", [{"id": "FlattenObservation"}]),
        )
    return mlp.build(config.net, math.prod(env.obs_shape), distributions.of(env.action), env.picture)


def settings_for(config: Config, env: VecEnv) -> EnvConfig:
    """The environment's settings as they hold for what it gives: images stay as they are, whatever normalize_obs says.

    A mean and a deviation for every pixel would undo what makes convolutions work: the same meaning everywhere.
    """
    return config.env if env.picture is None else config.env.model_copy(update={"normalize_obs": False})


def _check_images(config: Config, env: VecEnv) -> None:
    if config.net.critic_hidden is not None:
        raise ConfigError(
            f"net.critic_hidden={list(config.net.critic_hidden)}, and {config.env.id} gives images.\n"
            "  Policy and value share one trunk there, as most of the work is in its convolutions.\n  Try: ",
            Change("net.critic_hidden", None),
        )


def described(policy: mlp.ActorCritic) -> str | None:
    """What was chosen for images, in a line; None where the config says it all."""
    encoder = policy.encoder
    if not isinstance(encoder, conv.Encoder):
        return None
    picture = encoder.picture
    beside = f" and {picture.vector} numbers" if picture.vector else ""
    size = f"{picture.height}x{picture.width}, {picture.channels} channel{'s' if picture.channels > 1 else ''}"
    widths = f"then layers {list(policy.net.hidden)}" if policy.net.hidden else "no layers after them"
    return (
        f"observations are images ({size}{beside}): net.images={encoder.kind}, {encoder.width} features, {widths}; "
        f"one trunk for policy and value, {policy.layout.width:,} weights"
    )
