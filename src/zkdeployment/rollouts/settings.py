"""The settings of the coordinator and of servers of metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from zkdeployment.base.values import dataclass
from zkdeployment.config.addresses import LOOPBACK, base_url_problem
from zkdeployment.config.forms import (
    METRICS_FILE,
    PATH,
    REQUIRED,
    Form,
    Report,
    Section,
    SectionSettings,
    seconds,
    setting,
)

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class CoordinateSettings(SectionSettings):
    """The settings of the coordinator: the table of ``[coordinate]``."""

    SECTION: ClassVar[str] = "coordinate"
    PLACE: ClassVar[int] = 20

    metrics: Path | None = setting(METRICS_FILE)
    """The file for the coordinator's metrics. The name must end in ``.prom``. The coordinator's user must be able
    to write the file.

    Example: /var/lib/node_exporter/textfile/zkdeployment-coordinator.prom
    """


def _api_url(text: str, report: Report) -> str | None:
    """Return the address of an API, which may be below a path."""
    try:
        parts = urlsplit(text)
        plain = f"{parts.scheme}://{parts.netloc}"
        is_valid = base_url_problem(plain) is None and not parts.query and not parts.fragment
    except ValueError:
        is_valid = False
    if is_valid:
        return text.rstrip("/")
    report(f"expected http://HOST[:PORT][/PATH] or https://HOST[:PORT][/PATH], found {text!r}")
    return None


_API_URL = Form(_api_url)


#: Seconds. Analyses wait no longer for an answer after their bake time: ``strategies.analysis.LATE``, which is not
#: imported here, because each program reads all sections.
_LONGEST_ANSWER = 60.0


@dataclass(frozen=True, kw_only=True)
class MetricsSettings(SectionSettings):
    """The settings of a server of metrics: the table of ``[metrics NAME]``."""

    SECTION: ClassVar[str] = "metrics"
    PLACE: ClassVar[int] = 30
    IS_NAMED: ClassVar[bool] = True

    url: str = setting(_API_URL, REQUIRED)
    """The address of the server: Prometheus, or another one with its API ``/api/v1/query``, such as Thanos, Mimir
    or VictoriaMetrics. Required.

    A path is the part before ``/api/v1``.

    Example: https://prometheus.example.com:9090
    """

    ca: Path | None = setting(PATH)
    """A file with the certificates of the authorities that may sign the server's certificate. Default: those of
    the system.

    Example: /etc/zkdeployment/metrics-ca.pem
    """

    certificate: Path | None = setting(PATH)
    """A file with the coordinator's own certificate and its key, for servers that ask for one.

    Example: /etc/zkdeployment/metrics.pem
    """

    token_file: Path | None = setting(PATH)
    """A file with a token, which is sent as ``Authorization: Bearer …``. The file is read for each query, so that
    a token can be replaced.

    Example: /etc/zkdeployment/metrics-token
    """

    headers_file: Path | None = setting(PATH)
    """A file of further headers, one ``NAME: VALUE`` a line, such as the tenant of Mimir.

    Example: /etc/zkdeployment/metrics-headers
    """

    timeout: float = setting(seconds(positive=True, most=_LONGEST_ANSWER), 10.0)
    """The number of seconds in which the server has to answer a query, at most 60. Later, the measurement has no
    data.
    """

    graph_url: str | None = setting(_API_URL)
    """The address at which people reach the server's own page of graphs. The page of a rollout then links each
    query to its graph.

    Example: https://prometheus.example.com:9090
    """

    @classmethod
    def complete(cls, section: Section, values: dict[str, Any]) -> None:
        """Report a token that would cross the network unencrypted."""
        parts = urlsplit(values.get("url", ""))
        if parts.scheme == "http" and parts.hostname not in LOOPBACK and "token_file" in values:
            section.report("token-file", "the token would cross the network unencrypted; expected url = https://…")


SECTIONS = (CoordinateSettings, MetricsSettings)
