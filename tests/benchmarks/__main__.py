"""``scripts/benchmark``: run benchmarks, show what they found and keep it."""

from benchmarks.command import main

if __name__ == "__main__":
    main()
