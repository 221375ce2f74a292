"""The facts that daemons collect for their metrics, and when metrics are written."""
