"""ZooKeeper in a container, for machines with Docker and without an installed ZooKeeper.

The container shares the machine's network and the server's directory, and its first process is a process of this
machine. The process is therefore found, reached and ended like a server without a container.
"""

from __future__ import annotations

import importlib
import os
import uuid
from typing import TYPE_CHECKING

from zkdeployment.errors import ProgramError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

IMAGE = "zookeeper:3.9"

#: Replaces the image's own start script, which would change owners and users.
_SERVER = (
    'exec java "$@" -cp "$0:$(echo /apache-zookeeper-*-bin)/lib/*" {main} "$0/zoo.cfg" >>"$0/server.log" 2>&1'
)


def docker_problem() -> str | None:
    """Return the reason why this machine cannot run containers; ``None`` if it can."""
    try:
        client = importlib.import_module("testcontainers.core.docker_client").DockerClient()
        client.client.ping()
    except ImportError:
        return "testcontainers is not installed (pip install testcontainers)"
    except Exception as error:  # noqa: BLE001  the library passes on the errors of all layers below it
        return f"Docker does not answer ({type(error).__name__})"
    return None


def start_container(directory: Path, options: Sequence[str], main: str) -> int:
    """Start a server with the configuration in ``directory`` and return the id of its process.

    The container outlives this process and is removed when the server ends. Raises ``ProgramError``.
    """
    config = importlib.import_module("testcontainers.core.config").testcontainers_config
    config.ryuk_disabled = True  # because ryuk ends the container together with this process
    containers = importlib.import_module("testcontainers.core.container")
    try:
        container = containers.DockerContainer(IMAGE)
        container.with_name(f"zkdeployment-{uuid.uuid4().hex[:12]}")
        container.with_volume_mapping(str(directory), str(directory), "rw")
        container.with_kwargs(
            network_mode="host",
            auto_remove=True,
            user=f"{os.getuid()}:{os.getgid()}",
            entrypoint=["sh", "-c", _SERVER.format(main=main), str(directory), *options],
        )
        container.start()
        wrapped = container.get_wrapped_container()
        wrapped.reload()
        pid: int = wrapped.attrs["State"]["Pid"]
    except Exception as error:  # see above: errors of Docker, HTTP and other layers
        raise ProgramError(f"cannot start {IMAGE} in a container: {error}") from error
    return pid
