"""The types of the wire, a file per API."""
