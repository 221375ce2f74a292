"""The contributions of rollouts to the frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.features import Feature, function_in, value_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import APIRouter

    from zkdeployment.cli.verb_group import LazyVerb


def _page_routers() -> tuple[APIRouter, ...]:
    from zkdeployment.rollouts import pages

    return (pages.router,)


def _verbs() -> Mapping[str, LazyVerb]:
    from zkdeployment.cli.verb_group import LazyVerb

    return {
        "coordinate": LazyVerb(
            "rollouts.program", "Run a coordinator of rollouts in the foreground.", "coordinate"
        ),
        "rollout": LazyVerb("rollouts.verbs.rollout", "Simulate, watch and direct rollouts by a strategy."),
    }


FEATURE = Feature(
    acts=value_in("rollouts.acts", "ACTS"),
    criterion=function_in("rollouts.measuring", "analysis_criterion"),
    page_routers=_page_routers,
    verbs=_verbs,
)
