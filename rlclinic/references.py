"""One bibliography: configs, metrics, rules and advice cite these keys, and nothing else."""

from dataclasses import dataclass
from typing import Final

from rlclinic.errors import NotFound, nearest


@dataclass(frozen=True, slots=True)
class Reference:
    """Where a claim comes from."""

    key: str
    authors: str
    year: int
    title: str
    where: str
    """Journal, conference or kind of page."""
    url: str

    def __str__(self) -> str:
        return f"{self.authors} ({self.year}). {self.title}. {self.where}. {self.url}"


_ALL: Final = (
    Reference(
        "williams1992reinforce",
        "R. J. Williams",
        1992,
        "Simple statistical gradient-following algorithms for connectionist reinforcement learning",
        "Machine Learning 8",
        "https://doi.org/10.1007/BF00992696",
    ),
    Reference(
        "sutton2018book",
        "R. S. Sutton, A. G. Barto",
        2018,
        "Reinforcement Learning: An Introduction, 2nd edition",
        "MIT Press",
        "http://incompleteideas.net/book/the-book-2nd.html",
    ),
    Reference(
        "schulman2015gae",
        "J. Schulman, P. Moritz, S. Levine, M. Jordan, P. Abbeel",
        2015,
        "High-dimensional continuous control using generalized advantage estimation",
        "ICLR 2016",
        "https://arxiv.org/abs/1506.02438",
    ),
    Reference(
        "kingma2015adam",
        "D. P. Kingma, J. Ba",
        2015,
        "Adam: a method for stochastic optimization",
        "ICLR 2015",
        "https://arxiv.org/abs/1412.6980",
    ),
    Reference(
        "mnih2016a2c",
        "V. Mnih et al.",
        2016,
        "Asynchronous methods for deep reinforcement learning",
        "ICML 2016",
        "https://arxiv.org/abs/1602.01783",
    ),
    Reference(
        "schulman2016nuts",
        "J. Schulman",
        2016,
        "The nuts and bolts of deep RL research",
        "slides",
        "http://joschu.net/docs/nuts-and-bolts.pdf",
    ),
    Reference(
        "schulman2017ppo",
        "J. Schulman, F. Wolski, P. Dhariwal, A. Radford, O. Klimov",
        2017,
        "Proximal policy optimization algorithms",
        "arXiv",
        "https://arxiv.org/abs/1707.06347",
    ),
    Reference("schulman2020kl", "J. Schulman", 2020, "Approximating KL divergence", "blog", "http://joschu.net/blog/kl-approx.html"),
    Reference(
        "pardo2018time",
        "F. Pardo, A. Tavakoli, V. Levdik, P. Kormushev",
        2018,
        "Time limits in reinforcement learning",
        "ICML 2018",
        "https://arxiv.org/abs/1712.00378",
    ),
    Reference(
        "henderson2018matters",
        "P. Henderson et al.",
        2018,
        "Deep reinforcement learning that matters",
        "AAAI 2018",
        "https://arxiv.org/abs/1709.06560",
    ),
    Reference(
        "engstrom2020matters",
        "L. Engstrom et al.",
        2020,
        "Implementation matters in deep policy gradients: a case study on PPO and TRPO",
        "ICLR 2020",
        "https://arxiv.org/abs/2005.12729",
    ),
    Reference(
        "andrychowicz2021matters",
        "M. Andrychowicz et al.",
        2021,
        "What matters in on-policy reinforcement learning? A large-scale empirical study",
        "ICLR 2021",
        "https://arxiv.org/abs/2006.05990",
    ),
    Reference(
        "jones2021debugging",
        "A. Jones",
        2021,
        "Debugging RL, without the agonizing pain",
        "blog",
        "https://andyljones.com/posts/rl-debugging.html",
    ),
    Reference(
        "agarwal2021rliable",
        "R. Agarwal, M. Schwarzer, P. S. Castro, A. Courville, M. G. Bellemare",
        2021,
        "Deep reinforcement learning at the edge of the statistical precipice",
        "NeurIPS 2021",
        "https://arxiv.org/abs/2108.13264",
    ),
    Reference(
        "raffin2021sb3",
        "A. Raffin et al.",
        2021,
        "Stable-Baselines3: reliable reinforcement learning implementations",
        "JMLR 22",
        "https://jmlr.org/papers/v22/20-1364.html",
    ),
    Reference(
        "huang2022details",
        "S. Huang et al.",
        2022,
        "The 37 implementation details of proximal policy optimization",
        "ICLR blog track",
        "https://iclr-blog-track.github.io/2022/03/25/ppo-implementation-details/",
    ),
    Reference(
        "kumar2021implicit",
        "A. Kumar, R. Agarwal, D. Ghosh, S. Levine",
        2021,
        "Implicit under-parameterization inhibits data-efficient deep reinforcement learning",
        "ICLR 2021",
        "https://arxiv.org/abs/2010.14498",
    ),
    Reference(
        "sokar2023dormant",
        "G. Sokar, R. Agarwal, P. S. Castro, U. Evci",
        2023,
        "The dormant neuron phenomenon in deep reinforcement learning",
        "ICML 2023",
        "https://arxiv.org/abs/2302.12902",
    ),
    Reference(
        "godbole2023playbook",
        "V. Godbole, G. E. Dahl, J. Gilmer, C. J. Shallue, Z. Nado",
        2023,
        "Deep learning tuning playbook",
        "guide",
        "https://github.com/google-research/tuning_playbook",
    ),
    Reference(
        "moalla2024collapse",
        "S. Moalla, A. Miele, D. Pyatko, R. Pascanu, C. Gulcehre",
        2024,
        "No representation, no trust: connecting representation, collapse, and trust issues in PPO",
        "NeurIPS 2024",
        "https://arxiv.org/abs/2405.00662",
    ),
    Reference(
        "mnih2015dqn",
        "V. Mnih et al.",
        2015,
        "Human-level control through deep reinforcement learning",
        "Nature 518",
        "https://doi.org/10.1038/nature14236",
    ),
    Reference(
        "haarnoja2018sac",
        "T. Haarnoja, A. Zhou, P. Abbeel, S. Levine",
        2018,
        "Soft actor-critic: off-policy maximum entropy deep reinforcement learning with a stochastic actor",
        "ICML 2018",
        "https://arxiv.org/abs/1801.01290",
    ),
    Reference(
        "nikanjam2022faults",
        "A. Nikanjam, M. M. Morovati, F. Khomh, H. Ben Braiek",
        2022,
        "Faults in deep reinforcement learning programs: a taxonomy and a detection approach",
        "Automated Software Engineering 29",
        "https://arxiv.org/abs/2101.00135",
    ),
    Reference(
        "tambon2023rlmutation",
        "F. Tambon, V. Majdinasab, A. Nikanjam, F. Khomh, G. Antoniol",
        2023,
        "Mutation testing of deep reinforcement learning based on real faults",
        "ICST 2023",
        "https://arxiv.org/abs/2301.05651",
    ),
    Reference(
        "towers2024gymnasium",
        "M. Towers et al.",
        2024,
        "Gymnasium: a standard interface for reinforcement learning environments",
        "arXiv",
        "https://arxiv.org/abs/2407.17032",
    ),
    Reference(
        "pocock1977groups",
        "S. J. Pocock",
        1977,
        "Group sequential methods in the design and analysis of clinical trials",
        "Biometrika 64",
        "https://doi.org/10.1093/biomet/64.2.191",
    ),
    Reference(
        "obrien1979multiple",
        "P. C. O'Brien, T. R. Fleming",
        1979,
        "A multiple testing procedure for clinical trials",
        "Biometrics 35",
        "https://doi.org/10.2307/2530245",
    ),
    Reference(
        "wang1987approximately",
        "S. K. Wang, A. A. Tsiatis",
        1987,
        "Approximately optimal one-parameter boundaries for group sequential trials",
        "Biometrics 43",
        "https://doi.org/10.2307/2531959",
    ),
    Reference(
        "brunner2000nonparametric",
        "E. Brunner, U. Munzel",
        2000,
        "The nonparametric Behrens-Fisher problem: asymptotic theory and a small-sample approximation",
        "Biometrical Journal 42",
        "https://doi.org/10.1002/(SICI)1521-4036(200001)42:1%3C17::AID-BIMJ17%3E3.0.CO;2-U",
    ),
    Reference(
        "jennison1989repeated",
        "C. Jennison, B. W. Turnbull",
        1989,
        "Interim analyses: the repeated confidence interval approach",
        "Journal of the Royal Statistical Society B 51",
        "https://doi.org/10.1111/j.2517-6161.1989.tb01433.x",
    ),
    Reference(
        "newcombe2006mannwhitney",
        "R. G. Newcombe",
        2006,
        "Confidence intervals for an effect size measure based on the Mann-Whitney statistic. Part 2: asymptotic methods and evaluation",
        "Statistics in Medicine 25",
        "https://doi.org/10.1002/sim.2324",
    ),
    Reference(
        "watkins1992q",
        "C. J. C. H. Watkins, P. Dayan",
        1992,
        "Q-learning",
        "Machine Learning 8",
        "https://doi.org/10.1007/BF00992698",
    ),
    Reference(
        "auer2002ucb",
        "P. Auer, N. Cesa-Bianchi, P. Fischer",
        2002,
        "Finite-time analysis of the multiarmed bandit problem",
        "Machine Learning 47",
        "https://doi.org/10.1023/A:1013689704352",
    ),
    Reference(
        "lillicrap2016ddpg",
        "T. P. Lillicrap et al.",
        2016,
        "Continuous control with deep reinforcement learning",
        "ICLR",
        "https://arxiv.org/abs/1509.02971",
    ),
    Reference(
        "hasselt2016double",
        "H. van Hasselt, A. Guez, D. Silver",
        2016,
        "Deep reinforcement learning with double Q-learning",
        "AAAI",
        "https://arxiv.org/abs/1509.06461",
    ),
    Reference(
        "schaul2016prioritized",
        "T. Schaul, J. Quan, I. Antonoglou, D. Silver",
        2016,
        "Prioritized experience replay",
        "ICLR",
        "https://arxiv.org/abs/1511.05952",
    ),
    Reference(
        "kostrikov2022iql",
        "I. Kostrikov, A. Nair, S. Levine",
        2022,
        "Offline reinforcement learning with implicit Q-learning",
        "ICLR",
        "https://arxiv.org/abs/2110.06169",
    ),
    Reference(
        "kumar2020cql",
        "A. Kumar, A. Zhou, G. Tucker, S. Levine",
        2020,
        "Conservative Q-learning for offline reinforcement learning",
        "NeurIPS",
        "https://arxiv.org/abs/2006.04779",
    ),
    Reference(
        "fujimoto2021td3bc",
        "S. Fujimoto, S. S. Gu",
        2021,
        "A minimalist approach to offline reinforcement learning",
        "NeurIPS",
        "https://arxiv.org/abs/2106.06860",
    ),
    Reference(
        "fujimoto2018td3",
        "S. Fujimoto, H. van Hoof, D. Meger",
        2018,
        "Addressing function approximation error in actor-critic methods",
        "ICML",
        "https://arxiv.org/abs/1802.09477",
    ),
    Reference(
        "espeholt2018impala",
        "L. Espeholt et al.",
        2018,
        "IMPALA: scalable distributed deep-RL with importance weighted actor-learner architectures",
        "ICML",
        "https://arxiv.org/abs/1802.01561",
    ),
    Reference(
        "fedus2020replay",
        "W. Fedus et al.",
        2020,
        "Revisiting fundamentals of experience replay",
        "ICML",
        "https://arxiv.org/abs/2007.06700",
    ),
    Reference(
        "ng1999shaping",
        "A. Y. Ng, D. Harada, S. Russell",
        1999,
        "Policy invariance under reward transformations: theory and application to reward shaping",
        "ICML",
        "https://dl.acm.org/doi/10.5555/645528.657613",
    ),
    Reference(
        "ross2011dagger",
        "S. Ross, G. J. Gordon, J. A. Bagnell",
        2011,
        "A reduction of imitation learning and structured prediction to no-regret online learning",
        "AISTATS",
        "https://arxiv.org/abs/1011.0686",
    ),
    Reference(
        "fujimoto2021minimalist",
        "S. Fujimoto, S. S. Gu",
        2021,
        "A minimalist approach to offline reinforcement learning",
        "NeurIPS",
        "https://arxiv.org/abs/2106.06860",
    ),
    Reference(
        "kumar2022offline",
        "A. Kumar et al.",
        2022,
        "When should we prefer offline reinforcement learning over behavioral cloning?",
        "ICLR",
        "https://arxiv.org/abs/2204.05618",
    ),
    Reference(
        "ball2023rlpd",
        "P. J. Ball et al.",
        2023,
        "Efficient online reinforcement learning with offline data",
        "ICML",
        "https://arxiv.org/abs/2302.02948",
    ),
    Reference(
        "zhang2016safedagger",
        "J. Zhang, K. Cho",
        2016,
        "Query-efficient imitation learning for end-to-end autonomous driving",
        "arXiv",
        "https://arxiv.org/abs/1605.06450",
    ),
    Reference(
        "menda2019ensembledagger",
        "K. Menda, K. Driggs-Campbell, M. J. Kochenderfer",
        2019,
        "EnsembleDAgger: a Bayesian approach to safe imitation learning",
        "IROS",
        "https://arxiv.org/abs/1807.08364",
    ),
    Reference(
        "hoque2021thriftydagger",
        "R. Hoque et al.",
        2021,
        "ThriftyDAgger: budget-aware novelty and risk gating for interactive imitation learning",
        "CoRL",
        "https://arxiv.org/abs/2109.08273",
    ),
)

REFERENCES: Final = {reference.key: reference for reference in _ALL}


def cite(key: str) -> Reference:
    """The reference of a key; NotFound offers the nearest."""
    if key not in REFERENCES:
        offered = nearest(key, REFERENCES)
        raise NotFound(f"no reference {key!r} in the bibliography" + (f"; nearest: {', '.join(offered)}" if offered else ""))
    return REFERENCES[key]
