"""The places of the frame of settings, which features fill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.config.forms import SectionSettings
    from zkdeployment.config.settings import Settings


@dataclass(frozen=True, kw_only=True)
class SettingsPlaces:
    """The contributions of a feature to the configuration."""

    #: The tables of the feature's sections.
    sections: Callable[[], Sequence[type[SectionSettings]]] = tuple
    #: Raises ``ConfigurationError`` for a key or a file of the configuration that the feature cannot use.
    check: Callable[[Settings], object] = lambda _settings: None
