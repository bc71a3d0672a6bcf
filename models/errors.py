"""Why a source will not do."""


class SourceError(Exception):
    """The next source is tried; the text ends up in one line to the user."""
