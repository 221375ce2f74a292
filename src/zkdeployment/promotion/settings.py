"""The settings of the promoter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from zkdeployment.base.values import dataclass
from zkdeployment.config.addresses import branch_problem
from zkdeployment.config.forms import (
    METRICS_FILE,
    PATH,
    POSITIVE_SECONDS,
    REQUIRED,
    TEXT,
    Section,
    SectionSettings,
    checked,
    setting,
)

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class PromoteSettings(SectionSettings):
    """The settings of the promoter and of acts on all fleets: the table of ``[promote]``."""

    SECTION: ClassVar[str] = "promote"
    PLACE: ClassVar[int] = 40

    url: str = setting(TEXT, REQUIRED)
    """The repository with the main branch and the branches of the fleets: any URL that git can clone. Required by
    the promoter.

    Example: git@git.example.com:ops/tree.git
    """

    branch: str = setting(checked(branch_problem), "main")
    """The main branch, whose commits are promoted and whose documents name the fleets and their groups."""

    directory: Path = setting(PATH, REQUIRED)
    """The directory for the mirror of the repository, used by nothing else. Required by the promoter.

    Example: /var/lib/zkdeployment/promoter/tree
    """

    identity: Path | None = setting(PATH)
    """The SSH private key that may move the branches of fleets. Default: the keys of the user.

    The git server should restrict this key with the hook of :ref:`promoted-branches`.

    Example: /etc/zkdeployment/promoter_key
    """

    token_directory: Path = setting(PATH, REQUIRED)
    """A directory with one file for each fleet, with the fleet's name: one line ``USER:KEY HOST``, of a user with
    the role ``viewer`` of the fleet's service, and the host of that service. The files must not be accessible for
    everyone. Required by the promoter.

    The files are read for each request, so that keys can be replaced. A key is sent only to its host, always
    encrypted: who may change the address in the document of the fleets cannot lead it elsewhere. ``HOST:PORT``
    also demands the port.

    Example: /etc/zkdeployment/fleets
    """

    operator_token_directory: Path | None = setting(PATH)
    """A directory of the same form, with users that have the role ``operator``, for ``zkdeployment fleets stop``
    and its kind. The promoter does not need these keys, and its user should not be able to read them.

    Example: /root/fleets
    """

    ca: Path | None = setting(PATH)
    """A file with the certificates of the authorities that may sign the certificates of the fleets' services.
    Default: those of the system.

    Example: /etc/zkdeployment/fleets-ca.pem
    """

    interval: float = setting(POSITIVE_SECONDS, 10.0)
    """The number of seconds between two requests to the service of each fleet, and between two fetches of the
    repository.
    """

    metrics: Path | None = setting(METRICS_FILE)
    """The file for the promoter's metrics. The name must end in ``.prom``. The promoter's user must be able to
    write the file.

    Example: /var/lib/node_exporter/textfile/zkdeployment-promoter.prom
    """

    @classmethod
    def complete(cls, section: Section, values: dict[str, Any]) -> None:  # noqa: ARG003  as for other sections
        """Report missing keys."""
        cls.report_missing(section)


SECTIONS = (PromoteSettings,)
