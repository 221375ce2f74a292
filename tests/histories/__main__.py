"""The command ``python -m histories FILE``: print each broken promise; exit with 1 if there is one."""

import sys
from pathlib import Path

from histories.checker import judge, read_history

if __name__ == "__main__":
    with Path(sys.argv[1]).open(encoding="utf-8") as lines:
        history = read_history(lines)
    findings = judge(history)
    sys.stdout.writelines(f"finding: {finding}\n" for finding in findings)
    sys.stdout.write(f"{len(history)} events, {len(findings)} findings\n")
    sys.exit(1 if findings else 0)
