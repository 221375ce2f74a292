"""The application: the routers of the API and of the pages, the adapters they use, and the handlers of errors."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import FastAPI

from zkdeployment.web.api import health
from zkdeployment.web.error_responses import install_error_handlers

if TYPE_CHECKING:
    from zkdeployment.ports.server import ServerAdapters
    from zkdeployment.web.site import Site

_API_ROUTERS = (health.router,)


def build_application(adapters: ServerAdapters, site: Site) -> FastAPI:
    """Return the ASGI application of the service."""
    application = FastAPI(
        title="zkdeployment",
        version=version("zkdeployment"),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    application.state.adapters = adapters
    application.state.site = site
    install_error_handlers(application)
    for router in _API_ROUTERS:
        application.include_router(router)
    return application
