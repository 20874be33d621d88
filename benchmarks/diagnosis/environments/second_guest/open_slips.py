"""The open half: mistakes and variants whose misses may be read."""

from typing import Final

from benchmarks.diagnosis.environments.second_guest.slip import Edits, Slip, mismatch, slip

SLIPS: Final[dict[tuple[str, str], Slip]] = {
    # ── crane ──
    ("crane", "paid for missing the hatch"): slip(
        ("reward = math.exp(-miss)", "reward = -math.exp(-miss)"),
        accepted=("reward-sign",),
        tells="a load that hangs still over the hatch is paid worst of all, and leaving the rail early pays best",
    ),
    ("crane", "no speeds"): slip(
        ("np.array([2 * self.RAIL, 40.0, 1.6, 40.0], np.float32)", "np.array([2 * self.RAIL, 1.6], np.float32)"),
        ("[self.hatch - self.x, self.v, self.theta, self.omega]", "[self.hatch - self.x, self.theta]"),
        accepted=("observation-partial",),
        tells="what comes next follows from the last two observations and not from the last one",
    ),
    ("crane", "millimetres"): slip(
        ("accel = self.MAX_ACCEL * push", "accel = self.MAX_ACCEL * push / 1000"),
        accepted=("actions-without-effect", "action-bounds"),
        tells="full push to one side for a whole episode moves the trolley by a fifth of a metre, a thirtieth of what starts differ by",
    ),
    ("crane", "the stopwatch runs on"): slip(
        ("        self.steps = 0\n        return", "        return"),
        accepted=("never-reset", "episode-too-short"),
        tells="the first episodes are long; once 240 steps have been made in all, every episode is cut at its first step",
    ),
    ("crane", "by radio"): slip(
        ("        self.steps = 0\n        return", "        self.steps = 0\n        self.radio = [self._observe()] * 9\n        return"),
        ("        miss = abs(", "        self.radio.append(self._observe())\n        miss = abs("),
        ("return self._observe(), reward", "return self.radio[-9], reward"),
        accepted=("observation-late",),
        tells="after a reset nothing moves for eight steps, and then what the actions of eight steps ago did",
    ),
    ("crane", "other wiring at the exam"): mismatch(
        ("np.clip(action[0], -1.0, 1.0)", "np.clip(-action[0], -1.0, 1.0)"),
        tells="same seed, same actions: the trolley of evaluation goes the other way",
    ),
    # ── warehouse ──
    ("warehouse", "two shelves"): slip(
        ("for shelf in range(3):", "for shelf in range(2):"),
        accepted=("actions-without-effect",),
        tells="whatever the third number of the action is, nothing differs: no bill, no delivery",
    ),
    ("warehouse", "books at the end of the season"): slip(
        (
            "        reward = profit / 100.0\n        broke = self.cash < -1000.0\n",
            "        self.ledger += profit / 100.0\n"
            "        broke = self.cash < -1000.0\n"
            "        reward = self.ledger if broke or self.day >= self.last_day else 0.0\n",
        ),
        accepted=("reward-delayed", "reward-sparse"),
        tells="every step pays nothing but the last, which pays all that the days before have earned",
    ),
    ("warehouse", "stock of the opening day"): slip(
        ("[self.stock / ROOM, self.coming", "[self.opening / ROOM, self.coming"),
        accepted=("observation-partial", "observation-not-updated"),
        tells="three numbers never move within an episode although deliveries come and customers buy",
    ),
    ("warehouse", "tenths of a cent"): slip(
        ("profit / 100.0", "profit * 1000.0"),
        accepted=("reward-scale-too-large",),
        tells="a day pays hundreds of thousands",
        scores=1e5,
    ),
    ("warehouse", "the season ends the firm"): slip(
        ("reward, broke, self.day >= self.last_day,", "reward, broke or self.day >= self.last_day, False,"),
        accepted=("time-limit-as-terminal",),
        tells="an episode that is not broke ends at its sixtieth step, always, as terminated, and no clock is observed",
    ),
    ("warehouse", "share of the wishes"): slip(
        ("reward = profit / 100.0", "reward = profit / 100.0 + float((sold / wanted).mean())"),
        accepted=("environment-not-finite",),
        tells="the reward is not a number on each day on which nobody wants one of the products",
    ),
    # ── crossing ──
    ("crossing", "cars are not drawn"): slip(
        ("        img[1][self.cars] = 255\n", ""),
        accepted=("observation-partial",),
        tells="one plane of the picture is always empty, and hits come out of nowhere",
    ),
    ("crossing", "picture as shares"): slip(
        ("return img\n", "return (img / 256).astype(np.uint8)\n"),
        accepted=("observation-constant",),
        tells="every picture is black",
    ),
    ("crossing", "to and fro"): slip(
        ("0.1 * (before - self.row)", "0.5 * abs(before - self.row)"),
        accepted=("deceptive-reward",),
        tells="one step up and one step down, again and again, pays many times what crossing pays",
    ),
    ("crossing", "glad to be hit"): slip(
        ("reward -= 1.0", "reward += 1.0"),
        accepted=("reward-sign", "deceptive-reward"),
        tells="being hit in the first row pays nearly as much as crossing, without the way",
    ),
    ("crossing", "film from before"): slip(
        ("        self.age = 0\n", "        self.age = 0\n        self.film = [self.picture()] * 4\n"),
        ("        self.age += 1\n", "        self.age += 1\n        self.film.append(self.picture())\n"),
        ("return self.picture(), reward", "return self.film[-4], reward"),
        accepted=("observation-late",),
        tells="an action shows in the picture three steps later; the first pictures of an episode are all the same",
    ),
    ("crossing", "seed of the year"): slip(
        ("super().reset(seed=seed)", "super().reset(seed=2024)"),
        accepted=("starts-identical", "seeds-identical"),
        tells="any seed and no seed give the same cars and the same column, although both are drawn",
    ),
    # ── heating ──
    ("heating", "kelvin"): slip(
        ("*(self.rooms - 21.0) / 10.0", "*(self.rooms + 273.15)"),
        accepted=("observation-scale",),
        tells="two numbers lie near 294 and vary by a few, in a box that says at most 6",
    ),
    ("heating", "watts"): slip(
        ("heat = house.heater * np.clip", "heat = 1e-3 * house.heater * np.clip"),
        accepted=("action-bounds", "actions-without-effect"),
        tells="full power all day and none give the same temperatures to a tenth of a degree",
    ),
    ("heating", "root of what is missing"): slip(
        ("(np.abs(self.rooms - 21.0)).sum()", "((self.rooms - 21.0) ** 1.5).sum()"),
        accepted=("environment-not-finite",),
        tells="the reward is not a number in each quarter in which a room is colder than 21 degrees",
    ),
    ("heating", "capped bill"): slip(
        ("-(0.2 * bill + house.comfort * discomfort)", "-min(0.2 * bill + house.comfort * discomfort, 0.01)"),
        accepted=("reward-clipped", "reward-never-seen"),
        tells="nearly every step pays exactly -0.01, whatever the temperatures",
    ),
    ("heating", "read every six hours"): slip(
        ("*(self.rooms - 21.0) / 10.0", "*(self.shown - 21.0) / 10.0"),
        (
            "        self.quarter += 1\n",
            "        self.quarter += 1\n        if self.quarter % 24 == 0:\n            self.shown = self.rooms.copy()\n",
        ),
        accepted=("observation-not-updated", "observation-late"),
        tells="the temperatures stand still for 24 steps and then jump",
    ),
    # ── router ──
    ("router", "one after the other"): slip(
        ("server = int(action)", "server = self.served % 4"),
        accepted=("actions-without-effect",),
        tells="same seed, other actions: the same observations and rewards",
    ),
    ("router", "open for ever"): slip(
        ("reward, False, self.served >= self.JOBS,", "reward, False, False,"),
        accepted=("time-limit-missing",),
        tells="no episode ends in ten thousand steps",
    ),
    ("router", "paid by the wait"): slip(
        ("reward = -0.1 * min", "reward = 0.1 * min"),
        accepted=("reward-sign",),
        tells="all jobs to the slowest server, whose customers wait longest, pays best",
    ),
    ("router", "needles tremble"): slip(
        ("*(self.backlog / 5.0), self.job", "*np.abs(self.backlog / 5.0 + self.np_random.normal(0.0, 10.0, 4)), self.job"),
        accepted=("observation-noise",),
        tells="gauges jump from step to step by ten times what a job or a gap could change",
    ),
    ("router", "settled after the shift"): slip(
        ("reward = -0.1 * min(float(wait), self.FULL)", "self.owed -= 0.1 * min(float(wait), self.FULL)"),
        ("        self.served += 1\n", "        self.served += 1\n        reward = self.owed if self.served >= self.JOBS else 0.0\n"),
        accepted=("reward-delayed", "reward-sparse"),
        tells="199 steps pay nothing, the last pays the sum of all waits",
    ),
    ("router", "by the day"): slip(
        ("reward = -0.1 * min", "reward = -1e-6 * min"),
        accepted=("reward-scale-too-small",),
        tells="a whole episode of random actions costs a thousandth",
        scores=1e-5,
    ),
    # ── quad ──
    ("quad", "no gyro, no speed"): slip(
        ("self.goal[1] - z, vx, vz, np.sin(tilt), np.cos(tilt), spin]", "self.goal[1] - z, 0.0, 0.0, np.sin(tilt), np.cos(tilt), 0.0]"),
        accepted=("observation-partial",),
        tells="three numbers are always 0, and what comes next follows from two observations and not from one",
    ),
    ("quad", "only more"): slip(
        ("np.clip(np.asarray(action, float), -1.0, 1.0)", "np.clip(np.asarray(action, float), 0.0, 1.0)"),
        accepted=("action-bounds", "actions-without-effect"),
        tells="all negative actions do what 0 does, so that the drone can only climb",
    ),
    ("quad", "away from here"): slip(
        ("reward = 1.0 - 0.25 * far", "reward = 1.0 + 0.25 * far"),
        accepted=("reward-sign", "deceptive-reward"),
        tells="the reward rises with the distance that the observation asks to close",
    ),
    ("quad", "a third of a second"): slip(
        ("max_episode_steps=200", "max_episode_steps=8"),
        accepted=("episode-too-short",),
        tells="every episode is cut at its eighth step, before any action could bring the drone near its waypoint",
    ),
    ("quad", "put back as it flew"): slip(
        ("        self.state[2:] = self.np_random.uniform(-0.1, 0.1, 4)\n", ""),
        accepted=("never-reset", "episode-too-short"),
        tells="an episode begins with the tilt and the speed of the crash before, and soon each one ends at its first step",
    ),
    ("quad", "other order at the exam"): mismatch(
        ("[self.goal[0] - x, self.goal[1] - z, vx", "[self.goal[1] - z, self.goal[0] - x, vx"),
        tells="same seed: the first two numbers of evaluation stand the other way round",
    ),
    # ── shop ──
    ("shop", "everybody is average"): slip(
        ('"taste": self.taste.astype(np.float32)', '"taste": np.zeros(N_TASTES, np.float32)'),
        accepted=("observation-partial",),
        tells="the taste is 0 in every episode, yet with the same actions some click at everything and others at nothing",
    ),
    ("shop", "heads or tails"): slip(
        ("self.np_random.random() < 1.0 / (1.0 + np.exp(-appeal))", "self.np_random.random() < 0.5"),
        accepted=("reward-noise", "actions-without-effect"),
        tells="half of all showings are clicked, for each item and each taste",
    ),
    ("shop", "a click is worth little"): slip(
        ("reward = float(click)", "reward = 1e-5 * float(click)"),
        accepted=("reward-scale-too-small",),
        tells="no step pays more than a hundred-thousandth",
        scores=1e-5,
    ),
    ("shop", "paid when they leave"): slip(
        ("        reward = float(click)\n", ""),
        (
            "        leaves = self.bored >= self.patience\n",
            "        leaves = self.bored >= self.patience\n"
            "        reward = float(self.clicks) if leaves or self.screen >= self.screens else 0.0\n",
        ),
        accepted=("reward-delayed", "reward-sparse"),
        tells="only the last step pays, as much as there were clicks before",
    ),
    ("shop", "nobody stays"): slip(
        ("self.bored >= self.patience", "self.bored <= self.patience"),
        accepted=("episode-too-short",),
        tells="every episode is terminated at its first step",
    ),
    ("shop", "other shelves at the exam"): mismatch(
        ("default_rng(11)", "default_rng(12)"),
        tells="for the same taste, other items are clicked in evaluation than in training",
    ),
}

VARIANTS: Final[dict[tuple[str, str], Edits]] = {
    # Weather is no mistake.
    ("crane", "gusts"): (("- 0.1 * self.omega\n", "- 0.1 * self.omega + float(self.np_random.normal(0.0, 0.4))\n"),),
    # What remains of the episode may be shown.
    ("crane", "clock in the cabin"): (
        ("np.array([2 * self.RAIL, 40.0, 1.6, 40.0], np.float32)", "np.array([2 * self.RAIL, 40.0, 1.6, 40.0, 1.0], np.float32)"),
        ("self.theta, self.omega], np.float32)", "self.theta, self.omega, self.steps / self.STEPS], np.float32)"),
    ),
    # A long horizon.
    ("warehouse", "a whole year"): (("ROOM, DAYS = 8, 80, 60", "ROOM, DAYS = 8, 80, 365"),),
    # Now and then a crowd comes.
    ("warehouse", "coach parties"): (
        (
            "self.np_random.poisson(self.usual(self.day))",
            "self.np_random.poisson(self.usual(self.day) * (3.0 if self.np_random.random() < 0.05 else 1.0))",
        ),
    ),
    # On a quiet road the way need not be paid for: random hedgehogs get across.
    ("crossing", "only the other side counts"): (
        ("reward = 0.1 * (before - self.row) - 0.01", "reward = 0.0"),
        ("density: float = 0.22", "density: float = 0.03"),
        ("patience: int = 100", "patience: int = 200"),
    ),
    ("crossing", "wet leaves"): (
        ("STEPS[int(action)]\n", "STEPS[int(action) if self.np_random.random() > 0.05 else 0]\n"),
        ("density: float = 0.22", "density: float = 0.15"),
    ),
    # The utility locks both heaters at noon: what is asked for then does not matter.
    ("heating", "locked at noon"): (
        ("heat = house.heater * np.clip", "heat = house.heater * float(not 44 <= self.quarter < 56) * np.clip"),
    ),
    # Plain degrees and cents.
    ("heating", "degrees and cents"): (
        ("gym.spaces.Box(-6.0, 6.0, (6,), np.float64)", "gym.spaces.Box(-60.0, 100.0, (6,), np.float64)"),
        ("[*(self.rooms - 21.0) / 10.0, self.outside() / 10.0, self.price(), ", "[*self.rooms, self.outside(), 100.0 * self.price(), "),
        ("21.0 + 10.0 * obs[:2], 10.0 * obs[2]", "obs[:2], obs[2]"),
    ),
    # Jobs come in bursts.
    ("router", "bursts"): (
        (
            "gap = self.np_random.exponential(",
            "gap = (0.2 if self.np_random.random() < 0.7 else 2.8) * self.np_random.exponential(",
        ),
    ),
    ("router", "long shift"): (("JOBS = 200", "JOBS = 800"),),
    ("quad", "gusts"): (
        (
            "vx = vx + DT * (-lift * np.sin(tilt) - 0.1 * vx)",
            "vx = vx + DT * (self.np_random.normal(0.0, 2.0) - lift * np.sin(tilt) - 0.1 * vx)",
        ),
    ),
    # It always starts on its pad, for the same waypoint; the wind makes the difference.
    ("quad", "from the pad"): (
        ("self.state[:2] = self.np_random.uniform(-1.0, 1.0, 2)", "self.state[:2] = 0.0"),
        ("self.state[2:] = self.np_random.uniform(-0.1, 0.1, 4)", "self.state[2:] = 0.0"),
        ("self.goal = self.np_random.uniform(-self.reach, self.reach, 2)", "self.goal = np.array([1.5, 2.0])"),
        ("vx = vx + DT * (-lift", "vx = vx + DT * (self.np_random.normal(0.0, 1.5) - lift"),
    ),
    # Of four clicks one buys: rarer, and a matter of luck.
    ("shop", "purchases"): (("reward = float(click)", "reward = 5.0 * float(click and self.np_random.random() < 0.25)"),),
    ("shop", "counts the screens"): (
        ('"bored": self.bored}', '"bored": self.bored, "screen": np.array([self.screen / self.screens], np.float32)}'),
        (
            '"bored": gym.spaces.Discrete(patience + 1),',
            '"bored": gym.spaces.Discrete(patience + 1),\n                "screen": gym.spaces.Box(0.0, 1.0, (1,), np.float32),',
        ),
    ),
}
