"""The pages for people: one router for each page."""
