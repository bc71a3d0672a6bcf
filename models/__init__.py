"""Model files: the catalog, where each file comes from, and how it is fetched and verified."""
