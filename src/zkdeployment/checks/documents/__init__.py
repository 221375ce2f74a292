"""Check configurations and monitoring systems: their values, forms and faults."""
