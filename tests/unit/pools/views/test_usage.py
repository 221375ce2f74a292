"""The page of the use of pools: plots whose numbers are those of its tables."""

from __future__ import annotations

import pytest

from zkdeployment.pools.rules.usage import PoolUsage, TenantUsage, UsageWindow
from zkdeployment.pools.views.usage import UsageView, usage_seconds, usage_view

HOUR = 3600.0

#: 1970-01-02, from 10:00 to 12:30.
WINDOW = UsageWindow(34 * HOUR, 36.5 * HOUR, HOUR)


def row(
    tenant: str, pool: str, held: tuple[float, ...] = (1.0, 0.0, 0.0), waits: tuple[float, ...] = ()
) -> TenantUsage:
    hours = sum(held)
    return TenantUsage(
        tenant=tenant, pool=pool, sessions=2, node_hours=hours, most=3, held=held, waits=tuple(sorted(waits))
    )


ROWS = (row("ci", "metal", (2.0, 1.0, 0.5), (60, 180)), row("ci", "virtual", (1.0, 0.0, 0.0)), row("web", "metal"))


def view(*rows: TenantUsage, shows_tenants: bool = True, **parameters: str) -> UsageView:
    values = {name: [value] for name, value in parameters.items()}
    return usage_view(PoolUsage(WINDOW, rows), values, ["metal", "arm"], shows_tenants=shows_tenants)


def test_the_bars_stack_the_nodes_of_tenants_and_the_table_has_the_same_numbers() -> None:
    plot = view(*ROWS).held
    assert plot is not None
    assert plot.series == (("ci", "series1"), ("web", "series2"))
    assert [(bar.when, bar.numbers) for bar in plot.bars] == [
        ("01-02 10:00", ("3", "1")),
        ("01-02 11:00", ("1", "0")),
        ("01-02 12:00", ("0.5", "0")),
    ]
    assert [line.label for line in plot.lines] == ["4", "2", "0"]
    first = plot.bars[0]
    assert first.label == "01-02 10:00: ci 3, web 1"
    assert [(part.colour, part.top, part.height) for part in first.parts] == [
        ("series1", 63.0, 135.0),
        ("series2", 18.0, 45.0),
    ]
    assert "The highest bar is 4." in plot.description


@pytest.mark.parametrize(("shows_tenants", "parameters"), [(False, {}), (True, {"tenant": "ci"})])
def test_the_bars_of_one_tenant_stack_its_pools(shows_tenants: bool, parameters: dict[str, str]) -> None:
    plot = view(*ROWS[:2], shows_tenants=shows_tenants, **parameters).held
    assert plot is not None
    assert [name for name, _ in plot.series] == ["metal", "virtual"]


def test_small_tenants_share_a_colour() -> None:
    plot = view(*(row(f"t{number}", "metal", (20.0 - number, 0.0, 0.0)) for number in range(10))).held
    assert plot is not None
    assert [name for name, _ in plot.series] == ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "others"]
    assert plot.series[-1][1] == "others"
    assert plot.bars[0].numbers[-1] == "36"  # 13 + 12 + 11


def test_the_bars_of_waiting_times_show_the_median_and_the_longest_wait() -> None:
    found = view(*ROWS, row("web", "virtual", waits=(90,)))
    plot = found.waits
    assert plot is not None
    assert [(bar.name, bar.label, bar.median, bar.longest, bar.top) for bar in plot.bars] == [
        ("ci, metal", "ci, metal: median 2 min, longest 3 min", 66.67, 100.0, 38),
        ("web, virtual", "web, virtual: median 1 min, longest 1 min", 50.0, 50.0, 72),
    ]
    assert [line.label for line in plot.lines] == ["0", "3 min"]
    assert [(each.tenant, each.pool, each.median, each.longest) for each in found.rows][:2] == [
        ("ci", "metal", "2 min", "3 min"),
        ("ci", "virtual", "unknown", "unknown"),
    ]


def test_many_waiting_times_and_long_names_do_not_break_the_plot() -> None:
    plot = view(*(row("n" * 60, f"pool{number}", waits=(number,)) for number in range(20))).waits
    assert plot is not None
    assert (len(plot.bars), plot.more) == (12, 8)
    assert plot.bars[0].name == "n" * 31 + "…"


def test_links_keep_the_other_choices() -> None:
    found = view(*ROWS, range="week", pool="metal", tenant="ci")
    assert [(link.label, link.selected) for link in found.ranges if link.selected] == [("7 days", True)]
    assert found.ranges[2].href == "/pools/usage?pool=metal&tenant=ci"
    assert [link.label for link in found.pools] == ["All pools", "arm", "metal", "virtual"]
    assert found.pools[0].href == "/pools/usage?range=week&tenant=ci"
    assert found.all_tenants == "/pools/usage?range=week&pool=metal"
    assert found.rows[2].href == "/pools/usage?range=week&pool=metal&tenant=web"
    assert found.headline == "5.5 node-hours in 7 days"


def test_a_time_without_sessions_has_no_plots_and_a_malformed_range_counts_as_a_month() -> None:
    found = view(range="century")
    assert (found.held, found.waits, found.rows) == (None, None, ())
    assert found.headline == "No node was held in 30 days"
    assert usage_seconds({"range": ["century"]}) == 30 * 86400
    assert usage_seconds({"range": ["day"]}) == 86400
