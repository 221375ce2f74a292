"""The previews that the forms of acts on intents show before the button: the content, and what is new in it."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from zkdeployment.intents.difference import content_difference
from zkdeployment.intents.instances import EMPTY_CONTENT
from zkdeployment.web.views.acts import ActDetail
from zkdeployment.web.views.states import count_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.intents.comparison import ContentComparison
    from zkdeployment.intents.life_cycle import IntentSnapshot
    from zkdeployment.planning.targets.content import IntentContent
    from zkdeployment.web.views.acts import ActForm

#: The most lines of a content on a page.
_MOST_LINES = 2000


def content_details(compared: ContentComparison) -> Iterator[ActDetail]:
    """Yield what changed since the last approval, and the whole content."""
    if compared.remark:
        yield ActDetail(f"The whole content, {compared.content.digest}", shown_lines(compared.content_lines()))
        return
    yield ActDetail("Changed since the last approval", shown_lines(compared.lines()) or ("nothing",))
    title = f"The whole content, {compared.content.digest}"
    yield ActDetail(title, shown_lines(compared.content_lines()), is_open=False)


def service_details(contents: Mapping[str | None, IntentContent]) -> Iterator[ActDetail]:
    """Yield the whole content of a left service for each target; ``None`` stands for all targets."""
    for target, content in contents.items():
        place = "" if target is None else f" for {target}"
        lines = content_difference(EMPTY_CONTENT, content)
        yield ActDetail(f"The whole content{place}, {content.digest}", shown_lines(lines))


def with_approved_content(form: ActForm, snapshot: IntentSnapshot) -> ActForm:
    """Return the form of an act that approves the content of a snapshot, and only this content."""
    content, apps = snapshot.content, count_text(len(snapshot.intent.apps), "app")
    nodes = count_text(len(content.nodes), "node")
    approved = f"The content below is approved in your name: {apps} with {nodes}, {content.digest}."
    fields = [field for field in form.fields if field[0] != "content"]
    return replace(
        form,
        consequences=(approved, *form.consequences),
        fields=(*fields, ("content", content.digest)),
    )


def shown_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the lines that a page shows of a content, the last of which tells if there are more."""
    shown = tuple(islice(lines, _MOST_LINES + 1))
    if len(shown) <= _MOST_LINES:
        return shown
    return (*shown[:_MOST_LINES], "and more: 'zkdeployment intent diff' and GET …/diff show all")
