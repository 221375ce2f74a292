"""The values that all packages share: no input or output, no clock. Decisions belong to the packages above."""
