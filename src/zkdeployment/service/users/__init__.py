"""Users of the service, their login sessions, and the throttling of failed logins."""
