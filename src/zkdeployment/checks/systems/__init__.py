"""What the service knows of monitoring systems beyond their instances."""
