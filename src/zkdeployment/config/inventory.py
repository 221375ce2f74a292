"""The settings of the inventory for Ansible: the table of ``[inventory]``."""

from __future__ import annotations

from typing import ClassVar

from zkdeployment.base.values import dataclass
from zkdeployment.config.forms import TEXT, SectionSettings, matching, one_of, setting


@dataclass(frozen=True, kw_only=True)
class InventorySettings(SectionSettings):
    """The settings of the inventory for Ansible: the table of ``[inventory]``."""

    SECTION: ClassVar[str] = "inventory"
    PLACE: ClassVar[int] = 100

    group_prefix: str = setting(
        matching(
            r"[A-Za-z_][A-Za-z0-9_]{0,31}",
            "at most 32 letters, digits and _, and no digit at the beginning",
        ),
        "",
    )
    """The beginning of the names of all groups, which separates them from the groups of other inventories.

    Example: zkd_
    """

    site_label: str | None = setting(TEXT)
    """The key of the label with the site of a host. The racks of a site are then groups within the group of this
    label. Default: racks are not nested.

    Example: site
    """

    hosts: str = setting(one_of("names", "ids"), "names")
    """The names of hosts in the inventory: ``names`` for fully qualified names, ``ids`` for the ids that
    ``zkdeployment status`` shows, such as for ``--limit``."""
