"""An act with its form, the function that performs it, and what rights it takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.errors import ZkdeploymentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.model.user import ActKind, User
    from zkdeployment.web.views.acts import ActForm

#: Performs an act for a user, with a reason.
Performer: TypeAlias = "Callable[[User, str], object]"


@dataclass(frozen=True, slots=True)
class PreparedAct:
    """An act: its form, the function that performs it, and what rights it takes.

    ``paths`` are the services that the act concerns; an act without paths concerns the whole fleet. ``shows_job``
    is whether the page that is shown afterwards shows the state of the act's commit. ``preview`` adds to the form
    what the act would do for a user; only a page that shows the form needs it.
    """

    form: ActForm
    perform: Performer
    kind: ActKind
    paths: tuple[str, ...] = ()
    shows_job: bool = False
    preview: Callable[[User], ActForm] | None = None

    def shown_form(self, user: User) -> ActForm:
        """Return the form as a page shows it, with the preview, or with the reason why the act is not possible."""
        if self.preview is None or self.form.objection:
            return self.form
        try:
            return self.preview(user)
        except ZkdeploymentError as error:
            return replace(self.form, objection=str(error))
