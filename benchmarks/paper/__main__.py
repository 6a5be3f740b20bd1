"""Make the tables and figures of the paper again: `python -m benchmarks.paper toy`, and so on, or `all`.

A subcommand is a module of this folder with add_arguments(parser) and run(arguments).
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

COMMANDS = {  # name -> module
    "toy": "toy",
    "removal": "removal",
    "representations": "representations",
    "composition": "composition",
    "misclassified": "misclassified",
    "beyond": "beyond",
    "all": "report",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, metavar="command")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--out", type=Path, default=Path("results"), help="folder for tables and figures (results)")
    for name, file in COMMANDS.items():
        module = import_module(f"benchmarks.paper.{file}")
        text = module.__doc__.splitlines()[0]
        command = commands.add_parser(name, parents=[common], help=text, description=text)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
