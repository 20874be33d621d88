"""Write the generated pages of docs/.

python -m docs.generate            write the pages
python -m docs.generate --check    only say whether they are current (exit code 1 if not)
"""

import argparse

from docs.generate import FOLDER, PAGES, SHOWN


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="do not write; fail if a page is not current")
    args = parser.parse_args()
    for name, render in PAGES.items():
        path, page = FOLDER / name, render()
        if not args.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(page)
        elif not path.exists() or path.read_text() != page:
            raise SystemExit(f"docs/{name} is not what the code says.\n  Try: python -m docs.generate")
    if not args.check:
        for name, render in SHOWN.items():
            (FOLDER / name).write_text(render())


if __name__ == "__main__":
    main()
