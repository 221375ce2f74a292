"""The contributions of promotion to the frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.features import Feature, value_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.cli.verb_group import LazyVerb


def _verbs() -> Mapping[str, LazyVerb]:
    from zkdeployment.cli.verb_group import LazyVerb

    return {
        "fleets": LazyVerb("promotion.verbs.fleets", "Show all fleets under promotion; stop and resume them."),
        "promote": LazyVerb("promotion.verbs.groups", "Promote revisions from fleet to fleet.", "promote"),
    }


FEATURE = Feature(
    acts=value_in("promotion.user_acts", "ACTS"),
    api_routers=value_in("promotion.api", "ROUTERS"),
    document_kinds=value_in("promotion.documents", "DOCUMENT_KINDS"),
    document_rules=value_in("promotion.documents", "DOCUMENT_RULES"),
    review_rules=value_in("promotion.documents", "REVIEW_RULES"),
    feed_parts=value_in("promotion.feed", "FEED_PARTS"),
    page_routers=value_in("promotion.pages", "ROUTERS"),
    verbs=_verbs,
)
