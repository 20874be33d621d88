"""A dataset in another format."""

from rlclinic.datasets import folder
from rlclinic.datasets.formats import find, flat, minari, open_source, read
from rlclinic.ops.data.requests import ConvertRequest
from rlclinic.report.models import DataWritten

ENDINGS = {"d4rl": ".hdf5", "npz": ".npz", "csv": ".csv"}


def convert(request: ConvertRequest) -> DataWritten:
    """Read it one episode after another, and write it."""
    path = find(request.data)
    ending = ENDINGS.get(request.to, "")
    out = request.out or path.with_name(f"{path.stem}-{request.to}{ending}")
    if ending:
        # By its ending it is read again.
        data, out = read(path), out if out.suffix == ending else out.with_name(out.name + ending)
        flat.write(data, out)
    elif request.to == "minari":
        data = read(path)
        minari.write(data, out, f"{out.name}-v0", _describe_env(data.env_id))
    elif folder.is_dataset(path):
        data = folder.read(path)
        about = {"env_id": data.env_id, "source": data.source, "notes": list(data.notes), "facts": data.facts}
        data = folder.write(out, iter(data), data.observation_space, data.action_space, **about)
    else:
        source = open_source(path)
        # Notes are complete when the last episode has been read.
        about = {"env_id": source.env_id, "source": source.source, "notes": source.notes, "facts": source.facts}
        data = folder.write(out, source.episodes, source.observation_space, source.action_space, **about)
    return DataWritten(
        data=str(out), episodes=data.n_episodes, transitions=len(data), return_mean=float(data.returns.mean()), env=data.env_id
    )


def _describe_env(env_id: str | None) -> str | None:
    """How Minari is told which environment it was; None for one that Gymnasium does not know, such as a class in a file."""
    try:
        import gymnasium
    except ImportError:  # files are converted without it, too
        return None
    try:
        return None if env_id is None else gymnasium.spec(env_id).to_json()
    except (gymnasium.error.Error, ValueError, ImportError):
        return None
