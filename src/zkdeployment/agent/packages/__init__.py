"""The package managers behind one port: ``dnf`` and ``none``."""
