"""What reading a tree text costs, against the floor: splitting it into lines and the lines into words.

Run it as ``python tests/benchmarks/bench_parse.py [NODES]``. Each round measures the floor and the parser one
after the other on the same file; the table shows medians, and the median of the rounds' ratios.
"""

import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from zkdeployment.tree.parse import ParsedFile, parse_bytes

ROUNDS = 9


def fleet_text(nodes: int) -> str:
    """Customers of ten services, each deployed on five hosts: what a tree of a large fleet looks like."""
    lines = []
    count = customer = host = 0
    while count < nodes:
        lines.append(f"/customer{customer}")
        count += 1
        for service in range(10):
            lines += [
                f"  /service{service} : application{service} main",
                f"    version = '1.{customer % 7}.{service}'",
                f"    threads = {4 + service}",
                f"    database -> /databases/customer{customer}",
                "    /providers",
                "    /deploy",
            ]
            lines += [f"      /host{(host + n) % 5000}.example.com" for n in range(5)]
            count += 8
            host += 5
        customer += 1
    return "\n".join(lines) + "\n"


def unlike_text(nodes: int) -> str:
    """No line is like another: nothing that was read before helps."""
    lines = ["/top"]
    for n in range(nodes - 1):
        lines += [
            f"  /node{n} : type{n} sub{n}",
            f"    version{n} = '1.{n}'",
            f"    n{n} = {n}",
            f"    l{n} -> ../node{n}",
        ]
    return "\n".join(lines) + "\n"


def floor(path: Path) -> None:
    for line in path.read_text(encoding="utf-8").split("\n"):
        line.split()


def parse(path: Path) -> ParsedFile:
    return parse_bytes(path.name, path.read_bytes())


def seconds(action: Callable[[Path], object], path: Path) -> float:
    gc.collect()
    start = time.perf_counter()
    result = action(path)
    end = time.perf_counter()
    del result
    return end - start


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    sys.stdout.write(f"{'text':<24}{'nodes':>9}{'lines':>9}{'floor':>10}{'parse':>10}{'ratio':>8}\n")
    for name, text in (("fleet", fleet_text(nodes)), ("all lines different", unlike_text(nodes))):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "tree.zk"
            path.write_text(text, encoding="utf-8")
            pairs = [(seconds(floor, path), seconds(parse, path)) for _ in range(ROUNDS)]
            count = len(parse_bytes(path.name, path.read_bytes()).tree)
        floors, parses = zip(*pairs, strict=True)
        ratio = statistics.median(parsed / bare for bare, parsed in pairs)
        sys.stdout.write(
            f"{name:<24}{count:>9}{text.count(chr(10)):>9}{statistics.median(floors) * 1000:>7.0f} ms"
            f"{statistics.median(parses) * 1000:>7.0f} ms{ratio:>8.1f}\n"
        )


if __name__ == "__main__":
    main()
