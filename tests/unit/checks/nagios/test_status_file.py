"""The status file: results by instance, downtimes by host; unreadable parts are missing."""

import pytest

from zkdeployment.checks.nagios.files import NagiosResult, NagiosStatus, read_status_file

INSTANCE = "01234567-89ab-5cde-8f01-23456789abcd"

STATUS = f"""\
########################################
#          NAGIOS STATUS FILE
########################################

info {{
\tcreated=1700000000
\tversion=4.4.6
\t}}

hoststatus {{
\thost_name=h1
\tcheck_command=zkdeployment-{INSTANCE}
\tcurrent_state=1
\t}}

servicestatus {{
\thost_name=h1
\tservice_description=front-http /front 0 01234567
\tcheck_command=zkdeployment-{INSTANCE}
\thas_been_checked=1
\tcurrent_state=2
\tlast_check=1699999990
\tlast_state_change=1699999900
\tplugin_output=CRITICAL - a=b \\n}} | x
\t}}

servicestatus {{
\thost_name=h1
\tcheck_command=check_ping!100
\thas_been_checked=1
\tcurrent_state=0
\t}}

servicedowntime {{
\thost_name=h1
\tend_time=1700000300
\tauthor=zkdeployment
\t}}

servicedowntime {{
\thost_name=h1
\tend_time=1700000200
\tauthor=zkdeployment
\t}}

servicedowntime {{
\thost_name=h2
\tend_time=1700000300
\tauthor=ann
\t}}
"""


def test_results_and_our_downtimes_are_read():
    assert read_status_file(STATUS) == NagiosStatus(
        created=1700000000.0,
        results={INSTANCE: NagiosResult("critical", "CRITICAL - a=b \\n} | x", 1699999900.0, 1699999990.0)},
        downtimes={"h1": 1700000300.0},
    )


@pytest.mark.parametrize("separator", ["\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_the_output_of_a_plugin_forges_no_result(separator):
    output = f"CRITICAL{separator}current_state=0{separator}check_command=zkdeployment-{'0' * 36}"
    status = read_status_file(STATUS.replace("CRITICAL - a=b \\n} | x", output))
    assert status.results == {INSTANCE: NagiosResult("critical", output, 1699999900.0, 1699999990.0)}


def test_a_check_that_has_not_run_has_no_result():
    assert read_status_file(STATUS.replace("has_been_checked=1", "has_been_checked=0")).results == {}


def test_other_content_is_not_a_result():
    assert read_status_file("") == NagiosStatus()
    assert read_status_file(STATUS.replace("current_state=2", "current_state=9")).results == {}
    assert read_status_file(STATUS.replace("created=1700000000", "created=inf")).created == 0.0
    assert read_status_file(STATUS.replace("created=1700000000", "created=soon")).created == 0.0


def test_a_result_is_reported_with_the_time_of_the_check():
    reported = NagiosResult("ok", "fine", 5.0, 6.0).to_json()
    assert reported == {"state": "ok", "output": "fine", "since": 5.0, "checked": 6.0}
    assert NagiosResult("ok", "fine", 5.0).to_json() == {"state": "ok", "output": "fine", "since": 5.0}
