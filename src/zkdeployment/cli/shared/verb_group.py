"""Groups of verbs that say which one is meant."""

from __future__ import annotations

import click


class VerbGroup(click.Group):
    """A group that answers a verb it does not have with the one that is like it, or with all it has."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb that was given, or say what it could be."""
        verbs = self.list_commands(ctx)
        if args[0] not in verbs and not args[0].startswith("-") and not ctx.resilient_parsing:
            import difflib  # noqa: PLC0415  verbs start faster without it

            near = difflib.get_close_matches(args[0], verbs, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"expected one of: {', '.join(verbs)}"
            ctx.fail(f"there is no verb {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)
