"""What is wrong in the visitors, as their authors would have got it wrong, and what is odd but right.

A slip is text that stands once in the visitor's file, and the text that stands there instead. `accepted` are the causes that are right:
the first one is what the author did, any other says the same of what can be seen. Written down before anything was examined.
"""

from dataclasses import dataclass
from typing import Final

Edits = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Slip:
    """One mistake."""

    edits: Edits
    accepted: tuple[str, ...]
    evaluation: bool = False
    """Only the environment of evaluation has it."""
    scores: float = 1.0
    """What it multiplies good returns with: its author's idea of a good return moves along."""


def _same_starts(old: str, new: str) -> Slip:
    return Slip(((old, new),), ("starts-identical", "seeds-identical"))


def _mismatch(*edits: tuple[str, str]) -> Slip:
    return Slip(edits, ("evaluation-mismatch", "evaluation-environment-differs"), evaluation=True)


SLIPS: Final[dict[tuple[str, str], Slip]] = {
    # ── arm ──
    ("arm", "distance is paid"): Slip((("reward = -distance - effort", "reward = distance - effort"),), ("reward-sign",)),
    ("arm", "sees the oldest frame"): Slip((("latest = self.frames[-1]", "latest = self.frames[0]"),), ("observation-late",)),
    ("arm", "time step twice"): Slip(
        (("u * self.MAX_SPEED * self.DT", "u * self.MAX_SPEED * self.DT**2"),), ("action-bounds", "actions-without-effect")
    ),
    ("arm", "tip for marker"): Slip(
        (("np.concatenate([latest, self.target])", "np.concatenate([latest, self._tip()])"),), ("observation-partial",)
    ),
    ("arm", "seeded in reset"): _same_starts("super().reset(seed=seed)", "super().reset(seed=7)"),
    # ── trading ──
    ("trading", "profit of a whole fund"): Slip((("100.0 * pnl", "1_000_000.0 * pnl"),), ("reward-scale-too-large",), scores=1e4),
    ("trading", "prices as they are"): Slip((("20.0 * np.log(window / self.FAIR_VALUE)", "window"),), ("observation-scale",)),
    ("trading", "clipped for the gradients"): Slip(
        (("reward = float(100.0 * pnl)", "reward = float(np.clip(100.0 * pnl, -0.01, 0.01))"),), ("reward-clipped",)
    ),
    ("trading", "yearly statement"): Slip(
        (
            ("        self.position = 0\n", "        self.position = 0\n        self.earned = 0.0\n"),
            ("        reward = float(100.0 * pnl)\n", "        self.earned += float(100.0 * pnl)\n"),
            (
                "        return self._observation(), reward, False, done",
                "        reward = self.earned if done else 0.0\n        return self._observation(), reward, False, done",
            ),
        ),
        ("reward-delayed", "reward-sparse"),
    ),
    ("trading", "one year for ever"): _same_starts("shocks = self.np_random.normal(", "shocks = np.random.default_rng(42).normal("),
    # ── snake ──
    ("snake", "drawn once"): Slip(
        (
            (
                "            self._place_food()\n        self._draw()\n        return self.canvas.copy(), reward",
                "            self._place_food()\n        return self.canvas.copy(), reward",
            ),
        ),
        ("observation-not-updated", "observation-constant"),
    ),
    ("snake", "food is wiped off"): Slip(
        (
            (
                "        self.canvas[:] = 0\n        self.canvas[self.food][2] = INK\n",
                "        self.canvas[self.food][2] = INK\n        self.canvas[:] = 0\n",
            ),
        ),
        ("observation-partial",),
    ),
    ("snake", "keys refused"): Slip(
        (("if turn != (-self.heading[0], -self.heading[1]):", "if turn == self.heading:"),), ("actions-without-effect",)
    ),
    ("snake", "death wish"): Slip((("FOOD_REWARD, DEATH_REWARD = 1.0, -1.0", "FOOD_REWARD, DEATH_REWARD = -1.0, 1.0"),), ("reward-sign",)),
    ("snake", "pale ink"): Slip((("INK = 255", "INK = 1"),), ("observation-scale",)),
    # ── lathes ──
    ("lathes", "one entry for both"): Slip(
        (("enumerate((int(action[0]), int(action[1])))", "enumerate((int(action[0]), int(action[0])))"),),
        ("actions-without-effect", "action-bounds"),
    ),
    ("lathes", "clock runs on"): Slip(
        (
            ("        self.clock = 0\n", ""),
            (
                "        self.action_space = MultiDiscrete([SLOTS + 1, SLOTS + 1])\n",
                "        self.action_space = MultiDiscrete([SLOTS + 1, SLOTS + 1])\n        self.clock = 0\n",
            ),
        ),
        ("never-reset", "episode-too-short"),
    ),
    ("lathes", "end of the shift ends the task"): Slip(
        (("SHIFT: Final = 150", "SHIFT: Final = 15"), ("reward, False, self.clock >= SHIFT", "reward, self.clock >= SHIFT, False")),
        ("time-limit-as-terminal", "episode-too-short"),
    ),
    ("lathes", "board of the morning"): Slip(
        (("        self._post()\n        return self.board.copy(), reward", "        return self.board.copy(), reward"),),
        ("observation-not-updated", "observation-constant"),
    ),
    ("lathes", "energy a hundredfold"): Slip((("ENERGY: Final = 0.02", "ENERGY: Final = 2.0"),), ("deceptive-reward",)),
    # ── drone ──
    ("drone", "radio counts"): Slip(
        (("self.action_space = spaces.Box(-1.0, 1.0,", "self.action_space = spaces.Box(-500.0, 500.0,"),), ("action-bounds",)
    ),
    ("drone", "millimetres"): Slip(
        (("np.concatenate([self.position, speed, attitude])", "np.concatenate([1000.0 * self.position, speed, attitude])"),),
        ("observation-scale",),
    ),
    ("drone", "gyro in degrees"): Slip((("GYRO_SIGMA = 0.02", "GYRO_SIGMA = 2.0"),), ("observation-noise",)),
    ("drone", "direction of flight"): Slip(
        (("self.velocity / MAX_SPEED", "self.velocity / np.linalg.norm(self.velocity)"),), ("environment-not-finite",)
    ),
    ("drone", "every step costs four"): Slip((("ALIVE = 1.0", "ALIVE = -4.0"),), ("reward-shifted", "deceptive-reward")),
    ("drone", "never recharged"): Slip(
        (("        self.steps = 0\n        self.charge = 1.0\n", "        self.steps = 0\n"),),
        ("never-reset", "environment-changed"),
    ),
    # ── kitchen ──
    ("kitchen", "card shows the pot"): Slip((('"order": self.order.copy()', '"order": self.pot.copy()'),), ("observation-partial",)),
    ("kitchen", "pot is not washed"): Slip((("        self.pot[:] = 0\n", ""),), ("never-reset",)),
    ("kitchen", "whole points"): Slip(
        (("return self.look(), reward, served", "return self.look(), int(reward), served"),),
        ("reward-sparse", "reward-never-seen", "reward-delayed"),
    ),
    ("kitchen", "anything pays"): Slip((("reward += 1.0 if wanted else -0.5", "reward += 1.0"),), ("deceptive-reward",)),
    ("kitchen", "knob without effect"): Slip((("0.2 * (knob - 1)", "0.2 * (knob // 3)"),), ("actions-without-effect", "action-bounds")),
    ("kitchen", "basis points"): Slip(
        (("return self.look(), reward, served", "return self.look(), reward / 10_000, served"),), ("reward-scale-too-small",), scores=1e-4
    ),
    # ── fog ──
    ("fog", "light never shows"): Slip(
        (("if self.clock % PERIOD == 0:", "if self.clock % PERIOD == PERIOD:"),), ("observation-not-updated", "observation-constant")
    ),
    ("fog", "progress backwards"): Slip((("reward = before - after", "reward = after - before"),), ("reward-sign",)),
    ("fog", "heading is forgotten"): Slip(
        (("self.heading += TURN * rudder", "heading = self.heading + TURN * rudder"),), ("actions-without-effect",)
    ),
    ("fog", "range by satellite"): Slip(
        (
            (
                "reward = before - after",
                "reward = before + self.np_random.normal(0.0, 15.0) - after - self.np_random.normal(0.0, 15.0)",
            ),
        ),
        ("reward-noise", "evaluation-too-noisy"),
    ),
    ("fog", "a point for every second at sea"): Slip(
        (("reward = before - after", "reward = 1.0 + before - after"),), ("reward-shifted", "deceptive-reward")
    ),
    ("fog", "port is starboard in the test"): _mismatch(("self.heading += TURN * rudder", "self.heading -= TURN * rudder")),
    # ── noughts ──
    ("noughts", "friend's win is ours"): Slip((("WON, LOST, ILLEGAL = 1.0, -1.0", "WON, LOST, ILLEGAL = -1.0, 1.0"),), ("reward-sign",)),
    ("noughts", "marks look alike"): Slip(
        (("return self.board.reshape(3, 3).copy()", "return np.abs(self.board).reshape(3, 3)"),), ("observation-partial",)
    ),
    ("noughts", "first free field"): Slip(
        (("field = int(action)", "field = int(np.flatnonzero(self.board == 0)[0])"),), ("actions-without-effect",)
    ),
    ("noughts", "board of the last game"): Slip((("        self.board[:] = 0\n", ""),), ("never-reset",)),
    ("noughts", "seat of the other in the test"): _mismatch(("return self.board.reshape(3, 3)", "return -self.board.reshape(3, 3)")),
    # ── charger ──
    ("charger", "bill as income"): Slip((("reward = -(cost + missing)", "reward = cost + missing"),), ("reward-sign",)),
    ("charger", "waits for the exact hour"): Slip(
        (("leaves = self.slot >= self.SLOTS", "leaves = self.hour == 12.0"),), ("time-limit-missing",)
    ),
    ("charger", "no clock on the wall"): Slip(
        (("left = (self.SLOTS - self.slot) * self.DT", "left = self.SLOTS * self.DT"),), ("observation-partial",)
    ),
    ("charger", "bill in the morning"): Slip(
        (("reward = -(cost + missing)", "reward = -self.bill if leaves else 0.0"),), ("reward-delayed", "reward-sparse")
    ),
    ("charger", "price per gigawatt"): Slip(
        (("reward = -(cost + missing)", "reward = -1e-4 * (cost + missing)"),), ("reward-scale-too-small",), scores=1e-4
    ),
    # ── wildfire ──
    ("wildfire", "flight is forgotten"): Slip(
        (("        self.pos = np.clip(self.pos + MOVES", "        np.clip(self.pos + MOVES"),), ("actions-without-effect",)
    ),
    ("wildfire", "share of the fire"): Slip(
        (("image[0] = self.cells == BURNING", "image[0] = (self.cells == BURNING) / (self.cells == BURNING).sum()"),),
        ("environment-not-finite",),
    ),
    ("wildfire", "yesterday's pictures"): Slip(
        (
            (
                "        self.images.append(self._image())\n        return self.images[-1]",
                "        self.images.append(self._image())\n        return self.images[max(0, len(self.images) - 9)]",
            ),
        ),
        ("observation-late",),
    ),
    ("wildfire", "whole forests"): Slip(
        (("reward = -burning / N", "reward = -float(burning // N**2)"),), ("reward-never-seen", "reward-sparse")
    ),
    ("wildfire", "same lightning"): _same_starts("        rng = self.np_random\n", "        rng = np.random.default_rng(0)\n"),
    # ── puck ──
    ("puck", "flag against flag"): Slip(
        (
            (
                'self.compute_reward(obs["achieved_goal"], obs["desired_goal"], info)',
                'self.compute_reward(obs["desired_goal"], obs["desired_goal"], info)',
            ),
        ),
        ("reward-never-seen",),
    ),
    ("puck", "only forwards"): Slip(
        (("move = self.stride * np.clip(action, -1.0, 1.0)", "move = self.stride * np.clip(action, 0.0, 1.0)"),),
        ("action-bounds", "actions-without-effect"),
    ),
    ("puck", "tolerance in metres"): Slip(
        (("return -float(distance)", "return -float(distance > 0.0001)"),), ("reward-never-seen", "reward-sparse")
    ),
    ("puck", "puck for flag"): Slip(
        (
            ("desired_goal=self.goal.astype(np.float32)", "desired_goal=self.puck.astype(np.float32)"),
            ('self.compute_reward(obs["achieved_goal"], obs["desired_goal"], info)', "self.compute_reward(self.puck, self.goal, info)"),
        ),
        ("observation-partial",),
    ),
    ("puck", "a table without left and front"): Slip(
        (
            (
                "observation=np.concatenate([self.hand, self.puck]).astype(np.float32)",
                "observation=np.clip(np.concatenate([self.hand, self.puck]), 0.0, 1.0).astype(np.float32)",
            ),
            ("achieved_goal=self.puck.astype(np.float32)", "achieved_goal=np.clip(self.puck, 0.0, 1.0).astype(np.float32)"),
            ("desired_goal=self.goal.astype(np.float32)", "desired_goal=np.clip(self.goal, 0.0, 1.0).astype(np.float32)"),
            (
                'self.compute_reward(obs["achieved_goal"], obs["desired_goal"], info)',
                "self.compute_reward(self.puck, self.goal, info)",
            ),
        ),
        ("observation-partial",),
    ),
    ("puck", "camera upside down in the test"): _mismatch(
        ("observation=np.concatenate([self.hand, self.puck])", "observation=-np.concatenate([self.hand, self.puck])")
    ),
    # ── casino ──
    ("casino", "last card for the total"): Slip(
        (("return np.array([total, self.dealer[0]", "return np.array([self.mine[-1], self.dealer[0]"),), ("observation-partial",)
    ),
    ("casino", "house's point of view"): Slip((("STAKE = 1.0", "STAKE = -1.0"),), ("reward-sign",)),
    ("casino", "paid in lire"): Slip((("STAKE = 1.0", "STAKE = 10_000.0"),), ("reward-scale-too-large",), scores=1e4),
    ("casino", "shoe is never shuffled"): _same_starts("self.shoe = self.np_random", "self.shoe = np.random.default_rng(11)"),
    ("casino", "one hand too many"): Slip(
        (("self.left -= 1", "self.left = max(self.left - 1, 0)"), ("closing = self.left == 0", "closing = self.left < 0")),
        ("time-limit-missing",),
    ),
    ("casino", "hit is stand in the test"): _mismatch(("STAND, HIT = 0, 1", "STAND, HIT = 1, 0")),
}
"""By visitor and label."""

VARIANTS: Final[dict[tuple[str, str], Edits]] = {
    # Only the marker differs between episodes: the arm is driven home first.
    ("arm", "starts at home"): (("self.q = self.np_random.uniform(-math.pi, math.pi, 2)", "self.q = np.array([0.4, 0.8])"),),
    # Orders are filled a day later.
    ("trading", "next day's fill"): (
        ("        self.position = 0\n", "        self.position = self.ordered = 0\n"),
        ("        target = int(action) - 1\n", "        target, self.ordered = self.ordered, int(action) - 1\n"),
    ),
    # Pictures are real numbers between 0 and 1.
    ("snake", "picture of floats"): (
        ("gym.spaces.Box(0, 255, (SIZE, SIZE, 3), np.uint8)", "gym.spaces.Box(0.0, 1.0, (SIZE, SIZE, 3), np.float32)"),
        ("self.canvas = np.zeros((SIZE, SIZE, 3), np.uint8)", "self.canvas = np.zeros((SIZE, SIZE, 3), np.float32)"),
        ("INK = 255", "INK = 1"),
    ),
    # To change a job takes a step, in which nothing is cut.
    ("lathes", "setting up"): (
        ("                taken.append(slot)\n                self.work[slot] -= 1\n",
         "                taken.append(slot)\n                self.work[slot] -= slot == self.set_up[lathe]\n"),
        ("ARRIVALS: Final = 0.45", "ARRIVALS: Final = 0.35"),
    ),
    # The motors follow slowly.
    ("drone", "slow motors"): (
        ("self.rotors = np.clip(np.asarray(action, float), -1.0, 1.0)",
         "self.rotors = 0.6 * self.rotors + 0.4 * np.clip(np.asarray(action, float), -1.0, 1.0)"),
    ),
    # The card has the number of the kitchen, which is always the same.
    ("kitchen", "number of the kitchen"): (
        ('                "order": gym.spaces.MultiBinary(n),\n',
         '                "order": gym.spaces.MultiBinary(n),\n                "kitchen": gym.spaces.Discrete(12),\n'),
        ('            "order": self.order.copy(),\n', '            "order": self.order.copy(),\n            "kitchen": 4,\n'),
    ),
    # The light shows by chance.
    ("fog", "fitful light"): (("if self.clock % PERIOD == 0:", "if self.np_random.random() < 1.0 / PERIOD:"),),
    # An empty board, always: what comes then is the friend's.
    ("noughts", "empty board"): (("if self.np_random.random() < 0.5:", "if self.np_random.random() < 0.0:"),),
    # The wind blows prices below zero.
    ("charger", "windy nights"): (("rng.uniform(0.3, 0.5), rng.uniform(0.15, 0.25)", "rng.uniform(0.05, 0.15), rng.uniform(0.25, 0.35)"),),
    # Lightning strikes on, and nothing but the clock ends an episode.
    ("wildfire", "season of storms"): (
        (
            "        self._burn()\n",
            "        self._burn()\n"
            "        if self.np_random.random() < 0.05:\n"
            "            self.cells[tuple(self.np_random.integers(0, N, 2))] = BURNING\n",
        ),
        ("reward, burning == 0, False", "reward, False, False"),
    ),
    # The flag is carried round, for all to see.
    ("puck", "flag wanders"): (
        (
            "        self.elapsed += 1\n",
            "        self.elapsed += 1\n"
            "        drift = self.np_random.normal(0.0, 0.02, 2).astype(np.float32)\n"
            "        self.goal = np.clip(self.goal + drift, -0.9, 0.9)\n",
        ),
    ),
    # Long evenings: rewards that are mostly lost, whatever one does.
    ("casino", "long evenings"): (("FEWEST, MOST = 5, 15", "FEWEST, MOST = 30, 60"),),
}  # fmt: skip
"""Odd but sound, by visitor and label; the expert plays them as it is."""
