"""The instances of a service that its consumers may use while versions change: ``select`` for consumers in Python.

``select`` needs kazoo and no other library.
"""

from zkdeployment.providers.consumer import select

__all__ = ["select"]
