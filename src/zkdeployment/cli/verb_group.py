"""Groups of verbs: suggestions for misspelled verbs, and verbs that are imported only when they are called."""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from zkdeployment.base.machine.program import without_collection
from zkdeployment.cli.places import LazyVerb, Subject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from click.shell_completion import CompletionItem


#: The verbs that only show, in any group. Only these are suggested for a misspelled verb, because an act that was
#: not meant may discard commits or change the fleet.
SHOWING = frozenset(
    [
        "audit",
        "check",
        "checks",
        "completion",
        "diff",
        "drift",
        "export",
        "fleets",
        "get",
        "history",
        "instances",
        "inventory",
        "lint",
        "list",
        "locks",
        "log",
        "logs",
        "monitor",
        "node",
        "on-call",
        "plan",
        "pool",
        "preview",
        "schemas",
        "services",
        "show",
        "simulate",
        "status",
        "summary",
        "tree",
        "usage",
        "verify",
        "version",
        "why",
    ]
)


def without_flags(error: click.ClickException) -> click.ClickException:
    """Return an error without suggestions of flags, such as ``--now``, which may do more than was meant."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return error
    options = [each for each in error.ctx.command.params if isinstance(each, click.Option) and not each.is_flag]
    harmless = [name for each in options for name in each.opts if name in (error.possibilities or ())]
    return click.NoSuchOption(error.option_name, error.message, harmless, error.ctx)


class VerbGroup(click.Group):
    """A group that answers an unknown verb with the most similar verb that only shows, or with all its verbs.

    ``foreign`` has the words of other tools, each with the way to do the same here.
    """

    foreign: Mapping[str, str] = MappingProxyType({})

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb, or fail with a suggestion."""
        verbs = self.list_commands(ctx)
        if args[0] not in verbs and not args[0].startswith("-") and not ctx.resilient_parsing:
            import difflib  # noqa: PLC0415  verbs start faster without it

            near = difflib.get_close_matches(args[0], SHOWING.intersection(verbs), n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"expected one of: {', '.join(verbs)}"
            ctx.fail(f"there is no verb {args[0]!r}; {self.foreign.get(args[0], hint)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of verbs, each with the whole first sentence of its help."""
        verbs = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Verbs"):
            # Without a high limit, Click ends a longer sentence with "...".
            rows = [(name, verb.get_short_help_str(limit=500)) for name, verb in verbs if verb and not verb.hidden]
            formatter.write_dl(rows)


class LazyVerbGroup(VerbGroup):
    """A group that imports a verb only when the verb is called, so that each verb starts fast."""

    def __init__(
        self,
        *args: Any,
        verbs: Mapping[str, LazyVerb],
        foreign: Mapping[str, str] = MappingProxyType({}),
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._verbs = verbs
        self.foreign = foreign

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """Return the names of all verbs."""
        return sorted(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a verb."""
        verb = self._verbs.get(cmd_name)
        if verb is None:
            return None
        with without_collection():
            module = importlib.import_module(verb.module, "zkdeployment")
        command: click.Command = getattr(module, verb.attribute)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return completions for verbs, without importing them, and for options."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415  verbs start faster without it

        verbs = [
            CompletionItem(name, help=verb.help)
            for name, verb in sorted(self._verbs.items())
            if name.startswith(incomplete)
        ]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of verbs by subject without importing them; a group with one subject has no headings."""
        subjects = sorted({verb.subject for verb in self._verbs.values()}, key=list(Subject).index)
        width = max(map(len, self._verbs))
        for subject in subjects:
            with formatter.section(subject.value if len(subjects) > 1 else "Verbs"):
                rows = [(name, verb.help) for name, verb in self._verbs.items() if verb.subject is subject]
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])
