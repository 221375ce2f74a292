"""How Sphinx makes the manual: HTML and man pages from one source (scripts/manual)."""

import importlib.metadata
import re
import runpy
from dataclasses import MISSING
from pathlib import Path

import click
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from zkdeployment.programs.verbs import program
from zkdeployment.service.acts import all_acts

project = "zkdeployment"
release = version = importlib.metadata.version("zkdeployment")
author = "the zkdeployment project"

extensions = ["sphinx_click"]
nitpicky = True
highlight_language = "none"
smartquotes = False  # commands are copied from here

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["manual.css"]
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "friendly", "github-dark"
html_title = f"zkdeployment {version}"
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False

man_pages = [
    ("reference/zkdeployment", "zkdeployment", "deployment driven by git for fleets of RPM hosts", "", 1),
    ("reference/check_zkdeployment", "check_zkdeployment", "Nagios check of a host, or of the fleet", "", 8),
    ("reference/configuration", "zkdeployment.cfg", "configuration of zkdeployment", "", 5),
]

_CONFIGURATION = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "configuration.py"))
_PROGRAMS = ("zkdeployment", "check_zkdeployment")


class ConfigurationKeys(SphinxDirective):
    """``.. configuration-keys:: SECTION``: the keys of a section, from the tables of the configuration."""

    required_arguments = 1

    def run(self):
        """Return the definitions of the keys."""
        return self.parse_text_to_nodes(_CONFIGURATION["reference"](self.arguments[0]))


class Acts(SphinxDirective):
    """``.. acts::``: the acts with an operation below ``/api/v1``, with their fields."""

    def run(self):
        """Return the definitions of the acts."""
        return self.parse_text_to_nodes("\n".join(self._lines()))

    @staticmethod
    def _lines():
        for act in all_acts():
            if act.PATH:
                fields = [("reason", act.NEEDS_REASON)]
                fields += [(name, default is MISSING) for name, _, default, _ in act.given_fields()]
                named = (f"``{name}``" if needed else f"[``{name}``]" for name, needed in fields)
                yield f"``POST {act.PATH}`` with {', '.join(named)}"
                yield f"   {act.__doc__.partition(chr(10))[0]}"


def setup(app):
    """Have the text of ``--help`` read as what it is: plain text with an example."""
    app.add_directive("configuration-keys", ConfigurationKeys)
    app.add_directive("acts", Acts)
    app.connect("builder-inited", lambda _app: _load_verbs(program))
    app.connect("sphinx-click-process-description", _plain)
    app.connect("sphinx-click-process-options", _plain)
    app.connect("sphinx-click-process-arguments", lambda _app, _context, lines: lines.clear())
    app.connect("doctree-read", _name_verbs)
    app.connect("doctree-resolved", _inline_pictures)


def _load_verbs(group):
    """Import every verb: sphinx-click shows only the imported ones of a group that has some."""
    context = click.Context(group)
    for name in group.list_commands(context):
        group.commands[name] = verb = group.get_command(context, name)
        if isinstance(verb, click.Group):
            _load_verbs(verb)


def _plain(_app, _context, lines):
    """Take no letter for markup, and show the example as commands."""
    for number, line in enumerate(lines):
        if line.startswith("| Example:"):
            lines[number] = "::"
            lines.insert(number + 1, "")
        elif line.startswith("| "):
            lines[number] = line.removeprefix("|")
        elif not line.lstrip().startswith((":", "..")):
            lines[number] = re.sub(r"([*`|_\\])", r"\\\1", line)


def _name_verbs(_app, doctree):
    """Call a verb below another one by both words: ``sandbox up``, not ``up``."""
    for section in doctree.findall(nodes.section):
        name = (section["names"] or [""])[0]
        program, _, words = name.partition(" ")
        if program in _PROGRAMS and isinstance(section.parent, nodes.section):
            section[0].replace_self(nodes.title(text=words or "Description"))


def _inline_pictures(app, doctree, _docname):
    """Put our pictures into web pages as they are, so that they follow the theme's light and dark mode."""
    if app.builder.format != "html":
        return
    for image in [*doctree.findall(nodes.image)]:
        if image["uri"].endswith(".svg"):
            text = (Path(app.srcdir) / image["uri"]).read_text(encoding="utf-8")
            image.replace_self(nodes.raw("", f'<div class="picture-frame">{text}</div>', format="html"))
