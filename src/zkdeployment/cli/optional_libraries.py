"""The libraries of the service and of the worker of host pools, which hosts do not have."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def service_libraries() -> Iterator[None]:
    """Surround imports that need the libraries of the service.

    Raises ``ConfigurationError`` if these are not installed.
    """
    with _libraries("the service", "server"):
        yield


@contextlib.contextmanager
def pools_libraries() -> Iterator[None]:
    """Surround imports that need the libraries of the worker, as ``service_libraries`` does."""
    with _libraries("the worker of host pools", "pools"):
        yield


@contextlib.contextmanager
def _libraries(part: str, extra: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{part} needs the library {error.name}, which is not installed; install the package"
            f" zkdeployment-{extra}, or zkdeployment[{extra}] with pip"
        ) from error
