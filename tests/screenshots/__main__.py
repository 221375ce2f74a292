"""``python -m screenshots [SIZE…]``: photograph the pages of the service into etc/manual/screenshots."""

import sys

from screenshots.photographer import photograph

if __name__ == "__main__":
    photograph(sizes=[int(argument) for argument in sys.argv[1:]] or None)
