"""The first run of a plugin after its check was rolled out: what shows that the plugin cannot run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zkdeployment.nagios.object_files import nagios_host_name, service_description

if TYPE_CHECKING:
    from zkdeployment.nagios.check import NagiosCheck
    from zkdeployment.nagios.status_file import NagiosResult

#: What Nagios 4 writes as the output of a plugin that could not be executed, or did not end in time.
_FAILED = re.compile(r"\((?:Return code of 12[67] is out of bounds|Service check timed out after )[^\n]*")


def first_run_problem(check: NagiosCheck, result: NagiosResult) -> str | None:
    """Return why the first run of a check's plugin is a failed rollout; ``None`` if the plugin ran.

    Exit codes 126 and 127 stand for a program that cannot be executed. The findings of the plugin do not matter
    here.
    """
    found = _FAILED.match(result.output)
    if found is None or result.state == "ok":
        return None
    return (
        f"the first run of {check.command} failed: {found[0]}; see that Nagios may execute the plugin, and that"
        " what it needs, such as its interpreter, is installed"
    )


def forced_check_command(check: NagiosCheck, now: float) -> str:
    """Return the external command that lets Nagios run a check at once."""
    return (
        f"[{now:.0f}] SCHEDULE_FORCED_SVC_CHECK;{nagios_host_name(check)};{service_description(check)};{now:.0f}"
    )
