"""``zkdeployment config``: checks of a configuration file."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.agent.packages import command as package_command
from zkdeployment.base.errors import PackageError, RefusedError, without_passwords
from zkdeployment.base.features import installed
from zkdeployment.base.machine.files import read_problem, write_problem
from zkdeployment.base.machine.systemd import stop_limit
from zkdeployment.cli.options import emit, output_option
from zkdeployment.cli.process import check_access
from zkdeployment.cli.terminal import echo
from zkdeployment.cli.verb_group import VerbGroup
from zkdeployment.config.places import SettingsPlaces
from zkdeployment.config.settings import Settings, load, section_tables
from zkdeployment.programs.agent import with_full_name
from zkdeployment.programs.host_trust import check_publishers
from zkdeployment.publishing.keys import publication_signer
from zkdeployment.publishing.settings import SyncSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

_AGENT = "zkdeployment-agent.service"

#: Seconds that an agent may take, after ``stop-timeout``, to end its script and itself.
_ENDING = 30.0

#: The user as whom the units of the syncer, the coordinator and the promoter run.
_USER = "zkdeployment"


@click.group(name="config", cls=VerbGroup)
def command() -> None:
    """Check a configuration file.

    \b
    Example:
      zkdeployment config check /etc/zkdeployment/zkdeployment.cfg
    """


@command.command()
@click.argument("config", type=click.Path(path_type=Path))
@output_option
def check(config: Path, output: str) -> None:
    """Print the settings of CONFIG with all defaults, or every error in CONFIG.

    Files and URLs with the host's id and role are read. Passwords are not shown. The dnf and rpm that change
    packages on this machine, and warnings about missing programs and about what the user zkdeployment
    cannot read or write, are printed to standard error, after the settings.

    \b
    Example:
      zkdeployment config check /etc/zkdeployment/zkdeployment.cfg
    """
    settings = load(config)
    check_access(settings)
    publication_signer(settings.of(SyncSettings))
    publishers = check_publishers(settings)
    for places in installed(SettingsPlaces):
        places.check(settings)
    sections = _plain(settings)
    if output != "table":
        emit(sections, output, schema="config")
    else:
        for section, values in sections.items():
            echo(f"[{section}]")
            for key, value in values.items():
                echo(f"{key} = {_text(value)}".rstrip())
    # The settings fill more than a screen, so the warnings come last.
    for problem in (*publishers, *_problems(settings, config)):
        echo(f"warning: {problem}", err=True)


def _problems(settings: Settings, config: Path) -> Iterator[str]:
    """Yield the warnings about the settings and this machine."""
    sync = settings.of(SyncSettings)
    url = "" if sync is None else sync.url
    if without_passwords(url) != url and config.stat().st_mode & stat.S_IRWXO:
        yield f"url contains a secret, and {config} is accessible to all users; run chmod o-rwx {config}"
    role = None if settings.identity is None else settings.identity.role
    if role is not None and " " in role:
        yield f"nothing can be deployed to the role {role!r}: expected a name without blanks"
    yield from _check_name(settings)
    yield from _check_stop(settings)
    yield from _check_packages(settings)
    yield from _check_places(settings, config)


def _check_name(settings: Settings) -> Iterator[str]:
    """Yield the reason why an agent would wait for the name of this host."""
    if settings.identity is None or settings.run_directory is None:
        return
    try:
        with_full_name(settings)
    except RefusedError as error:
        yield str(error)


def _check_stop(settings: Settings) -> Iterator[str]:
    """Yield the reason why systemd would kill an agent that waits for its script."""
    limit = None if settings.identity is None else stop_limit(_AGENT)
    wanted = settings.stop_timeout + _ENDING
    if limit is not None and limit < wanted:
        yield (
            f"stop-timeout: systemd kills an agent that does not end within {limit:g} s, expected at least"
            f" {wanted:g} s; write the lines [Service] and TimeoutStopSec={wanted:g} to"
            f" /etc/systemd/system/{_AGENT}.d/stop-timeout.conf, and run systemctl daemon-reload"
        )


def _check_places(settings: Settings, config: Path) -> Iterator[str]:
    """Yield the reasons why the user of the units cannot read ``config``, or write the mirror or metrics."""
    sync = settings.of(SyncSettings)
    if sync is not None:
        problem = read_problem(config, _USER)
        if problem is not None:
            yield f"the syncer does not start: {problem}"
        mirror = sync.tree_directory
        problem = write_problem(mirror if mirror.exists() else mirror.parent, _USER)
        if problem is not None:
            yield f"tree-directory in [sync]: {problem}"
    for name, section in settings.sections.items():
        metrics: Path | None = getattr(section, "metrics", None)
        problem = None if metrics is None else write_problem(metrics.parent, _USER)
        if problem is not None:
            yield f"metrics in [{name}]: {problem}"


def _check_packages(settings: Settings) -> list[str]:
    """Report which programs change packages, and return what is missing on this machine."""
    problems: list[str] = []
    if settings.identity is not None and settings.packages == "dnf":
        found, problems = package_command.tools()
        echo(f"packages are changed with {found or 'no program'}", err=True)
    sync = settings.of(SyncSettings)
    if sync is not None and sync.repositories:
        try:
            package_command.find_checking_program()
        except PackageError as error:
            problems.append(f"repositories in [sync] cannot be checked: {error}")
    return problems


def _plain(settings: Settings) -> dict[str, dict[str, object]]:
    """Return the settings by section and by the keys of the file."""
    tables = [table for table in section_tables().values() if table is not Settings and not table.IS_NAMED]
    known = {table.SECTION: settings.given_or_default(table) for table in tables}
    sections = {Settings.SECTION: settings, **known, **settings.sections}
    return {
        name: {key: row.metadata["form"].show(getattr(section, row.name)) for key, row in section.rows().items()}
        for name, section in sections.items()
        if section is not None
    }


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case list():
            return ", ".join(str(part) for part in value)
        case dict():
            return ", ".join(f"{name}={part}" for name, part in value.items())
        case _:
            return str(value)
