"""The adapters of the service, as parameters that routes declare.

FastAPI evaluates the annotations of routes, so this module and the modules of routes import all names at run time.
"""

from typing import Annotated

from fastapi import Depends, Request

from zkdeployment.errors import UnreachableError
from zkdeployment.ports.server import ServerAdapters


async def get_adapters(request: Request) -> ServerAdapters:
    """Return the adapters of the application that handles a request."""
    adapters: ServerAdapters = request.app.state.adapters
    return adapters


async def get_connected_adapters(request: Request) -> ServerAdapters:
    """Return the adapters; raises ``UnreachableError`` while there is no connection to ZooKeeper."""
    adapters = await get_adapters(request)
    check_connection(adapters)
    return adapters


def check_connection(adapters: ServerAdapters) -> None:
    """Raise ``UnreachableError`` at once while there is no connection to ZooKeeper.

    Waiting for a connection in each request would use up the threads of the service.
    """
    if not adapters.connection().connected:
        raise UnreachableError("the service has no connection to ZooKeeper; it reconnects by itself")


#: For routes that can answer without ZooKeeper.
Adapters = Annotated[ServerAdapters, Depends(get_adapters)]

#: For routes that send requests to ZooKeeper.
ConnectedAdapters = Annotated[ServerAdapters, Depends(get_connected_adapters)]
