"""The addresses of the page of pools and of its forms."""

from __future__ import annotations

from zkdeployment.web.views.links import with_query

PAGE = "/pools"


def form_page(name: str, **values: object) -> str:
    """Return the address of the form of an act on pools."""
    return with_query(f"{PAGE}/acts/{name}", {key: str(value) for key, value in values.items()})


def usage_page(**values: str) -> str:
    """Return the address of the page of the use of pools with those of the parameters that are not empty."""
    return with_query(f"{PAGE}/usage", values)


def pools_page(**values: str) -> str:
    """Return the address of the page of pools with those of the parameters that are not empty."""
    return with_query(PAGE, values)
