"""What every sound off-policy script keeps to, in scripts that are written in other ways than those that the laws were found in."""

import pytest

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.code import linter
from rlclinic.diagnosis.lint.code.reading.sources import Source

RANKED = """
import random

import gymnasium as gym
import numpy as np
import torch
from torch import nn

HORIZON, ROOM, DISCOUNT = 3, 20_000, 0.98


class Judge(nn.Module):
    def __init__(self, wide, choices):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(wide, 64), nn.ReLU())
        self.worth, self.edge = nn.Linear(64, 1), nn.Linear(64, choices)

    def forward(self, seen):
        hidden = self.trunk(seen)
        edge = self.edge(hidden)
        return self.worth(hidden) + edge - edge.mean(dim=-1, keepdim=True)


class Shelf:
    def __init__(self, wide):
        self.before = np.zeros((ROOM, wide), dtype=np.float32)
        self.after = np.zeros((ROOM, wide), dtype=np.float32)
        self.move = np.zeros(ROOM, dtype=np.int64)
        self.gain = np.zeros(ROOM, dtype=np.float32)
        self.keep = np.zeros(ROOM, dtype=np.float32)
        self.rank = np.zeros(ROOM)
        self.top, self.at, self.held = 1.0, 0, 0
        self.waiting = []

    def note(self, seen, move, pay, seen_next, dead, over):
        self.waiting.append((seen, move, pay))
        while self.waiting and (over or len(self.waiting) == HORIZON):
            self.shelve(seen_next, dead)

    def shelve(self, last, dead):
        total = 0.0
        for _, _, pay in reversed(self.waiting):
            total = pay + DISCOUNT * total
        length = len(self.waiting)
        seen, move, _ = self.waiting.pop(0)
        self.before[self.at] = seen
        self.after[self.at] = last
        self.move[self.at] = move
        self.gain[self.at] = total
        self.keep[self.at] = 0.0 if dead else DISCOUNT**length
        self.rank[self.at] = self.top**0.6
        self.at = (self.at + 1) % ROOM
        self.held = min(self.held + 1, ROOM)

    def draw(self, count, sharp):
        odds = self.rank[: self.held] / self.rank[: self.held].sum()
        rows = np.random.choice(self.held, count, p=odds)
        scale = (self.held * odds[rows]) ** (-sharp)
        parts = (self.before, self.move, self.gain, self.after, self.keep)
        return rows, torch.as_tensor(scale / scale.max(), dtype=torch.float32), [torch.as_tensor(part[rows]) for part in parts]

    def rerank(self, rows, misses):
        size = np.abs(misses) + 1e-5
        self.rank[rows] = size**0.6
        self.top = max(self.top, size.max())


world = gym.make("CartPole-v1")
live, calm = Judge(4, 2), Judge(4, 2)
calm.load_state_dict(live.state_dict())
engine = torch.optim.Adam(live.parameters(), lr=5e-4)
shelf = Shelf(4)
curiosity = 1.0
seen, _ = world.reset(seed=3)
for tick in range(60_000):
    if random.random() < curiosity:
        move = random.randrange(2)
    else:
        with torch.no_grad():
            move = int(live(torch.as_tensor(seen)).argmax())
    curiosity = max(0.05, curiosity - 5e-5)
    seen_next, pay, dead, late, _ = world.step(move)
    shelf.note(seen, move, pay, seen_next, dead, dead or late)
    seen = seen_next
    if dead or late:
        seen, _ = world.reset()
    if shelf.held >= 1_000:
        sharp = 0.4 + 0.6 * tick / 60_000
        rows, scale, (was, did, won, then, keep) = shelf.draw(32, sharp)
        with torch.no_grad():
            pick = live(then).argmax(dim=1, keepdim=True)
            goal = won + keep * calm(then).gather(1, pick).squeeze(1)
        guess = live(was).gather(1, did.unsqueeze(1)).squeeze(1)
        miss = goal - guess
        cost = (scale * miss.pow(2)).mean()
        engine.zero_grad()
        cost.backward()
        engine.step()
        shelf.rerank(rows, miss.detach().numpy())
    if tick % 400 == 0:
        calm.load_state_dict(live.state_dict())
"""

RANKED_FAULTS = {
    "the best action of this observation": ("COD517", "pick = live(then)", "pick = live(was)", "pick ="),
    "values of this observation": ("COD517", "keep * calm(then)", "keep * calm(was)", "goal ="),
    "the action that was taken, next": ("COD517", "calm(then).gather(1, pick)", "calm(then).gather(1, did.unsqueeze(1))", "goal ="),
    "every row with every action": ("COD601", "live(was).gather(1, did.unsqueeze(1)).squeeze(1)", "live(was)[:, did]", "guess ="),
    "rows by the number of an action": ("COD533", "live(was).gather(1", "live(was).gather(0", "guess ="),
    "all values added up": ("COD533", "calm(then).gather(1, pick).squeeze(1)", "calm(then).sum(1)", "goal ="),
    "the prediction of the copy": ("COD406", "guess = live(was)", "guess = calm(was)", "guess ="),
    "a worth that lowers": ("COD555", "self.worth(hidden) + edge - edge.mean", "edge - self.worth(hidden) - edge.mean", "return edge"),
    "an edge less itself": ("COD555", "edge - edge.mean(dim=-1, keepdim=True)", "edge - edge", "return self.worth"),
    "the signs of errors kept": ("COD538", "np.abs(misses) + 1e-5", "misses + 1e-5", "size = misses"),
    "ranks of values": ("COD538", "shelf.rerank(rows, miss.detach()", "shelf.rerank(rows, guess.detach()", "shelf.rerank(rows"),
    "one rank to a power": ("COD538", "self.rank[rows] = size**0.6", "self.rank[rows] = size", "self.rank[rows]"),
    "no rank for what is new": ("COD538", "self.rank[self.at] = self.top**0.6", "self.rank[self.at] = 0.0", "self.rank[self.at]"),
    "no scale": ("COD538", "(scale * miss.pow(2)).mean()", "miss.pow(2).mean()", "goal - guess"),
    "a correction that fades": ("COD538", "0.4 + 0.6 * tick / 60_000", "1.0 - 0.6 * tick / 60_000", "sharp = 1.0"),
    "the last of the steps": ("COD553", "self.waiting.pop(0)", "self.waiting.pop()", "self.waiting.pop()"),
    "the discount of one step": ("COD512", "DISCOUNT**length", "DISCOUNT", "goal ="),
    "a sum without a discount": ("COD512", "total = pay + DISCOUNT * total", "total = pay + total", "total = pay"),
    "from the first to the last": ("COD504", "in reversed(self.waiting)", "in self.waiting", "total = pay"),
    "a place that stays": ("COD535", "(self.at + 1) % ROOM", "self.at % ROOM", "self.at = self.at"),
    "a chance that grows": ("COD508", "curiosity - 5e-5", "curiosity + 5e-5", "curiosity + 5e-5"),
    "a chance that is gone at once": ("COD513", "curiosity - 5e-5", "curiosity - 5e-2", "curiosity - 5e-2"),
    "one action never tried": ("COD556", "random.randrange(2)", "random.randrange(1)", "randrange(1)"),
    "learning that ends": ("COD415", "if shelf.held >= 1_000", "if tick < 1_000", "if tick < 1_000"),
    "reset at real ends alone": ("COD105", "    if dead or late:", "    if dead:", "if dead:"),
}  # fmt: skip

SLIPPERY = """
import numpy as np

WIDE, TALL = 5, 4


class Pond:
    def reset(self):
        self.x, self.y, self.clock = 0, 0, 0
        return self.y * WIDE + self.x

    def step(self, way):
        dx, dy = ((0, 1), (1, 0), (0, -1), (-1, 0))[way]
        self.x = min(max(self.x + dx, 0), WIDE - 1)
        self.y = min(max(self.y + dy, 0), TALL - 1)
        self.clock += 1
        home = self.x == WIDE - 1 and self.y == TALL - 1
        return self.y * WIDE + self.x, 1.0 if home else -0.01, home, self.clock >= 60


def choose(worth, spot, daring):
    if np.random.random() < daring:
        return np.random.randint(4)
    return int(np.random.choice(np.flatnonzero(worth[spot] == worth[spot].max())))


def learn(pond, rounds, rate=0.2, later=0.95):
    worth = np.zeros((WIDE * TALL, 4))
    daring = 1.0
    for _ in range(rounds):
        spot = pond.reset()
        way = choose(worth, spot, daring)
        while True:
            spot2, pay, home, late = pond.step(way)
            way2 = choose(worth, spot2, daring)
            aim = pay + later * worth[spot2, way2] * (not home)
            worth[spot, way] += rate * (aim - worth[spot, way])
            spot, way = spot2, way2
            if home or late:
                break
        daring = max(0.05, daring * 0.995)
    return worth


learn(Pond(), 2_000)
"""

SLIPPERY_FAULTS = {
    "the loop of real ends": ("COD105", "if home or late", "if home", "if home"),
    "an action that is kept": ("COD106", "spot, way = spot2, way2", "spot = spot2", "spot = spot2"),
    "the next action of this state": ("COD106", "choose(worth, spot2, daring)", "choose(worth, spot, daring)", "way2 ="),
    "the error in place of the entry": ("COD518", "worth[spot, way] += rate", "worth[spot, way] = rate", "worth[spot, way] = rate"),
    "a whole row": ("COD518", "worth[spot, way] += rate", "worth[spot] += rate", "worth[spot] += rate"),
    "the worst of all": ("COD511", "worth[spot].max()", "worth[spot].min()", "worth[spot].min()"),
    "one way never tried": ("COD556", "np.random.randint(4)", "np.random.randint(3)", "np.random.randint(3)"),
    "daring that grows": ("COD508", "daring * 0.995", "daring / 0.995", "daring / 0.995"),
}  # fmt: skip

SOFT = """
import collections
import copy
import random

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

Moment = collections.namedtuple("Moment", "look push prize look2 fell")
BATCH, LATER, SLOWNESS = 128, 0.99, 0.005


def layers(*widths):
    made = []
    for a, b in zip(widths, widths[1:]):
        made += [nn.Linear(a, b), nn.SiLU()]
    return nn.Sequential(*made[:-1])


class Hand(nn.Module):
    def __init__(self, wide, narrow, reach):
        super().__init__()
        self.core = layers(wide, 128, 2 * narrow)
        self.reach = reach

    def forward(self, look):
        centre, spread = self.core(look).chunk(2, dim=-1)
        cloud = torch.distributions.Normal(centre, spread.clamp(-5, 2).exp())
        raw = cloud.rsample()
        bent = torch.tanh(raw)
        chance = (cloud.log_prob(raw) - torch.log(1 - bent.square() + 1e-6)).sum(-1)
        return bent * self.reach, chance


class Pair(nn.Module):
    def __init__(self, wide, narrow):
        super().__init__()
        self.left, self.right = layers(wide + narrow, 128, 1), layers(wide + narrow, 128, 1)

    def forward(self, look, push):
        both = torch.cat((look, push), dim=-1)
        return self.left(both).squeeze(-1), self.right(both).squeeze(-1)


def study(past, hand, pair, slow_pair, hand_opt, pair_opt, warmth):
    rows = random.sample(past, BATCH)
    look, push, prize, look2, fell = (torch.as_tensor(np.stack(part), dtype=torch.float32) for part in zip(*rows))
    with torch.no_grad():
        push2, chance2 = hand(look2)
        left2, right2 = slow_pair(look2, push2)
        ahead = torch.minimum(left2, right2) - warmth * chance2
        aim = torch.where(fell.bool(), prize, prize + LATER * ahead)
    left, right = pair(look, push)
    pair_cost = F.mse_loss(left, aim) + F.mse_loss(right, aim)
    pair_opt.zero_grad()
    pair_cost.backward()
    pair_opt.step()

    push_now, chance_now = hand(look)
    left_now, right_now = pair(look, push_now)
    hand_cost = (warmth * chance_now - torch.minimum(left_now, right_now)).mean()
    hand_opt.zero_grad()
    hand_cost.backward()
    hand_opt.step()

    with torch.no_grad():
        for old, new in zip(slow_pair.parameters(), pair.parameters()):
            old.copy_((1 - SLOWNESS) * old + SLOWNESS * new)


def live(days=40_000, start=2_000):
    world = gym.make("Pendulum-v1")
    hand, pair = Hand(3, 1, 2.0), Pair(3, 1)
    slow_pair = copy.deepcopy(pair)
    hand_opt = torch.optim.Adam(hand.parameters(), lr=3e-4)
    pair_opt = torch.optim.Adam(pair.parameters(), lr=3e-4)
    past = collections.deque(maxlen=100_000)
    look, _ = world.reset(seed=1)
    for day in range(days):
        if day < start:
            push = world.action_space.sample()
        else:
            with torch.no_grad():
                push = hand(torch.as_tensor(look))[0].numpy()
        look2, prize, fell, late, _ = world.step(push)
        past.append(Moment(look, push, prize, look2, fell))
        look = look2
        if fell or late:
            look, _ = world.reset()
        if day >= start:
            study(past, hand, pair, slow_pair, hand_opt, pair_opt, 0.2)


live()
"""

SOFT_FAULTS = {
    "branches that are swapped": (
        "COD502",
        "torch.where(fell.bool(), prize, prize + LATER * ahead)",
        "torch.where(fell.bool(), prize + LATER * ahead, prize)",
        "aim =",
    ),
    "no end": ("COD501", "torch.where(fell.bool(), prize, prize + LATER * ahead)", "prize + LATER * ahead", "aim ="),
    "a discount on the reward": ("COD512", "prize, prize + LATER * ahead", "prize, LATER * (prize + ahead)", "aim ="),
    "the trained critics in the target": ("COD536", "left2, right2 = slow_pair(", "left2, right2 = pair(", "left2, right2"),
    "values of this observation": ("COD517", "slow_pair(look2, push2)", "slow_pair(look, push2)", "left2, right2"),
    "an action of this observation": ("COD517", "hand(look2)", "hand(look)", "push2, chance2"),
    "the stored action, next": ("COD517", "slow_pair(look2, push2)", "slow_pair(look2, push)", "left2, right2"),
    "the larger critic": ("COD522", "torch.minimum(left2, right2)", "torch.maximum(left2, right2)", "ahead ="),
    "an action that nobody took": ("COD551", "pair(look, push)\n", "pair(look, push2)\n", "left, right ="),
    "a critic that is not trained": ("COD539", " + F.mse_loss(right, aim)", "", "pair_cost ="),
    "one critic twice": ("COD522", "F.mse_loss(right, aim)", "F.mse_loss(left, aim)", "pair_cost ="),
    "an actor judged by stored actions": ("COD528", "pair(look, push_now)", "pair(look, push)", "left_now, right_now"),
    "an actor that lowers its value": ("COD523", "chance_now - torch.minimum", "chance_now + torch.minimum", "hand_cost ="),
    "certainty that is paid for": ("COD523", "(warmth * chance_now -", "(-warmth * chance_now -", "hand_cost ="),
    "an actor that is cut off": ("COD528", "pair(look, push_now)", "pair(look, push_now.detach())", "left_now, right_now"),
    "gradients that pile up": ("COD401", "    hand_opt.zero_grad()\n", "", "hand_cost.backward"),
    "the step of the other optimizer": (
        "COD404",
        "    hand_cost.backward()\n    hand_opt.step()",
        "    hand_cost.backward()\n    pair_opt.step()",
        "hand_cost.backward",
    ),
    "shares that are swapped": ("COD527", "(1 - SLOWNESS) * old + SLOWNESS * new", "SLOWNESS * old + (1 - SLOWNESS) * new", "old.copy_"),
    "a copy that grows": ("COD527", "(1 - SLOWNESS) * old + SLOWNESS * new", "old + SLOWNESS * new", "old.copy_"),
    "the copy into the network": (
        "COD534",
        "zip(slow_pair.parameters(), pair.parameters())",
        "zip(pair.parameters(), slow_pair.parameters())",
        "for old, new",
    ),
    "a copy that is none": ("COD507", "copy.deepcopy(pair)", "pair", "slow_pair = pair"),
    "an optimizer of the copy": ("COD406", "Adam(pair.parameters()", "Adam(slow_pair.parameters()", "pair_opt = torch"),
    "a draw without a gradient": ("COD521", "cloud.rsample()", "cloud.sample()", "raw ="),
    "no correction for tanh": ("COD202", " - torch.log(1 - bent.square() + 1e-6)", "", "chance ="),
    "a correction of the wrong sign": ("COD202", "- torch.log(1 - bent", "+ torch.log(1 - bent", "chance ="),
    "the next observation as this one": ("COD122", "Moment(look, push", "Moment(look2, push", "past.append"),
    "an observation that stays": ("COD106", "        look = look2\n", "", "past.append"),
    "stored too late": (
        "COD121",
        "        past.append(Moment(look, push, prize, look2, fell))\n        look = look2\n",
        "        look = look2\n        past.append(Moment(look, push, prize, look2, fell))\n",
        "past.append",
    ),
    "reset at real ends alone": ("COD105", "if fell or late", "if fell", "if fell"),
    "chance after the warm-up": ("COD511", "if day < start", "if day > start", "if day > start"),
    "learning that ends": ("COD415", "if day >= start", "if day < start:\n            pass\n        if day <= start", "if day <= start"),
    "fields in each other's place": (
        "COD122",
        "look, push, prize, look2, fell = (",
        "look2, push, prize, look, fell = (",
        "look2, push, prize",
    ),
    "hardly any memory": ("COD535", "maxlen=100_000", "maxlen=100", "past ="),
}

SCRIPTS = {"ranked": (RANKED, RANKED_FAULTS), "slippery": (SLIPPERY, SLIPPERY_FAULTS), "soft": (SOFT, SOFT_FAULTS)}


def _said(text: str) -> list[tuple[str, str]]:
    script = linter.parse(Source("script", text))
    found = [each for check in checks.checks("COD") for each in linter.examine(check, script)]
    return [(each.rule, place.text) for each in found if each.severity is not Severity.LOW for place in each.evidence]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_sound_script_is_left_alone(name: str) -> None:
    assert _said(SCRIPTS[name][0]) == []


@pytest.mark.parametrize(("name", "fault"), [(name, fault) for name, (_, faults) in SCRIPTS.items() for fault in faults])
def test_what_breaks_a_law_is_named_on_its_line(name: str, fault: str) -> None:
    text, faults = SCRIPTS[name]
    rule, right, wrong, line = faults[fault]
    assert text.count(right) == 1
    assert any(said == rule and line in where for said, where in _said(text.replace(right, wrong)))
