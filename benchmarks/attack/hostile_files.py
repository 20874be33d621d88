"""Files as a stranger may leave them: cut, huge, binary, packed, nested, blocking, lying, or meant to be executed.

`make(folder, count, seed)` gives a folder per case: first every hand-made one, then mutations of whole logs with a fixed seed. What a
file would execute leaves a mark beside the cases: if it is there, something of a stranger's was run.
"""

import gzip
import io
import json
import os
import pickle
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

MARK: Final = "executed"
Write = Callable[[Path], Any]
CSV_NAMES: Final = ("progress.csv", "metrics.csv", "0.monitor.csv", "log.csv")
YAML_NAMES: Final = ("args.yml", "config.yml", "hparams.yaml", "hostile.yaml")
JSON_NAMES: Final = ("config.json", "params.json", "status.json", "group.json", "rlclinic_sentinels.json")


def make(folder: Path, count: int, seed: int = 0) -> Iterator[tuple[str, Path]]:
    """(name, folder) of each case, as many as asked for."""
    made = 0
    for name, write in _hand_made(folder / MARK):
        if made == count:
            return
        place = folder / f"{made:04d}"
        place.mkdir(parents=True)
        write(place)
        yield name, place
        made += 1
    chance = random.Random(seed)
    while made < count:
        name, content = chance.choice(list(_whole_logs().items()))
        place = folder / f"{made:04d}"
        place.mkdir(parents=True)
        how = chance.choice(MUTATIONS)
        for file, data in content.items():
            (place / file).write_bytes(how(bytearray(data), chance) if chance.random() < 0.8 else data)
        yield f"{name}, {how.__name__.strip('_').replace('_', ' ')}", place
        made += 1


# ── by hand ──


def _hand_made(mark: Path) -> Iterator[tuple[str, Write]]:
    rows = "total_timesteps,rollout/ep_rew_mean,train/approx_kl\n" + "".join(f"{n},{n % 7},0.01\n" for n in range(100, 5_000, 100))
    texts: dict[str, bytes] = {
        "empty": b"",
        "nothing but zeros": b"\0" * 100_000,
        "nothing but newlines": b"\n" * 200_000,
        "random bytes": random.Random(1).randbytes(200_000),
        "a header alone": b"total_timesteps,rollout/ep_rew_mean\n",
        "a line without an end": b"1," * 9_000_000,
        "100,000 columns": (",".join(f"c{n}" for n in range(100_000)) + "\n" + ",".join(["1"] * 100_000) + "\n").encode(),
        "a column twice": b"step,step,rollout/ep_rew_mean\n" + b"1,2,3\n" * 50,
        "rows of other widths": b"total_timesteps,rollout/ep_rew_mean\n" + b"1\n1,2,3,4\n,,\n" * 500,
        "not a number": rows.replace("0.01", "nan").encode(),
        "infinite": rows.replace("0.01", "inf").replace(",3,", ",-inf,").encode(),
        "1e308": rows.replace("0.01", "1e308").replace(",3,", ",-1e308,").encode(),
        "1e308 steps": rows.replace("4900,", "1e308,").encode(),
        "a number of 5,000 digits": rows.replace(",3,", "," + "9" * 5_000 + ",").encode(),
        "falling steps": ("total_timesteps,rollout/ep_rew_mean\n" + "".join(f"{n},1\n" for n in range(5_000, 0, -10))).encode(),
        "negative steps": rows.replace("\n", "\n-").encode(),
        "UTF-16": rows.encode("utf-16"),
        "UTF-32": rows.encode("utf-32"),
        "Latin-1": rows.replace("rollout", "r\xf6ll\xf6ut").encode("latin-1"),
        "half a character": rows.encode() + b"\xe2\x82",
        "CR alone": rows.replace("\n", "\r").encode(),
        "quotes that never close": b'"total_timesteps,rollout/ep_rew_mean\n' + b"1,2\n" * 5_000,
        "turned text and escapes": rows.replace("approx_kl", "\u202elk\x1b[2J\x1b]0;x\x07").encode(),
        "formulas": rows.replace("0.01", "=cmd|' /C calc'!A0").encode(),
        "a bomb, packed": gzip.compress(b"step,ep_rew_mean\n" + b"1,1\n" * 6_000_000, 9),
        "zeros, packed": gzip.compress(b"\0" * 80_000_000, 9),
        "packed twice": gzip.compress(gzip.compress(rows.encode() * 2_000)),
        "packed and cut": gzip.compress(rows.encode() * 100)[:-200],
        "a pickle": pickle.dumps(_Executes(str(mark))),
        "a pickle of protocol 0": pickle.dumps(_Executes(str(mark)), protocol=0),
        "a script": f"import pathlib; pathlib.Path({str(mark)!r}).touch()\n".encode(),
    }
    for what, data in texts.items():
        for name in (*CSV_NAMES, "log.txt", "events.out.tfevents.1.host"):
            yield f"{name}: {what}", _file(name, data)
    yield from _structured(mark)
    yield from _datasets(mark)
    for name in (*CSV_NAMES, *YAML_NAMES, *JSON_NAMES, "log.txt", "events.out.tfevents.1.host", "evaluations.npz", "model.zip", "run.log"):
        for what, write in SPECIAL.items():
            yield f"{name} {what}", partial(write, name)
    yield "folders in a circle", lambda place: (place / "inner").symlink_to(place)
    yield "a thousand folders deep", _deep
    yield "ten thousand files", lambda place: [(place / f"{n}.csv").write_bytes(b"a,b\n1,2\n") for n in range(10_000)]
    yield "names that nobody can read", _names


def _make_pipe(name: str, place: Path) -> None:
    os.mkfifo(place / name)


def _make_folder(name: str, place: Path) -> None:
    (place / name).mkdir()


def _link_to(target: str, name: str, place: Path) -> None:
    (place / name).symlink_to(target or name)


SPECIAL: Final[dict[str, Callable[..., Any]]] = {
    "is a pipe": _make_pipe,
    "is a folder": _make_folder,
    "is a link to itself": partial(_link_to, ""),
    "is /dev/zero": partial(_link_to, "/dev/zero"),
    "leads nowhere": partial(_link_to, "/nowhere/at/all"),
}


def _structured(mark: Path) -> Iterator[tuple[str, Write]]:
    """YAML and JSON that grow or execute, archives that lie, event files with wrong lengths."""
    apply = f"!!python/object/apply:os.system ['touch {mark}']"
    laughs = "\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10))])
    yamls = {
        "aliases of aliases": laughs,
        "itself": "a: &a [*a]\nenv: *a",
        "deep": "a: " + "[" * 50_000,
        "deep mappings": "{a: " * 20_000,
        "many": "a: [" + "1," * 30_000 + "1]",
        "executes": f"env: {apply}\nalgo: ppo",
        "executes, new": f"env: !!python/object/new:os.system ['touch {mark}']",
        "tags": "env: !!binary '===='\nseed: !!timestamp 2001-99-99\nx: !!set {a, b}\n? [a, b]\n: c",
        "a long number": "seed: " + "1" * 50_000,
        "two documents": "a: 1\n---\nb: 2\n",
        "tabs": "ppo:\n\tenv: {id: CartPole-v1}\n",
        "text": "ppo\n",
        "bytes": "\x00\x01\x02",
        "code": f"ppo:\n  env: {{id: '{mark.parent}/evil.py:Env'}}\n  algo: {{name: ppo}}\n",
    }
    for what, text in yamls.items():
        for name in YAML_NAMES:
            yield f"{name}: {what}", _beside_a_log(name, text.encode())
    jsons = {
        "deep": "[" * 200_000,
        "deep objects": '{"a":' * 100_000,
        "nan": '{"env_id": NaN, "seed": Infinity, "learning_rate": -Infinity}',
        "a long number": '{"seed": ' + "1" * 50_000 + "}",
        "a list": "[1, 2, 3]",
        "wrong kinds": '{"env": [], "algo": {"name": {}}, "seed": {}, "run": "x", "members": 7, "state": [], "env_steps": "many"}',
        "large": json.dumps({"a": list(range(400_000))}),
        "half": '{"env_id": "CartPole-v1", "se',
        "surrogates": '{"env_id": "\\ud800", "algo": "ppo"}',
        "turned": '{"env_id": "\u202e1v-eloPtraC", "algo": "\\u001b[2J"}',
        "code": json.dumps({"env_id": f"{mark.parent}/evil.py:Env", "algo": "ppo", "env": {"id": f"{mark.parent}/evil.py:Env"}}),
    }
    for what, text in jsons.items():
        for name in JSON_NAMES:
            yield f"{name}: {what}", _beside_a_log(name, text.encode("utf-8", "surrogatepass"))
    for what, data in _archives(mark).items():
        for name in ("evaluations.npz", "model.zip"):
            yield f"{name}: {what}", _beside_a_log(name, data)
    for what, data in _event_files().items():
        yield f"event file: {what}", _file("events.out.tfevents.1.host", data)


def _datasets(mark: Path) -> Iterator[tuple[str, Write]]:
    """Recorded data, in every format that is read, each with something wrong."""
    steps = {
        "observations": np.zeros((20, 3), np.float32),
        "actions": np.zeros(20, np.int64),
        "rewards": np.ones(20),
        "terminals": np.arange(20) % 10 == 9,
    }
    sound = _npz(steps)
    arrays: dict[str, bytes] = {
        "cut": sound[: len(sound) // 2],
        "not packed at all": b"\x93NUMPY" + b"\0" * 200,
        "empty": b"",
        "with objects": _npz({**steps, "rewards": np.array([_Marks(mark)] * 20, dtype=object)}),
        "with 10^15 rows": _npz({}, {"observations.npy": _npy_header((10**15, 3)), "actions.npy": _npy_header((10**15,))}),
        "of texts": _npz({name: np.array(["a"] * 20) for name in steps}),
        "with no rows": _npz({name: values[:0] for name, values in steps.items()}),
        "with other lengths": _npz({**steps, "rewards": np.ones(7)}),
        "with a single number": _npz({name: np.array(1.0) for name in steps}),
        "of complex numbers": _npz({**steps, "rewards": np.ones(20) * 1j}),
        "with dates": _npz({**steps, "rewards": np.zeros(20, "datetime64[s]")}),
        "with NaN": _npz({**steps, "observations": np.full((20, 3), np.nan), "rewards": np.full(20, np.inf)}),
        "with an action of 2^62": _npz({**steps, "actions": np.full(20, 2**62)}),
        "with bytes flipped": bytes(byte ^ (7 if place % 97 == 0 else 0) for place, byte in enumerate(sound)),
    }
    for name, data in arrays.items():
        yield f"arrays {name}", _file("data.npz", data)
    yield "arrays that unpack to 2 GB", lambda place: (place / "data.npz").write_bytes(_npz({"observations": np.zeros((20, 12_500_000))}))
    head = b"obs_0,obs_1,action,reward,terminated,truncated\n"
    tables = {
        "of words": head + b"a,b,c,d,e,f\n" * 9,
        "with rows of other lengths": head + b"1,2,0,1,0,0\n1,2\n",
        "without an end": head[:-1],
        "with 1e999": head + b"1e999,-1e999,0,nan,0,1\n" * 9,
        "that is binary": bytes(range(256)) * 50,
        "with a million columns": b",".join(b"obs_%d" % n for n in range(1_000_000)) + b"\n1\n",
    }
    for name, data in tables.items():
        yield f"a table {name}", _file("data.csv", data)
    yield "arrays that are a pipe", partial(_make_pipe, "data.npz")
    yield "HDF5 that is a pipe", partial(_make_pipe, "data.h5")
    yield "HDF5 that is a device", partial(_link_to, "/dev/zero", "data.h5")
    yield "HDF5 that is text", _file("data.hdf5", b"HDF" * 999)
    spaces = {"observation_space": '{"type": "Box", "shape": [3]}', "action_space": '{"type": "Discrete", "n": 2}'}
    nested = '{"type": "Tuple", "spaces": [' * 5_000 + "]}" * 5_000
    for name, about in {
        "is a list": [],
        "has spaces that are numbers": {"observation_space": "1", "action_space": "2"},
        "has a choice of 10^15": {**spaces, "observation_space": '{"type": "Discrete", "n": 1000000000000000}'},
        "has spaces nested 5,000 deep": {**spaces, "observation_space": nested},
        "has a shape of texts": {**spaces, "observation_space": '{"type": "Box", "shape": ["a", null]}'},
        "has an env_spec that is no JSON": {**spaces, "env_spec": "{"},
    }.items():
        yield f"a dataset of Minari whose metadata {name}", partial(_minari, json.dumps(about), steps)
    for name, write in _hdf5_files(steps).items():
        yield f"HDF5 {name}", write
    for name, info in {"no JSON": "{", "a list": "[]", "nothing": "{}"}.items():
        yield f"a dataset of LeRobot whose info is {name}", partial(_lerobot, info, b"PAR1" + b"\0" * 500 + b"PAR1")
    for name, about in {"a list": "[]", "nested deep": "[" * 100_000, "without spaces": '{"version": 1}'}.items():
        yield f"a dataset of ours whose record is {name}", partial(_own_dataset, about, steps)


class _Marks:
    """Leaves the mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (os.system, (f"touch {self.mark}",))


def _npz(arrays: dict[str, Any], parts: dict[str, bytes] | None = None) -> bytes:
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)
    with zipfile.ZipFile(packed, "a") as archive:
        for name, data in (parts or {}).items():
            archive.writestr(name, data)
    return packed.getvalue()


def _npy_header(shape: tuple[int, ...]) -> bytes:
    text = io.BytesIO()
    np.lib.format.write_array_header_1_0(text, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return text.getvalue()


def _minari(about: str, steps: dict[str, Any], place: Path) -> None:
    (place / "data").mkdir()
    (place / "data" / "metadata.json").write_text(about)
    with suppress(ImportError):
        import h5py

        with h5py.File(place / "data" / "main_data.hdf5", "w") as file:
            group = file.create_group("episode_0")
            for name in ("observations", "actions", "rewards"):
                group[name] = steps[name]
            group["terminations"] = group["truncations"] = steps["terminals"]


def _lerobot(info: str, parquet: bytes, place: Path) -> None:
    for name in ("meta", "data"):
        (place / name).mkdir()
    (place / "meta" / "info.json").write_text(info)
    (place / "data" / "part.parquet").write_bytes(parquet)


def _own_dataset(about: str, steps: dict[str, Any], place: Path) -> None:
    (place / "dataset.json").write_text(about)
    for name in ("observations", "actions", "rewards", "lengths", "terminated", "truncated"):
        np.save(place / f"{name}.npy", steps.get(name, np.ones(2)))


def _hdf5_files(steps: dict[str, Any]) -> dict[str, Write]:
    def write(place: Path, **others: Callable[[Any], Any]) -> None:
        with suppress(ImportError):
            import h5py

            with h5py.File(place / "data.h5", "w") as file:
                for name, values in steps.items():
                    if name not in others:
                        file[name] = values
                for change in others.values():
                    change(file)

    def link(file: Any) -> None:
        import h5py

        with h5py.File(Path(file.filename).with_name("other.bin"), "w") as other:
            other["secret"] = steps["rewards"]
        file["rewards"] = h5py.ExternalLink("other.bin", "/secret")

    def huge(file: Any) -> None:
        file.create_dataset("observations", (10**12, 3), "f8", chunks=(1_000, 3))

    def packed(file: Any) -> None:
        file.create_dataset("observations", (20, 12_500_000), "f8", chunks=(1, 1_000_000), compression="gzip", fillvalue=0)[0, :10] = 1

    def outside(file: Any) -> None:
        file.create_dataset("rewards", (20,), "u1", external=[("/etc/passwd", 0, 20)])

    def counted(file: Any) -> None:
        file["num_episodes"], file["columns"] = 10**12, 1
        for name in ("observations", "actions", "rewards"):
            file[f"{name}_0"] = steps[name]

    return {
        "with a link to another file": partial(write, rewards=link),
        "with rows of another file": partial(write, rewards=outside),
        "with 10^12 rows": partial(write, observations=huge),
        "that unpacks to 2 GB": partial(write, observations=packed),
        "with a link in a circle": partial(write, rewards=lambda file: file.__setitem__("rewards", file["/"])),
        "with texts": partial(write, rewards=lambda file: file.create_dataset("rewards", data=["a"] * 20)),
        "with 10^12 episodes": partial(write, more=counted),
    }


def _archives(mark: Path) -> dict[str, bytes]:
    def pack(**members: bytes) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(name.replace("__", "."), data)
        return out.getvalue()

    def array(value: Any, kind: Any = None) -> bytes:
        out = io.BytesIO()
        np.save(out, np.asarray(value, dtype=kind), allow_pickle=True)
        return out.getvalue()

    numbers = array(np.arange(5))
    header = np.lib.format.magic(1, 0) + struct.pack("<H", 118)
    vast = header + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117) + b"\n"
    return {
        "objects": pack(timesteps__npy=array([_Executes(str(mark))], object), results__npy=numbers),
        "a vast shape": pack(timesteps__npy=vast, results__npy=vast),
        "zeros": pack(timesteps__npy=b"\0" * 60_000_000, results__npy=b"\0" * 60_000_000, data=b" " * 60_000_000),
        "no array": pack(timesteps__npy=b"no", results__npy=b"no", data=b"{"),
        "deep data": pack(data=b"[" * 200_000, _stable_baselines3_version=b"2.0"),
        "a pickle inside": pack(data=pickle.dumps(_Executes(str(mark))), _stable_baselines3_version=b"2.0", policy__pth=b"x"),
        "half": pack(timesteps__npy=numbers, results__npy=numbers)[:-40],
        "way out": pack(**{"../../escaped": b"x", "data": b"{}", "_stable_baselines3_version": b"2"}),
    }


def _event_files() -> dict[str, bytes]:
    whole = _events()
    return {
        "a length of 2^63": struct.pack("<Q", 1 << 63) + whole[8:],
        "a length of 4 GB": struct.pack("<Q", 1 << 32) + whole[8:],
        "a length of nothing": struct.pack("<Q", 0) + whole[8:],
        "cut": whole[: len(whole) // 2],
        "twice": whole + whole,
        "noise behind": whole + random.Random(2).randbytes(5_000),
        "noise inside": whole[:60] + random.Random(3).randbytes(200) + whole[60:],
    }


def _file(name: str, data: bytes) -> Write:
    return lambda place: (place / name).write_bytes(data)


def _beside_a_log(name: str, data: bytes) -> Write:
    def write(place: Path) -> None:
        (place / name).write_bytes(data)
        log = place / ("metrics.csv" if name in ("config.json", "status.json") else "progress.csv")
        log.write_bytes(_whole_logs()["csv"]["progress.csv"])

    return write


def _deep(place: Path) -> None:
    folder = place
    for _ in range(200):  # a path has a limit of its own
        folder = folder / "dd"
    folder.mkdir(parents=True)
    (folder / "progress.csv").write_bytes(b"total_timesteps,rollout/ep_rew_mean\n1,2\n")


def _names(place: Path) -> None:
    for name in (
        b"a\nb.csv",
        b"\xff\xfe.csv",
        b"\x1b[2J.csv",
        "\u202evsc.exe".encode(),
        b"-rf.csv",
        b"$(touch x).csv",
        b"a" * 250 + b".csv",
    ):
        (place / os.fsdecode(name)).write_bytes(b"total_timesteps,rollout/ep_rew_mean\n1,2\n")


class _Executes:
    """Whoever unpickles it leaves the mark."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.mark}",)


# ── whole logs, and what may happen to them ──


def _whole_logs() -> dict[str, dict[str, bytes]]:
    steps = range(100, 4_100, 100)
    csv = b"total_timesteps,rollout/ep_rew_mean,train/approx_kl,train/entropy_loss\n"
    csv += b"".join(b"%d,%f,0.01,-0.6\n" % (n, 20 + n / 50) for n in steps)
    monitor = b'#{"t_start": 1.0, "env_id": "CartPole-v1"}\nr,l,t\n' + b"".join(b"%d.0,%d,%d.5\n" % (n % 90, n % 90 + 1, n) for n in steps)
    console = "".join(f"| rollout/ | |\n| ep_rew_mean | {n % 70} |\n| total_timesteps | {n} |\n{'-' * 20}\n" for n in steps).encode()
    lines = b"".join(json.dumps({"step": n, "ep_rew_mean": n / 40, "loss": 0.1}).encode() + b"\n" for n in steps)
    arguments = b"env: CartPole-v1\nalgo: ppo\nseed: 3\nn_timesteps: 5000\nenv_kwargs: {a: &a [1, 2], b: *a}\n"
    settings = json.dumps({"env_id": "CartPole-v1", "algo": "ppo", "seed": 1, "learning_rate": 3e-4, "num_envs": 4}).encode()
    ours = {
        "config.json": json.dumps({"id": "g-s0", "group": "g", "seed": 0, "env": {"id": "CartPole-v1"}, "algo": {"name": "ppo"}}).encode(),
        "status.json": b'{"state": "finished", "env_steps": 4000, "max_env_steps": 4000, "heartbeat": 1.0}',
        "metrics.csv": csv.replace(b"rollout/", b"train/roll/"),
    }
    archive = io.BytesIO()
    np.savez(archive, timesteps=np.arange(100, 1_000, 100), results=np.ones((9, 5)), ep_lengths=np.ones((9, 5)))
    return {
        "csv": {"progress.csv": csv, "args.yml": arguments},
        "monitor": {"0.monitor.csv": monitor, "evaluations.npz": archive.getvalue()},
        "console": {"log.txt": console},
        "lines": {"metrics.jsonl": lines, "params.json": settings},
        "events": {"events.out.tfevents.1.host": _events()},
        "our own": ours,
        "yaml": {"hostile.yaml": b"ppo:\n  env: {id: CartPole-v1, n_envs: 4}\n  algo: {name: ppo, gamma: 0.9, clip_range: {start: 0.2}}\n"},
    }


def _events() -> bytes:
    """An event file with three scalars, without checksums that hold: readers must not trust them either."""

    def record(payload: bytes) -> bytes:
        head = struct.pack("<Q", len(payload))
        return head + struct.pack("<I", _masked(head)) + payload + struct.pack("<I", _masked(payload))

    def scalar(tag: bytes, step: int, value: float) -> bytes:
        inner = b"\x0a" + bytes([len(tag)]) + tag + b"\x15" + struct.pack("<f", value)
        summary = b"\x0a" + bytes([len(inner)]) + inner
        return b"\x09" + struct.pack("<d", 1.0) + b"\x10" + bytes([step]) + b"\x2a" + bytes([len(summary)]) + summary

    version = b"\x09" + struct.pack("<d", 1.0) + b"\x1a\x0dbrain.Event:2"
    return record(version) + b"".join(record(scalar(b"rollout/ep_rew_mean", step, 1.0 * step)) for step in range(1, 100))


def _masked(data: bytes) -> int:
    """CRC-32C as event files have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _cut(data: bytearray, chance: random.Random) -> bytes:
    return bytes(data[: chance.randrange(len(data) + 1)])


def _flip_bytes(data: bytearray, chance: random.Random) -> bytes:
    for _ in range(chance.randrange(1, 40)):
        if data:
            data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def _repeat_a_piece(data: bytearray, chance: random.Random) -> bytes:
    begin = chance.randrange(len(data) or 1)
    piece = data[begin : begin + chance.randrange(1, 200)]
    return bytes(data[:begin] + piece * chance.randrange(2, 2_000) + data[begin:])


def _insert_a_text(data: bytearray, chance: random.Random) -> bytes:
    texts = (
        b"nan",
        b"1e308",
        b"-1e308",
        b"\0",
        b"\xff\xfe",
        b"&a [*a]",
        b"{" * 2_000,
        b"!!python/object/apply:os.system ['true']",
        b"9" * 5_000,
    )
    for _ in range(chance.randrange(1, 8)):
        at = chance.randrange(len(data) + 1)
        data[at:at] = chance.choice(texts)
    return bytes(data)


def _change_numbers(data: bytearray, chance: random.Random) -> bytes:
    digits = [place for place, byte in enumerate(data) if 48 <= byte <= 57]
    for place in chance.sample(digits, min(len(digits), 50)):
        data[place] = chance.choice(b"0123456789e-.")
    return bytes(data)


def _pack(data: bytearray, chance: random.Random) -> bytes:
    packed = gzip.compress(bytes(data) * chance.choice((1, 10, 1_000)))
    return packed[: chance.choice((len(packed), len(packed) // 2))]


MUTATIONS: Final = (_cut, _flip_bytes, _repeat_a_piece, _insert_a_text, _change_numbers, _pack)
