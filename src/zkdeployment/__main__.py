"""``python -m zkdeployment`` is the same as ``zkdeployment``."""

from zkdeployment.cli.main import main

if __name__ == "__main__":
    main()
