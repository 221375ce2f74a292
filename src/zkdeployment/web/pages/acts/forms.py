"""The forms of acts: the page that shows one, and the fields that a browser sends, as texts."""

from collections.abc import Mapping
from typing import Annotated

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse

from zkdeployment.model.user import User
from zkdeployment.ports.server import ServerAdapters
from zkdeployment.web.pages.live_page import show_page
from zkdeployment.web.views.acts import ActForm


async def read_fields(request: Request) -> dict[str, str]:
    """Return the text fields of the form in a request; of several with one name, the last."""
    form = await request.form()
    return {name: value for name, value in form.items() if isinstance(value, str)}


FormFields = Annotated[dict[str, str], Depends(read_fields)]


def show_form(  # noqa: PLR0913  what the page of a form is made of
    request: Request,
    adapters: ServerAdapters,
    user: User,
    form: ActForm,
    values: Mapping[str, str],
    *,
    back: str,
    status: int = 200,
    mistake: str = "",
) -> HTMLResponse:
    """Return the page of a form, filled in with ``values``.

    ``back`` is the address of the page to which the user returns. ``mistake`` explains why the act was not
    performed.
    """
    return show_page(
        request,
        adapters,
        user,
        "act.html",
        status=status,
        form=form,
        action=request.url.path,
        back=back,
        given=values,
        reason=values.get("reason", ""),
        mistake=mistake,
    )
