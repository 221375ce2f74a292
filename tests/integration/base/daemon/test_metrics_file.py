"""The metrics file: its content, its atomic replacement, and failures to write it."""

import pytest
from structlog.testing import capture_logs

from support.metrics import read_metrics
from zkdeployment.base.daemon.metrics import Metric, MetricKind, MetricsFile, render

TIME = Metric("zkdeployment_time_seconds", "The time.", {(): 1795266187.125})
COUNT = Metric("zkdeployment_tries_total", "The count.", {("a",): 1, ("b",): 2}, ("how",), MetricKind.COUNTER)


def test_each_metric_has_a_help_text_and_a_type():
    assert render([TIME, COUNT]).decode().splitlines() == [
        "# HELP zkdeployment_time_seconds The time.",
        "# TYPE zkdeployment_time_seconds gauge",
        "zkdeployment_time_seconds 1.795266187125e+09",
        "# HELP zkdeployment_tries_total The count.",
        "# TYPE zkdeployment_tries_total counter",
        'zkdeployment_tries_total{how="a"} 1.0',
        'zkdeployment_tries_total{how="b"} 2.0',
    ]


@pytest.mark.parametrize("text", ['a"b\\c\nd', "ä€", "", "{} 1\n# TYPE"])
def test_a_label_may_be_any_text(text):
    rendered = render([Metric("zkdeployment_info", "The revision.", {(text,): 1}, ("revision",))]).decode()
    assert read_metrics(rendered) == {"info": {(text,): 1}}


def test_a_lone_surrogate_is_escaped():
    rendered = render([Metric("zkdeployment_info", "The revision.", {("\ud800",): 1}, ("revision",))]).decode()
    assert read_metrics(rendered) == {"info": {("\\ud800",): 1}}


def test_the_file_is_replaced_atomically_and_readable_for_all_users(tmp_path):
    file = tmp_path / "zkdeployment.prom"
    writer = MetricsFile(file)
    writer.write([TIME])
    first = file.stat()
    writer.write([COUNT])
    assert read_metrics(file.read_text()) == {"tries_total": {("a",): 1, ("b",): 2}}
    assert file.stat().st_ino != first.st_ino
    assert file.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [file]


def test_a_failure_is_logged_once_until_a_write_succeeds(tmp_path):
    directory = tmp_path / "textfile"
    writer = MetricsFile(directory / "zkdeployment.prom")
    with capture_logs() as logs:
        writer.write([TIME])
        writer.write([TIME])
        directory.mkdir()
        writer.write([TIME])
        (directory / "zkdeployment.prom").unlink()
        directory.rmdir()
        writer.write([TIME])
    assert [(line["event"], line["reason"]) for line in logs] == [
        ("metrics-not-written", "No such file or directory")
    ] * 2


def test_without_a_file_no_metrics_are_collected():
    metrics = iter([TIME])
    MetricsFile(None).write(metrics)
    assert [*metrics] == [TIME]
