"""Fingerprints: equal for equal bytes, other for anything else, and exact in a table of doubles."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from rlclinic.runs import history
from rlclinic.training.__main__ import train_runs
from rlclinic.training.checkpoints import files
from rlclinic.training.sentinels import fingerprints
from tests.training.cohorts import Interrupted, interrupt_at, make_config, table, train, workshop

PRINTS = ("fingerprint_policy", "fingerprint_optimizer", "fingerprint_normalizer", "fingerprint_random")


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_a_fingerprint_is_a_whole_number_that_a_double_and_a_cell_of_text_keep() -> None:
    for number in fingerprints.of(noise(64, 5)).tolist():
        assert number == int(number)
        assert 0 <= number < 2**48
        assert float(repr(number)) == number


def test_equal_bytes_have_equal_fingerprints_whoever_stands_beside_them() -> None:
    x = noise(3, 7)
    assert fingerprints.of(x).tolist() == [fingerprints.of(row.unsqueeze(0)).item() for row in x.clone()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_last_bit_of_every_place_counts(dtype: torch.dtype) -> None:
    x = noise(1, 9).to(dtype)
    seen = {fingerprints.of(x).item()}
    for place in range(9):
        near = x.clone()
        near[0, place] = torch.nextafter(x[0, place], torch.tensor(torch.inf, dtype=dtype))
        seen.add(fingerprints.of(near).item())
    assert len(seen) == 10


def test_order_counts_within_a_tensor_and_between_tensors() -> None:
    x, y = noise(1, 4), noise(1, 4, seed=1)
    assert fingerprints.of(x) != fingerprints.of(x.flip(1))
    assert fingerprints.of(x, y) != fingerprints.of(y, x)
    assert fingerprints.of(x, torch.zeros(1, 3)) != fingerprints.of(x, torch.zeros(1, 3), torch.zeros(1, 1))


def test_nothing_collides_among_many_near_states() -> None:
    counters = torch.arange(20_000).view(-1, 1)
    assert len(set(fingerprints.of(counters).tolist())) == 20_000


def test_each_part_of_the_state_has_its_own() -> None:
    at = workshop([make_config(env={"normalize_obs": True}, seed=seed) for seed in range(2)])
    before = fingerprints.of_state(at.learner, at.seed.view(-1, 1), 3, at.env)
    moved = replace(at.learner, flat=at.learner.flat + 1.0)
    after = fingerprints.of_state(moved, at.seed.view(-1, 1), 4, at.env)
    same = {name for name in before if torch.equal(before[name], after[name])}
    assert set(before) == set(PRINTS)
    assert same == {"fingerprint_optimizer", "fingerprint_normalizer"}
    assert before["fingerprint_policy"][0] != before["fingerprint_policy"][1]
    assert before["fingerprint_random"][0] != before["fingerprint_random"][1]


def test_a_step_of_the_environments_counts_as_randomness_used() -> None:
    at = workshop([make_config()])
    before = fingerprints.of_state(at.learner, at.seed.view(-1, 1), 0, at.env)["fingerprint_random"]
    at.env.step(torch.zeros(1, 2, dtype=torch.int64))
    assert fingerprints.of_state(at.learner, at.seed.view(-1, 1), 0, at.env)["fingerprint_random"] != before


def test_without_normalizers_there_is_nothing_to_compare() -> None:
    at = workshop([make_config()])
    assert fingerprints.of_normalizers(at.learner) is None


# ── in a run ──


def test_training_and_evaluation_used_the_same_normalizers_and_a_reader_sees_both(tmp_path: Path) -> None:
    (run,) = train(tmp_path, [make_config(env={"normalize_obs": True}, run={"eval_every_env_steps": 64, "max_env_steps": 256})])
    told = history.of_run(run)
    training, evaluation = told["train/sentinel/fingerprint_normalizer"], told["train/sentinel/fingerprint_normalizer_eval"]
    assert len(evaluation) == 4
    kept = dict(zip(training.steps, training.values, strict=True))
    assert [kept[step] for step in evaluation.steps] == evaluation.values.tolist()
    assert len(set(evaluation.values)) == 4, "the statistics went on"


def test_a_row_has_the_fingerprints_of_the_checkpoint_of_its_step(tmp_path: Path) -> None:
    (run,) = train(tmp_path, [make_config()])
    found = files.read(run.checkpoint("@last").path)
    row = table(run)[-1]
    assert int(row["total_timesteps"]) == found.env_steps
    moments = [found.optimizer[name].unsqueeze(0) for name in ("mean", "square", "steps")]
    assert float(row["train/sentinel/fingerprint_optimizer"]) == fingerprints.of(*moments).item()


def test_a_resumed_run_writes_the_fingerprints_of_one_that_never_stopped(tmp_path: Path) -> None:
    config = make_config(
        env={"normalize_obs": True, "normalize_reward": True}, run={"checkpoint_every_env_steps": 32, "max_env_steps": 256}
    )
    (whole,) = train(tmp_path / "whole", [config])
    with pytest.raises(Interrupted):
        train(tmp_path / "cut", [config], callback=interrupt_at(128))
    (cut,) = (path for path in (tmp_path / "cut" / "runs").iterdir() if not path.name.startswith("@"))
    resumed = type(whole)(cut)
    train_runs([resumed], resume=True)
    for row, twin in zip(table(whole), table(resumed), strict=True):
        for name in PRINTS:
            assert row[f"train/sentinel/{name}"] == twin[f"train/sentinel/{name}"] != ""


def test_blocks_change_no_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = [torch.randn(3, 7, 5), torch.arange(40).view(2, 20), torch.zeros(2, 0)]
    whole = [fingerprints.of(tensor) for tensor in tensors]
    monkeypatch.setattr(fingerprints, "BLOCK", 8)
    assert all(torch.equal(one, fingerprints.of(tensor)) for one, tensor in zip(whole, tensors, strict=True))
    # The places of a later block are not those of the first one.
    assert fingerprints.of(torch.tensor([[1.0] * 8 + [2.0] * 8])) != fingerprints.of(torch.tensor([[2.0] * 8 + [1.0] * 8]))
