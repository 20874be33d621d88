"""Actor and critic: what is built, how it starts, what it computes."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from rlclinic.config import NetConfig
from rlclinic.training.maths import distributions
from rlclinic.training.maths.distributions import Categorical, Gaussian
from rlclinic.training.nets import mlp


def built(distribution: distributions.Distribution | None = None, **net: Any) -> mlp.ActorCritic:
    return mlp.build(NetConfig(**{"hidden": (5, 4), **net}), 3, distribution or Categorical(2))


def cohort(policy: mlp.ActorCritic, members: int = 3) -> Tensor:
    return torch.cat([mlp.initialize(policy, seed) for seed in range(members)])


def observations(members: int = 3, rows: int = 6) -> Tensor:
    return torch.randn(members, rows, 3, generator=torch.Generator().manual_seed(1))


def by_hand(policy: mlp.ActorCritic, flat: Tensor, obs: Tensor, trunk: str, activation: Any) -> Tensor:
    """One member's trunk as a chain of matrix products."""
    params, x, index = {name: view[0] for name, view in policy.layout.views(flat).items()}, obs, 0
    while f"{trunk}.{index}.weight" in params:
        x = x @ params[f"{trunk}.{index}.weight"] + params[f"{trunk}.{index}.bias"]
        if policy.net.layer_norm:
            x = torch.nn.functional.layer_norm(x, x.shape[-1:]) * params[f"{trunk}.{index}.scale"] + params[f"{trunk}.{index}.shift"]
        x = activation(x)
        index += 1
    return x


@pytest.mark.parametrize(
    ("net", "activation"),
    [
        ({}, torch.tanh),
        ({"activation": "relu", "critic_hidden": (7,)}, torch.relu),
        ({"activation": "elu", "shared": True}, torch.nn.functional.elu),
        ({"activation": "gelu", "layer_norm": True}, torch.nn.functional.gelu),
        ({"activation": "silu", "hidden": (6,)}, torch.nn.functional.silu),
        ({"activation": "leaky_relu", "hidden": ()}, torch.nn.functional.leaky_relu),
        ({"activation": "sigmoid", "shared": True, "layer_norm": True}, torch.sigmoid),
    ],
)
def test_each_member_computes_the_chain_of_layers_of_its_own_weights(net: dict[str, Any], activation: Any) -> None:
    policy = built(**net)
    flat = cohort(policy) + 0.1 * torch.randn(3, policy.layout.width, generator=torch.Generator().manual_seed(2))
    obs = observations()
    dist, value = mlp.actor_critic(policy, policy.layout.views(flat), obs)
    assert dist.shape == (3, 6, 2)
    assert value.shape == (3, 6)
    for m in range(3):
        one, params = flat[m : m + 1], {name: view[m] for name, view in policy.layout.views(flat).items()}
        actor = by_hand(policy, one, obs[m], "trunk" if policy.net.shared else "actor", activation)
        critic = by_hand(policy, one, obs[m], "trunk" if policy.net.shared else "critic", activation)
        torch.testing.assert_close(dist[m], actor @ params["policy.weight"].T + params["policy.bias"], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(value[m], critic @ params["value.weight"][0] + params["value.bias"], rtol=1e-5, atol=1e-6)


def test_every_activation_of_the_config_exists() -> None:
    from typing import get_args

    from rlclinic.config.network import Activation

    assert set(mlp.ACTIVATIONS) == set(get_args(Activation))


def test_our_tanh_is_tanh_with_its_gradient() -> None:
    x = torch.linspace(-30, 30, 2001).view(1, -1).requires_grad_()
    torch.testing.assert_close(mlp.tanh(x), torch.tanh(x), rtol=0, atol=3e-7)
    (grad,) = torch.autograd.grad(mlp.tanh(x).sum(), x)
    torch.testing.assert_close(grad, 1 - torch.tanh(x.detach()).square(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("net", [{}, {"shared": True}, {"layer_norm": True}])
def test_actor_and_critic_asked_for_alone_are_the_same_as_together(net: dict[str, Any]) -> None:
    policy = built(**net)
    params = policy.layout.views(cohort(policy))
    dist, value = mlp.actor_critic(policy, params, observations())
    assert torch.equal(mlp.actor(policy, params, observations()), dist)
    assert torch.equal(mlp.critic(policy, params, observations()), value)


# ── the start ──


def test_initial_weights_are_a_function_of_the_seed_alone() -> None:
    policy = built()
    assert torch.equal(mlp.initialize(policy, 4), mlp.initialize(policy, 4))
    assert not torch.equal(mlp.initialize(policy, 4), mlp.initialize(policy, 5))
    state = torch.random.get_rng_state()
    mlp.initialize(policy, 4)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_initial_weights_have_the_gains_of_the_config_and_biases_are_zero() -> None:
    policy = built(hidden=(8, 8), hidden_gain=2.0, policy_gain=0.5, value_gain=3.0, layer_norm=True)
    params = {name: view[0] for name, view in policy.layout.views(mlp.initialize(policy, 0)).items()}
    singular = {name: torch.linalg.svdvals(weight) for name, weight in params.items() if name.endswith("weight")}
    for name, values in singular.items():
        gain = {"policy.weight": 0.5, "value.weight": 3.0}.get(name, 2.0)
        torch.testing.assert_close(values, torch.full_like(values, gain))
    for name, values in params.items():
        if name.endswith(("bias", "shift")):
            assert (values == 0).all()
        if name.endswith("scale"):
            assert (values == 1).all()


# ── continuous actions ──


def test_one_deviation_for_all_states_starts_at_its_setting_and_follows_the_mean_in_the_parameters() -> None:
    policy = built(Gaussian(2), log_std_init=-0.5)
    dist = mlp.actor(policy, policy.layout.views(cohort(policy)), observations())
    assert dist.shape == (3, 6, 4)
    assert (dist[..., 2:] == -0.5).all()
    assert policy.layout.shapes["log_std"] == (1, 2)


def test_a_deviation_per_state_starts_near_its_setting_and_differs_between_states() -> None:
    policy = built(Gaussian(2), log_std_init=-0.5, state_dependent_std=True, policy_gain=0.1)
    log_std = mlp.actor(policy, policy.layout.views(cohort(policy)), observations())[..., 2:]
    assert "log_std" not in policy.layout.shapes
    torch.testing.assert_close(log_std, torch.full_like(log_std, -0.5), rtol=0, atol=0.3)
    assert log_std[0].std(0).min() > 1e-4


def test_the_deviation_stays_within_its_bounds() -> None:
    policy = built(Gaussian(2), log_std_min=-1.0, log_std_max=0.5)
    params = policy.layout.views(cohort(policy))
    params["log_std"][0], params["log_std"][1] = 9.0, -9.0
    log_std = mlp.actor(policy, params, observations())[..., 2:]
    assert (log_std[0] == 0.5).all()
    assert (log_std[1] == -1.0).all()


# ── who is who ──


def test_value_lr_governs_the_critic_and_the_heads_lie_after_the_trunks() -> None:
    policy = built(critic_hidden=(7,))
    assert set(policy.critic_names()) == {"critic.0.weight", "critic.0.bias", "value.weight", "value.bias"}
    assert set(built(shared=True).critic_names()) == {"value.weight", "value.bias"}
    trunk, actor_head, critic_head = policy.parts
    assert trunk == policy.layout.span("policy.weight")[0]
    assert trunk + actor_head == policy.layout.span("value.weight")[0]
    assert trunk + actor_head + critic_head == policy.layout.width
    assert policy.trunk_widths == [3 * 5 + 5 + 5 * 4 + 4, 3 * 7 + 7]


def test_the_parts_of_a_gaussian_policy_count_its_deviation_to_the_actors_head() -> None:
    plain, gaussian = built(Categorical(2)), built(Gaussian(2))
    assert gaussian.parts[1] == plain.parts[1] + 2


def test_a_masked_action_gets_a_vanishing_probability_in_its_own_row_only() -> None:
    policy = built()
    mask = torch.ones(3, 6, 2, dtype=torch.bool)
    mask[1, 2, 0] = False
    params = policy.layout.views(cohort(policy))
    plain, masked = mlp.actor(policy, params, observations()), mlp.actor(policy, params, observations(), mask)
    assert torch.softmax(masked, -1)[1, 2].tolist() == [0.0, 1.0]
    assert torch.equal(masked[mask], plain[mask])


def test_a_fresh_policy_hardly_prefers_any_action() -> None:
    policy = built(Categorical(2), hidden=(64, 64))
    dist = mlp.actor(policy, policy.layout.views(cohort(policy)), observations(rows=100))
    assert Categorical(2).entropy(dist).min().item() > 0.99 * math.log(2)
