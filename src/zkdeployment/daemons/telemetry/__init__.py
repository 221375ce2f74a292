"""What daemons remember for their metrics, and when they write them."""
