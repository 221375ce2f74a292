"""One door for each outside thing; each returns our values and raises only our errors."""
