"""All pictures of etc/manual/pictures."""

from pathlib import Path

from pictures.fleets import fleets
from pictures.flow import flow
from pictures.machines import MACHINES
from pictures.timelines import locks, rollout

DIRECTORY = Path(__file__).parents[2] / "etc" / "manual" / "pictures"


def pictures() -> dict[str, str]:
    """Return the text of all pictures by the names of their files."""
    drawn = [flow(), fleets(), locks(), rollout(), *(machine.draw() for machine in MACHINES)]
    return {f"{picture.name}.svg": picture.svg() for picture in drawn}
