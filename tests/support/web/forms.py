"""The links and forms of a page, followed, filled in and submitted with the fields that a browser sends."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from httpx import Client, Response

#: The elements of a form that this module does not read: a page with one needs them here.
_UNKNOWN = {"select", "textarea"}

#: The types of fields that a person fills in.
_TYPED = {"text", "number", "search", "password"}


@dataclass
class PageForm:
    """A form of a page: ``hidden`` fields, fields to fill in, and boxes to tick."""

    action: str
    method: str
    hidden: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    boxes: dict[str, str] = field(default_factory=dict)
    ticked: set[str] = field(default_factory=set)
    required: set[str] = field(default_factory=set)
    longest: dict[str, int] = field(default_factory=dict)
    button: str = ""

    def add(self, values: Mapping[str, str | None]) -> None:
        """Add an ``input`` element with these attributes."""
        name, kind, value = values["name"] or "", values.get("type") or "text", values.get("value") or ""
        assert name not in {**self.hidden, **self.texts, **self.boxes}, f"two fields are named {name}"
        if kind == "hidden":
            self.hidden[name] = value
        elif kind == "checkbox":
            self.boxes[name] = value
            self.ticked |= {name} if "checked" in values else set()
        else:
            assert kind in _TYPED, kind
            self.texts[name] = value
            self.required |= {name} if "required" in values else set()
            if values.get("maxlength"):
                self.longest[name] = int(values["maxlength"] or 0)

    def fields(self, texts: Mapping[str, str], ticks: Collection[str] = ()) -> dict[str, str]:
        """Return the fields that a browser sends after a person typed ``texts`` and ticked the boxes ``ticks``."""
        assert not texts.keys() - self.texts.keys(), f"the form has only the fields {sorted(self.texts)}"
        assert not set(ticks) - self.boxes.keys(), f"the form has only the boxes {sorted(self.boxes)}"
        typed = {**self.texts, **texts}
        empty = [name for name in self.required if not typed[name]]
        assert not empty, f"a browser does not send the form without {empty}"
        assert all(len(typed[name]) <= most for name, most in self.longest.items()), typed
        boxes = {name: value for name, value in self.boxes.items() if name in {*ticks, *self.ticked}}
        return {**self.hidden, **typed, **boxes}


class _PageReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[PageForm] = []
        self.links: list[tuple[str, str]] = []
        self._open: PageForm | None = None
        self._text: list[str] | None = None
        self._href = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Read the beginning of a form, a field, a button or a link."""
        values = dict(attributes)
        if tag == "form":
            self._open = PageForm(values.get("action") or "", (values.get("method") or "get").upper())
            self.forms.append(self._open)
        assert self._open is None or tag not in _UNKNOWN, tag
        if tag == "input" and self._open is not None:
            self._open.add(values)
        if tag == "a":
            self._href = values.get("href") or ""
        if tag in {"a", "button"}:
            self._text = []

    def handle_endtag(self, tag: str) -> None:
        """Read the end of a form, a button or a link."""
        text = " ".join("".join(self._text or ()).split())
        if tag == "form":
            self._open = None
        if tag == "button" and self._open is not None:
            self._open.button = text
        if tag == "a":
            self.links.append((text, self._href))
        if tag in {"a", "button"}:
            self._text = None

    def handle_data(self, data: str) -> None:
        """Collect the text of a button or a link."""
        if self._text is not None:
            self._text.append(data)


def _read(page: Response) -> _PageReader:
    assert page.status_code < 500, page.text
    reader = _PageReader()
    reader.feed(page.text)
    return reader


def form_of(page: Response, button: str) -> PageForm:
    """Return the form of a page with this button."""
    forms = [form for form in _read(page).forms if form.button == button]
    assert len(forms) == 1, page.text
    return forms[0]


def follow(browser: Client, page: Response, label: str, *, of: str = "") -> Response:
    """Return the page behind the first link with a label, whose address contains ``of``."""
    addresses = [address for text, address in _read(page).links if text == label and of in address]
    assert addresses, page.text
    return browser.get(addresses[0])


def submit(
    browser: Client, page: Response, button: str, texts: Mapping[str, str] | None = None, *ticks: str
) -> Response:
    """Type ``texts`` into the form with a button, tick boxes, press the button, and return the response."""
    form = form_of(page, button)
    fields = form.fields(texts or {}, ticks)
    if form.method == "GET":
        return browser.get(form.action, params=fields)
    return browser.post(form.action or str(page.url), data=fields)
