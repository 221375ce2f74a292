"""The fields of a form that a browser sent, as texts."""

from typing import Annotated

from fastapi import Depends, Request


async def read_fields(request: Request) -> dict[str, str]:
    """Return the text fields of the form in a request; of several with one name, the last."""
    form = await request.form()
    return {name: value for name, value in form.items() if isinstance(value, str)}


FormFields = Annotated[dict[str, str], Depends(read_fields)]
