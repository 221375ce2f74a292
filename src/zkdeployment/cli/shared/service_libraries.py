"""The libraries of the service, which hosts do not have."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def service_libraries() -> Iterator[None]:
    """Import something that needs these libraries; raises ``ConfigurationError`` if they are not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"the service needs the library {error.name}, which is not installed; install the package"
            " zkdeployment-server, or zkdeployment[server] with pip"
        ) from error
