"""The frame of daemons: control, cycles, metrics, and the failpoints of tests."""
