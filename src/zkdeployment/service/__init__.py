"""The service: the application, users and their access, streams, and the API and pages of the fleet."""
