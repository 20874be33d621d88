"""What a run is asked to do: frozen, strict models, and the files and overrides that they are made from."""

from rlclinic.config.algorithms import (
    ADVERSARIAL,
    ALGORITHMS,
    DATA_PARALLEL,
    A2CConfig,
    A3CConfig,
    AIRLConfig,
    AlgoConfig,
    APPOConfig,
    AsynchronousSettings,
    GAILConfig,
    IMPALAConfig,
    OffPolicyConfig,
    OnPolicyConfig,
    OnPolicySettings,
    PPOConfig,
    ReinforceConfig,
    numbers,
    shape_key,
)
from rlclinic.config.data import DataConfig
from rlclinic.config.environment import CurriculumConfig, EnvConfig, Spec, StageConfig, Task, Wrapper
from rlclinic.config.experiment import Config, StepUnit, describe
from rlclinic.config.files import Available, Loaded, available, load
from rlclinic.config.imitation import DAggerConfig, EnsembleDAggerConfig, ImitationConfig, SafeDAggerConfig, ThriftyDAggerConfig
from rlclinic.config.network import EncoderSettings, NetConfig
from rlclinic.config.off_policy import BootstrappedDQNConfig, DDPGConfig, DQNConfig, OffPolicySettings, SACConfig, TD3Config
from rlclinic.config.offline import (
    AWACConfig,
    BCConfig,
    CalQLConfig,
    CQLConfig,
    DTConfig,
    IQLConfig,
    OfflineSettings,
    RLPDConfig,
    TD3BCConfig,
)
from rlclinic.config.overrides import set_values
from rlclinic.config.records import from_record, to_record
from rlclinic.config.reward_settings import BonusConfig, CostConfig
from rlclinic.config.run import RunConfig
from rlclinic.config.schedule import Number, Schedule, kl_adapted, value_at
from rlclinic.config.schema import Shape
from rlclinic.config.tabular import QLearningConfig

__all__ = [
    "ADVERSARIAL",
    "ALGORITHMS",
    "DATA_PARALLEL",
    "A2CConfig",
    "A3CConfig",
    "AIRLConfig",
    "APPOConfig",
    "AWACConfig",
    "AlgoConfig",
    "AsynchronousSettings",
    "Available",
    "BCConfig",
    "BonusConfig",
    "BootstrappedDQNConfig",
    "CQLConfig",
    "CalQLConfig",
    "Config",
    "CostConfig",
    "CurriculumConfig",
    "DAggerConfig",
    "DDPGConfig",
    "DQNConfig",
    "DTConfig",
    "DataConfig",
    "EncoderSettings",
    "EnsembleDAggerConfig",
    "EnvConfig",
    "GAILConfig",
    "IMPALAConfig",
    "IQLConfig",
    "ImitationConfig",
    "Loaded",
    "NetConfig",
    "Number",
    "OffPolicyConfig",
    "OffPolicySettings",
    "OfflineSettings",
    "OnPolicyConfig",
    "OnPolicySettings",
    "PPOConfig",
    "QLearningConfig",
    "RLPDConfig",
    "ReinforceConfig",
    "RunConfig",
    "SACConfig",
    "SafeDAggerConfig",
    "Schedule",
    "Shape",
    "Spec",
    "StageConfig",
    "StepUnit",
    "TD3BCConfig",
    "TD3Config",
    "Task",
    "ThriftyDAggerConfig",
    "Wrapper",
    "available",
    "describe",
    "from_record",
    "kl_adapted",
    "load",
    "numbers",
    "set_values",
    "shape_key",
    "to_record",
    "value_at",
]
