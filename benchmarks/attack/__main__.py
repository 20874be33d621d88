"""What an attacker, a stranger's files and kills at random moments do to rlclinic.

    python -m benchmarks.attack                           everything, at the sizes of the bars
    python -m benchmarks.attack --only slow_connections   one kind of attack
    python -m benchmarks.attack --quick                   a minute of each: shows that it works
    python -m benchmarks.attack --stretch                 at the sizes of the stretches
    python -m benchmarks.attack --only kills --workers 14 kills, with so many cases side by side

Each module beside this one has `rows(size)`, where size is "quick", "bar" or "stretch": one dict for each figure with `what`, `unit`,
`value`, `better`, `bar`, `stretch`.
"""

import importlib
import time
from typing import Any, Final, Literal

from benchmarks import provenance

Size = Literal["quick", "bar", "stretch"]
MODULES: Final = ("slow_connections", "sse", "files", "coverage_guided", "kills", "clients", "requests", "schemas")


def main() -> None:
    """Attack as the command line says, and save the rows as benchmarks/results/attack.json."""
    parser = provenance.parser(__doc__)
    parser.add_argument("--stretch", action="store_true")
    parser.add_argument("--only", nargs="*", choices=MODULES, default=list(MODULES))
    parser.add_argument("--workers", type=int, default=2, help="how many kills cases run side by side")
    parser.add_argument("--seconds", type=float, default=1e9, help="no case of kills begins after so many seconds")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of kills")
    args = parser.parse_args()
    size: Size = "quick" if args.quick else "stretch" if args.stretch else "bar"
    rows: list[dict[str, Any]] = []
    for name in args.only:
        began = time.monotonic()
        command = f"python -m benchmarks.attack --only {name}{' --stretch' if args.stretch else ''}"
        more = {"workers": args.workers, "seconds": args.seconds, "seed": args.seed} if name == "kills" else {}
        command += f" --workers {args.workers} --seed {args.seed}" if name == "kills" else ""
        for row in importlib.import_module(f"benchmarks.attack.{name}").rows(size, **more):
            rows.append({**row, "command": command})
            print(f"{row['what']}: {row['value']:.4g} {row['unit']} (bar {row.get('bar', '–')})", flush=True)
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    print(provenance.write("attack", rows, provenance.provenance("python -m benchmarks.attack"), args.quick))


if __name__ == "__main__":
    main()
