"""How Sphinx makes the manual: HTML and man pages from one source (scripts/manual)."""

import importlib.metadata
import re
import runpy
from dataclasses import MISSING
from pathlib import Path

import click
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from zkdeployment.checks.rules.workflow import WORKFLOW, CheckEffect, CheckGuard
from zkdeployment.intents.rules.instances import LIFE_CYCLE, IntentEffect
from zkdeployment.intents.rules.reality import CLUSTER_RULES, RSYNC_RULES
from zkdeployment.programs.verbs import program
from zkdeployment.service.acts import all_acts
from zkdeployment.service.application import api_description
from zkdeployment.service.views.api_description import api_page

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


class Operations(SphinxDirective):
    """``.. operations:: SUBJECT...``: operations of the API with their parameters and the keys of their bodies."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self):
        """Return the definitions of the operations."""
        page = api_page(api_description(), "")
        self._values = {value.name: value.fields for value in page.values}
        operations = [each for subject in self.arguments[0].split() for each in page.subjects[subject]]
        return self.parse_text_to_nodes("\n".join(line for each in operations for line in self._lines(each)))

    def _lines(self, operation):
        yield f"``{operation.method} {operation.path}``"
        yield f"   {_literal(operation.about)}"
        keys = self._values.get(operation.body.value, ()) if operation.body else ()
        queried = [field for field in operation.parameters if f"{{{field.name}" not in operation.path]
        given = [f"``?{field.name}=``{_about(field)}" for field in queried]
        given += [
            f"``{key.name}``{_about(key)}" if key.is_required else f"[``{key.name}``]{_about(key)}" for key in keys
        ]
        if given:
            yield f"\n   {', '.join(given)}\n"


class Answers(SphinxDirective):
    """``.. answers::``: the keys of each answer of the API that has a schema."""

    def run(self):
        """Return the definitions of the schemas."""
        values = {value.name: value for value in api_page(api_description(), "").values}
        schemas = {}
        for value in values.values():
            kind = next((field.kind for field in value.fields if field.name == "schema"), "")
            if schema := re.fullmatch(r'"zkdeployment/([a-z-]+)/v1"', kind):  # documents have names with capitals
                schemas[schema[1]] = self._keys(value, values, {value.name})
        return self.parse_text_to_nodes("\n".join(f"``{name}``\n   {schemas[name]}" for name in sorted(schemas)))

    def _keys(self, value, values, seen):
        """Return the keys of an object, each with the keys or the values that it may have."""
        return ", ".join(
            f"``{field.name}``{self._content(field, values, seen)}"
            for field in value.fields
            if field.name != "schema"
        )

    def _content(self, field, values, seen):
        texts = [_literal(field.about).rstrip(".")] if field.about else []
        if field.value and field.value not in seen:
            seen.add(field.value)
            texts.append(self._keys(values[field.value], values, seen))
        elif field.kind.startswith('"') and " | " in field.kind:
            texts += re.findall(r'"([^"]*)"', field.kind)
        return f" ({', '.join(texts)})" if texts else ""


def _about(field):
    return f" ({_literal(field.about).rstrip('.')})" if field.about else ""


def _literal(about):
    """Return a description of the API in one paragraph, with its code marked as reStructuredText marks it."""
    words = " ".join(about.split()).replace("*", r"\*")
    return re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", words)


class RulesTable(SphinxDirective):
    """``.. rules-table:: NAME``: one of the tables in ``TABLES``, from the rules of the code."""

    required_arguments = 1

    def run(self):
        """Return the table."""
        lines = [".. list-table::", "   :header-rows: 1", ""]
        for row in TABLES[self.arguments[0]]():
            lines += [f"   {'  -' if number else '* -'} {cell}" for number, cell in enumerate(row)]
        return self.parse_text_to_nodes("\n".join(lines))


def _workflow():
    """Return what each event of a check configuration does in which states."""
    rows = {}
    for (state, event), step in WORKFLOW.items():
        outcome = "the version is gone" if step.state is None else f"``{step.state.value}``"
        outcome += "".join(f"; {effect.value}" for effect in CheckEffect if effect in step.effects)
        guards = " and ".join(guard.value for guard in CheckGuard if guard in step.guards)
        rows.setdefault((event.value, outcome + (f", if {guards}" if guards else "")), []).append(
            f"``{state.value}``"
        )
    return [
        ("event", "states", "outcome"),
        *((event, ", ".join(at), outcome) for (event, outcome), at in rows.items()),
    ]


def _life_cycle():
    """Return what each act on an intent does in which states."""
    rows = {}
    for (state, act), step in LIFE_CYCLE.items():
        if isinstance(step, str):
            outcome = f"refused: {step}"
        else:
            outcome = "the intent is gone" if step.state is None else f"*{step.state.value}*"
            outcome += "".join(f"; {effect.value}" for effect in IntentEffect if effect in step.effects)
            outcome += "" if step.guard is None else f", if {step.guard.value}"
        rows.setdefault((act.value, outcome), []).append(state.value)
    return [("act", "states", "outcome"), *((act, ", ".join(at), outcome) for (act, outcome), at in rows.items())]


TABLES = {
    "check-workflow": _workflow,
    "intent-life-cycle": _life_cycle,
    "rsync-status": lambda: [
        ("rsync-status", "when"),
        *((f"``{status.value}``", text) for status, text, _ in RSYNC_RULES),
    ],
    "cluster-status": lambda: [
        ("cluster-status", "when"),
        *((f"``{status.value}``", text) for status, text in CLUSTER_RULES.values()),
    ],
}


def setup(app):
    """Have the text of ``--help`` read as what it is: plain text with an example."""
    app.add_directive("configuration-keys", ConfigurationKeys)
    app.add_directive("acts", Acts)
    app.add_directive("operations", Operations)
    app.add_directive("answers", Answers)
    app.add_directive("rules-table", RulesTable)
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
