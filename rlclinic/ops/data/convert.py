"""A dataset in another format."""

from rlclinic.datasets import folder
from rlclinic.datasets.formats import find, minari, open_source, read
from rlclinic.ops.data.requests import ConvertRequest
from rlclinic.report.models import DataWritten


def convert(request: ConvertRequest) -> DataWritten:
    """Read it one episode after another, and write it."""
    path = find(request.data)
    out = request.out or path.with_name(f"{path.stem}-{request.to}")
    if request.to == "minari":
        data = read(path)
        minari.write(data, out, f"{out.name}-v0")
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
