"""``python -m zkdeployment`` is the same as ``zkdeployment``."""

from zkdeployment.programs.main import main

if __name__ == "__main__":
    main()
