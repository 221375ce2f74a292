"""The settings of the discovery of instances."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from zkdeployment.base.values import dataclass
from zkdeployment.config.forms import PAIRS, TEXT, Form, Report, SectionSettings, setting

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The names of labels that Prometheus accepts, and their longest.
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")

_MOST_LABELS = 20


def _labels(text: str, report: Report) -> Mapping[str, str] | None:
    """Return the properties of labels by the names of the labels."""
    labels = PAIRS.read(text, report) or {}
    for name, key in labels.items():
        if _LABEL.fullmatch(name) is None:
            report(
                "expected names of labels with at most 64 letters, digits and _, and no digit at the beginning,"
                f" found {name!r}"
            )
        if not key:
            report(f"expected the name of a property after {name}=, found none")
    if len(labels) > _MOST_LABELS:
        report(f"expected at most {_MOST_LABELS} labels, found {len(labels)}")
    return labels


@dataclass(frozen=True, kw_only=True)
class DiscoverySettings(SectionSettings):
    """The properties of instances that become labels of targets: the table of ``[discovery]``."""

    SECTION: ClassVar[str] = "discovery"
    PLACE: ClassVar[int] = 65

    labels: Mapping[str, str] = setting(Form(_labels), dict[str, str]())
    """Labels of targets with the properties that have their values, separated by commas: ``LABEL=PROPERTY``. At
    most 20.

    The label ``zone`` is ``__meta_zkdeployment_label_zone``. An instance without the property does not have the
    label.

    Example: zone=zone, team=owner
    """

    metrics_path: str | None = setting(TEXT)
    """The property of instances with the path of their metrics, which becomes ``__metrics_path__``. Default: the
    job of Prometheus decides.

    Example: metrics-path
    """

    scheme: str | None = setting(TEXT)
    """The property of instances with the scheme of their metrics, ``http`` or ``https``, which becomes
    ``__scheme__``. Default: the job of Prometheus decides.

    An instance that chooses ``http`` gets the credentials of the job unencrypted.

    Example: metrics-scheme
    """


SECTIONS = (DiscoverySettings,)
