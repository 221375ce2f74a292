"""The HTTP API and the pages of the service: from requests to values, from values to responses."""
