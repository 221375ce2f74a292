"""SVG pictures that are readable in light and in dark mode, alone and inside a page of the manual."""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.sax.saxutils import escape

WIDTH = 720

_LIGHT = (
    "--ink:#1b2733;--soft:#56636f;--line:#7b8794;--paper:#ffffff;--box:#eef2f6;"
    "--accent:#1d5fbf;--tint:#dbe8fb;--good:#1a7f4b;--goodtint:#d8f1e2;--bad:#b42318;--badtint:#fbe0dd;"
    "--wait:#8a5a00;--waittint:#fbeccb"
)
_DARK = (
    "--ink:#e6ebf0;--soft:#a3afbb;--line:#8492a0;--paper:#131416;--box:#242a31;"
    "--accent:#7fb1ff;--tint:#1d3454;--good:#6fd39b;--goodtint:#173a28;--bad:#ff9a90;--badtint:#4a1f1b;"
    "--wait:#f0c05a;--waittint:#43340f"
)
#: Alone a picture follows the system; inside the manual it follows the switch of the theme.
_STYLE = f"""svg.picture{{{_LIGHT};font:13px system-ui,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}}
@media (prefers-color-scheme:dark){{svg.picture{{{_DARK}}}}}
body[data-theme=light] svg.picture{{{_LIGHT}}}
body[data-theme=dark] svg.picture{{{_DARK}}}
@media print{{body svg.picture{{{_LIGHT}}}}}
.picture text{{fill:var(--ink)}} .picture text.soft{{fill:var(--soft)}} .picture .strong{{font-weight:600}}
.picture .small{{font-size:12px}} .picture .mid{{text-anchor:middle}} .picture .end{{text-anchor:end}}
.picture rect.box{{fill:var(--box);stroke:var(--line)}}
.picture rect.accent{{fill:var(--tint);stroke:var(--accent)}}
.picture rect.good{{fill:var(--goodtint);stroke:var(--good)}}
.picture rect.bad{{fill:var(--badtint);stroke:var(--bad)}}
.picture rect.wait{{fill:var(--waittint);stroke:var(--wait)}}
.picture rect.solid{{fill:var(--accent);stroke:none}} .picture rect.pale{{fill:var(--line);stroke:none}}
.picture path.line{{fill:none;stroke:var(--line);stroke-width:1.5}} .picture path.dash{{stroke-dasharray:5 4}}
.picture path.grid{{fill:none;stroke:var(--line);opacity:.35}}
.picture path.curve{{fill:none;stroke:var(--accent);stroke-width:2}}
.picture circle.dot{{fill:var(--accent)}} .picture circle.number{{fill:var(--paper);stroke:var(--line)}}
.picture .head{{fill:var(--line)}}"""


@dataclass
class Picture:
    """A picture under construction; ``describe`` is its content as text, for readers who cannot see it."""

    name: str
    title: str
    describe: str
    height: int = 0
    width: int = WIDTH
    parts: list[str] = field(default_factory=list)

    def box(
        self, x: float, y: float, width: float, height: float, *, kind: str = "box", corner: float = 6
    ) -> None:
        """Draw a rectangle; ``kind`` is its colour."""
        self.parts.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{corner:g}"/>'
        )
        self._reach(y + height)

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        """Draw one line of text."""
        of_kind = f' class="{kind}"' if kind else ""
        self.parts.append(f'<text{of_kind} x="{x:g}" y="{y:g}">{escape(text)}</text>')
        self._reach(y + 4)

    def labelled(self, x: float, y: float, width: float, lines: list[str], *, kind: str = "box") -> None:
        """Draw a box with a heading and further lines, all centred."""
        heading, *others = lines
        self.box(x, y, width, 26 + 17 * len(others), kind=kind)
        self.text(x + width / 2, y + 18, heading, "strong mid")
        for number, line in enumerate(others):
            self.text(x + width / 2, y + 35 + 17 * number, line, "small soft mid")

    def arrow(self, path: str, *, dashed: bool = False, both: bool = False) -> None:
        """Draw a line with a head at its end (and, for ``both``, at its start); ``path`` is that of SVG."""
        start = f' marker-start="url(#{self.name}-head)"' if both else ""
        kind = "line dash" if dashed else "line"
        self.parts.append(f'<path class="{kind}" d="{path}" marker-end="url(#{self.name}-head)"{start}/>')

    def stroke(self, path: str, kind: str) -> None:
        """Draw a line without a head."""
        self.parts.append(f'<path class="{kind}" d="{path}"/>')

    def circle(self, x: float, y: float, radius: float, kind: str) -> None:
        """Draw a circle."""
        self.parts.append(f'<circle class="{kind}" cx="{x:g}" cy="{y:g}" r="{radius:g}"/>')

    def svg(self) -> str:
        """Return the picture."""
        height = self.height + 8
        head = f'id="{self.name}-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6.5" markerHeight="6.5"'
        size = f'viewBox="0 0 {self.width} {height:g}" width="{self.width}" height="{height:g}"'
        described = f'role="img" aria-labelledby="{self.name}-t {self.name}-d"'
        lines = [
            f'<svg class="picture" xmlns="http://www.w3.org/2000/svg" {size} {described}>',
            f'<title id="{self.name}-t">{escape(self.title)}</title>',
            f'<desc id="{self.name}-d">{escape(self.describe)}</desc>',
            f"<style>{_STYLE}</style>",
            f'<defs><marker {head} orient="auto-start-reverse">',
            '<path class="head" d="M0 0L8 4L0 8z"/></marker></defs>',
            *self.parts,
            "</svg>\n",
        ]
        return "\n".join(lines)

    def _reach(self, y: float) -> None:
        self.height = max(self.height, int(y + 1))
