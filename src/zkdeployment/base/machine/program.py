"""The running program: its late imports, its optional libraries, its garbage, and the detection of an upgrade.

An upgrade of zkdeployment or of Python may replace or move a library under a running process, which can then no
longer import it.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConfigurationError, RestartError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def late_import() -> Iterator[None]:
    """Raise ``RestartError`` if a library cannot be imported inside the block.

    A new library may also expect an attribute that a module in memory does not have.
    """
    try:
        yield
    except (ImportError, AttributeError) as error:
        raise RestartError(
            f"a library cannot be imported: {error}; if an upgrade has just replaced it, a restart of this process"
            " helps, otherwise install zkdeployment again"
        ) from error


@contextmanager
def without_collection() -> Iterator[None]:
    """Collect no garbage while modules are imported, and exclude their objects from later collections.

    These objects live until the process ends. Otherwise Python would scan them again and again during the imports,
    and once more at the exit.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


#: The number of new objects after which ``collect_rarely`` lets Python search for garbage; Python's own is 700.
_MANY = 20_000


def collect_rarely() -> None:
    """Search for garbage rarely from now on, in a process that makes many values at once and keeps most of them.

    The searches would take a seventh of the processor time in which a large tree is published.
    """
    gc.set_threshold(_MANY, *gc.get_threshold()[1:])


class Program:
    """The file from which this process was started."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._started = self._identify()

    def outdated(self) -> bool:
        """Whether the file was replaced since this process started."""
        return self._identify() != self._started

    def _identify(self) -> tuple[int, int, int] | None:
        try:
            status = Path(self._file).stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns


@contextmanager
def service_libraries() -> Iterator[None]:
    """Surround imports that need the libraries of the service.

    Raises ``ConfigurationError`` if these are not installed.
    """
    with _libraries("the service", "server"):
        yield


@contextmanager
def pools_libraries() -> Iterator[None]:
    """Surround imports that need the libraries of the worker, as ``service_libraries`` does."""
    with _libraries("the worker of host pools", "pools"):
        yield


@contextmanager
def editors_libraries() -> Iterator[None]:
    """Surround imports that need the libraries of the language server, as ``service_libraries`` does."""
    with _libraries("the language server", "editors"):
        yield


#: The root of the checkout from which the program runs, if it was not installed from a package.
_CHECKOUT = Path(__file__).parents[4]


@contextmanager
def _libraries(part: str, extra: str, checkout: Path = _CHECKOUT) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (checkout / "setup.cfg").is_file():
            way = f"run pip install -e '.[{extra}]' in {checkout}"
        else:
            way = f"install the package zkdeployment-{extra}, or zkdeployment[{extra}] with pip"
        raise ConfigurationError(
            f"{part} needs the library {error.name}, which is not installed; {way}"
        ) from error
