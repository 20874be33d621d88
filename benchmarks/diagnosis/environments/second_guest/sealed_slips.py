"""The sealed half: only totals are printed of it. Whoever mends what examines environments does not read this file."""

from typing import Final

from benchmarks.diagnosis.environments.second_guest.slip import Edits, Slip, mismatch, slip

SLIPS: Final[dict[tuple[str, str], Slip]] = {
    # ── dosing ──
    ("dosing", "micrograms"): slip(
        ("inflow = PUMP * rate / litres", "inflow = PUMP * rate / litres / 1000.0"),
        accepted=("action-bounds", "actions-without-effect"),
        tells="full rate and none lead to the same depth of sleep within a per cent",
    ),
    ("dosing", "chart of five minutes ago"): slip(
        ("return self._chart(), reward", "return self.record[max(self.tick - 20, 0)], reward"),
        accepted=("observation-late",),
        tells="nothing moves for twenty steps after a reset, and later what was done twenty steps ago",
    ),
    ("dosing", "the wish is not on the chart"): slip(
        ("self.wish() / 50.0, self.blood", "self.depth() / 50.0, self.blood"),
        accepted=("observation-partial",),
        tells="two numbers are always equal, and the same state pays differently in different episodes",
    ),
    ("dosing", "the worse the better"): slip(
        ("reward = 0.3 - miss / 50.0", "reward = 0.3 + miss / 50.0"),
        accepted=("reward-sign",),
        tells="the reward rises with the distance between the two depths that are observed, where it should fall",
    ),
    ("dosing", "nanograms"): slip(
        (
            "self.blood / 5.0, self.muscle / 5.0, self.brain / 5.0, self.weight",
            "self.blood * 1e6, self.muscle * 1e6, self.brain * 1e6, self.weight",
        ),
        ("np.clip(np.array(chart, np.float32), 0.0, 20.0)", "np.array(chart, np.float32)"),
        accepted=("observation-scale",),
        tells="three numbers are in the millions, beside others near 1 and in a box that says at most 20",
    ),
    ("dosing", "the operation ends the patient"): slip(
        ("reward, emergency, self.tick >= self.length,", "reward, emergency or self.tick >= self.length, False,"),
        accepted=("time-limit-as-terminal",),
        tells="every episode without an emergency is terminated at step 160, and no clock is observed",
    ),
    # ── lights ──
    ("lights", "never recognised"): slip(
        ("out = not self.board.any()", "out = self.board.tolist() == [0] * LAMPS"),
        accepted=("reward-never-seen", "reward-sparse"),
        tells="with all lamps out nothing is paid and nothing ends; no episode is ever a success",
    ),
    ("lights", "a fee for the player"): slip(
        ("reward = -0.05\n", "reward = 0.2\n"),
        accepted=("reward-shifted", "deceptive-reward"),
        tells="thirty presses that solve nothing pay several times what solving pays",
    ),
    ("lights", "the board as it was"): slip(
        ('"board": self.board.copy(), "mask"', '"board": self.given.copy(), "mask"'),
        accepted=("observation-not-updated", "observation-partial"),
        tells="the board never changes within an episode, also where it is solved",
    ),
    ("lights", "presses a copy"): slip(
        ("            flip(self.board, lamp)\n            self.stuck", "            flip(self.board.copy(), lamp)\n            self.stuck"),
        accepted=("actions-without-effect", "reward-never-seen", "observation-not-updated"),
        tells="no press changes the board, and no sequence of presses is ever a success",
    ),
    ("lights", "one puzzle"): slip(
        ("super().reset(seed=seed)", "super().reset(seed=1)"),
        accepted=("starts-identical", "seeds-identical"),
        tells="any seed and no seed give the same board, although it is drawn",
    ),
    ("lights", "diagonals at the exam"): mismatch(
        (
            "(row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1)):",
            "(row - 1, col - 1), (row + 1, col + 1), (row + 1, col - 1), (row - 1, col + 1)):",
        ),
        tells="the same press flips other lamps in evaluation",
    ),
    # ── pairs ──
    ("pairs", "statement at the end"): slip(
        ("reward = profit\n", "reward = self.equity if called or self.bar >= self.BARS else 0.0\n"),
        accepted=("reward-delayed", "reward-sparse"),
        tells="only the last bar pays, as much as all before have earned",
    ),
    ("pairs", "the fee comes in"): slip(
        ("self.position * self.change - fee", "self.position * self.change + fee"),
        accepted=("deceptive-reward", "reward-sign"),
        tells="from short to long and back in every bar pays more than any trade on the spread",
    ),
    ("pairs", "other people's trades"): slip(
        ("reward = profit\n", "reward = profit + float(self.np_random.normal(0.0, 40.0))\n"),
        accepted=("reward-noise",),
        tells="rewards of nothing held scatter by 40, a hundred times more than position and spread explain",
    ),
    ("pairs", "debts remain"): slip(
        ("        self.equity = 0.0\n        self.bar = 0\n", "        self.bar = 0\n"),
        accepted=("never-reset", "episode-too-short"),
        tells="an episode begins with the equity of the one before; after the first call each one ends almost at once",
    ),
    ("pairs", "half lots"): slip(
        ("int(action) - 1\n", "int(0.5 * (int(action) - 1))\n"),
        accepted=("actions-without-effect", "reward-never-seen"),
        tells="the position is 0 after every action, and every reward is 0",
    ),
    ("pairs", "the spread of the morning"): slip(
        ("[self.spread, self.change, self.position", "[self.tape[0], self.change, self.position"),
        accepted=("observation-partial", "observation-not-updated"),
        tells="the first number stands still all episode while the change beside it says that it moves",
    ),
    # ── junction ──
    ("junction", "counts from one"): slip(
        ("wanted = int(action)", "wanted = int(action > 1)"),
        accepted=("actions-without-effect",),
        tells="same seed, other actions: the same observations and rewards",
    ),
    ("junction", "cars per hour"): slip(
        ("*(self.queues / self.LONGEST), *lights", "*(self.queues * 3600.0), *lights"),
        accepted=("observation-scale",),
        tells="four numbers reach 90,000 in a box that says at most 1",
    ),
    ("junction", "counted at the end"): slip(
        ("reward = -waiting", "reward = -self.total if self.tick >= self.ticks else 0.0"),
        accepted=("reward-delayed", "reward-sparse"),
        tells="199 ticks pay nothing, the last pays for all the waiting",
    ),
    ("junction", "loops are cut"): slip(
        ("*(self.queues / self.LONGEST), *lights", "*np.zeros(4), *lights"),
        accepted=("observation-partial",),
        tells="four numbers are always 0 while the reward, and info, say how many cars wait",
    ),
    ("junction", "whole jams only"): slip(
        ("float(self.queues.sum()) / 20.0", "float(self.queues.sum() // 200)"),
        accepted=("reward-never-seen",),
        tells="every reward is 0, whatever the lights do: four full arms hold a hundred cars",
    ),
    ("junction", "other arms at the exam"): mismatch(
        ("slice(0, 2) if self.green == 0 else slice(2, 4)", "slice(2, 4) if self.green == 0 else slice(0, 2)"),
        tells="in evaluation the queues without green get shorter",
    ),
    # ── vault ──
    ("vault", "pocket not shown"): slip(
        ("int(self.has_key), *self.key", "0, *self.key"),
        accepted=("observation-partial",),
        tells="from the same observation the same step goes through the door or does not",
    ),
    ("vault", "a key again and again"): slip(
        ("if self.robber == self.key and not self.has_key:", "if self.robber == self.key:"),
        accepted=("deceptive-reward",),
        tells="stepping off the key and on it pays a quarter per step, many times what leaving pays",
    ),
    ("vault", "no sideways"): slip(
        ("self.robber[1] + MOVES[move][1]", "self.robber[1]"),
        accepted=("actions-without-effect",),
        tells="two of the four actions never change anything",
    ),
    ("vault", "the exit is off the map"): slip(
        ("out = self.robber == (N - 1, N - 1)", "out = self.robber == (N, N)"),
        accepted=("reward-never-seen", "threshold-out-of-reach", "reward-sparse"),
        tells="all places can be visited, and none of them ends the episode or is a success",
    ),
    ("vault", "caught at the limit"): slip(
        ("reward, out, self.steps >= self.limit,", "reward, out or self.steps >= self.limit, False,"),
        accepted=("time-limit-as-terminal",),
        tells="episodes that are no success are all terminated at step 120, and no clock is observed",
    ),
    ("vault", "one map"): slip(
        ("super().reset(seed=seed)", "super().reset(seed=99)"),
        accepted=("starts-identical", "seeds-identical"),
        tells="any seed and no seed give the same map, although it is drawn",
    ),
    # ── lathe_shop ──
    ("lathe_shop", "cards without work and weight"): slip(
        (
            "(job.hours / 6.0, (job.due - self.clock) / 10.0, job.weight / 5.0) if job",
            "(0.0, (job.due - self.clock) / 10.0, 0.0) if job",
        ),
        accepted=("observation-partial",),
        tells="ten numbers are always 0, and the same choice takes and pays differently each time",
    ),
    ("lathe_shop", "paid for being late"): slip(
        ("-0.1 * late)", "0.1 * late)"),
        accepted=("reward-sign", "deceptive-reward"),
        tells="a card that lay until it was twenty hours late pays twice what it pays in time",
    ),
    ("lathe_shop", "wages in the evening"): slip(
        (
            "        finished = not self.pile and not any(self.board)\n",
            "        finished = not self.pile and not any(self.board)\n"
            "        reward = self.owed if finished or self.picks >= PICKS else 0.0\n",
        ),
        accepted=("reward-delayed", "reward-sparse"),
        tells="only the last pick pays, as much as all jobs together",
    ),
    ("lathe_shop", "millions"): slip(
        ("        self.owed += reward\n", "        reward *= 1e-6\n        self.owed += reward\n"),
        accepted=("reward-scale-too-small",),
        tells="no step pays more than a few millionths",
        scores=1e-6,
    ),
    ("lathe_shop", "root of what is left"): slip(
        ("(job.due - self.clock) / 10.0", "np.sqrt(job.due - self.clock) / 4.0"),
        accepted=("environment-not-finite",),
        tells="the observation holds something that is not a number as soon as a job on the board is late",
    ),
    ("lathe_shop", "always the first place"): slip(
        ("place = int(action)", "place = int(action) // PLACES"),
        accepted=("actions-without-effect",),
        tells="same seed, other actions: the same observations and rewards",
    ),
    # ── orchard ──
    ("orchard", "no basket on the screen"): slip(
        ("        planes[1, SIDE - 1, self.basket] = 1.0\n", ""),
        accepted=("observation-partial",),
        tells="one plane is always empty, no action shows, and yet actions decide what is caught",
    ),
    ("orchard", "snow on the screen"): slip(
        ("return planes\n", "return planes + self.np_random.normal(0.0, 5.0, planes.shape).astype(np.float32)\n"),
        accepted=("observation-noise",),
        tells="every pixel is drawn anew at each step, five times as far as an apple is bright",
    ),
    ("orchard", "film from before"): slip(
        ("        self.wait = 0\n", "        self.wait = 0\n        self.film = [self.screen()] * 5\n"),
        ("        self.steps += 1\n", "        self.steps += 1\n        self.film.append(self.screen())\n"),
        ("return self.screen(), reward", "return self.film[-5], reward"),
        accepted=("observation-late",),
        tells="the basket moves four steps after the action",
    ),
    ("orchard", "the basket is not kept"): slip(
        ("        self.basket = int(np.clip(", "        basket = int(np.clip("),
        (" + int(action) - 1, 0, SIDE - 1))\n        reward = 0.0\n", " + int(action) - 1, 0, SIDE - 1))\n        reward = 0.0 * basket\n"),
        accepted=("actions-without-effect",),
        tells="the basket never moves: same seed, other actions, the same screens and rewards",
    ),
    ("orchard", "over before it began"): slip(
        ("self.dropped >= 3", "self.dropped >= 0"),
        accepted=("episode-too-short",),
        tells="every episode is terminated at its first step, before the first apple is down",
    ),
    ("orchard", "other way round at the exam"): mismatch(
        ("self.basket + int(action) - 1, 0", "self.basket - int(action) + 1, 0"),
        tells="same seed, same actions: the basket of evaluation goes the other way",
    ),
}

VARIANTS: Final[dict[tuple[str, str], Edits]] = {
    # A monitor with a little noise.
    ("dosing", "trembling needle"): (
        ("chart = [self.depth() / 50.0, ", "chart = [self.depth() / 50.0 + float(self.np_random.normal(0.0, 0.02)), "),
    ),
    # The pump stops by itself where sleep is deep: there it does not matter what is asked for.
    ("dosing", "lockout"): (("inflow = PUMP * rate / litres", "inflow = PUMP * rate / litres * (0.0 if self.depth() > 85.0 else 1.0)"),),
    # On short puzzles nothing but the end has to pay: random presses solve some.
    ("lights", "only the end counts"): (
        ("reward = -0.05\n", "reward = 0.0\n"),
        ("scrambles: tuple[int, int] = (2, 5)", "scrambles: tuple[int, int] = (1, 2)"),
    ),
    ("lights", "worn buttons"): (
        (
            "            flip(self.board, lamp)\n            self.stuck = lamp\n",
            "            if self.np_random.random() > 0.1:\n                flip(self.board, lamp)\n                self.stuck = lamp\n",
        ),
    ),
    # Ten pounds a point.
    ("pairs", "in tens"): (("reward = profit\n", "reward = 10.0 * profit\n"),),
    # Some days are wild.
    ("pairs", "wild days"): (
        (
            "        self.change = -self.BACK",
            "        shock *= 2.5 if self.np_random.random() < 0.08 else 0.8\n        self.change = -self.BACK",
        ),
        ("CALL = -6.0", "CALL = -12.0"),
    ),
    # Few come, and often it does not matter who has green.
    ("junction", "at night"): (
        ("self.rates = np.repeat(pair, 2)", "self.rates = 0.4 * np.repeat(pair, 2)"),
        ("roads[ours] + 0.14", "max(roads[ours], 0.02)"),
    ),
    # A tram takes the junction for a tick.
    ("junction", "trams"): (("if self.yellow == 0:", "if self.yellow == 0 and self.np_random.random() > 0.05:"),),
    # One vault, by design; the floor makes the difference.
    ("vault", "the vault of the bank"): (
        ("self.robber = (int(self.np_random.integers(N)), int(self.np_random.integers(WALL)))", "self.robber = (0, 0)"),
        ("self.key = (int(self.np_random.integers(N)), int(self.np_random.integers(WALL)))", "self.key = (5, 1)"),
        ("self.door = int(self.np_random.integers(N))", "self.door = 3"),
        ("slippery: float = 0.0", "slippery: float = 0.15"),
    ),
    # The key is only a means.
    ("vault", "only the exit counts"): (("reward += 0.5", "reward += 0.0"),),
    # Work takes as long as it takes.
    ("lathe_shop", "breakdowns"): (
        ("self.clock += job.hours", "self.clock += job.hours * (2.0 if self.np_random.random() < 0.15 else 0.9)"),
    ),
    # Everything is urgent: rewards are nearly all costs, some of them large.
    ("lathe_shop", "all are late"): (("float(rng.uniform(4.0, 12.0) + 2.8 * place)", "float(rng.uniform(1.0, 6.0))"),),
    # Leaves in the wind.
    ("orchard", "wind"): (
        (
            "            apple[0] += self.fall\n",
            "            apple[0] += self.fall\n"
            "            if self.np_random.random() < 0.15:\n"
            "                apple[1] = int(np.clip(apple[1] + self.np_random.integers(-1, 2), 0, SIDE - 1))\n",
        ),
    ),
    # Every game opens alike, and goes on differently.
    ("orchard", "from the middle"): (
        ("self.basket = int(self.np_random.integers(SIDE))", "self.basket = SIDE // 2"),
        ("[[0, int(self.np_random.integers(SIDE))]]", "[[0, SIDE // 2]]"),
    ),
}
