"""The forms of acts: the page that shows one, its fields as texts, and the function that performs the act."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, TypeAlias

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse

from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.service.dependencies import ServerAdapters
from zkdeployment.service.pages.live_page import show_page
from zkdeployment.service.users.user import ActKind, User
from zkdeployment.service.views.acts import ActForm

#: Performs an act for a user, with a reason.
Performer: TypeAlias = "Callable[[User, str], object]"


@dataclass(frozen=True, slots=True)
class PreparedAct:
    """An act: its form, the function that performs it, and the rights that it requires.

    ``paths`` are the services that the act concerns; an act without paths concerns the whole fleet. ``shows_job``
    is whether the next page shows the state of the act's commit. ``preview`` adds the effects of the act by this
    user to the form; only a page that shows the form calls it.
    """

    form: ActForm
    perform: Performer
    kind: ActKind
    paths: tuple[str, ...] = ()
    shows_job: bool = False
    preview: Callable[[User], ActForm] | None = None

    def shown_form(self, user: User) -> ActForm:
        """Return the form for a page, with the preview, or with the reason why the act is not possible."""
        if self.preview is None or self.form.objection:
            return self.form
        try:
            return self.preview(user)
        except ZkdeploymentError as error:
            return replace(self.form, objection=str(error))


async def read_fields(request: Request) -> dict[str, str]:
    """Return the text fields of the form in a request; of several fields with one name, the last."""
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
