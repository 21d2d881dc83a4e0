"""Run every benchmark, one process each, and print one table."""

from __future__ import annotations

import argparse
import json
import pkgutil
import subprocess
import sys

from rich.console import Console

import bench
from bench.figures import table


def main() -> int:
    """Exit status 1 when a benchmark failed to run or a goal was not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    entries: list[dict[str, object]] = []
    failed: list[str] = []
    names = sorted(
        m.name
        for m in pkgutil.iter_modules(bench.__path__)
        if m.name not in ("figures", "__main__") and not m.name.startswith("_")
    )
    console = Console(stderr=True)
    for name in names:
        console.print(f"bench {name} ...")
        command = [sys.executable, "-m", f"bench.{name}", "--json", *(["--quick"] if options.quick else [])]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if run.returncode:
            failed.append(name)
            continue
        entries += json.loads(run.stdout)["figures"]
    if options.json:
        print(json.dumps({"figures": entries, "failed": failed}, indent=2))
    else:
        Console().print(table(entries, "figures"))
    for name in failed:
        console.print(f"[red]bench {name} did not run[/red]")
    return 1 if failed or any(entry["met"] is False for entry in entries) else 0


if __name__ == "__main__":
    sys.exit(main())
