"""The files of checks: names, definitions, scripts; values stay values."""

import shlex
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from support.checks.instances import CHECK as EXAMPLE
from zkdeployment.checks.nagios.check import NagiosContact
from zkdeployment.checks.nagios.files import (
    NagiosPlace,
    checks_in,
    instance_of_command,
    is_object_file,
    is_temporary_file,
    nagios_host_name,
    object_files,
    service_description,
)

PLACE = NagiosPlace(
    objects="/etc/nagios/zkdeployment",
    plugins="/usr/lib64/nagios/plugins",
    host_template="generic-host",
    service_template="generic-service",
)
CHECK = replace(EXAMPLE, arguments=("-u", "it's"), interval=90)
OTHER = replace(CHECK, instance="11234567-89ab-5cde-8f01-23456789abcd", address="192.0.2.2")

HOST = """\
# Written by zkdeployment; changes are lost.
define host {
    use        generic-host
    host_name  h1.example.com
    address    192.0.2.1
}
"""
SERVICE = """\
# Written by zkdeployment; changes are lost.
define command {
    command_name  zkdeployment-01234567-89ab-5cde-8f01-23456789abcd
    command_line  /etc/nagios/zkdeployment/check-01234567-89ab-5cde-8f01-23456789abcd.sh
}
define service {
    use                  generic-service
    host_name            h1.example.com
    service_description  front-http /p1/shop/front 0 01234567
    check_command        zkdeployment-01234567-89ab-5cde-8f01-23456789abcd
    check_interval       1.5
}
"""
SCRIPT = """\
#!/bin/sh
exec '/usr/lib64/nagios/plugins/check_http' '-u' 'it'\\''s'
"""


def test_a_check_has_a_host_a_definition_and_a_script():
    files = object_files([CHECK], PLACE)
    assert sorted(files) == [
        f"check-{CHECK.instance}.cfg",
        f"check-{CHECK.instance}.sh",
        "host-h1.example.com.cfg",
    ]
    assert files["host-h1.example.com.cfg"].text == HOST
    description, _, definition = files[f"check-{CHECK.instance}.cfg"].text.partition("\n")
    assert description.startswith('# {"config_id": "c1", ')
    assert definition == SERVICE
    assert (files[f"check-{CHECK.instance}.sh"].text, files[f"check-{CHECK.instance}.sh"].executable) == (
        SCRIPT,
        True,
    )
    assert all(map(is_object_file, files))


def test_checks_of_a_host_share_its_definition_in_any_order():
    files = object_files([CHECK, OTHER], PLACE)
    assert files == object_files([OTHER, CHECK], PLACE)
    assert len(files) == 5
    assert "192.0.2.2" in files["host-h1.example.com.cfg"].text


def test_checks_are_read_back_from_their_files():
    assert checks_in(object_files([CHECK, OTHER], PLACE)) == {CHECK.instance: CHECK, OTHER.instance: OTHER}


def test_unreadable_and_foreign_files_are_not_checks():
    files = object_files([CHECK], PLACE)
    name = f"check-{CHECK.instance}.cfg"
    for text in ("", "# {", files[name].text.partition("\n")[2]):
        assert checks_in(files | {name: replace(files[name], text=text)}) == {}
    assert checks_in({"check-.cfg": files[name], f"check-{'-' * 36}.cfg": files[name], "x": files[name]}) == {}
    assert not is_object_file("localhost.cfg")
    assert not is_object_file(".check-1.cfg.tmp")


def test_temporary_files_of_all_object_files_are_recognised():
    files = object_files([replace(CHECK, contacts=(NagiosContact(duty="shop-team", name="ann"),))], PLACE)
    assert len(files) == 4
    assert all(is_temporary_file(f".{name[:100]}.x1y2") for name in files)
    assert not any(map(is_temporary_file, (*files, ".lock", ".trial", ".localhost.cfg.swp")))


def test_the_instance_of_a_command_is_found():
    assert instance_of_command(f"zkdeployment-{CHECK.instance}") == CHECK.instance
    assert instance_of_command(CHECK.instance) is None
    assert instance_of_command("check_ping!100") is None


@given(st.text(), st.text(), st.text())
def test_no_value_leaves_its_place_in_a_definition(configuration, path, name):
    check = replace(CHECK, configuration=configuration, path=path, host_name=name)
    files = object_files([check], PLACE)
    definitions = "".join(file.text for file in files.values() if not file.executable)
    assert len(definitions.splitlines()) == len((HOST + SERVICE).splitlines()) + 1
    assert definitions.isascii()
    for value in (nagios_host_name(check), service_description(check)):
        assert not set(value) & set("`~!$%^&*\"|'<>?,()=;\\{}[]#\n")
        assert len(value) <= 200
        assert value[0].isalnum() or value[0] == "_"


@given(st.text(), st.text())
def test_different_names_of_hosts_stay_different(one, other):
    names = {nagios_host_name(replace(CHECK, host_name=name)) for name in (one, other)}
    assert len(names) == len({one, other})


NAMES = st.text("ab._-:", min_size=1, max_size=4)


@given(NAMES, NAMES, NAMES, NAMES)
@example("shop", "eu.ann", "shop.eu", "ann")
def test_a_contact_in_nagios_is_of_one_duty(duty, name, other_duty, other_name):
    contacts = {NagiosContact(duty=duty, name=name), NagiosContact(duty=other_duty, name=other_name)}
    files = [name for contact in contacts for name in object_files([replace(CHECK, contacts=(contact,))], PLACE)]
    assert all(map(is_object_file, files))
    assert len({name for name in files if name.startswith("contact-")}) == len(contacts)


def test_a_contact_whose_names_have_no_dot_has_the_name_of_its_duty_and_its_own():
    files = object_files([replace(CHECK, contacts=(NagiosContact(duty="shop-team", name="ann"),))], PLACE)
    assert "contact-shop-team.ann.cfg" in files


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_a_shell_passes_each_argument_on_unchanged(arguments):
    (script,) = (
        file
        for file in object_files([replace(CHECK, arguments=tuple(arguments))], PLACE).values()
        if file.executable
    )
    words = shlex.split(script.text.removeprefix("#!/bin/sh\n"))
    assert words == ["exec", "/usr/lib64/nagios/plugins/check_http", *arguments]
